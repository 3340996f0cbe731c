//! Rows of a table by number, and products of two inputs.

use super::Module;
use super::build::{kaiming_bound, normal, uniform};
use crate::Tensor;
use crate::s;

/// A table of vectors that are learned, looked up by integers.
///
/// ```
/// use kiln::{Tensor, nn::Embedding};
/// let table = Embedding::new(10, 4);
/// assert_eq!(table.forward(&Tensor::from([[1, 9, 1]])).shape(), [1, 3, 4]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Embedding {
    /// `[rows, width]`.
    pub weight: Tensor,
    #[module(skip)]
    padding: Option<usize>,
}

impl Embedding {
    /// With rows drawn from the normal distribution.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Embedding::new(10, 4).weight.shape(), [10, 4]);
    /// ```
    #[track_caller]
    pub fn new(rows: usize, width: usize) -> Embedding {
        Embedding { weight: normal(&[rows, width]), padding: None }
    }

    /// The rows of the integers `x`, along a new last axis.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Embedding};
    /// assert_eq!(Embedding::new(3, 2).forward(&Tensor::from([0, 2])).shape(), [2, 2]);
    /// ```
    ///
    /// # Errors
    /// As [`get`](Tensor::get) with a tensor.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let rows = self.weight.get(s![x]);
        match self.padding {
            Some(row) => x.eq(row).unsqueeze(-1).where_(rows.detach(), rows),
            None => rows,
        }
    }

    /// The table in which one row stands for nothing (PyTorch's `padding_idx`): it is zeros, and gets no gradient.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Embedding};
    /// let table = Embedding::new(3, 2).padding(0);
    /// assert_eq!(table.forward(&Tensor::from([0])).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A row that is not there: the weight carries the error.
    #[track_caller]
    pub fn padding(self, row: usize) -> Embedding {
        let padding = Some(row);
        self.weight.detach().set(s![row], 0.0);
        Embedding { padding, ..self }
    }
}

/// `a W b + bias` for each output, of two inputs.
///
/// ```
/// use kiln::{Tensor, nn::Bilinear};
/// let layer = Bilinear::new(2, 3, 4);
/// assert_eq!(layer.forward(&Tensor::ones([5, 2]), &Tensor::ones([5, 3])).shape(), [5, 4]);
/// ```
#[derive(Module, Clone, Debug)]
pub struct Bilinear {
    /// `[outputs, first, second]`.
    pub weight: Tensor,
    /// `[outputs]`.
    pub bias: Option<Tensor>,
}

impl Bilinear {
    /// With weights and bias drawn as PyTorch draws them.
    ///
    /// ```
    /// assert_eq!(kiln::nn::Bilinear::new(2, 3, 4).weight.shape(), [4, 2, 3]);
    /// ```
    #[track_caller]
    pub fn new(first: usize, second: usize, outputs: usize) -> Bilinear {
        let bound = kaiming_bound(first);
        let weight = uniform(&[outputs, first, second], bound);
        Bilinear { weight, bias: Some(uniform(&[outputs], bound)) }
    }

    /// The layer with no bias.
    ///
    /// ```
    /// assert!(kiln::nn::Bilinear::new(1, 1, 1).without_bias().bias.is_none());
    /// ```
    pub fn without_bias(self) -> Bilinear {
        Bilinear { bias: None, ..self }
    }

    /// The layer's value at `a`, `[.., first]`, and `b`, `[.., second]`.
    ///
    /// ```
    /// use kiln::{Tensor, nn::Bilinear};
    /// let layer = Bilinear { weight: Tensor::full([1, 1, 1], 2.0f32), bias: None };
    /// let x = Tensor::full([1, 1], 3.0f32);
    /// assert_eq!(layer.forward(&x, &x).item::<f32>()?, 18.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Tensor {
        // [.., 1, first] [outputs, first, second]: one row an output
        let rows = a.unsqueeze(-2).unsqueeze(-2).matmul(&self.weight).squeeze(-2);
        let y = rows.mul(b.unsqueeze(-2)).sum(-1);
        match &self.bias {
            Some(bias) => y.add(bias),
            None => y,
        }
    }
}
