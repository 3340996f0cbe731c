//! Random programs. The eager machine runs along: it knows the shapes, and refuses what a program may not do.

use super::eager::Handle;
use super::machine::{MOST_ELEMENTS, Machine};
use super::numbers::DTYPES;
use super::program::{Binary, Expr, Fold, How, Ix, Line, Make, Num, Unary, Var, View};
use crate::fuzz::Rng;
use kiln::DType;

/// The longest program, without the reads at its end.
const MOST_LINES: usize = 32;
/// More variables are not alive at once.
const MOST_VARS: usize = 8;

/// The program of a seed.
pub(super) fn program(seed: u64) -> Vec<Line> {
    let mut g = Generator::new(seed);
    let lines = 3 + g.rng.below(MOST_LINES - 3);
    g.step(Generator::creation);
    while g.lines.len() < lines {
        g.any_step();
    }
    g.last_reads();
    g.lines
}

pub(super) struct Generator {
    pub(super) rng: Rng,
    machine: Machine,
    pub(super) lines: Vec<Line>,
    pub(super) next: Var,
    /// What most new tensors look like: so they meet each other.
    shapes: [Vec<usize>; 2],
    dtypes: [DType; 2],
}

/// A kind of line: none where the dice made nothing that fits.
type Kind = fn(&mut Generator) -> Option<Line>;

impl Generator {
    fn new(seed: u64) -> Generator {
        let mut rng = Rng(seed);
        let dtypes = match rng.below(3) {
            0 => [DType::F32; 2],
            1 => [DType::I32; 2],
            _ => [rng.pick(&DTYPES), rng.pick(&DTYPES)],
        };
        let shapes = [shape(&mut rng), shape(&mut rng)];
        Generator { rng, machine: Machine::default(), lines: Vec::new(), next: 0, shapes, dtypes }
    }

    /// Adds a line of a kind, if the machine accepts it.
    fn step(&mut self, kind: Kind) {
        if let Some(line) = kind(self) {
            self.push(line);
        }
    }

    pub(super) fn push(&mut self, line: Line) -> bool {
        let accepted = self.machine.run(&line).is_some();
        if accepted {
            self.next += matches!(line, Line::Let(..) | Line::Jitted(..)) as usize;
            self.lines.push(line);
        }
        accepted
    }

    fn any_step(&mut self) {
        let crowded = self.machine.vars.len() >= MOST_VARS;
        match self.rng.below(100) {
            0..8 if !crowded => self.step(Generator::creation),
            8..26 if !crowded => self.step(Generator::new_view),
            26..42 if !crowded => self.step(Generator::new_value),
            42..78 => self.step(Generator::write),
            78..80 => self.step(Generator::refused),
            80..84 => self.step(Generator::realize),
            84 | 85 if !crowded => self.step(Generator::jitted),
            86..93 => self.step(Generator::read),
            93..96 if self.machine.vars.len() > 2 => self.step(Generator::dropped),
            96..100 => self.pattern(),
            _ if crowded => self.step(Generator::dropped),
            _ => self.step(Generator::creation),
        }
    }

    /// Reads most of what is left, in any order; the rest is held and never read.
    fn last_reads(&mut self) {
        let mut vars: Vec<Var> = self.machine.vars.keys().copied().collect();
        while !vars.is_empty() {
            let at = self.rng.below(vars.len());
            let var = Expr::Var(vars.swap_remove(at));
            if !self.rng.one_in(5) {
                self.push(Line::Read(var));
            }
        }
    }

    fn creation(&mut self) -> Option<Line> {
        Some(Line::Let(self.next, self.made()))
    }

    fn new_view(&mut self) -> Option<Line> {
        let var = self.var()?;
        let expr = self.viewed(var)?;
        Some(Line::Let(self.next, expr))
    }

    fn new_value(&mut self) -> Option<Line> {
        let value = self.computed()?;
        Some(Line::Let(self.next, value))
    }

    fn dropped(&mut self) -> Option<Line> {
        let vars: Vec<Var> = self.machine.vars.keys().copied().collect();
        Some(Line::Drop(vars[self.rng.below(vars.len())]))
    }

    fn realize(&mut self) -> Option<Line> {
        let n = 1 + self.rng.below(3);
        (0..n).map(|_| self.maybe_viewed()).collect::<Option<_>>().map(Line::Realize)
    }

    fn read(&mut self) -> Option<Line> {
        let expr = if self.rng.one_in(3) { self.computed() } else { self.maybe_viewed() };
        expr.map(Line::Read)
    }

    pub(super) fn write(&mut self) -> Option<Line> {
        let target = self.maybe_viewed()?;
        let handle = self.machine.tensor(&target)?;
        let how = match self.rng.below(12) {
            0..3 => How::Set(self.index(&handle.shape)),
            3 => How::Set(self.advanced(&handle)?),
            4 => How::TrySet(self.index(&handle.shape)),
            5..8 => How::Assign,
            8 => How::TryAssign,
            9 | 10 => How::Operator(self.sign()),
            _ => {
                let extreme = [Binary::Maximum, Binary::Minimum];
                How::Method(if self.rng.one_in(3) { self.rng.pick(&extreme) } else { self.sign() })
            }
        };
        let region = match &how {
            How::Set(index) | How::TrySet(index) => {
                self.machine.tensor(&target.clone().view(View::Get(index.clone())))?
            }
            _ => handle,
        };
        let value = self.operand(&region)?;
        Some(Line::Write(target, how, value))
    }

    /// Of another dtype or shape.
    fn refused(&mut self) -> Option<Line> {
        let (target, value) = (self.maybe_viewed()?, self.maybe_viewed()?);
        let shape = self.machine.tensor(&target)?.shape;
        let how = match self.rng.one_in(2) {
            true => How::TrySet(self.index(&shape)),
            false => How::TryAssign,
        };
        Some(Line::Refused(target, how, value))
    }

    pub(super) fn sign(&mut self) -> Binary {
        self.rng.pick(&[Binary::Add, Binary::Sub, Binary::Mul])
    }

    /// A new tensor.
    fn made(&mut self) -> Expr {
        let dtype = self.rng.pick(&self.dtypes);
        let which = self.rng.below(3);
        let shape = self.shapes.get(which).cloned().unwrap_or_else(|| shape(&mut self.rng));
        self.made_as(&shape, dtype)
    }

    pub(super) fn made_as(&mut self, shape: &[usize], dtype: DType) -> Expr {
        let n: usize = shape.iter().product();
        let make = match self.rng.below(8) {
            0 => Make::Zeros,
            1 => Make::Ones,
            2 => Make::Empty,
            3 => Make::Full(self.number(dtype)),
            4 if shape.len() == 1 => Make::Arange,
            _ => Make::From((0..n).map(|_| self.number(dtype)).collect()),
        };
        Expr::Make(make, shape.to_vec(), dtype)
    }

    pub(super) fn number(&mut self, dtype: DType) -> Num {
        let n = self.rng.below(17) as i64 - 4;
        if dtype.is_float() && self.rng.one_in(2) {
            Num::Float(n as f64 / 2.0)
        } else {
            Num::Int(n)
        }
    }

    /// Any variable; the latest is the likeliest.
    pub(super) fn var(&mut self) -> Option<Expr> {
        let n = self.machine.vars.len();
        let at = if self.rng.one_in(3) { n.checked_sub(1)? } else { self.rng.below(n.max(1)) };
        self.machine.vars.keys().nth(at).map(|v| Expr::Var(*v))
    }

    /// A variable of the same storage as `handle`.
    fn alias(&mut self, handle: &Handle) -> Option<Expr> {
        let same = self.machine.vars.iter().filter(|(_, h)| h.aliases(handle));
        let same: Vec<Var> = same.map(|(v, _)| *v).collect();
        (!same.is_empty()).then(|| Expr::Var(same[self.rng.below(same.len())]))
    }

    /// A variable, often looked at through views.
    pub(super) fn maybe_viewed(&mut self) -> Option<Expr> {
        let mut expr = self.var()?;
        while self.rng.one_in(3) {
            expr = self.viewed(expr)?;
        }
        Some(expr)
    }

    pub(super) fn handle(&self, expr: &Expr) -> Option<Handle> {
        self.machine.tensor(expr)
    }

    /// A value of its own.
    pub(super) fn computed(&mut self) -> Option<Expr> {
        let x = self.maybe_viewed()?;
        let handle = self.handle(&x)?;
        if self.rng.one_in(5) {
            return self.called(x, &handle);
        }
        if self.rng.one_in(8) {
            return self.gradient(x, &handle);
        }
        let rank = handle.shape.len();
        let boxed = Box::new(x);
        Some(match self.rng.below(14) {
            0 => Expr::Unary(Unary::Copy, boxed),
            12 | 13 => Expr::Unary(Unary::Hop(1 + self.rng.below(3)), boxed),
            1 => Expr::Unary(self.rng.pick(&[Unary::Contiguous, Unary::Neg, Unary::Abs]), boxed),
            2 => Expr::Unary(Unary::Cast(self.rng.pick(&self.dtypes)), boxed),
            3 | 4 if rank > 0 => {
                let fold =
                    self.rng.pick(&[Fold::Sum, Fold::Sum, Fold::Max, Fold::Min, Fold::CumSum]);
                Expr::Fold(fold, self.rng.below(rank), boxed)
            }
            5 if rank > 0 => {
                let (axis, other) = (self.rng.below(rank), self.fitting(&handle)?);
                Expr::Cat(axis, vec![*boxed, other])
            }
            _ => {
                let op = self.rng.pick(&[
                    Binary::Add,
                    Binary::Add,
                    Binary::Sub,
                    Binary::Mul,
                    Binary::Maximum,
                    Binary::Minimum,
                ]);
                Expr::Binary(op, boxed, Box::new(self.operand(&handle)?))
            }
        })
    }

    /// What a tensor like `handle` may meet or be overwritten with.
    pub(super) fn operand(&mut self, handle: &Handle) -> Option<Expr> {
        if self.rng.one_in(3) {
            let odd = self.rng.one_in(12);
            return Some(Expr::Num(self.number(if odd { DType::F32 } else { handle.dtype })));
        }
        let fitting = self.fitting(handle)?;
        match self.rng.below(4) {
            0 => {
                let (op, number) = (self.sign(), self.number(handle.dtype));
                Some(Expr::Binary(op, Box::new(fitting), Box::new(Expr::Num(number))))
            }
            1 if self.rng.one_in(3) => Some(Expr::Unary(Unary::Copy, Box::new(fitting))),
            _ => Some(fitting),
        }
    }

    /// A tensor that broadcasts to `handle`'s shape, often another part of the same storage.
    fn fitting(&mut self, handle: &Handle) -> Option<Expr> {
        let found = match self.rng.below(6) {
            0..3 => self.alias(handle),
            3..5 => self.maybe_viewed(),
            _ => None,
        };
        let found = found.or_else(|| self.var())?;
        let shape = handle.shape.clone();
        let fits = self.fitted(found, &shape);
        let dtype = handle.dtype;
        let fits = fits.unwrap_or_else(|| self.made_as(&shape, dtype));
        let other = self.handle(&fits)?.dtype;
        let goes = dtype.promote(other) == dtype;
        Some(if goes { fits } else { Expr::Unary(Unary::Cast(dtype), Box::new(fits)) })
    }

    /// A few lines that belong together.
    fn pattern(&mut self) {
        let Some(var) = self.var() else { return };
        let Some(n) = self.handle(&var).and_then(|h| h.shape.first().copied()) else { return };
        match self.rng.below(4) {
            0 => self.swapped_halves(&var, n),
            1 => self.cross(&var),
            2 => self.parted(&var),
            _ => self.chain(&var, n),
        }
    }

    fn swapped_halves(&mut self, var: &Expr, n: usize) {
        let half = (n / 2) as i64;
        let low = || vec![Ix::Slice(None, Some(half), 1)];
        let high = || vec![Ix::Slice(Some(half), Some(2 * half), 1)];
        let part = |index| var.clone().view(View::Get(index));
        let saved = Expr::Var(self.next);
        if self.push(Line::Let(self.next, Expr::Unary(Unary::Copy, Box::new(part(low()))))) {
            self.push(Line::Write(var.clone(), How::Set(low()), part(high())));
            self.push(Line::Write(var.clone(), How::Set(high()), saved));
        }
    }

    /// What may share memory until both are written to, in either order; read whole and in part on the way.
    fn parted(&mut self, var: &Expr) {
        let Some(seen) = self.viewed(var.clone()) else { return };
        let op = self.rng.pick(&[Unary::Contiguous, Unary::Copy]);
        let copy = Expr::Var(self.next);
        if !self.push(Line::Let(self.next, Expr::Unary(op, Box::new(seen)))) {
            return;
        }
        let mut sides = [copy, var.clone()];
        if self.rng.one_in(2) {
            sides.reverse();
        }
        if self.rng.one_in(2) {
            self.push(Line::Realize(vec![sides[0].clone()]));
        }
        for side in &sides {
            let one = Box::new(Expr::Num(Num::Int(1)));
            let more = Expr::Binary(Binary::Add, Box::new(side.clone()), one);
            let how = if self.rng.one_in(2) { How::Assign } else { How::Set(vec![Ix::At(0)]) };
            let value = if how == How::Assign { more } else { Expr::Num(Num::Int(3)) };
            self.push(Line::Write(side.clone(), how, value));
            let part = sides[self.rng.below(2)].clone().view(View::Get(vec![Ix::At(0)]));
            self.push(Line::Read(part));
        }
    }

    /// `a = f(b); b = g(a)` in place.
    fn cross(&mut self, a: &Expr) {
        for _ in 0..2 {
            let Some((a, b)) = self.handle(a).and_then(|h| Some((a.clone(), self.fitting(&h)?)))
            else {
                return;
            };
            let one = Box::new(Expr::Num(Num::Int(1)));
            let value = Expr::Binary(Binary::Add, Box::new(b.clone()), one);
            self.push(Line::Write(a.clone(), How::Assign, value));
            self.push(Line::Write(b, How::Assign, a));
        }
    }

    /// Each element from the one before it.
    fn chain(&mut self, var: &Expr, n: usize) {
        let at = |i: usize| vec![Ix::At(i as i64)];
        for i in 1..n.min(6) {
            let one = Box::new(Expr::Num(Num::Int(1)));
            let before = Box::new(var.clone().view(View::Get(at(i - 1))));
            let value = Expr::Binary(Binary::Add, before, one);
            self.push(Line::Write(var.clone(), How::Set(at(i)), value));
        }
    }
}

/// Lengths of at most three axes: mostly a few elements, now and then none or many.
fn shape(rng: &mut Rng) -> Vec<usize> {
    match rng.below(12) {
        0 => Vec::new(),
        1 => vec![MOST_ELEMENTS / 4 + rng.below(MOST_ELEMENTS / 2)],
        2 => vec![rng.below(3), 1 + rng.below(3)],
        3..6 => vec![1 + rng.below(9)],
        6..10 => vec![1 + rng.below(5), 1 + rng.below(5)],
        _ => vec![1 + rng.below(3), 1 + rng.below(4), 1 + rng.below(4)],
    }
}
