//! Losses.

mod classes;
mod ctc;
mod margins;
mod pairs;

pub use classes::ClassLoss;
pub use ctc::CtcLoss;

use super::Tensor;
use crate::error::{Fault, refuse};
use crate::origin::outermost;

/// What becomes of many losses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Reduce {
    /// Their mean.
    #[default]
    Mean,
    /// Their sum.
    Sum,
    /// They stay as they are.
    None,
}

impl Reduce {
    #[track_caller]
    fn of(self, losses: &Tensor) -> Tensor {
        match self {
            Reduce::Mean => losses.mean(..),
            Reduce::Sum => losses.sum(..),
            Reduce::None => losses.clone(),
        }
    }
}

/// Losses, as the mean over the batch.
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

    /// The labels have the logits' shape without the classes.
    fn labelled_by(&self, labels: &Tensor, axis: usize) -> Result<(), Fault> {
        Tensor::all_valid([self, labels])?;
        super::broadcast::one_device([self, labels])?;
        let mut shape = self.shape().to_vec();
        if shape.is_empty() || shape.remove(axis) == 0 || shape != labels.shape() {
            return refuse!(
                "labels do not belong to the logits, logits {:?}, labels {:?}",
                self.shape(),
                labels.shape()
            );
        }
        Ok(())
    }
}
