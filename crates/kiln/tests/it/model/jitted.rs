//! Functions that are recorded and replayed.

use super::generate::Generator;
use super::lazy::Lazy;
use super::program::{CALLS, Expr, Line, Var};
use kiln::{Device, Error, Tensor};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Writes of one function, at most.
const MOST_WRITES: usize = 3;

/// A function, and the variables that it takes.
#[derive(Clone)]
struct Body {
    vars: Vec<Var>,
    devices: Vec<Device>,
    lines: Vec<Line>,
    result: Expr,
}

thread_local! {
    /// The function that is called: what `jit` takes captures nothing.
    static BODY: RefCell<Option<Body>> = const { RefCell::new(None) };
}

impl Body {
    fn run(self, args: &[Tensor]) -> Result<Tensor, Error> {
        let mut lazy = Lazy::new(&self.devices);
        lazy.vars = self.vars.into_iter().zip(args.iter().cloned()).collect();
        self.lines.iter().try_for_each(|line| lazy.run(line).map(drop))?;
        let result = lazy.tensor(&self.result);
        result.error().map_or(Ok(result), Err)
    }
}

/// The variables of a function.
pub(super) fn used(lines: &[Line], result: &Expr) -> Vec<Var> {
    let mut vars = BTreeSet::new();
    let (mut lines, mut result) = (lines.to_vec(), result.clone());
    let exprs = lines.iter_mut().flat_map(Line::exprs_mut).chain([&mut result]);
    exprs.for_each(|expr| used_by(expr, &mut vars));
    vars.into_iter().collect()
}

fn used_by(expr: &Expr, vars: &mut BTreeSet<Var>) {
    if let Expr::Var(var) = expr {
        vars.insert(*var);
    }
    expr.children().into_iter().for_each(|child| used_by(child, vars));
}

impl Lazy {
    /// What the last call returns. A function whose arguments are on one device stays there: such calls are replayed.
    pub(super) fn jitted(&self, lines: &[Line], result: &Expr) -> Result<Tensor, Error> {
        let vars = used(lines, result);
        let args: Vec<Tensor> = vars.iter().map(|var| self.vars[var].clone()).collect();
        let there =
            |device: &&Device| args.is_empty() || args.iter().any(|arg| arg.device() == *device);
        let devices = self.devices.iter().filter(there).cloned().collect();
        let body = Body { vars, devices, lines: lines.to_vec(), result: result.clone() };
        BODY.set(Some(body));
        let call = kiln::jit(|args: &Vec<Tensor>| {
            let body = BODY.with_borrow(|body| body.clone().expect("set before the call"));
            body.run(args)
        });
        for _ in 1..CALLS {
            call(&args)?;
        }
        call(&args)
    }
}

impl Generator {
    /// A function of a few lines that write, and what it returns.
    pub(super) fn jitted(&mut self) -> Option<Line> {
        let n = 1 + self.rng.below(MOST_WRITES);
        let lines: Vec<Line> = (0..n).filter_map(|_| self.write()).collect();
        let result = if self.rng.one_in(3) { self.maybe_viewed() } else { self.computed() };
        Some(Line::Jitted(self.next, lines, Box::new(result?)))
    }
}
