//! How the numbers of a factorization depend on the matrix.
//!
//! Each number is a `Vjp` node with the sources `[number, inputs.., all numbers..]`. When its gradient is asked for, it is the
//! transpose of a *change*: of what the number changes by, to first order, if the inputs change by `d` (Giles, "Collected
//! matrix derivative results for forward and reverse mode algorithmic differentiation", 2008). A change is made of the numbers
//! as functions of the inputs, so that it can be differentiated again.

use crate::error::{Error, Fault};
use crate::tensor::gradient::custom::placeholder;
use crate::tensor::storage::next_id;
use crate::{Device, Tensor, engine};
use kiln_compile::grad::gradient;
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative::Gradients;
use kiln_ir::uop::device_of;

/// The first of these numbers as functions of `inputs` with these derivatives, which see all numbers.
pub(super) fn functions<const N: usize>(
    inputs: &[UOp],
    numbers: &[Tensor],
    derivatives: [Derivative; N],
) -> Result<[Tensor; N], Fault> {
    let leads_on = inputs.iter().any(|x| engine::has_gradient(x, None));
    let nodes = numbers.iter().map(Tensor::value).collect::<Result<Vec<UOp>, Error>>()?;
    let mut each = numbers.iter().zip(&nodes);
    Ok(derivatives.map(|derivative| {
        let (number, node) = each.next().expect("a number for each derivative");
        // a mark says that gradients pass, which the number does not show
        let value = if leads_on { node.mark(next_id(), true) } else { node.clone() };
        let seen = inputs.iter().chain(&nodes).cloned();
        Tensor::from_node(value.with_derivative(derivative, seen), number.device())
    }))
}

/// A number of a factorization whose gradient is asked for.
pub(super) struct Number<'a> {
    node: &'a UOp,
    device: Device,
}

impl Number<'_> {
    /// Itself.
    pub(super) fn value(&self) -> Tensor {
        self.tensor(self.node)
    }

    /// The input with this number.
    pub(super) fn input(&self, i: usize) -> Tensor {
        self.tensor(self.node.src(1 + i))
    }

    /// The last `N` numbers, which do not depend on anything.
    pub(super) fn numbers<const N: usize>(&self) -> [Tensor; N] {
        let nodes = self.node.srcs().last_chunk::<N>().expect("that many numbers");
        std::array::from_fn(|i| self.tensor(&nodes[i]))
    }

    /// All numbers as functions of the first input, which is all that they depend on.
    pub(super) fn all<const N: usize>(
        &self,
        derivatives: [Derivative; N],
    ) -> Result<[Tensor; N], Fault> {
        self.also(&self.numbers::<N>(), derivatives)
    }

    /// The first of these numbers, which were computed later, as functions of the first input.
    pub(super) fn also<const N: usize>(
        &self,
        numbers: &[Tensor],
        derivatives: [Derivative; N],
    ) -> Result<[Tensor; N], Fault> {
        functions(&self.node.srcs()[1..2], numbers, derivatives)
    }

    fn tensor(&self, node: &UOp) -> Tensor {
        Tensor::from_node(node.clone(), &self.device)
    }
}

/// The gradients of the first `N` inputs of `y` from its own: the transpose of a change. Where that cannot be computed, as the
/// inverse of a singular matrix, they are NaN.
pub(super) fn transposed<const N: usize>(
    y: &UOp,
    g: &UOp,
    change: impl FnOnce(&Number<'_>, [Tensor; N]) -> Result<Tensor, Fault>,
) -> Gradients {
    let inputs = &y.srcs()[1..1 + N];
    let device = device_of(y.src(0)).map_or_else(Device::default_device, |d| Device::exact(&d));
    let number = Number { node: y, device };
    let moves: [UOp; N] = std::array::from_fn(|i| placeholder(&inputs[i]));
    let changed = change(&number, moves.each_ref().map(|d| number.tensor(d)));
    let changed = changed.and_then(|t| Ok(t.value()?));
    let nan = |x: &UOp| x.const_like(f64::NAN).broadcast_to(x.shape());
    let grads = match changed {
        Ok(changed) => gradient(&changed, g, &moves),
        Err(_) => inputs.iter().map(|x| Some(nan(x))).collect(),
    };
    [None].into_iter().chain(grads).collect()
}
