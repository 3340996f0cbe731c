//! Softmax and its relatives, with the maximum taken out so that nothing overflows. Narrow floats compute in f32.

use super::Tensor;
use super::autocast::full;
use super::elementwise::{like, quotient};
use super::reduce::{kept_shape, wide_sum};
use super::shape_args::{AxesArg, axes};
use crate::defaults::OrFloat;
use crate::error::Fault;
use kiln_ir::arg::{Arg, Axes, Derivative, Function, ReduceOp};
use kiln_ir::derivative::of_one;
use kiln_ir::{DType, Op, UOp, derivative, function};
use smallvec::smallvec;

/// The value less its largest along the axes, e to that, and the sum of those with axes kept.
struct Parts {
    /// The value, in the dtype that is computed in.
    of: UOp,
    shifted: UOp,
    exps: UOp,
    sum: UOp,
}

impl Parts {
    fn new(x: &UOp, axes: &Axes) -> Parts {
        Parts::of_those(x, None, axes)
    }

    /// As [`of_those`](Parts::of_those), with shares of 0 where all values are -infinity: these are shifted by a finite
    /// number, and what their sum of 0 is replaced by is less than the sum of any others, which is at least 1.
    fn of_any(x: &UOp, counts: Option<&UOp>, axes: &Axes) -> Parts {
        let lowest = if x.dtype() == DType::F64 { f64::MIN } else { f32::MIN.into() };
        let parts = Parts::shifted(x, counts, axes, |max| max.maximum(&like(max, lowest)));
        Parts { sum: parts.sum.maximum(&like(&parts.sum, 0.5)), ..parts }
    }

    /// Where `counts` is false, e to the value is 0, whatever the value.
    fn of_those(x: &UOp, counts: Option<&UOp>, axes: &Axes) -> Parts {
        Parts::shifted(x, counts, axes, UOp::clone)
    }

    /// Shifted by what `by` makes of the largest value.
    fn shifted(x: &UOp, counts: Option<&UOp>, axes: &Axes, by: impl Fn(&UOp) -> UOp) -> Parts {
        let only = |x: UOp, other| match counts {
            Some(counts) => counts.where_(&x, &like(&x, other)),
            None => x,
        };
        let of = x.cast(x.dtype().or_float().accumulator());
        let x = only(of.clone(), f64::NEG_INFINITY);
        let kept = kept_shape(x.shape(), axes);
        let max = largest(&x, axes);
        let shifted = &x - by(&max).expand(x.shape().clone());
        let exps = only(UOp::unary(Op::Exp, &shifted), 0.0);
        let sum = wide_sum(&exps, axes).reshape(kept);
        Parts { of, shifted, exps, sum }
    }

    /// Each exponential over the sum: times its reciprocal, which is one division a row. The sum is at least 1, as the
    /// largest value gives 1, so no reciprocal overflows.
    fn shares(&self) -> UOp {
        let reciprocal = quotient(&like(&self.sum, 1), &self.sum);
        let shares = &self.exps * self.spread(&reciprocal);
        shares.with_derivative(SOFTMAX, [self.of.clone(), self.sum.clone()])
    }

    fn logs(&self) -> UOp {
        let logs = &self.shifted - self.spread(&UOp::unary(Op::Log, &self.sum));
        logs.with_derivative(LOG_SOFTMAX, [self.of.clone(), self.sum.clone()])
    }

    fn spread(&self, x: &UOp) -> UOp {
        x.expand(self.exps.shape().clone())
    }
}

const SOFTMAX: Derivative =
    derivative!("softmax", |y, g| of_one(shares_gradient(y, g, |x| summed(y, x))));

const LOG_SOFTMAX: Derivative =
    derivative!("log_softmax", |y, g| of_one(logs_gradient(y, g, |x| summed(y, x))));

/// `y (g - sum(g y))`. It needs the shares `y` alone, so no exponential and no sum is kept for it.
fn shares_gradient(y: &UOp, g: &UOp, summed: impl Fn(&UOp) -> UOp) -> UOp {
    y * (g - summed(&(g * y)))
}

/// `g - e^y sum(g)`.
fn logs_gradient(y: &UOp, g: &UOp, summed: impl Fn(&UOp) -> UOp) -> UOp {
    g - UOp::unary(Op::Exp, y) * summed(g)
}

/// The sums of `x` along the axes of the softmax `y`, repeated along them. These axes have length 1 in the third source of `y`.
/// Another axis of length 1 does no harm: its one element is its sum.
fn summed(y: &UOp, x: &UOp) -> UOp {
    let kept = y.src(2).shape();
    let axes: Axes = (0..kept.len()).filter(|&a| kept[a] == 1).collect();
    wide_sum(x, &axes).reshape(kept.clone()).expand(y.shape().clone())
}

/// The largest value along the axes, which are kept.
fn largest(x: &UOp, axes: &Axes) -> UOp {
    let kept = kept_shape(x.shape(), axes);
    x.reduce(ReduceOp::Max, axes.clone()).reshape(kept)
}

fn softmax(x: &UOp, axes: &Axes) -> UOp {
    along(&SHARES, x, axes)
}

/// A function of one value along axes.
fn along(function: &'static Function, x: &UOp, axes: &Axes) -> UOp {
    let x = x.cast(x.dtype().or_float().accumulator());
    let (dtype, shape) = (x.dtype(), x.shape().clone());
    UOp::composite(function, [x], axes.clone(), dtype, shape)
}

static SHARES: Function =
    function!("softmax", |y, srcs| Parts::new(&srcs[0], axes_of(y)).shares(), |_| Some(
        |y, g| smallvec![Some(shares_gradient(y, g, |x| summed_along(x, axes_of(y))))]
    ));

static LOGS: Function =
    function!("log_softmax", |y, srcs| Parts::new(&srcs[0], axes_of(y)).logs(), |_| Some(
        |y, g| smallvec![Some(logs_gradient(y, g, |x| summed_along(x, axes_of(y))))]
    ));

/// The axes that a composite works along.
fn axes_of(composite: &UOp) -> &Axes {
    let Arg::Composite { axes, .. } = composite.arg() else { unreachable!("a composite") };
    axes
}

/// The sums along axes, repeated along them.
fn summed_along(x: &UOp, axes: &Axes) -> UOp {
    wide_sum(x, axes).reshape(kept_shape(x.shape(), axes)).expand(x.shape().clone())
}

fn log_softmax(x: &UOp, axes: &Axes) -> UOp {
    along(&LOGS, x, axes)
}

fn logsumexp(x: &UOp, axes: &Axes) -> UOp {
    let wide = x.cast(x.dtype().or_float().accumulator());
    let max = largest(&wide, axes).detach();
    // infinity less infinity would be NaN
    let most = if max.dtype() == DType::F64 { f64::MAX } else { f32::MAX as f64 };
    let largest = max.maximum(&like(&max, -most)).minimum(&like(&max, most));
    let exps = UOp::unary(Op::Exp, &(&wide - largest.expand(wide.shape().clone())));
    let sum = wide_sum(&exps, axes).reshape(largest.shape().clone());
    UOp::unary(Op::Log, &sum) + &largest
}

impl Tensor {
    /// The softmax along the last axis of those elements that `counts`, which broadcasts, is true for; the others give 0,
    /// whatever they are. If it `may_hide_all`, so do those where all are -infinity.
    #[track_caller]
    pub(super) fn softmax_where(&self, counts: Option<&Tensor>, may_hide_all: bool) -> Tensor {
        let compute = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let counts = counts.map(Tensor::value).transpose()?.map(|c| c.broadcast_to(x.shape()));
            let last = Axes::from_slice(&[x.shape().len() - 1]);
            let parts = if may_hide_all { Parts::of_any } else { Parts::of_those };
            Ok(parts(&x, counts.as_ref(), &last).shares().cast(x.dtype().or_float()))
        };
        self.lift("softmax", compute())
    }

    #[track_caller]
    fn along(&self, op: &'static str, arg: impl AxesArg, f: fn(&UOp, &Axes) -> UOp) -> Tensor {
        let compute = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let axes = axes(arg, self.ndim())?;
            Ok(f(&x, &axes).cast(full(x.dtype().or_float())))
        };
        self.lift(op, compute())
    }

    /// `e^x` over its sum along axes; integers become f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2]).softmax(-1).to_vec::<f32>()?, [0.5, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn softmax(&self, axes: impl AxesArg) -> Tensor {
        self.along("softmax", axes, softmax)
    }

    /// The logarithm of [`softmax`](Tensor::softmax), without its loss of precision.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([1]).log_softmax(-1).to_vec::<f32>()?, [0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn log_softmax(&self, axes: impl AxesArg) -> Tensor {
        self.along("log_softmax", axes, log_softmax)
    }

    /// The logarithm of the sum of `e^x` along axes.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0f32]).logsumexp(0).item::<f32>()?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn logsumexp(&self, axes: impl AxesArg) -> Tensor {
        self.logsumexp_keepdim(&axes).squeeze_axes("logsumexp", &axes)
    }

    /// As [`logsumexp`](Tensor::logsumexp), leaving the axes with length 1.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).logsumexp_keepdim(1).shape(), [2, 1]);
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or is named twice.
    #[must_use]
    #[track_caller]
    pub fn logsumexp_keepdim(&self, axes: impl AxesArg) -> Tensor {
        self.along("logsumexp", axes, logsumexp)
    }

    #[track_caller]
    fn squeeze_axes(&self, op: &'static str, arg: &impl AxesArg) -> Tensor {
        self.alias(op, |v| {
            let axes = axes(arg, v.shape().len())?;
            let kept = v.shape().iter().enumerate().filter(|(i, _)| !axes.contains(i));
            Ok(v.reshape(kept.map(|(_, &n)| n).collect()))
        })
    }
}
