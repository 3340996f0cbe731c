//! Optimizers as arguments: what a step takes from outside of the graph.

use crate::Tensor;
use crate::nn::Key;
use kiln_ir::{Const, DType, UOp};

/// An optimizer as an argument of a recorded function.
pub(crate) trait Stepper {
    /// What it is known by while the function runs.
    fn address(&self) -> usize;
    /// The numbers of the next step, if it has the form of a step that was recorded.
    fn next(&self, like: &Stepped) -> Option<Vec<(Const, DType)>>;
    /// A step of this form was computed.
    fn advance(&self, like: &Stepped);
    /// Visits the tensors that it keeps.
    fn visit(&self, f: &mut dyn FnMut(&Tensor));
    /// How many it keeps of each parameter.
    fn add_to(&self, key: &mut Key);
}

/// The form of a step.
pub(crate) struct Stepped {
    /// The parameters that had gradients, each with its form.
    pub(crate) parameters: Vec<(usize, usize)>,
    pub(crate) forms: Vec<Form>,
}

/// What the rule makes of one parameter, and of others that have the same numbers.
pub(crate) struct Form {
    /// One of them.
    pub(crate) parameter: usize,
    /// The new value and state, over placeholders.
    pub(crate) results: Vec<UOp>,
    pub(crate) numbers: Vec<(Const, DType)>,
}

impl Stepped {
    /// All numbers, form by form.
    pub(crate) fn numbers(&self) -> Vec<(Const, DType)> {
        self.forms.iter().flat_map(|form| form.numbers.iter().copied()).collect()
    }

    /// The scalars of a parameter among those of all forms.
    pub(crate) fn scalars_of<'a>(&self, parameter: usize, all: &'a [UOp]) -> &'a [UOp] {
        let form = self.parameters.iter().find(|(p, _)| *p == parameter).expect("it steps").1;
        let before: usize = self.forms[..form].iter().map(|f| f.numbers.len()).sum();
        &all[before..before + self.forms[form].numbers.len()]
    }
}
