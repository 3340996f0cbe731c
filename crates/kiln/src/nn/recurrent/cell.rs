//! The weights of a cell, and its step.

use crate::Tensor;
use crate::nn::Module;
use crate::nn::build::{kaiming_bound, uniform};

/// Rows from which on a product is tiled.
const TILED_ROWS: usize = 4;

/// The weights of a cell: for each of its gates as many rows as the state is wide.
#[derive(Module, Clone, Debug)]
pub(super) struct Gates {
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor,
    bias_hh: Tensor,
    #[module(skip)]
    count: usize,
}

impl Gates {
    #[track_caller]
    pub(super) fn new(inputs: usize, hidden: usize, count: usize) -> Gates {
        let (rows, bound) = (count * hidden, kaiming_bound(hidden));
        Gates {
            weight_ih: uniform(&[rows, inputs], bound),
            weight_hh: uniform(&[rows, hidden], bound),
            bias_ih: uniform(&[rows], bound),
            bias_hh: uniform(&[rows], bound),
            count,
        }
    }

    /// The share of an input in all gates, side by side: `[.., inputs]` to `[.., gates * hidden]`.
    #[track_caller]
    pub(super) fn of_input(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight_ih.t(), Some(&self.bias_ih))
    }

    /// The same weights, for many steps of so many rows. Those of the state lie in memory as tiles of each step's product read
    /// them: once for all steps. A product of few rows has no tiles.
    #[track_caller]
    pub(super) fn for_many_steps(&self, rows: usize) -> Gates {
        if rows < TILED_ROWS {
            return self.clone();
        }
        Gates { weight_hh: self.weight_hh.t().contiguous().t(), ..self.clone() }
    }

    /// The share of the state in all gates, likewise.
    #[track_caller]
    pub(super) fn of_state(&self, h: &Tensor) -> Tensor {
        h.linear(&self.weight_hh.t(), Some(&self.bias_hh))
    }

    /// As many parts as gates, whatever is wrong with them.
    #[track_caller]
    pub(super) fn parts(&self, gates: &Tensor) -> Vec<Tensor> {
        match gates.error() {
            Some(_) => vec![gates.clone(); self.count],
            None => gates.chunk(self.count, -1),
        }
    }

    pub(super) fn inputs(&self) -> usize {
        self.weight_ih.shape().last().copied().unwrap_or(0)
    }

    pub(super) fn hidden(&self) -> usize {
        self.weight_hh.shape().last().copied().unwrap_or(0)
    }
}

/// A step of a cell: from the input's share in its gates, and the state, to the next state. The first part of that is the
/// output.
pub(super) trait Cell: Module {
    const GATES: usize;
    fn of(gates: Gates) -> Self;
    fn gates(&self) -> &Gates;
    #[track_caller]
    fn next(&self, from_input: &Tensor, state: &[Tensor]) -> Vec<Tensor>;
}
