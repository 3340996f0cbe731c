//! Losses that want the right classes ahead of the others by a margin.

use super::Reduce;
use crate::Tensor;
use crate::origin::outermost;

/// Margins between classes.
impl Tensor {
    /// For scores `[batch, classes]` and labels `[batch]`: the mean over classes, the right one aside, of
    /// `max(0, margin - right + other)^p`.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let loss = Tensor::from([[0.5, 0.25]]).multi_margin_loss(&Tensor::from([0]), 1, 1.0, Reduce::Mean);
    /// assert_eq!(loss.item::<f64>()?, 0.375);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Labels that do not belong to the scores; a power other than 1 and 2.
    #[must_use]
    #[track_caller]
    pub fn multi_margin_loss(
        &self,
        labels: &Tensor,
        p: u32,
        margin: f64,
        reduce: Reduce,
    ) -> Tensor {
        let _method = outermost("multi_margin_loss");
        if ![1, 2].contains(&p) || self.ndim() != 2 || labels.shape() != &self.shape()[..1] {
            let (x, y) = (self.shape(), labels.shape());
            let why = format!(
                "wants scores of two axes, a label for each row, and p of 1 or 2, not {x:?}, {y:?}, {p}"
            );
            return self.refused("multi_margin_loss", why.into());
        }
        let labels = labels.unsqueeze(1);
        let behind = (self.in_full() - self.gather(1, &labels) + margin).relu();
        let is_right = Tensor::arange_with(self.shape()[1], labels.device()).eq(labels);
        let losses = is_right.where_(0.0, if p == 2 { behind.square() } else { behind });
        reduce.of(&losses.mean(1))
    }

    /// For scores `[batch, classes]` and the right classes of each row in `labels`, of the same shape, up to the first -1: the sum
    /// over the right and the other classes of `max(0, 1 - right + other)`, over the number of classes.
    ///
    /// ```
    /// use kiln::{Reduce, Tensor};
    /// let labels = Tensor::from([[1, -1]]);
    /// let loss = Tensor::from([[0.5, 0.25]]).multilabel_margin_loss(&labels, Reduce::Mean);
    /// assert_eq!(loss.item::<f64>()?, 0.625);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Labels of another shape.
    #[must_use]
    #[track_caller]
    pub fn multilabel_margin_loss(&self, labels: &Tensor, reduce: Reduce) -> Tensor {
        let _method = outermost("multilabel_margin_loss");
        if self.ndim() != 2 || labels.shape() != self.shape() {
            let why = format!(
                "wants labels shaped as scores of two axes, not {:?} and {:?}",
                labels.shape(),
                self.shape()
            );
            return self.refused("multilabel_margin_loss", why.into());
        }
        let counts = labels.lt(0).int().cumsum(1).eq(0);
        let labels = counts.where_(labels, 0);
        let classes = Tensor::arange_with(self.shape()[1], labels.device());
        let is_right = (labels.unsqueeze(2).eq(classes) & counts.unsqueeze(2)).any(1);
        let right = self.gather(1, &labels).unsqueeze(2);
        let behind = (self.in_full().unsqueeze(1) - right + 1.0).relu();
        let counts = counts.unsqueeze(2) & is_right.logical_not().unsqueeze(1);
        reduce.of(&(counts.where_(behind, 0.0).sum([1, 2]) / self.shape()[1]))
    }
}
