//! The eager machine: variables, and what each line does to them. A line that is not valid, or whose result devices may
//! round differently, is refused and changes nothing: generator and shrinker rely on that.

use super::calls::call;
use super::eager::{Handle, Pick, broadcast};
use super::gradients::gradient;
use super::numbers::{binary, fold, sum_dtype, unary};
use super::program::{Binary, Expr, Fold, How, Ix, Line, Make, Num, Unary, Var, View};
use kiln::DType;
use std::collections::BTreeMap;

/// The largest tensor of a program.
pub(super) const MOST_ELEMENTS: usize = 128;

/// A tensor or a plain number.
pub(super) enum Value {
    Tensor(Handle),
    Num(Num),
}

/// Variables by number.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) vars: BTreeMap<Var, Handle>,
}

impl Machine {
    /// Runs a line; gives what it reads, empty if it reads nothing.
    pub(super) fn run(&mut self, line: &Line) -> Option<Vec<u8>> {
        match line {
            Line::Let(var, expr) => {
                let value = self.tensor(expr)?;
                self.vars.insert(*var, value);
            }
            Line::Write(target, how, value) => self.write(target, how, value)?,
            Line::Refused(target, how, value) => self.refused(target, how, value)?,
            Line::Realize(exprs) => {
                exprs.iter().try_for_each(|x| self.tensor(x).map(drop))?;
            }
            Line::Read(expr) => {
                let read = self.tensor(expr)?;
                read.elements()?;
                return Some(read.bytes());
            }
            Line::Drop(var) => {
                self.vars.remove(var)?;
            }
            Line::Jitted(..) => self.all_or_nothing(&line.steps())?,
        }
        Some(Vec::new())
    }

    fn all_or_nothing(&mut self, lines: &[Line]) -> Option<()> {
        let before = self.vars.clone();
        let saved: Vec<Vec<u8>> = before.values().map(Handle::saved).collect();
        let ran = lines.iter().try_for_each(|line| self.run(line).map(drop));
        if ran.is_none() {
            before.values().zip(saved).for_each(|(handle, bytes)| handle.restore(bytes));
            self.vars = before;
        }
        ran
    }

    /// What an expression is.
    pub(super) fn tensor(&self, expr: &Expr) -> Option<Handle> {
        match self.value(expr)? {
            Value::Tensor(t) if t.numel() <= MOST_ELEMENTS => Some(t),
            _ => None,
        }
    }

    fn value(&self, expr: &Expr) -> Option<Value> {
        if let Expr::Num(n) = expr {
            return Some(Value::Num(*n));
        }
        let tensor = match expr {
            Expr::Num(_) => unreachable!("handled above"),
            Expr::Var(var) => self.vars.get(var)?.clone(),
            Expr::Make(make, shape, dtype) => self::make(make, shape, *dtype)?,
            Expr::View(x, View::Get(index)) if is_advanced(index) => {
                map(Unary::Copy, &self.points(&self.tensor(x)?, index)?)?
            }
            Expr::View(x, view) => self.tensor(x)?.view(view)?,
            Expr::Unary(op, x) => self::map(*op, &self.tensor(x)?)?,
            Expr::Binary(op, x, y) => arithmetic(*op, &self.tensor(x)?, &self.value(y)?)?,
            Expr::Fold(op, axis, x) => folded(*op, *axis, &self.tensor(x)?)?,
            Expr::Cat(axis, xs) => {
                let parts: Option<Vec<Handle>> = xs.iter().map(|x| self.tensor(x)).collect();
                cat(*axis, &parts?)?
            }
            Expr::Call(name, args) => {
                let args: Option<Vec<Value>> = args.iter().map(|x| self.value(x)).collect();
                call(*name, &args?)?
            }
            Expr::Gradient(x, views, by) => gradient(&self.tensor(x)?, views, &self.value(by)?)?,
        };
        Some(Value::Tensor(tensor))
    }

    /// What indices with tensors pick.
    #[allow(clippy::needless_borrowed_reference, reason = "the closure's type is told by it")]
    fn points(&self, of: &Handle, index: &[Ix]) -> Option<Handle> {
        let pick = |ix| match ix {
            &Ix::Tensor(ref expr) => self.tensor(expr).map(Pick::Tensor),
            plain => Some(Pick::Plain(plain)),
        };
        of.get(&index.iter().map(pick).collect::<Option<Vec<_>>>()?)
    }

    /// The target of a write, and what is written if that fits.
    fn parts(&self, target: &Expr, how: &How, value: &Expr) -> Option<(Handle, Option<Vec<u8>>)> {
        let target = self.tensor(target)?;
        let (target, value) = match how {
            How::Set(index) | How::TrySet(index) if is_advanced(index) => {
                let whole = Some(&target).filter(|t| !t.is_expanded())?;
                (self.points(whole, index)?, self.value(value)?)
            }
            How::Set(index) | How::TrySet(index) => {
                (target.view(&View::Get(index.clone()))?, self.value(value)?)
            }
            How::Assign | How::TryAssign => (target, self.value(value)?),
            How::Operator(op) | How::Method(op) => {
                let operand = self.value(value)?;
                let new = arithmetic(*op, &target, &operand)?;
                (target, Value::Tensor(new))
            }
        };
        let elements = fitting(&target.shape, target.dtype, &value)?;
        let bytes = |all: Vec<Num>| all.into_iter().flat_map(|x| x.encode(target.dtype)).collect();
        Some((target.clone(), elements.map(bytes)))
    }

    fn write(&mut self, target: &Expr, how: &How, value: &Expr) -> Option<()> {
        let (target, bytes) = self.parts(target, how, value)?;
        match how {
            How::Set(index) | How::TrySet(index) if is_advanced(index) => {
                target.write_in_order(&bytes?)
            }
            _ => target.write(&bytes?),
        }
    }

    fn refused(&mut self, target: &Expr, how: &How, value: &Expr) -> Option<()> {
        let (repeats_are_fine, tried) = match how {
            How::TrySet(index) => (is_advanced(index), true),
            how => (false, *how == How::TryAssign),
        };
        let (target, bytes) = self.parts(target, how, value).filter(|_| tried)?;
        (bytes.is_none() || (target.repeats() && !repeats_are_fine)).then_some(())
    }
}

/// Whether indices pick by tensors or lists.
fn is_advanced(index: &[Ix]) -> bool {
    index.iter().any(|ix| matches!(ix, Ix::Tensor(_) | Ix::List(_)))
}

fn make(make: &Make, shape: &[usize], dtype: DType) -> Option<Handle> {
    let n: usize = shape.iter().product();
    let elements: Vec<Num> = match make {
        Make::Zeros | Make::Empty => vec![Num::Int(0); n],
        Make::Ones => vec![Num::Int(1); n],
        Make::Full(x) => vec![*x; n],
        Make::Arange if shape.len() != 1 => return None,
        Make::Arange => (0..n as i64).map(Num::Int).collect(),
        Make::From(data) => data.clone(),
    };
    (elements.len() == n).then(|| Handle::new(shape, dtype, &elements))
}

/// A float becomes an integer only where that is exact to say.
pub(super) fn converted(x: &Handle, dtype: DType) -> Option<Vec<Num>> {
    let elements = if dtype == x.dtype { x.elements()? } else { x.exact()? };
    Some(elements.into_iter().map(|n| n.cast(dtype)).collect())
}

fn map(op: Unary, x: &Handle) -> Option<Handle> {
    let dtype = if let Unary::Cast(dtype) = op { dtype } else { x.dtype };
    if matches!(op, Unary::Neg | Unary::Abs) && dtype == DType::Bool {
        return None;
    }
    let elements = converted(x, dtype)?.into_iter().map(|a| unary(op, a, dtype));
    Some(Handle::new(&x.shape, dtype, &elements.collect::<Vec<_>>()))
}

/// A bound that an integer dtype does not reach is the last number that it does reach.
fn arithmetic(op: Binary, x: &Handle, y: &Value) -> Option<Handle> {
    let bound = match (op, y) {
        (Binary::Maximum | Binary::Minimum, Value::Num(n)) => {
            Some(Value::Num(n.saturated(x.dtype)))
        }
        _ => None,
    };
    combined(x, bound.as_ref().unwrap_or(y), |a, b, dtype| binary(op, a, b, dtype))
}

fn combined(x: &Handle, y: &Value, f: impl Fn(Num, Num, DType) -> Num) -> Option<Handle> {
    let dtype = match y {
        Value::Tensor(y) => x.dtype.promote(y.dtype),
        Value::Num(n) => n.with(x.dtype),
    };
    let y = match y {
        Value::Tensor(y) => y.clone(),
        Value::Num(n) => Handle::new(&[], dtype, &[*n]),
    };
    if x.dtype == DType::Bool || y.dtype == DType::Bool {
        return None;
    }
    let shape = broadcast(&x.shape, &y.shape)?;
    x.exact()?;
    y.exact()?;
    let (x, y) = (x.expand(&shape)?, y.expand(&shape)?);
    let pairs = converted(&x, dtype)?.into_iter().zip(converted(&y, dtype)?);
    let elements: Vec<Num> = pairs.map(|(a, b)| f(a, b, dtype)).collect();
    let result = Handle::new(&shape, dtype, &elements);
    result.exact().map(|_| result)
}

fn folded(op: Fold, axis: usize, x: &Handle) -> Option<Handle> {
    let n = *x.shape.get(axis)?;
    if matches!(op, Fold::Max | Fold::Min) && (n == 0 || x.dtype == DType::Bool) {
        return None;
    }
    let dtype = if matches!(op, Fold::Sum | Fold::CumSum) { sum_dtype(x.dtype) } else { x.dtype };
    let inner: usize = x.shape[axis + 1..].iter().product();
    let elements = x.exact()?;
    let mut shape = x.shape.clone();
    shape.remove(axis);
    let rows =
        (0..shape.iter().product::<usize>()).map(|r| (r / inner.max(1) * n * inner) + r % inner);
    let row = |first: usize| (0..n).map(|i| elements[first + i * inner]).collect::<Vec<_>>();
    let rows: Vec<Vec<Num>> = rows.map(|r| fold(op, &row(r), dtype)).collect::<Option<_>>()?;
    if op == Fold::CumSum {
        shape.insert(axis, n);
    }
    // running sums stand along the axis
    let flat = |at: usize| match op {
        Fold::CumSum => rows[at / (n * inner) * inner + at % inner][at / inner % n],
        _ => rows[at][0],
    };
    let elements: Vec<Num> = (0..shape.iter().product()).map(flat).collect();
    let result = Handle::new(&shape, dtype, &elements);
    result.exact().map(|_| result)
}

fn cat(axis: usize, parts: &[Handle]) -> Option<Handle> {
    let first = parts.first()?;
    let outer: usize = first.shape.get(..axis)?.iter().product();
    let mut shape = first.shape.clone();
    *shape.get_mut(axis)? = parts.iter().filter_map(|p| p.shape.get(axis)).sum();
    let like = |p: &Handle| {
        let mut other = p.shape.clone();
        *other.get_mut(axis)? = shape[axis];
        (p.dtype == first.dtype && other == shape).then_some(())
    };
    parts.iter().try_for_each(like)?;
    let all: Vec<Vec<Num>> = parts.iter().map(Handle::elements).collect::<Option<_>>()?;
    let mut elements = Vec::new();
    for i in 0..outer {
        for part in &all {
            let run = part.len() / outer;
            elements.extend_from_slice(&part[i * run..][..run]);
        }
    }
    Some(Handle::new(&shape, first.dtype, &elements))
}

/// A value as elements of `dtype` in a shape. The inner option is whether it may be written there.
#[allow(clippy::option_option)]
pub(super) fn fitting(shape: &[usize], dtype: DType, value: &Value) -> Option<Option<Vec<Num>>> {
    match value {
        Value::Num(n) if !n.is_exact() => None,
        Value::Num(n) => Some(Some(vec![*n; shape.iter().product()])),
        Value::Tensor(t) if dtype.promote(t.dtype) != dtype => Some(None),
        Value::Tensor(t) => match t.expand(shape) {
            None => Some(None),
            Some(t) => converted(&t, dtype).map(Some),
        },
    }
}
