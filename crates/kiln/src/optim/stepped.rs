//! What a step of an optimizer takes from outside of the graph: numbers that rates and counts of steps decide.
//!
//! A rule says its numbers by running: on placeholders it gives a graph over scalars, and the list of their values. If a
//! later step's graph is the same, its list is all that has changed.

use super::rule::{Rule, counted};
use super::updates::{State, Updates};
use crate::Tensor;
use crate::jit::step::{Form, Stepped, Stepper};
use crate::nn::Key;
use kiln_ir::{Const, DType, UOp};

impl<R: Rule> Updates<R> {
    /// The form of a step of these parameters, whose counts are those after the step.
    pub(super) fn stepped(&self, parameters: &[usize], states: &[State], lr: &[f64]) -> Stepped {
        let mut stepped = Stepped { parameters: Vec::new(), forms: Vec::new() };
        for &parameter in parameters {
            let alike = |form: &Form| self.are_alike(form.parameter, parameter, states);
            let form = stepped.forms.iter().position(alike).unwrap_or_else(|| {
                stepped.forms.push(self.form(
                    parameter,
                    &states[parameter],
                    states[parameter].steps,
                    lr,
                ));
                stepped.forms.len() - 1
            });
            stepped.parameters.push((parameter, form));
        }
        stepped
    }

    /// Whether two parameters have the same numbers.
    fn are_alike(&self, a: usize, b: usize, states: &[State]) -> bool {
        let (of_a, of_b) = (&self.parameters[a], &self.parameters[b]);
        let same_tensor = of_a.shape() == of_b.shape() && of_a.dtype() == of_b.dtype();
        same_tensor && self.group_of[a] == self.group_of[b] && states[a].steps == states[b].steps
    }

    fn form(&self, parameter: usize, state: &State, steps: u64, lr: &[f64]) -> Form {
        let tensor = &self.parameters[parameter];
        let dtype = tensor.dtype().accumulator();
        let place = |slot: usize| UOp::param(slot, dtype, tensor.shape());
        let mut kept: Vec<UOp> = (0..state.kept.len()).map(|i| place(2 + i)).collect();
        let now = self.now(parameter, lr[self.group_of[parameter]], steps);
        let (new, numbers) = counted(|| self.rule.updated(&now, &place(0), &place(1), &mut kept));
        // a rule that fails has no form, and the step itself fails
        kept.extend(new.ok());
        Form { parameter, results: kept, numbers }
    }
}

impl<R: Rule> Stepper for Updates<R> {
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as *const () as usize
    }

    fn next(&self, like: &Stepped) -> Option<Vec<(Const, DType)>> {
        let progress = &*self.progress();
        if self.fault(progress).is_some() {
            return None;
        }
        let mut numbers = Vec::new();
        for (at, form) in like.forms.iter().enumerate() {
            let steps_of = |parameter: usize| progress.states.get(parameter).map(|s| s.steps);
            let steps = steps_of(form.parameter)?;
            let mut own = like.parameters.iter().filter(|(_, form)| *form == at);
            if !own.all(|(parameter, _)| steps_of(*parameter) == Some(steps)) {
                return None;
            }
            let state = &progress.states[form.parameter];
            let now = self.form(form.parameter, state, steps + 1, &progress.lr);
            if now.results != form.results || now.numbers.len() != form.numbers.len() {
                return None;
            }
            numbers.extend(now.numbers);
        }
        Some(numbers)
    }

    fn advance(&self, like: &Stepped) {
        let mut progress = self.progress();
        like.parameters.iter().for_each(|(parameter, _)| progress.states[*parameter].steps += 1);
    }

    fn visit(&self, f: &mut dyn FnMut(&Tensor)) {
        self.parameters.iter().for_each(&mut *f);
        let states = self.progress().states.clone();
        states.iter().flat_map(|state| &state.kept).for_each(f);
    }

    fn add_to(&self, key: &mut Key) {
        key.add(std::any::type_name::<R>());
        key.add(&self.group_of);
        self.progress().states.iter().for_each(|state| key.add(state.kept.len()));
    }
}
