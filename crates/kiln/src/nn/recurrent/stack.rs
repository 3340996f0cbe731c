//! Layers of cells along a sequence, in one direction or both.

use super::cell::{Cell, Gates};
use crate::Tensor;
use crate::error::{Error, Fault, refuse};
use crate::nn::{Key, Module, join};
use crate::s;

/// Cells along a sequence: of each layer one, or one for each direction.
#[derive(Clone, Debug)]
pub(super) struct Stack<C> {
    cells: Vec<C>,
    /// 1 or 2.
    directions: usize,
    /// The probability that an output is dropped on its way to the next layer, in training.
    pub(super) dropout: f64,
}

impl<C> Stack<C> {
    /// The name of a tensor of a cell, as PyTorch has it: `weight_ih_l0`, `weight_ih_l0_reverse`.
    fn name(&self, prefix: &str, name: &str, cell: usize) -> String {
        let way = if cell.is_multiple_of(self.directions) { "" } else { "_reverse" };
        join(prefix, &format!("{name}_l{}{way}", cell / self.directions))
    }
}

impl<C: Cell> Module for Stack<C> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        for (i, cell) in self.cells.iter().enumerate() {
            cell.visit("", &mut |name, tensor| f(&self.name(prefix, name, i), tensor));
        }
    }

    fn visit_mut(
        &mut self,
        prefix: &str,
        f: &mut dyn FnMut(&str, &mut Tensor),
    ) -> Result<(), Error> {
        let names = Stack { cells: Vec::<()>::new(), directions: self.directions, dropout: 0.0 };
        let mut cells = self.cells.iter_mut().enumerate();
        cells.try_for_each(|(i, cell)| {
            cell.visit_mut("", &mut |name, tensor| f(&names.name(prefix, name, i), tensor))
        })
    }

    fn key(&self, key: &mut Key) {
        key.add((self.cells.len(), self.directions, self.dropout.to_bits()));
        self.cells.iter().for_each(|cell| cell.key(key));
    }
}

impl<C: Cell> Stack<C> {
    #[track_caller]
    pub(super) fn new(inputs: usize, hidden: usize, layers: usize, directions: usize) -> Stack<C> {
        let width = |i: usize| if i < directions { inputs } else { hidden * directions };
        let cell = |i| C::of(Gates::new(width(i), hidden, C::GATES));
        Stack { cells: (0..layers * directions).map(cell).collect(), directions, dropout: 0.0 }
    }

    /// The outputs of the last layer, `[length, batch, directions * hidden]`, and the last states, each
    /// `[layers * directions, batch, hidden]`.
    #[track_caller]
    pub(super) fn run(&self, x: &Tensor, first: &[Tensor]) -> Result<(Tensor, Vec<Tensor>), Fault> {
        self.check(x, first)?;
        let (mut x, mut last) = (x.clone(), vec![Vec::new(); first.len()]);
        for (layer, cells) in self.cells.chunks(self.directions).enumerate() {
            if layer > 0 && self.dropout != 0.0 {
                x = x.dropout(self.dropout);
            }
            let mut ways = Vec::new();
            for (way, cell) in cells.iter().enumerate() {
                let at = layer * self.directions + way;
                let state = first.iter().map(|s| s.get(s![at])).collect();
                let (outputs, state) = along(cell, &x, state, way == 1);
                last.iter_mut().zip(state).for_each(|(all, one)| all.push(one));
                ways.push(outputs);
            }
            x = Tensor::stack(beside(ways), 0);
        }
        Ok((x, last.into_iter().map(|all| Tensor::stack(all, 0)).collect()))
    }

    fn check(&self, x: &Tensor, first: &[Tensor]) -> Result<(), Fault> {
        if let Some(error) = std::iter::once(x).chain(first).find_map(Tensor::error) {
            return Err(error.into());
        }
        let (&[length, batch, width], Some(cell)) = (x.shape(), self.cells.first()) else {
            return refuse!("wants [length, batch, inputs] and a layer, not {:?}", x.shape());
        };
        let inputs = cell.gates().inputs();
        let state = [self.cells.len(), batch, cell.gates().hidden()];
        match first.iter().find(|s| s.shape() != state) {
            Some(wrong) => refuse!("wants a state of {state:?}, not {:?}", wrong.shape()),
            None if width != inputs => {
                refuse!("wants [length, batch, inputs] with {inputs} inputs, not {:?}", x.shape())
            }
            None if length == 0 => refuse!("a sequence of no length has no last state"),
            None => Ok(()),
        }
    }

    /// A state of zeros.
    pub(super) fn zeros(&self, x: &Tensor) -> Tensor {
        let hidden = self.cells.first().map_or(0, |cell| cell.gates().hidden());
        let batch = x.shape().get(1).copied().unwrap_or(0);
        Tensor::zeros_with([self.cells.len(), batch, hidden], (x.dtype(), x.device()))
    }
}

/// The outputs of a cell at each step, and the state after the last one that it takes. The inputs of all steps are
/// multiplied at once, so that their weights are read once, not at each step.
#[track_caller]
fn along<C: Cell>(
    cell: &C,
    x: &Tensor,
    mut state: Vec<Tensor>,
    back: bool,
) -> (Vec<Tensor>, Vec<Tensor>) {
    let steps = cell.gates().of_input(x).contiguous().unbind(0);
    let rows = x.shape().get(1).copied().unwrap_or(1);
    let cell = C::of(cell.gates().for_many_steps(rows));
    let mut outputs = vec![Tensor::zeros(()); steps.len()];
    for i in 0..steps.len() {
        let at = if back { steps.len() - 1 - i } else { i };
        state = cell.next(&steps[at], &state);
        outputs[at] = state[0].clone();
    }
    (outputs, state)
}

/// The outputs of both directions, side by side at each step.
#[track_caller]
fn beside(mut ways: Vec<Vec<Tensor>>) -> Vec<Tensor> {
    let Some(back) = ways.get(1).cloned() else { return ways.swap_remove(0) };
    let mut steps = Vec::new();
    for (ahead, back) in ways[0].iter().zip(&back) {
        steps.push(Tensor::cat([ahead, back], -1));
    }
    steps
}
