//! Parameters with numbers of their own.

use crate::Tensor;
use std::borrow::Borrow;

/// Parameters that are updated with a learning rate or a weight decay of their own, for
/// [`with_group`](super::Updates::with_group).
///
/// ```
/// use kiln::{Tensor, optim::{AdamW, Group}};
/// let (weight, bias) = (Tensor::ones([4, 4]), Tensor::zeros([4]));
/// let opt = AdamW::new([&weight], 1e-3).with_group(Group::new([&bias]).lr(1e-2).weight_decay(0.0));
/// assert_eq!(opt.parameters().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) parameters: Vec<Tensor>,
    pub(super) lr: Option<f64>,
    pub(super) weight_decay: Option<f64>,
}

impl Group {
    /// With the optimizer's learning rate and weight decay.
    ///
    /// ```
    /// let group = kiln::optim::Group::new([kiln::Tensor::ones([1])]);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>) -> Group {
        let parameters = parameters.into_iter().map(|p| p.borrow().clone()).collect();
        Group { parameters, lr: None, weight_decay: None }
    }

    /// With a learning rate of its own, which [`set_lr`](super::Updates::set_lr) leaves alone.
    ///
    /// ```
    /// let group = kiln::optim::Group::new([kiln::Tensor::ones([1])]).lr(0.1);
    /// ```
    pub fn lr(self, lr: f64) -> Group {
        Group { lr: Some(lr), ..self }
    }

    /// With a weight decay of its own.
    ///
    /// ```
    /// let group = kiln::optim::Group::new([kiln::Tensor::ones([1])]).weight_decay(0.0);
    /// ```
    pub fn weight_decay(self, decay: f64) -> Group {
        Group { weight_decay: Some(decay), ..self }
    }
}
