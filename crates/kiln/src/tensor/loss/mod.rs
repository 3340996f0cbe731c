//! Losses.

mod classes;
mod ctc;
mod margins;
mod pairs;

pub use classes::ClassLoss;
pub use ctc::CtcLoss;

use super::Tensor;
use crate::error::{Fault, refuse};

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

/// What losses check.
impl Tensor {
    /// The labels have the logits' shape without the classes.
    fn labelled_by(&self, labels: &Tensor, axis: usize) -> Result<(), Fault> {
        Tensor::all_valid([self, labels])?;
        super::broadcast::one_device([self, labels])?;
        let mut shape = self.shape().to_vec();
        if shape.is_empty() || shape.remove(axis) == 0 {
            return refuse!("logits {:?} have no classes", self.shape());
        }
        if shape != labels.shape() {
            return refuse!(
                "logits {:?} have their classes along axis {axis}, so labels are {shape:?}, not {:?}",
                self.shape(),
                labels.shape()
            );
        }
        Ok(())
    }
}
