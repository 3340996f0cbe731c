//! Optimizers: from gradients to new parameters. A step is a handful of lazy writes, computed together with the loss.

mod group;
mod rule;
mod means;
mod updates;
mod stepped;
mod saved;
mod clip;
mod sgd;
mod adam;
mod adagrad;
mod adamax;
mod asgd;
mod adadelta;
mod rprop;
mod rmsprop;
mod radam;
mod nadam;
mod lion;
mod lars;
mod lamb;
mod muon;
mod lbfgs;
mod schedule;
mod cycles;
mod plateau;
mod ema;
mod swa;
mod scaler;

pub use adadelta::Adadelta;
pub use adagrad::Adagrad;
pub use adam::{Adam, AdamW};
pub use adamax::Adamax;
pub use asgd::ASGD;
pub use clip::{clip_grad_norm, clip_grad_norm_with, clip_grad_value};
pub use cycles::{ConstantLR, CosineAnnealingWarmRestarts, CyclicLR, PolynomialLR, SequentialLR};
pub use ema::EMA;
pub use group::Group;
pub use lamb::LAMB;
pub use lars::LARS;
pub use lbfgs::LBFGS;
pub use lion::Lion;
pub use muon::Muon;
pub use nadam::NAdam;
pub use plateau::ReduceLROnPlateau;
pub use radam::RAdam;
pub use rmsprop::RMSprop;
pub use rprop::Rprop;
pub(crate) use rule::Rule;
pub use scaler::GradScaler;
pub use schedule::{
    CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, MultiStepLR, OneCycleLR, Schedule, StepLR,
};
pub use sgd::SGD;
pub use swa::SWA;
pub use updates::Updates;

use crate::Tensor;
use crate::error::Error;
use crate::nn::StateDict;

/// What updates parameters from their gradients. All optimizers here do, and one of one's own can: what takes
/// `&impl Optimizer` or a `Box<dyn Optimizer>` works with each.
///
/// ```
/// use kiln::{Error, Tensor, nn::StateDict, optim::Optimizer};
///
/// /// Steps of one length, whatever the gradient's.
/// struct Signs(Vec<Tensor>);
///
/// impl Optimizer for Signs {
///     fn step(&self) -> Result<(), Error> {
///         for p in &self.0 {
///             let Some(grad) = p.grad() else { continue };
///             p.detach().try_assign(p.detach() - grad.sign() * 0.25)?;
///         }
///         kiln::realize(&self.0)
///     }
///     fn parameters(&self) -> &[Tensor] {
///         &self.0
///     }
///     fn lr(&self) -> f64 {
///         0.25
///     }
///     fn set_lr(&self, _: f64) {}
///     fn state_dict(&self) -> StateDict {
///         StateDict::new()
///     }
///     fn load_state_dict(&self, _: &StateDict) -> Result<(), Error> {
///         Ok(())
///     }
/// }
///
/// let w = Tensor::from([3.0f32]).set_requires_grad(true);
/// let optimizer: Box<dyn Optimizer> = Box::new(Signs(vec![w.clone()]));
/// w.square().sum(..).backward()?;
/// optimizer.step()?;
/// assert_eq!(w.item::<f32>()?, 2.75);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Optimizer {
    /// Updates every parameter that has a gradient.
    ///
    /// # Errors
    /// What an optimizer says; those here as [`Updates::step`].
    #[track_caller]
    fn step(&self) -> Result<(), Error>;

    /// The parameters.
    fn parameters(&self) -> &[Tensor];

    /// Forgets the gradients of all parameters.
    fn zero_grad(&self) {
        self.parameters().iter().for_each(Tensor::zero_grad);
    }

    /// The learning rate.
    fn lr(&self) -> f64;

    /// Sets the learning rate of the next steps.
    fn set_lr(&self, lr: f64);

    /// What later steps depend on besides the parameters.
    fn state_dict(&self) -> StateDict;

    /// Takes on what [`state_dict`](Optimizer::state_dict) gave.
    ///
    /// # Errors
    /// A state that is not such an optimizer's.
    #[track_caller]
    fn load_state_dict(&self, state: &StateDict) -> Result<(), Error>;
}

impl<R: Rule> Optimizer for Updates<R> {
    #[track_caller]
    fn step(&self) -> Result<(), Error> {
        Updates::step(self)
    }

    fn parameters(&self) -> &[Tensor] {
        Updates::parameters(self)
    }

    fn lr(&self) -> f64 {
        Updates::lr(self)
    }

    fn set_lr(&self, lr: f64) {
        Updates::set_lr(self, lr);
    }

    fn state_dict(&self) -> StateDict {
        Updates::state_dict(self)
    }

    #[track_caller]
    fn load_state_dict(&self, state: &StateDict) -> Result<(), Error> {
        Updates::load_state_dict(self, state)
    }
}
