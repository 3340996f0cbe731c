//! The same programs, run by kiln. On several devices each new value is on one of them, and operands are copied to where
//! they are needed: that changes nothing that a program means.

use super::program::{
    Binary, Call, Expr, Fold, How, Ix, Line, Make, Num, Reduce, Unary, Var, View,
};
use kiln::{DType, Device, Element, Error, Index, Indices, Reduction, Tensor};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{AddAssign, MulAssign, SubAssign};

/// Variables by number.
pub(super) struct Lazy {
    pub(super) vars: BTreeMap<Var, Tensor>,
    pub(super) devices: Vec<Device>,
    /// How many values have been given a device.
    placed: Cell<usize>,
}

/// A tensor or a plain number.
pub(super) enum Value {
    Tensor(Tensor),
    Num(Num),
}

/// Calls `$f` with whatever type of operand a value has.
macro_rules! with_operand {
    ($value:expr, |$x:ident| $call:expr) => {
        match $value {
            Value::Tensor($x) => $call,
            Value::Num(Num::Int($x)) => $call,
            Value::Num(Num::Float($x)) => $call,
        }
    };
}

impl Lazy {
    pub(super) fn new(devices: &[Device]) -> Lazy {
        Lazy { vars: BTreeMap::new(), devices: devices.to_vec(), placed: Cell::new(0) }
    }

    /// The device of the next new value.
    fn device(&self) -> &Device {
        let n = self.placed.get();
        self.placed.set(n + 1);
        &self.devices[n * n % 7 % self.devices.len()]
    }

    /// A value that has gone from device to device.
    pub(super) fn hopped(&self, x: &Tensor, times: usize) -> Tensor {
        let mut x = x.clone();
        for _ in 0..times {
            let others: Vec<&Device> = self.devices.iter().filter(|d| *d != x.device()).collect();
            let next = others.get(self.placed.get() % others.len().max(1));
            self.placed.set(self.placed.get() + 1);
            x = next.map_or_else(|| x.copy(), |device| x.to(*device));
        }
        x
    }

    /// A new value, somewhere.
    pub(super) fn placed(&self, value: Tensor) -> Tensor {
        value.to(self.device())
    }

    /// Runs a line; gives what it reads, empty if it reads nothing.
    pub(super) fn run(&mut self, line: &Line) -> Result<Vec<u8>, Error> {
        match line {
            Line::Let(var, expr) => {
                let value = self.tensor(expr);
                if let Some(error) = value.error() {
                    return Err(error);
                }
                self.vars.insert(*var, value);
            }
            Line::Write(target, how, value) => self.write(target, how, value)?,
            Line::Refused(target, how, value) => {
                assert!(self.write(target, how, value).is_err(), "{line} is accepted");
            }
            Line::Realize(exprs) => match exprs.as_slice() {
                [one] => self.tensor(one).realize().map(drop)?,
                all => kiln::realize(&all.iter().map(|x| self.tensor(x)).collect::<Vec<_>>())?,
            },
            Line::Read(expr) => return bytes(&self.tensor(expr)),
            Line::Drop(var) => drop(self.vars.remove(var)),
            Line::Jitted(var, lines, result) => {
                let value = self.jitted(lines, result)?;
                self.vars.insert(*var, value);
            }
        }
        Ok(Vec::new())
    }

    pub(super) fn tensor(&self, expr: &Expr) -> Tensor {
        match expr {
            Expr::Var(var) => self.vars[var].clone(),
            Expr::Num(_) => unreachable!("an operand"),
            Expr::Make(make, shape, dtype) => self.make(make, shape, *dtype),
            Expr::View(x, view) => self.lent(x, |x| self.viewed(x, view)),
            Expr::Unary(Unary::Contiguous, x) => self.lent(x, |x| unary(Unary::Contiguous, x)),
            Expr::Unary(Unary::Hop(times), x) => self.lent(x, |x| self.hopped(x, *times)),
            Expr::Unary(op, x) => self.placed(self.lent(x, |x| unary(*op, x))),
            Expr::Binary(op, x, y) => {
                self.placed(self.lent(x, |x| binary(*op, x, self.value(y, x))))
            }
            Expr::Fold(op, axis, x) => self.placed(self.lent(x, |x| folded(*op, *axis, x))),
            Expr::Cat(axis, xs) => {
                let device = self.device();
                Tensor::cat(xs.iter().map(|x| self.tensor(x).to(device)).collect::<Vec<_>>(), *axis)
            }
            Expr::Call(name, args) => {
                self.placed(self.lent(&args[0], |x| self.called(*name, x, &args[1..])))
            }
            Expr::Gradient(x, views, by) => self.gradient(x, views, by),
        }
    }

    fn called(&self, name: Call, x: &Tensor, args: &[Expr]) -> Tensor {
        let value = |i: usize| self.value(&args[i], x);
        let tensor = |i: usize| self.tensor(&args[i]).to(x.device());
        match name {
            Call::Lt => with_operand!(value(0), |y| x.lt(y)),
            Call::Eq => with_operand!(value(0), |y| x.eq(y)),
            Call::Ge => with_operand!(value(0), |y| x.ge(y)),
            Call::Where => {
                with_operand!(value(0), |a| with_operand!(value(1), |b| x.where_(a, b)))
            }
            Call::MaskedFill => with_operand!(value(1), |y| x.masked_fill(&tensor(0), y)),
            Call::MaskedSelect => x.masked_select(&tensor(0)),
            Call::NonZero => x.nonzero(),
            Call::Gather(axis) => x.gather(axis, &tensor(0)),
            Call::IndexSelect(axis) => x.index_select(axis, &tensor(0)),
            Call::Take => x.take(&tensor(0)),
            Call::Scatter(axis) => with_operand!(value(1), |y| x.scatter(axis, &tensor(0), y)),
            Call::ScatterReduce(axis, reduce, with_self) => {
                let reduce = reduction(reduce);
                with_operand!(value(1), |y| {
                    x.scatter_reduce(axis, &tensor(0), y, reduce, with_self)
                })
            }
            Call::IndexAdd(axis) => with_operand!(value(1), |y| x.index_add(axis, &tensor(0), y)),
        }
    }

    pub(super) fn viewed(&self, x: &Tensor, view: &View) -> Tensor {
        match view {
            View::Get(index) => x.get(self.indices(index, x)),
            View::Reshape(shape) => x.reshape(shape),
            View::Permute(axes) => x.permute(axes),
            View::Flip(axis) => x.flip(*axis),
            View::Expand(shape) => x.expand(shape),
            View::Bitcast(dtype) => x.bitcast(*dtype),
            View::Detach => x.detach(),
            View::Clone => x.clone(),
            View::Here => x.to(x.device()),
        }
    }

    fn indices(&self, index: &[Ix], of: &Tensor) -> Indices {
        let one = |ix: &Ix| match ix {
            Ix::At(i) => Index::At((*i).into()),
            Ix::Slice(start, stop, step) => Index::Slice {
                start: start.map(Into::into),
                stop: stop.map(Into::into),
                step: *step,
            },
            Ix::Ellipsis => Index::Ellipsis,
            Ix::NewAxis => Index::NewAxis,
            Ix::Tensor(expr) => Index::from(self.tensor(expr).to(of.device())),
            Ix::List(at) => Index::from(at.clone()),
        };
        Indices::new(index.iter().map(one).collect::<Vec<_>>())
    }

    /// `f` of an expression's value: variables are not cloned for it, as they would not be in a program.
    pub(super) fn lent<R>(&self, expr: &Expr, f: impl FnOnce(&Tensor) -> R) -> R {
        match expr {
            Expr::Var(var) => f(&self.vars[var]),
            expr => f(&self.tensor(expr)),
        }
    }

    /// An operand, on the device of `near`.
    pub(super) fn value(&self, expr: &Expr, near: &Tensor) -> Value {
        match expr {
            Expr::Num(n) => Value::Num(*n),
            expr => Value::Tensor(self.tensor(expr).to(near.device())),
        }
    }

    fn make(&self, make: &Make, shape: &[usize], dtype: DType) -> Tensor {
        let device = self.device();
        let options = (dtype, device);
        match make {
            Make::Zeros => Tensor::zeros_with(shape, options),
            Make::Ones => Tensor::ones_with(shape, options),
            Make::Empty => Tensor::empty_with(shape, options),
            Make::Full(Num::Int(x)) => Tensor::full_with(shape, *x, options),
            Make::Full(Num::Float(x)) => Tensor::full_with(shape, *x, options),
            Make::Arange => Tensor::arange_with(shape[0], options),
            Make::From(data) => from(data, shape, dtype, device),
        }
    }

    fn write(&mut self, target: &Expr, how: &How, value: &Expr) -> Result<(), Error> {
        if let (How::Operator(op), Expr::Var(var)) = (how, target) {
            let value = self.value(value, &self.vars[var]);
            let target = self.vars.get_mut(var).expect("a variable");
            with_operand!(value, |x| assign_op(target, *op, x));
            return target.error().map_or(Ok(()), Err);
        }
        self.lent(target, |target| {
            let value = self.value(value, target);
            match how {
                How::Set(index) => {
                    with_operand!(value, |x| target.set(self.indices(index, target), x))
                }
                How::TrySet(index) => {
                    with_operand!(value, |x| target.try_set(self.indices(index, target), x))?;
                }
                How::Assign => drop(with_operand!(value, |x| target.assign(x))),
                How::TryAssign => drop(with_operand!(value, |x| target.try_assign(x))?),
                How::Operator(op) => {
                    with_operand!(value, |x| assign_op(&mut target.clone(), *op, x));
                }
                How::Method(op) => drop(with_operand!(value, |x| match op {
                    Binary::Add => target.add_assign(x),
                    Binary::Sub => target.sub_assign(x),
                    Binary::Mul => target.mul_assign(x),
                    Binary::Maximum => target.maximum_assign(x),
                    Binary::Minimum => target.minimum_assign(x),
                })),
            }
            target.error().map_or(Ok(()), Err)
        })
    }
}

fn assign_op<T, X>(target: &mut T, op: Binary, x: X)
where
    T: AddAssign<X> + SubAssign<X> + MulAssign<X>,
{
    match op {
        Binary::Add => *target += x,
        Binary::Sub => *target -= x,
        Binary::Mul => *target *= x,
        Binary::Maximum | Binary::Minimum => unreachable!("no operators"),
    }
}

fn reduction(reduce: Reduce) -> Reduction {
    match reduce {
        Reduce::Sum => Reduction::Sum,
        Reduce::Prod => Reduction::Prod,
        Reduce::Amin => Reduction::Amin,
        Reduce::Amax => Reduction::Amax,
    }
}

fn unary(op: Unary, x: &Tensor) -> Tensor {
    match op {
        Unary::Copy => x.copy(),
        Unary::Hop(_) => unreachable!("needs devices"),
        Unary::Contiguous => x.contiguous(),
        Unary::Neg => x.neg(),
        Unary::Abs => x.abs(),
        Unary::Cast(dtype) => x.cast(dtype),
    }
}

pub(super) fn binary(op: Binary, x: &Tensor, y: Value) -> Tensor {
    with_operand!(y, |y| match op {
        Binary::Add => x.add(y),
        Binary::Sub => x.sub(y),
        Binary::Mul => x.mul(y),
        Binary::Maximum => x.maximum(y),
        Binary::Minimum => x.minimum(y),
    })
}

fn folded(op: Fold, axis: usize, x: &Tensor) -> Tensor {
    match op {
        Fold::Sum => x.sum(axis),
        Fold::Max => x.max(axis),
        Fold::Min => x.min(axis),
        Fold::CumSum => x.cumsum(axis),
    }
}

/// Calls a generic function for the Rust type of a dtype.
macro_rules! with_type {
    ($dtype:expr, $f:ident $args:tt) => {
        match $dtype {
            DType::Bool => $f::<bool> $args,
            DType::F32 => $f::<f32> $args,
            DType::F64 => $f::<f64> $args,
            DType::U8 => $f::<u8> $args,
            DType::U32 => $f::<u32> $args,
            DType::I16 => $f::<i16> $args,
            DType::I32 => $f::<i32> $args,
            DType::I64 => $f::<i64> $args,
            other => panic!("programs do not use {other}"),
        }
    };
}

/// A Rust number that is made of an element's bytes, and goes back to them.
trait Bytes: Element {
    fn of(bytes: &[u8]) -> Self;
    fn bytes(self) -> Vec<u8>;
}

impl Bytes for bool {
    fn of(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }
    fn bytes(self) -> Vec<u8> {
        vec![self as u8]
    }
}

macro_rules! bytes_of {
    ($($t:ty)*) => { $(
        impl Bytes for $t {
            fn of(bytes: &[u8]) -> $t { <$t>::from_ne_bytes(bytes.try_into().expect("one element")) }
            fn bytes(self) -> Vec<u8> { self.to_ne_bytes().to_vec() }
        }
    )* };
}
bytes_of!(f32 f64 u8 u32 i16 i32 i64);

fn from(data: &[Num], shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    fn typed<T: Bytes>(data: &[Num], shape: &[usize], device: &Device) -> Tensor {
        let element = |x: &Num| T::of(&x.encode(T::DTYPE));
        Tensor::from_vec_on(data.iter().map(element).collect::<Vec<T>>(), shape, device)
    }
    with_type!(dtype, typed(data, shape, device))
}

/// A tensor's elements as bytes.
pub(super) fn bytes(t: &Tensor) -> Result<Vec<u8>, Error> {
    fn typed<T: Bytes>(t: &Tensor) -> Result<Vec<u8>, Error> {
        Ok(t.to_vec::<T>()?.into_iter().flat_map(T::bytes).collect())
    }
    with_type!(t.dtype(), typed(t))
}
