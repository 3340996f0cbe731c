//! Losses of classes, with weights, smoothing and labels to ignore.

use super::Reduce;
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use crate::tensor::autocast::full;
use crate::tensor::combine::hits;
use kiln_ir::DType;

/// What [`Tensor::cross_entropy_with`] and [`Tensor::nll_loss`] are told.
///
/// ```
/// use kiln::{ClassLoss, Reduce};
/// let options = ClassLoss { label_smoothing: 0.1, ..ClassLoss::default() };
/// assert_eq!(options.reduce, Reduce::Mean);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct ClassLoss<'a> {
    /// What becomes of the losses of all samples. The mean is by the weights of their labels.
    pub reduce: Reduce,
    /// A number for each class that its losses are multiplied by.
    pub weight: Option<&'a Tensor>,
    /// A label that has no loss, and does not count in the mean.
    pub ignore_index: Option<i64>,
    /// The share of the target, from 0 to 1, that all classes have in equal parts.
    pub label_smoothing: f64,
}

/// A loss for each sample, and how much it counts.
struct Samples {
    losses: Tensor,
    weights: Tensor,
}

impl Reduce {
    #[track_caller]
    fn of_samples(self, samples: &Samples) -> Tensor {
        match self {
            Reduce::Mean => samples.losses.sum(..).div(samples.weights.sum(..)),
            _ => self.of(&samples.losses),
        }
    }
}

impl ClassLoss<'_> {
    /// Of the logarithms of probabilities, whose classes are `axis`.
    #[track_caller]
    fn of_labels(self, logs: &Tensor, labels: &Tensor, axis: usize) -> Samples {
        let hit =
            labels.value().map_err(Fault::from).and_then(|l| hits(&l, logs.shape()[axis], axis));
        let hit = logs.lift("nll_loss", hit);
        let counts = match self.ignore_index {
            Some(ignored) => hit.logical_and(labels.ne(ignored).unsqueeze(axis)),
            None => hit,
        };
        let weights = self.weights(logs, axis);
        // what is not picked has no part in it, whatever it is
        let own = counts.where_(logs.mul(&weights), 0.0).sum(axis);
        let share = match self.weight {
            Some(_) => counts.where_(weights.expand(logs.shape()), 0.0).sum(axis),
            None => self.counted(labels, logs.shape()[axis]).cast(logs.dtype()),
        };
        let losses = match self.label_smoothing {
            0.0 => own.neg(),
            smoothing => {
                let is_there = counts.any(axis).unsqueeze(axis);
                let all = is_there.where_(logs.mul(&weights), 0.0).sum(axis);
                let part = smoothing / logs.shape()[axis] as f64;
                own.mul(smoothing - 1.0).sub(all.mul(part))
            }
        };
        Samples { losses, weights: share }
    }

    /// Which labels are classes, and not ignored.
    #[track_caller]
    fn counted(self, labels: &Tensor, classes: usize) -> Tensor {
        let labels = labels.cast(DType::I64);
        let is_class = labels.ge(0).logical_and(labels.lt(classes as i64));
        match self.ignore_index {
            Some(ignored) => is_class.logical_and(labels.ne(ignored)),
            None => is_class,
        }
    }

    /// Of shares of all classes; each sample counts as 1.
    #[track_caller]
    fn of_shares(self, logs: &Tensor, shares: &Tensor, axis: usize) -> Samples {
        let part = self.label_smoothing / logs.shape()[axis] as f64;
        let shares = match self.label_smoothing {
            0.0 => shares.clone(),
            smoothing => shares.mul(1.0 - smoothing).add(part),
        };
        let losses = logs.mul(self.weights(logs, axis)).mul(shares).sum(axis).neg();
        Samples { weights: losses.ones_like(), losses }
    }

    /// The numbers of the classes along their axis, or 1.
    #[track_caller]
    fn weights(self, logs: &Tensor, axis: usize) -> Tensor {
        let mut line = vec![1; logs.ndim()];
        match self.weight {
            Some(weight) => {
                line[axis] = weight.numel();
                weight.reshape(line)
            }
            None => Tensor::ones_with(line, (logs.dtype(), logs.device())),
        }
    }

    /// Fails where the options fit no logarithms of this shape.
    fn check(self, logs: &Tensor, axis: usize) -> Result<(), Fault> {
        Tensor::all_valid([logs].into_iter().chain(self.weight))?;
        if !(0.0..=1.0).contains(&self.label_smoothing) {
            return refuse!("a smoothing of {} is no share", self.label_smoothing);
        }
        match self.weight {
            Some(w) if w.shape() != [logs.shape()[axis]] => {
                refuse!(
                    "weights {:?} are not those of the classes of {:?}",
                    w.shape(),
                    logs.shape()
                )
            }
            _ => Ok(()),
        }
    }
}

/// Losses of classes.
impl Tensor {
    /// The mean cross entropy of integer labels under logits `[batch, classes, ..]`; labels are `[batch, ..]`. A label
    /// that is no class, such as -100, has no loss and does not count in the mean. Logits of one axis are one sample, its
    /// label a scalar. Shares of each class do as well as labels:
    /// [`cross_entropy_with`](Tensor::cross_entropy_with) has more choices.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let loss: f32 = Tensor::zeros([1, 2]).cross_entropy(&Tensor::from([0])).item()?;
    /// assert!((loss - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Labels that are not integers or not shaped like the logits without their classes, shares that are not shaped like
    /// the logits; other devices.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor) -> Tensor {
        let _method = outermost("cross_entropy");
        self.class_loss("cross_entropy", labels, ClassLoss::default(), |t, axis| {
            t.log_softmax(axis)
        })
    }

    /// The cross entropy under logits `[batch, classes, ..]` of labels, integers `[batch, ..]`, or of shares of each class,
    /// floats of the logits' shape. Logits of one axis are one sample.
    ///
    /// ```
    /// use kiln::{ClassLoss, Reduce, Tensor};
    /// let options = ClassLoss { reduce: Reduce::Sum, ignore_index: Some(-1), ..ClassLoss::default() };
    /// let loss: f32 = Tensor::zeros([2, 2]).cross_entropy_with(&Tensor::from([0, -1]), options).item()?;
    /// assert!((loss - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Labels that are not shaped like the logits without their classes, or shares that are not shaped like them; weights of
    /// other classes, a smoothing that is no share, other devices.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy_with(&self, target: &Tensor, options: ClassLoss<'_>) -> Tensor {
        let _method = outermost("cross_entropy_with");
        self.class_loss("cross_entropy_with", target, options, |t, axis| t.log_softmax(axis))
    }

    /// The negative logarithm of the probability of each label, where these are logarithms `[batch, classes, ..]` and the
    /// labels integers `[batch, ..]`.
    ///
    /// ```
    /// use kiln::{ClassLoss, Tensor};
    /// let logs = Tensor::from([[-1.0, -2.0], [-3.0, -4.0]]);
    /// assert_eq!(logs.nll_loss(&Tensor::from([0, 1]), ClassLoss::default()).item::<f64>()?, 2.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`cross_entropy_with`](Tensor::cross_entropy_with).
    #[must_use]
    #[track_caller]
    pub fn nll_loss(&self, labels: &Tensor, options: ClassLoss<'_>) -> Tensor {
        let _method = outermost("nll_loss");
        self.class_loss("nll_loss", labels, options, |t, _| t.clone())
    }

    #[track_caller]
    fn class_loss(
        &self,
        op: &'static str,
        target: &Tensor,
        options: ClassLoss<'_>,
        logs: fn(&Tensor, usize) -> Tensor,
    ) -> Tensor {
        let axis = usize::from(self.ndim() > 1);
        let shares = target.dtype().is_float() && target.shape() == self.shape() && self.ndim() > 0;
        let checked = match shares {
            true => Tensor::all_valid([self, target]),
            false => self.labelled_by(target, axis),
        };
        if let Err(fault) = checked.and_then(|()| options.check(self, axis)) {
            return Tensor::broken(fault.at(op));
        }
        let dtype = full(self.dtype().or_float());
        let wide: DType = dtype.accumulator();
        let logs = logs(&self.cast(wide), axis);
        let samples = match shares {
            true => options.of_shares(&logs, &target.cast(wide), axis),
            false => options.of_labels(&logs, target, axis),
        };
        options.reduce.of_samples(&samples).cast(dtype)
    }
}
