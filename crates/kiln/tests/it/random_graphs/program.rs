//! Random programs: which step comes next depends on the seed and on shapes and dtypes, never on data or device.

use super::data::input;
use super::grid::Grid;
use super::steps;
use crate::fuzz::Rng;
use kiln::{DType, Device, Tensor};

/// The steps of a program.
pub(super) const STEPS: usize = 10;
/// Larger results are not made.
const MOST_ELEMENTS: usize = 1500;

/// One intermediate result.
pub(super) struct Value {
    pub(super) tensor: Tensor,
    /// Where it is known to lie, if it is a float.
    grid: Option<Grid>,
    text: String,
    sources: Vec<usize>,
}

/// A program that has been run, lazily.
pub(super) struct Program {
    pub(super) rng: Rng,
    pub(super) device: Device,
    values: Vec<Value>,
}

impl Program {
    pub(super) fn new(seed: u64, steps: usize, device: &Device) -> Program {
        let mut program = Program { rng: Rng(seed), device: device.clone(), values: Vec::new() };
        let shape = program.shape();
        program.input(&shape);
        for _ in 0..steps {
            steps::any(&mut program);
        }
        program
    }

    /// Lengths of at most four axes: mostly a few elements, now and then none, or enough for vectors and threads.
    pub(super) fn shape(&mut self) -> Vec<usize> {
        let rank = self.rng.below(5);
        let longest = if self.rng.one_in(4) { 40 } else { 5 };
        let mut shape: Vec<usize> = Vec::new();
        for _ in 0..rank {
            let n = if self.rng.one_in(40) { 0 } else { 1 + self.rng.below(longest) };
            shape.push(if n * shape.iter().product::<usize>() > MOST_ELEMENTS { 1 } else { n });
        }
        shape
    }

    /// New data.
    pub(super) fn input(&mut self, shape: &[usize]) -> usize {
        let dtype = self.rng.pick(&DType::STORAGE);
        self.input_of(shape, dtype)
    }

    pub(super) fn input_of(&mut self, shape: &[usize], dtype: DType) -> usize {
        let tensor = input(&mut self.rng, shape, dtype, &self.device.clone());
        self.push(tensor, Some(Grid { scale: 3, bits: 2 }), format!("input {dtype} {shape:?}"), &[])
    }

    /// Keeps a result, unless it is too large, and says where it is.
    pub(super) fn push(
        &mut self,
        tensor: Tensor,
        grid: Option<Grid>,
        text: String,
        sources: &[usize],
    ) -> usize {
        assert!(tensor.error().is_none(), "{text}: {:?}\n{}", tensor.error(), self.text(None));
        if let (true, Some(&source)) = (tensor.numel() > MOST_ELEMENTS, sources.first()) {
            return source;
        }
        let dtype = tensor.dtype();
        let grid = if dtype.is_float() { grid.and_then(|g| g.kept_by(dtype)) } else { None };
        let text = format!("{text} : {dtype} {:?}", tensor.shape());
        self.values.push(Value { tensor, grid, text, sources: sources.to_vec() });
        self.values.len() - 1
    }

    /// Any value so far; the latest is the likeliest.
    pub(super) fn any(&mut self) -> usize {
        let n = self.values.len();
        if self.rng.one_in(2) { n - 1 } else { self.rng.below(n) }
    }

    pub(super) fn get(&self, i: usize) -> Tensor {
        self.values[i].tensor.clone()
    }

    /// Where a value's elements lie, if that is known.
    pub(super) fn grid(&self, i: usize) -> Option<Grid> {
        let dtype = self.values[i].tensor.dtype();
        if dtype.is_float() { self.values[i].grid } else { Some(Grid::of_ints(dtype)) }
    }

    /// What is realized at the end: the last value and some before it.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        let n = self.values.len();
        let kept = [n - 1, n / 2, n / 3];
        let kept = kept.iter().enumerate().filter(move |(i, v)| !kept[..*i].contains(v));
        let mut order: Vec<usize> = kept.map(|(_, v)| *v).collect();
        order.sort_unstable();
        order.into_iter().map(|i| (i, &self.values[i].tensor))
    }

    /// The program, or what `output` needs of it, line by line.
    pub(super) fn text(&self, output: Option<usize>) -> String {
        let mut needed = vec![output.is_none(); self.values.len()];
        if let Some(output) = output {
            needed[output] = true;
        }
        for i in (0..needed.len()).rev().filter(|_| output.is_some()) {
            if needed[i] {
                self.values[i].sources.iter().for_each(|&s| needed[s] = true);
            }
        }
        let lines = self.values.iter().enumerate().filter(|(i, _)| needed[*i]);
        lines.map(|(i, v)| format!("  v{i} = {}\n", v.text)).collect()
    }
}
