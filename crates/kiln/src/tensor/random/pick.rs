//! Random choices.

use super::{Rng, SHARED};
use crate::defaults::OrFloat;
use crate::error::{Caller, Fault, refuse};
use crate::origin::outermost;
use crate::tensor::Tensor;
use crate::tensor::shape_args::Int;
use kiln_ir::DType;
use kiln_ir::arg::{Axes, ReduceOp};

/// Exponentially distributed numbers beside each element of `t`, none of them 0.
#[track_caller]
fn exponential(rng: &Rng, t: &Tensor) -> Tensor {
    let unit = rng.rand_with(t.shape(), (DType::F64, t.device()));
    unit.neg().log1p().neg().clamp_min(f64::MIN_POSITIVE)
}

/// Choices, of the next numbers of this sequence.
impl Rng {
    /// As [`Tensor::bernoulli`].
    ///
    /// ```
    /// use kiln::{Rng, Tensor};
    /// assert_eq!(Rng::new(0).bernoulli(&Tensor::ones([3])).to_vec::<f32>()?, [1.0; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Probabilities that are no floats.
    #[must_use]
    #[track_caller]
    pub fn bernoulli(&self, p: &Tensor) -> Tensor {
        let _method = outermost("bernoulli");
        if !p.dtype().is_float() {
            return p.refused("bernoulli", format!("wants floats, not {}", p.dtype()).into());
        }
        let unit = self.rand_with(p.shape(), (DType::F32, p.device()));
        unit.lt(p.detach().cast(DType::F32)).cast(p.dtype())
    }

    /// As [`Tensor::multinomial`].
    ///
    /// ```
    /// use kiln::{Rng, Tensor};
    /// let picked = Rng::new(0).multinomial(&Tensor::from([0.0f32, 1.0]), 3, true);
    /// assert_eq!(picked.to_vec::<i32>()?, [1, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::multinomial`].
    #[must_use]
    #[track_caller]
    pub fn multinomial(&self, weights: &Tensor, n: usize, replace: bool) -> Tensor {
        let _method = outermost("multinomial");
        let weights = match weighed(weights, n, replace, Caller::of("multinomial")) {
            Ok(weights) => weights,
            Err(fault) => return Tensor::broken(fault.at("multinomial")),
        };
        match replace {
            true => self.picked_again(&weights, n),
            // whoever comes first in a race at these speeds
            false => exponential(self, &weights).div(&weights).topk(n, -1, false).1,
        }
    }

    /// How many of the running sums a random share of the sum is past.
    #[track_caller]
    fn picked_again(&self, weights: &Tensor, n: usize) -> Tensor {
        let sums = weights.cumsum(-1);
        let total = weights.sum_keepdim(-1);
        let mut shape = weights.shape().to_vec();
        shape.pop();
        shape.push(n);
        let share = self.rand_with(shape, (DType::F64, weights.device())).mul(&total).unsqueeze(-1);
        let sums = sums.unsqueeze(-2);
        // rounding never passes the last weight that is not 0
        let passed = sums.le(share).logical_and(sums.lt(total.unsqueeze(-1)));
        passed.cast(DType::I32).sum(-1)
    }

    /// The numbers 0 to `n - 1` in random order, i32.
    ///
    /// ```
    /// let mut order = kiln::Rng::new(0).randperm(4).to_vec::<i32>()?;
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn randperm(&self, n: usize) -> Tensor {
        let _method = outermost("randperm");
        let draws = self.rand_with([n], DType::F64);
        if n < 2 { draws.argsort(0, false) } else { draws.order_of_draws() }
    }
}

/// Fails where so many cannot be chosen.
fn choices(weights: &Tensor, n: usize, replace: bool) -> Result<(), Fault> {
    Tensor::all_valid([weights])?;
    match *weights.shape() {
        _ if !weights.dtype().is_float() => refuse!("wants floats, not {}", weights.dtype()),
        [.., 0] | [] => refuse!("there is nothing to choose from in {:?}", weights.shape()),
        [.., k] if n > k && !replace => refuse!("{n} different ones of {k}"),
        _ => Ok(()),
    }
}

/// The weights in f64, which are an error to compute where `n` cannot be picked by them.
#[track_caller]
fn weighed(weights: &Tensor, n: usize, replace: bool, caller: Caller) -> Result<Tensor, Fault> {
    choices(weights, n, replace)?;
    let weights = weights.detach().cast(DType::F64);
    let is_weight = weights.ge(0.0).logical_and(weights.isfinite());
    let weights = if_all(&weights, is_weight, "a weight is NaN, negative or infinite", caller)?;
    // the second check is of the checked weights, so a single wrong weight is reported first
    match replace {
        true => {
            let total = weights.sum(-1);
            let is_share = total.gt(0.0).logical_and(total.isfinite());
            if_all(&weights, is_share, "weights add up to 0 or to infinity", caller)
        }
        false => {
            let enough = weights.gt(0.0).cast(DType::I64).sum(-1).ge(n as i64);
            if_all(&weights, enough, &format!("fewer than {n} weights are above 0"), caller)
        }
    }
}

/// `x`, an error to compute where not all is `right`.
fn if_all(x: &Tensor, right: Tensor, wrong: &str, caller: Caller) -> Result<Tensor, Fault> {
    let right = right.value()?;
    let all: Axes = (0..right.shape().len()).collect();
    let some_wrong = right.not().reduce(ReduceOp::Add, all);
    let checked = x.value()?.checked(&some_wrong, &format!("{wrong} in {caller}"));
    Ok(Tensor::from_node(checked, x.device()))
}

/// Choices, drawn from the sequence that [`manual_seed`](crate::manual_seed) starts.
impl Tensor {
    /// 1 with the probability that is here, else 0, in the same dtype.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([3]).bernoulli().to_vec::<f32>()?, [0.0; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Probabilities that are no floats.
    #[must_use]
    #[track_caller]
    pub fn bernoulli(&self) -> Tensor {
        SHARED.bernoulli(self)
    }

    /// `n` positions along the last axis, i32, each as likely as its weight; different ones unless `replace`.
    ///
    /// ```
    /// let picked = kiln::Tensor::from([1.0f32, 0.0, 1.0]).multinomial(2, false);
    /// assert_eq!(picked.sum(..).item::<i32>()?, 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Weights that are no floats, none, or fewer than `n` unless `replace`. When they are computed: weights that are NaN,
    /// negative or infinite, none above 0, or fewer than `n` above 0 unless `replace`.
    #[must_use]
    #[track_caller]
    pub fn multinomial(&self, n: usize, replace: bool) -> Tensor {
        SHARED.multinomial(self, n, replace)
    }

    /// The numbers 0 to `n - 1` in random order, i32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::randperm(4).sum(..).item::<i32>()?, 6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn randperm(n: usize) -> Tensor {
        SHARED.randperm(n)
    }

    /// The [`softmax`](Tensor::softmax) along `axis` of these logarithms with Gumbel noise, over `tau`: nearly one of them
    /// picked by its share. If `hard`, exactly one, with the same gradient.
    ///
    /// ```
    /// let picked = kiln::Tensor::zeros([4]).gumbel_softmax(1.0, true, -1);
    /// assert_eq!(picked.sum(..).item::<f32>()?, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn gumbel_softmax(&self, tau: f64, hard: bool, axis: impl Int) -> Tensor {
        let _method = outermost("gumbel_softmax");
        let axis = axis.as_i64();
        let dtype = self.dtype().or_float();
        let noise = exponential(&SHARED, self).log().neg().cast(dtype.accumulator());
        let soft = self.cast(dtype.accumulator()).add(noise).div(tau).softmax([axis]);
        if !hard {
            return soft.cast(dtype);
        }
        let n = self.axis_length(axis).map_or(1, |(_, n)| n);
        let one = soft.detach().argmax([axis]).one_hot(n).movedim(-1, axis);
        soft.sub(soft.detach()).add(one).cast(dtype)
    }
}
