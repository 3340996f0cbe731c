//! Losses of each element, and of pairs of vectors.

use super::Reduce;
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::origin::outermost;

/// Distances from a target, element by element.
impl Tensor {
    /// The squared distance.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([1.0, 3.0]).mse_loss(&Tensor::from([0.0, 1.0]), Reduce::Mean);
    /// assert_eq!(loss.item::<f64>()?, 2.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn mse_loss(&self, target: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("mse_loss");
        reduce.of(&self.in_full().sub(target).square())
    }

    /// The distance.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([1.0, 3.0]).l1_loss(&Tensor::from([0.0, 1.0]), Reduce::Sum);
    /// assert_eq!(loss.item::<f64>()?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn l1_loss(&self, target: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("l1_loss");
        reduce.of(&self.in_full().sub(target).abs())
    }

    /// Half the square of the distance up to `delta`, and beyond it the line that goes on from there.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([1.0, 4.0]).huber_loss(&Tensor::from([0.0, 0.0]), 2.0, Reduce::None);
    /// assert_eq!(loss.to_vec::<f64>()?, [0.5, 6.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn huber_loss(&self, target: &Tensor, delta: f64, reduce: Reduce) -> Tensor {
        let _method = outermost("huber_loss");
        reduce.of(&self.in_full().sub(target).bent(delta))
    }

    /// The [`huber_loss`](Tensor::huber_loss) over `beta`: for 0 the distance.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([1.0, 4.0]).smooth_l1_loss(&Tensor::from([0.0, 0.0]), 2.0, Reduce::None);
    /// assert_eq!(loss.to_vec::<f64>()?, [0.25, 3.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn smooth_l1_loss(&self, target: &Tensor, beta: f64, reduce: Reduce) -> Tensor {
        let _method = outermost("smooth_l1_loss");
        if beta == 0.0 {
            return reduce.of(&self.in_full().sub(target).abs());
        }
        reduce.of(&self.in_full().sub(target).bent(beta).div(beta))
    }

    /// Half the square up to `delta`, a line beyond.
    #[track_caller]
    fn bent(&self, delta: f64) -> Tensor {
        let size = self.abs();
        let line = size.sub(0.5 * delta).mul(delta);
        size.lt(delta).where_(self.square().mul(0.5), line)
    }
}

/// Likelihoods of each element.
impl Tensor {
    /// How far the logarithms of probabilities here are from the probabilities `target`: `target (log target - self)`. If
    /// `log_target`, those are logarithms too.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let p = Tensor::from([0.5, 0.5]);
    /// assert_eq!(p.log().kl_div(&p, false, Reduce::Sum).item::<f64>()?, 0.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn kl_div(&self, target: &Tensor, log_target: bool, reduce: Reduce) -> Tensor {
        let _method = outermost("kl_div");
        reduce.of(&match log_target {
            true => target.exp().mul(target.sub(self.in_full())),
            false => target.xlogy(target).sub(target.mul(self.in_full())),
        })
    }

    /// `-(target log(self) + (1 - target) log(1 - self))` of probabilities; a logarithm counts as -100 at least.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss: f64 = Tensor::from([0.5]).binary_cross_entropy(&Tensor::from([1.0]), Reduce::Mean).item()?;
    /// assert!((loss - 2.0f64.ln()).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn binary_cross_entropy(&self, target: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("binary_cross_entropy");
        let (yes, no) = (self.log().clamp_min(-100.0), self.neg().log1p().clamp_min(-100.0));
        reduce.of(&target.sub(1.0).mul(no).sub(target.mul(yes)))
    }

    /// The [`binary_cross_entropy`](Tensor::binary_cross_entropy) of what the sigmoid makes of these, without its loss of
    /// precision; `positive_weight` multiplies the part of the target's ones.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let logits = Tensor::from([0.0]);
    /// let loss: f64 = logits.binary_cross_entropy_with_logits(&Tensor::from([1.0]), None, Reduce::Mean).item()?;
    /// assert!((loss - 2.0f64.ln()).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn binary_cross_entropy_with_logits(
        &self,
        target: &Tensor,
        positive_weight: Option<&Tensor>,
        reduce: Reduce,
    ) -> Tensor {
        let _method = outermost("binary_cross_entropy_with_logits");
        let rest = self.in_full().mul(target.neg().add(1));
        let softplus = self.neg().softplus();
        reduce.of(&match positive_weight {
            Some(weight) => rest.add(weight.sub(1).mul(target).add(1).mul(softplus)),
            None => rest.add(softplus),
        })
    }

    /// `e^self - target * self`: how unlikely a count is under a Poisson distribution, of which this is the logarithm of
    /// the mean.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([0.0]).poisson_nll_loss(&Tensor::from([3.0]), Reduce::Mean);
    /// assert_eq!(loss.item::<f64>()?, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn poisson_nll_loss(&self, target: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("poisson_nll_loss");
        reduce.of(&self.exp().sub(target.mul(self.in_full())))
    }

    /// `(log(v) + (self - target)^2 / v) / 2`, where `v` is the variance, but 1e-6 at least, below which it has no gradient.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let t = Tensor::from([3.0]);
    /// let loss = t.gaussian_nll_loss(&Tensor::from([1.0]), &Tensor::from([1.0]), Reduce::Mean);
    /// assert_eq!(loss.item::<f64>()?, 2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn gaussian_nll_loss(&self, target: &Tensor, variance: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("gaussian_nll_loss");
        // the bound moves the value and not the slope
        let lifted = variance.detach().neg().add(1e-6).clamp_min(0.0);
        let variance = variance.add(lifted);
        let distance = self.in_full().sub(target).square().div(&variance);
        reduce.of(&variance.log().add(distance).mul(0.5))
    }
}

/// Margins: targets are 1 or -1.
impl Tensor {
    /// `self` where the target is 1, `max(0, margin - self)` where it is -1.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([0.25, 0.25]).hinge_embedding_loss(&Tensor::from([1, -1]), 1.0, Reduce::None);
    /// assert_eq!(loss.to_vec::<f64>()?, [0.25, 0.75]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn hinge_embedding_loss(&self, target: &Tensor, margin: f64, reduce: Reduce) -> Tensor {
        let _method = outermost("hinge_embedding_loss");
        let far = self.in_full().neg().add(margin).relu();
        reduce.of(&target.eq(1).where_(self, target.eq(-1).where_(far, 0.0)))
    }

    /// `log(1 + e^(-target * self))`.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss: f64 = Tensor::from([0.0]).soft_margin_loss(&Tensor::from([1.0]), Reduce::Mean).item()?;
    /// assert!((loss - 2.0f64.ln()).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn soft_margin_loss(&self, target: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("soft_margin_loss");
        reduce.of(&target.neg().mul(self.in_full()).softplus())
    }

    /// `max(0, -target * (self - other) + margin)`: a target of 1 wants this larger.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let (a, b) = (Tensor::from([1.0]), Tensor::from([3.0]));
    /// assert_eq!(a.margin_ranking_loss(&b, &Tensor::from([1]), 0.5, Reduce::Mean).item::<f64>()?, 2.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn margin_ranking_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduce: Reduce,
    ) -> Tensor {
        let _method = outermost("margin_ranking_loss");
        reduce.of(&target.neg().mul(self.in_full().sub(other)).add(margin).relu())
    }

    /// `max(0, d(self, near) - d(self, far) + margin)`, with the `p`-norm of the distance along the last axis.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let at = |x: f64| Tensor::from([[x, 0.0]]);
    /// let loss: f64 = at(0.0).triplet_margin_loss(&at(1.0), &at(3.0), 4.0, 2.0, Reduce::Mean).item()?;
    /// assert!((loss - 2.0).abs() < 1e-5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No axis, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn triplet_margin_loss(
        &self,
        near: &Tensor,
        far: &Tensor,
        margin: f64,
        p: f64,
        reduce: Reduce,
    ) -> Tensor {
        let _method = outermost("triplet_margin_loss");
        let (to_near, to_far) = (self.pairwise_distance(near, p), self.pairwise_distance(far, p));
        reduce.of(&to_near.sub(to_far).add(margin).relu())
    }

    /// The `p`-norm of the distance of vectors along the last axis, with 1e-6 added to each of its elements so that it has a
    /// direction.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let d: f64 = Tensor::from([3.0, 0.0]).pairwise_distance(&Tensor::from([0.0, 4.0]), 2.0).item()?;
    /// assert!((d - 5.0).abs() < 1e-5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No axis, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn pairwise_distance(&self, other: &Tensor, p: f64) -> Tensor {
        let _method = outermost("pairwise_distance");
        self.in_full().sub(other).add(1e-6).norm(p, -1)
    }

    /// The cosine of the angle between vectors along `axis`; lengths count as 1e-8 at least.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let c: f64 = Tensor::from([1.0, 0.0]).cosine_similarity(&Tensor::from([1.0, 1.0]), 0).item()?;
    /// assert!((c - 0.5f64.sqrt()).abs() < 1e-12);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn cosine_similarity(&self, other: &Tensor, axis: impl crate::tensor::Int) -> Tensor {
        let _method = outermost("cosine_similarity");
        let axis = axis.as_i64();
        let own = self.norm_keepdim(2.0, axis).maximum(1e-8);
        let its = other.norm_keepdim(2.0, axis).maximum(1e-8);
        self.in_full().div(own).mul(other.div(its)).sum(axis)
    }

    /// `1 - c` where the target is 1, `max(0, c - margin)` where it is -1, with the cosine `c` of the angle along the last
    /// axis. 1e-12 is added to the squares of lengths.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let (a, b) = (Tensor::from([[1.0, 0.0]]), Tensor::from([[0.0, 1.0]]));
    /// assert_eq!(a.cosine_embedding_loss(&b, &Tensor::from([1]), 0.0, Reduce::Mean).item::<f64>()?, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No axis, shapes that do not broadcast, other devices.
    #[must_use]
    #[track_caller]
    pub fn cosine_embedding_loss(
        &self,
        other: &Tensor,
        target: &Tensor,
        margin: f64,
        reduce: Reduce,
    ) -> Tensor {
        let _method = outermost("cosine_embedding_loss");
        let (x, y, dtype) = self.widened(other);
        let (own, its) = (x.square().sum(-1).add(1e-12), y.square().sum(-1).add(1e-12));
        let lengths = own.sqrt().mul(its.sqrt());
        let cosine = x.mul(y).sum(-1).div(lengths).cast(dtype.or_float());
        let far = cosine.sub(margin).relu();
        let near = cosine.neg().add(1);
        reduce.of(&target.eq(1).where_(near, target.eq(-1).where_(far, 0.0)))
    }
}
