//! The smallest program that still fails: fewer lines, then simpler ones.

use super::program::{Expr, Line, Make, Num, Unary, Var};

/// Tries at most; each runs a program twice.
const TRIES: usize = 3000;

/// A program that fails as `lines` does.
pub(super) fn shrunk(lines: Vec<Line>, fails: impl Fn(&[Line]) -> bool) -> Vec<Line> {
    let mut shrinker = Shrinker { lines, fails, tries: TRIES };
    while shrinker.fewer_lines() | shrinker.fewer_variables() | shrinker.simpler_lines() {}
    shrinker.lines
}

struct Shrinker<F> {
    lines: Vec<Line>,
    fails: F,
    tries: usize,
}

impl<F: Fn(&[Line]) -> bool> Shrinker<F> {
    /// Takes over `lines` if they fail.
    fn accept(&mut self, lines: Vec<Line>) -> bool {
        let Some(tries) = self.tries.checked_sub(1) else { return false };
        self.tries = tries;
        let fails = (self.fails)(&lines);
        if fails {
            self.lines = lines;
        }
        fails
    }

    /// Deletes runs of lines, long ones first.
    fn fewer_lines(&mut self) -> bool {
        let mut better = false;
        let mut run = self.lines.len().next_power_of_two() / 2;
        while run > 0 {
            let mut at = self.lines.len();
            while at > 0 {
                at = at.saturating_sub(run);
                let mut lines = self.lines.clone();
                lines.drain(at..(at + run).min(self.lines.len()));
                better |= self.accept(lines);
                at = at.min(self.lines.len());
            }
            run /= 2;
        }
        better
    }

    /// Puts what a variable is in its place.
    fn fewer_variables(&mut self) -> bool {
        let mut better = false;
        let mut at = 0;
        while at < self.lines.len() {
            let lines = inlined(&self.lines, at).is_some_and(|lines| self.accept(lines));
            better |= lines;
            at += !lines as usize;
        }
        better
    }

    /// Replaces a line by a simpler one, as long as one is left that can be.
    fn simpler_lines(&mut self) -> bool {
        let mut better = false;
        for at in 0..self.lines.len() {
            let mut next = 0;
            while let Some(line) = simpler(&self.lines[at]).into_iter().nth(next) {
                let mut lines = self.lines.clone();
                lines[at] = line;
                match self.accept(lines) {
                    true => (better, next) = (true, 0),
                    false => next += 1,
                }
            }
        }
        better
    }
}

/// The lines without the variable that line `at` makes.
fn inlined(lines: &[Line], at: usize) -> Option<Vec<Line>> {
    let Line::Let(var, expr) = lines[at].clone() else { return None };
    let mut lines = lines.to_vec();
    lines.remove(at);
    lines.retain(|line| *line != Line::Drop(var));
    lines.iter_mut().flat_map(Line::exprs_mut).for_each(|x| replace(x, var, &expr));
    Some(lines)
}

fn replace(expr: &mut Expr, var: Var, by: &Expr) {
    if *expr == Expr::Var(var) {
        *expr = by.clone();
    } else {
        expr.children_mut().into_iter().for_each(|x| replace(x, var, by));
    }
}

/// The line with one expression simpler.
fn simpler(line: &Line) -> Vec<Line> {
    let mut all = Vec::new();
    let slots = line.clone().exprs_mut().len();
    for slot in 0..slots {
        let expr = line.clone().exprs_mut()[slot].clone();
        for simple in simpler_exprs(&expr) {
            let mut line = line.clone();
            *line.exprs_mut()[slot] = simple;
            all.push(line);
        }
    }
    if let Line::Realize(exprs) = line {
        let without = |i: usize| {
            let mut exprs = exprs.clone();
            exprs.remove(i);
            Line::Realize(exprs)
        };
        all.extend((0..exprs.len()).filter(|_| exprs.len() > 1).map(without));
    }
    if let Line::Jitted(var, lines, result) = line {
        let without = |i: usize| {
            let mut lines = lines.clone();
            lines.remove(i);
            Line::Jitted(*var, lines, result.clone())
        };
        all.extend((0..lines.len()).map(without));
    }
    all
}

/// What is inside an expression, a simpler leaf, and the expression with something inside it simpler.
fn simpler_exprs(expr: &Expr) -> Vec<Expr> {
    let mut all: Vec<Expr> = expr.children().into_iter().cloned().collect();
    match expr {
        Expr::Num(n) if *n != Num::Int(1) => all.push(Expr::Num(Num::Int(1))),
        Expr::Make(make, shape, dtype) => {
            let simple = [Make::Zeros, Make::Arange];
            let simpler = simple.into_iter().take_while(|m| m != make);
            all.extend(simpler.map(|m| Expr::Make(m, shape.clone(), *dtype)));
        }
        Expr::Gradient(x, views, by) => {
            let fewer = (0..views.len()).map(|n| views[..n].to_vec());
            all.extend(fewer.map(|views| Expr::Gradient(x.clone(), views, by.clone())));
        }
        Expr::Unary(Unary::Hop(n), x) if *n > 1 => {
            all.push(Expr::Unary(Unary::Hop(n - 1), x.clone()));
        }
        _ => {}
    }
    for at in 0..expr.children().len() {
        for simple in simpler_exprs(expr.children()[at]) {
            let mut expr = expr.clone();
            *expr.children_mut()[at] = simple;
            all.push(expr);
        }
    }
    all
}
