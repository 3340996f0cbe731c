//! Numbers at equal distances, and powers of them.

use super::Tensor;
use super::create::create;
use super::length::Length;
use super::shape_args::{Int, LengthArg};
use super::source::Options;
use crate::defaults::default_float;
use crate::error::{Fault, refuse};
use kiln_ir::dtype::Const;
use kiln_ir::{DType, UOp};
use std::ops::Range;

/// What [`Tensor::arange`] counts through: a number `n` for `0..n`, a range, `(start, stop)`, or `(start, stop, step)`; of
/// integers or floats.
pub trait RangeArg {
    #[doc(hidden)]
    fn ends(&self) -> Ends;

    /// How many numbers there are, if that was made from a variable.
    #[doc(hidden)]
    fn length(&self) -> Option<Length> {
        None
    }
}

/// Start, stop and step.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum Ends {
    Ints([i64; 3]),
    Floats([f64; 3]),
}

macro_rules! ranges {
    ($ends:ident, $one:literal, $as:ident: $($t:ty),*) => { $(
        impl RangeArg for Range<$t> {
            fn ends(&self) -> Ends { Ends::$ends([$as(self.start), $as(self.end), $one]) }
        }
        impl RangeArg for ($t, $t) {
            fn ends(&self) -> Ends { Ends::$ends([$as(self.0), $as(self.1), $one]) }
        }
        impl RangeArg for ($t, $t, $t) {
            fn ends(&self) -> Ends { Ends::$ends([$as(self.0), $as(self.1), $as(self.2)]) }
        }
    )* };
}
ranges!(Ints, 1, int: usize, isize, i32, i64, u32);
ranges!(Floats, 1.0, float: f32, f64);

fn int(n: impl Int) -> i64 {
    n.as_i64()
}

fn float(x: impl Into<f64>) -> f64 {
    x.into()
}

impl<T: LengthArg> RangeArg for T {
    fn ends(&self) -> Ends {
        Ends::Ints([0, LengthArg::length(*self).value(), 1])
    }

    fn length(&self) -> Option<Length> {
        Some(LengthArg::length(*self))
    }
}

impl Ends {
    /// The dtype of the numbers where none is given.
    fn dtype(self) -> DType {
        match self {
            Ends::Ints(_) => DType::I32,
            Ends::Floats(_) => default_float(),
        }
    }

    /// How many numbers lie from the start to before the stop.
    fn count(self) -> Result<i64, Fault> {
        let steps = match self {
            Ends::Ints([0, n, 1]) if n < 0 => return refuse!("there are no {n} numbers"),
            Ends::Ints([_, _, 0]) => return refuse!("a step of 0"),
            Ends::Ints([start, stop, step]) => {
                let (distance, step) = (i128::from(stop) - i128::from(start), i128::from(step));
                return Ok(i64::try_from((distance + step - step.signum()) / step)
                    .map_or(i64::MAX, |n| n.max(0)));
            }
            Ends::Floats([start, stop, step]) => ((stop - start) / step).ceil(),
        };
        match steps.is_finite() {
            true => Ok(steps.max(0.0) as i64),
            false => refuse!("no number of steps leads there, {self:?}"),
        }
    }

    /// Fails where one of `n` numbers is not one of the dtype.
    fn fit(self, n: usize, dtype: DType) -> Result<(), Fault> {
        let Ends::Ints([start, _, step]) = self else { return Ok(()) };
        let last = i128::from(start) + i128::from(step) * (n.max(1) as i128 - 1);
        let exact = |i: i64| Const::from(i).cast(dtype).cast(DType::I64) == Const::from(i);
        let holds = !dtype.is_int() || (exact(start) && i64::try_from(last).is_ok_and(exact));
        if holds || n == 0 {
            Ok(())
        } else {
            refuse!("{dtype} does not hold all of {start} to {last}")
        }
    }

    fn numbers(self, n: usize, dtype: DType) -> UOp {
        match self {
            Ends::Ints([start, stop, step]) => {
                let narrow = i32::try_from(start).is_ok() && i32::try_from(stop).is_ok();
                let counter = match dtype {
                    dtype if dtype.is_int() && dtype.size() >= 4 => dtype,
                    _ if narrow => DType::I32,
                    _ => DType::I64,
                };
                // what changes nothing is no operation: masks of positions stay bounds of loops
                let count = UOp::iota(n, counter);
                let spread = if step == 1 { count } else { &count * count.const_like(step) };
                let start = (start != 0).then(|| spread.const_like(start));
                start.map_or(spread.clone(), |start| spread + start).cast(dtype)
            }
            Ends::Floats([start, _, step]) => {
                let wide = if dtype.is_float() { dtype.accumulator() } else { DType::F64 };
                let count = UOp::iota(n, DType::I32).cast(wide);
                (&count * count.const_like(step) + count.const_like(start)).cast(dtype)
            }
        }
    }
}

/// Numbers at equal distances.
impl Tensor {
    /// The numbers of a range, or below a number: i32, or f32 where they are floats. `(start, stop, step)` counts by steps,
    /// down where the step is negative.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::arange(3).to_vec::<i32>()?, [0, 1, 2]);
    /// assert_eq!(Tensor::arange(2..5).to_vec::<i32>()?, [2, 3, 4]);
    /// assert_eq!(Tensor::arange((9, 0, -4)).to_vec::<i32>()?, [9, 5, 1]);
    /// assert_eq!(Tensor::arange((0.0, 1.0, 0.5)).to_vec::<f32>()?, [0.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A step of 0, a negative number of numbers, one that the dtype does not hold.
    #[must_use]
    #[track_caller]
    pub fn arange(range: impl RangeArg) -> Tensor {
        Tensor::arange_with(range, ())
    }

    /// As [`arange`](Tensor::arange), of a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::arange_with(3, DType::F32).to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`arange`](Tensor::arange).
    #[must_use]
    #[track_caller]
    pub fn arange_with(range: impl RangeArg, options: impl Into<Options>) -> Tensor {
        let (ends, length, options) = (range.ends(), range.length(), options.into());
        let fits = || -> Result<i64, Fault> {
            let count = ends.count()?;
            ends.fit(count as usize, options.clone().resolve(ends.dtype())?.0)?;
            Ok(count)
        };
        match fits() {
            Ok(n) => {
                let n = length.unwrap_or(Length::from(n));
                create("arange", n, options, ends.dtype(), |shape, dtype| {
                    ends.numbers(shape[0], dtype)
                })
            }
            Err(fault) => Tensor::broken(fault.at("arange")),
        }
    }

    /// `n` numbers at equal distances from `start` to `stop`, both included, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::linspace(0.0, 1.0, 3).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, n: impl Int) -> Tensor {
        Tensor::linspace_with(start, stop, n, ())
    }

    /// `n` numbers at equal distances from `start` to `stop`, both included, of a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::linspace_with(0.0, 4.0, 3, DType::F64).to_vec::<f64>()?, [0.0, 2.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn linspace_with(
        start: f64,
        stop: f64,
        n: impl Int,
        options: impl Into<Options>,
    ) -> Tensor {
        create("linspace", [n.as_i64()], options, default_float(), |shape, dtype| {
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            between(start, stop, shape[0], wide).cast(dtype)
        })
    }

    /// 10 to the power of `n` numbers at equal distances from `start` to `stop`, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::logspace(0.0, 2.0, 3).to_vec::<f32>()?, [1.0, 10.0, 100.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn logspace(start: f64, stop: f64, n: impl Int) -> Tensor {
        Tensor::logspace_with(start, stop, n, 10.0, ())
    }

    /// `base` to the power of `n` numbers at equal distances from `start` to `stop`, of a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::logspace_with(0.0, 2.0, 3, 2.0, DType::F64).to_vec::<f64>()?, [1.0, 2.0, 4.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn logspace_with(
        start: f64,
        stop: f64,
        n: impl Int,
        base: f64,
        options: impl Into<Options>,
    ) -> Tensor {
        create("logspace", [n.as_i64()], options, default_float(), |shape, dtype| {
            // an error of the exponent would be one of many places of the power
            let exponents = between(start, stop, shape[0], DType::F64);
            exponents.const_like(base).pow(&exponents).cast(dtype)
        })
    }
}

/// `n` numbers from `start` to `stop`, counted from the nearer end, so that both are exact.
fn between(start: f64, stop: f64, n: usize, dtype: DType) -> UOp {
    let last = n.max(2) - 1;
    let whole = if i32::try_from(last).is_ok() { DType::I32 } else { DType::I64 };
    let (position, half) = (UOp::iota(n, whole), UOp::constant(n.div_ceil(2), whole));
    let step = UOp::constant((stop - start) / last as f64, dtype);
    let up = position.cast(dtype) * &step + step.const_like(start);
    let left = position.const_like(last) - &position;
    let down = step.const_like(stop) - left.cast(dtype) * &step;
    position.lt(&half).where_(&up, &down)
}
