//! What an optimizer has come to, as tensors with names: training goes on from them as if it had never stopped.

use super::rule::Rule;
use super::updates::{Progress, State, Updates, settle};
use crate::Tensor;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::nn::StateDict;

/// The number of steps that a parameter has taken.
const STEP: &str = "step";

fn of_parameter(i: usize, name: &str) -> String {
    format!("state.{i}.{name}")
}

fn rate_of(group: usize) -> String {
    format!("groups.{group}.lr")
}

impl<R: Rule> Updates<R> {
    /// What later steps depend on besides the parameters: of parameter `i`, `state.{i}.step` and what the rule keeps
    /// under PyTorch's names (`state.0.exp_avg`); of group `g`, `groups.{g}.lr`. The other numbers are those that the
    /// optimizer is made with. What is kept is the optimizer's own: the next step changes it.
    ///
    /// ```
    /// use kiln::{Tensor, optim::Adam};
    /// let w = Tensor::from([3.0f32]).set_requires_grad(true);
    /// let opt = Adam::new([&w], 0.5);
    /// w.square().sum(..).backward()?;
    /// opt.step()?;
    /// let names: Vec<String> = opt.state_dict().into_keys().collect();
    /// assert_eq!(names, ["groups.0.lr", "state.0.exp_avg", "state.0.exp_avg_sq", "state.0.step"]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn state_dict(&self) -> StateDict {
        let progress = self.progress();
        let rates = progress.lr.iter().enumerate();
        let mut state: StateDict = rates.map(|(g, &lr)| (rate_of(g), Tensor::from(lr))).collect();
        for (i, of_one) in progress.states.iter().enumerate().filter(|(_, s)| s.steps > 0) {
            state.insert(of_parameter(i, STEP), Tensor::from(of_one.steps as i64));
            let names = self.rule.kept().into_iter().map(|name| of_parameter(i, name));
            state.extend(names.zip(of_one.kept.iter().cloned()));
        }
        state
    }

    /// Takes on what [`state_dict`](Updates::state_dict) gave of an optimizer of the same kind, over parameters of the
    /// same shapes in the same order. Values are copied. On an error nothing has changed.
    ///
    /// ```
    /// use kiln::{Tensor, optim::Adam};
    /// let (a, b) = (Adam::new([Tensor::ones([1])], 0.5), Adam::new([Tensor::ones([1])], 0.1));
    /// b.load_state_dict(&a.state_dict())?;
    /// assert_eq!(b.lr(), 0.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is missing or unknown; a tensor of another shape or dtype; a failing device or compiler.
    #[track_caller]
    pub fn load_state_dict(&self, state: &StateDict) -> Result<(), Error> {
        let new = at_caller("load_state_dict", self.loaded(state))?;
        *self.progress() = new;
        Ok(())
    }

    fn loaded(&self, state: &StateDict) -> Result<Progress, Fault> {
        let kept = self.rule.kept();
        let mut used = self.groups.len();
        let rate = |g| Ok(find(state, &rate_of(g))?.item::<f64>()?);
        let lr = (0..self.groups.len()).map(rate).collect::<Result<_, Fault>>()?;
        let mut states = Vec::new();
        for (i, parameter) in self.parameters.iter().enumerate() {
            let had_steps = state.contains_key(&of_parameter(i, STEP));
            used += if had_steps { 1 + kept.len() } else { 0 };
            states.push(match had_steps {
                true => loaded_of(state, i, parameter, &kept)?,
                false => State::default(),
            });
        }
        if used != state.len() {
            return refuse!("{} of the names are not this optimizer's", state.len() - used);
        }
        // each in memory of its own, so that the first step's graph is every step's
        settle(&states.iter().flat_map(|s| s.kept.clone()).collect::<Vec<_>>())?;
        Ok(Progress { lr, states })
    }
}

fn find<'a>(state: &'a StateDict, name: &str) -> Result<&'a Tensor, Fault> {
    state.get(name).ok_or_else(|| Fault::New(format!("{name} is missing")))
}

fn loaded_of(
    state: &StateDict,
    i: usize,
    parameter: &Tensor,
    kept: &[&str],
) -> Result<State, Fault> {
    let steps = find(state, &of_parameter(i, STEP))?.item::<i64>()?;
    let Ok(steps) = u64::try_from(steps) else { return refuse!("{steps} steps were not taken") };
    let load = |name: &&str| {
        let name = of_parameter(i, name);
        copied(find(state, &name)?, &name, parameter)
    };
    Ok(State { steps, kept: kept.iter().map(load).collect::<Result<_, Fault>>()? })
}

fn copied(from: &Tensor, name: &str, parameter: &Tensor) -> Result<Tensor, Fault> {
    if let Some(error) = from.error() {
        return Err(error.into());
    }
    let dtype = parameter.dtype().accumulator();
    if from.shape() != parameter.shape() || from.dtype() != dtype {
        let (is, wants) = ((from.dtype(), from.shape()), (dtype, parameter.shape()));
        return refuse!("{name} is {} {:?}, not {} {:?}", is.0, is.1, wants.0, wants.1);
    }
    Ok(from.detach().to(parameter.device()).copy())
}
