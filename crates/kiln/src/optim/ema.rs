//! Averages of parameters over the steps.

use crate::error::{Error, at_caller, refuse};
use crate::nn::StateDict;
use crate::{DType, Tensor};
use kiln_ir::UOp;
use kiln_ir::dtype::Weak;
use std::borrow::Borrow;

/// An exponential moving average of parameters (Polyak and Juditsky, 1992), which often infers better than the last ones.
///
/// ```
/// use kiln::{Tensor, optim::EMA};
/// let w = Tensor::from([1.0f32]).set_requires_grad(true);
/// let average = EMA::new([&w], 0.75);
/// w.detach().assign(5.0);
/// average.update()?;
/// assert_eq!(average.values()[0].item::<f32>()?, 2.0);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct EMA {
    parameters: Vec<Tensor>,
    averages: Vec<Tensor>,
    decay: f64,
}

impl EMA {
    /// Starting at the parameters' values; the past weighs `decay` in each update.
    ///
    /// ```
    /// let average = kiln::optim::EMA::new([kiln::Tensor::ones([1])], 0.999);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, decay: f64) -> EMA {
        let parameters: Vec<Tensor> = parameters.into_iter().map(|p| p.borrow().clone()).collect();
        let averages = parameters.iter().map(|p| p.detach().copy()).collect();
        EMA { parameters, averages, decay }
    }

    /// Takes the parameters' values into the averages, and computes these.
    ///
    /// ```
    /// kiln::optim::EMA::new([kiln::Tensor::ones([1])], 0.999).update()?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A decay that is not from 0 to 1; an error that a parameter carries; a failing device or compiler.
    #[track_caller]
    pub fn update(&self) -> Result<(), Error> {
        if !(0.0..=1.0).contains(&self.decay) {
            at_caller("EMA", refuse!("the decay is {}, wants a number from 0 to 1", self.decay))?;
        }
        self.mix(self.decay, UOp::constant)
    }

    /// Takes the parameters' values into the averages, of which the past weighs `decay`. `number` makes the nodes of
    /// weights.
    #[track_caller]
    pub(super) fn mix(&self, decay: f64, number: fn(f64, DType) -> UOp) -> Result<(), Error> {
        for (average, parameter) in self.averages.iter().zip(&self.parameters) {
            let dtype = average.dtype().promote_weak(Weak::Float);
            let weight = |w: f64| Tensor::from_node(number(w, dtype), average.device());
            let [past, new] = [decay, 1.0 - decay].map(weight);
            let new = average.mul(past).add(parameter.detach().mul(new));
            average.try_assign(new)?;
        }
        crate::realize(&self.averages)
    }

    /// The averages, in the order of the parameters.
    ///
    /// ```
    /// let average = kiln::optim::EMA::new([kiln::Tensor::ones([2])], 0.999);
    /// assert_eq!(average.values()[0].shape(), [2]);
    /// ```
    pub fn values(&self) -> &[Tensor] {
        &self.averages
    }

    /// Runs `f` with the averages in the parameters' places, which get their own values back afterwards.
    ///
    /// ```
    /// use kiln::{Tensor, optim::EMA};
    /// let w = Tensor::from([1.0f32]);
    /// let average = EMA::new([&w], 0.5);
    /// w.assign(3.0);
    /// assert_eq!(average.within(|| w.item::<f32>())??, 1.0);
    /// assert_eq!(w.item::<f32>()?, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that a parameter carries.
    #[track_caller]
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> Result<R, Error> {
        let own: Vec<Tensor> = self.parameters.iter().map(|p| p.detach().copy()).collect();
        write(&self.parameters, &self.averages)?;
        let result = f();
        write(&self.parameters, &own)?;
        Ok(result)
    }

    /// The averages by number, to be saved.
    ///
    /// ```
    /// let average = kiln::optim::EMA::new([kiln::Tensor::ones([2])], 0.999);
    /// assert!(average.state_dict().contains_key("0"));
    /// ```
    pub fn state_dict(&self) -> StateDict {
        self.averages.iter().enumerate().map(|(i, t)| (i.to_string(), t.clone())).collect()
    }

    /// Takes on what [`state_dict`](EMA::state_dict) gave.
    ///
    /// ```
    /// let [a, b] = [(); 2].map(|()| kiln::optim::EMA::new([kiln::Tensor::ones([2])], 0.999));
    /// b.load_state_dict(&a.state_dict())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is missing or unknown; a tensor of another shape or kind of dtype.
    #[track_caller]
    pub fn load_state_dict(&self, state: &StateDict) -> Result<(), Error> {
        crate::nn::Module::load_state_dict(&self.averages, state, true)
    }
}

#[track_caller]
fn write(to: &[Tensor], from: &[Tensor]) -> Result<(), Error> {
    for (to, from) in to.iter().zip(from) {
        to.detach().try_assign(from)?;
    }
    Ok(())
}
