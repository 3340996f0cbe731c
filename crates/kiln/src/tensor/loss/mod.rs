//! Losses.

mod classes;
mod ctc;
mod margins;
mod pairs;

pub use classes::ClassLoss;
pub use ctc::CtcLoss;

use super::Tensor;
use super::combine::hits;
use super::elementwise::like;
use super::reduce::wide_sum;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::Axes;

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
    /// that is no class counts as 0. Logits of one axis are one sample, its label a scalar.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let loss: f32 = Tensor::zeros([1, 2]).cross_entropy(&Tensor::from([0])).item()?;
    /// assert!((loss - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Labels that are not integers or not shaped like the logits without their classes; other devices.
    #[must_use]
    #[track_caller]
    pub fn cross_entropy(&self, labels: &Tensor) -> Tensor {
        let _method = outermost("cross_entropy");
        let axis = usize::from(self.ndim() > 1);
        if let Err(fault) = self.labelled_by(labels, axis) {
            return Tensor::broken(fault.at("cross_entropy"));
        }
        let logs = self.log_softmax(axis);
        let pick = || -> Result<UOp, Fault> {
            let (logs, labels) = (logs.value()?, labels.value()?);
            let hit = hits(&labels, self.shape()[axis], axis)?;
            let picked = hit.where_(&logs, &like(&logs, 0));
            Ok(wide_sum(&picked, &Axes::from_slice(&[axis])).cast(logs.dtype()))
        };
        self.lift("cross_entropy", pick()).mean(..).neg()
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
