//! Equal averages of parameters.

use super::EMA;
use super::rule::number;
use crate::Tensor;
use crate::error::{Error, at_caller, refuse};
use crate::nn::{Module, StateDict};
use std::borrow::Borrow;
use std::sync::Mutex;

/// The name of the number of updates.
const COUNT: &str = "n_averaged";

/// The mean of the parameters at some steps, each of equal weight (stochastic weight averaging, Izmailov et al., 2018,
/// arXiv:1803.05407), as PyTorch's `AveragedModel`.
///
/// ```
/// use kiln::{Tensor, optim::SWA};
/// let w = Tensor::from([1.0f64]).set_requires_grad(true);
/// let average = SWA::new([&w]);
/// for value in [3.0, 5.0, 7.0] {
///     w.detach().assign(value);
///     average.update()?;
/// }
/// assert!((average.values()[0].item::<f64>()? - 5.0).abs() < 1e-12);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct SWA {
    averages: EMA,
    count: Mutex<u64>,
}

impl SWA {
    /// Before the first update, the parameters' values.
    ///
    /// ```
    /// let average = kiln::optim::SWA::new([kiln::Tensor::ones([1])]);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>) -> SWA {
        SWA { averages: EMA::new(parameters, 0.0), count: Mutex::new(0) }
    }

    fn count(&self) -> std::sync::MutexGuard<'_, u64> {
        self.count.lock().expect("nothing panics under the lock")
    }

    /// Takes the parameters' values into the mean, and computes it.
    ///
    /// ```
    /// kiln::optim::SWA::new([kiln::Tensor::ones([1])]).update()?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that a parameter carries; a failing device or compiler.
    #[track_caller]
    pub fn update(&self) -> Result<(), Error> {
        let mut count = self.count();
        self.averages.mix(*count as f64 / (*count as f64 + 1.0), number)?;
        *count += 1;
        Ok(())
    }

    /// The means, in the order of the parameters.
    ///
    /// ```
    /// let average = kiln::optim::SWA::new([kiln::Tensor::ones([2])]);
    /// assert_eq!(average.values()[0].shape(), [2]);
    /// ```
    pub fn values(&self) -> &[Tensor] {
        self.averages.values()
    }

    /// Runs `f` with the means in the parameters' places, which get their own values back afterwards.
    ///
    /// ```
    /// use kiln::{Tensor, optim::SWA};
    /// let w = Tensor::from([1.0f32]);
    /// let average = SWA::new([&w]);
    /// w.assign(3.0);
    /// assert_eq!(average.within(|| w.item::<f32>())??, 1.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that a parameter carries.
    #[track_caller]
    pub fn within<R>(&self, f: impl FnOnce() -> R) -> Result<R, Error> {
        self.averages.within(f)
    }

    /// The means by number, and how many updates they are of (`n_averaged`).
    ///
    /// ```
    /// let average = kiln::optim::SWA::new([kiln::Tensor::ones([2])]);
    /// assert_eq!(average.state_dict()["n_averaged"].item::<i64>()?, 0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn state_dict(&self) -> StateDict {
        let mut state = self.averages.state_dict();
        state.insert(COUNT.to_owned(), Tensor::from(*self.count() as i64));
        state
    }

    /// Takes on what [`state_dict`](SWA::state_dict) gave.
    ///
    /// ```
    /// let [a, b] = [(); 2].map(|()| kiln::optim::SWA::new([kiln::Tensor::ones([2])]));
    /// b.load_state_dict(&a.state_dict())?;
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is missing or unknown; a tensor of another shape or kind of dtype; a negative number of updates.
    #[track_caller]
    pub fn load_state_dict(&self, state: &StateDict) -> Result<(), Error> {
        let mut means = state.clone();
        let count = match means.remove(COUNT) {
            Some(count) => u64::try_from(count.item::<i64>()?).ok(),
            None => None,
        };
        let Some(count) = count else {
            return at_caller("SWA", refuse!("`{COUNT}` is no number of updates"));
        };
        self.averages.values().to_vec().load_state_dict(&means, true)?;
        *self.count() = count;
        Ok(())
    }
}
