//! A tensor as a stack of matrices: what is computed of each in memory, and how that depends on the tensor.
//!
//! A factorization is computed when its method is called, and its values are constants of the graph. Beside each stands what it
//! was computed from, and the derivative that leads there.

use super::dense::Matrix;
use super::derivative::functions;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::{DType, Tensor};
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use std::slice::from_ref;

/// Matrices of one form.
pub(super) struct Stack {
    /// In the dtype that sums are computed in.
    pub(super) x: Tensor,
    /// Its value as it was before anything was computed.
    node: UOp,
    /// What the results have.
    dtype: DType,
    lead: Vec<usize>,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Stack {
    pub(super) fn new(x: &Tensor) -> Result<Stack, Fault> {
        if let Some(error) = x.error() {
            return Err(error.into());
        }
        let &[ref lead @ .., rows, columns] = x.shape() else {
            return refuse!("wants matrices, not {:?}", x.shape());
        };
        let dtype = x.dtype().or_float();
        let lead = lead.to_vec();
        let x = x.cast(dtype.accumulator());
        Ok(Stack { node: x.value()?, x, dtype, lead, rows, columns })
    }

    pub(super) fn square(x: &Tensor) -> Result<Stack, Fault> {
        let stack = Stack::new(x)?;
        match stack.rows == stack.columns {
            true => Ok(stack),
            false => refuse!("wants square matrices, not {:?}", x.shape()),
        }
    }

    /// How far a pair of directions may be from orthogonal.
    pub(super) fn near(&self) -> f64 {
        if self.x.dtype() == DType::F64 { 1e-15 } else { 1e-10 }
    }

    /// The first of these numbers of each matrix, as functions of it with these derivatives, which see all numbers: see
    /// [`derivative`](super::derivative).
    pub(super) fn functions<const N: usize>(
        &self,
        numbers: &[Tensor],
        derivatives: [Derivative; N],
    ) -> Result<[Tensor; N], Fault> {
        functions(from_ref(&self.node), numbers, derivatives)
    }

    /// What `f` makes of each matrix: tensors of matrices, of which all have one form.
    pub(super) fn each<const N: usize>(
        &self,
        forms: [[usize; 2]; N],
        f: impl Fn(&Matrix) -> Result<[Matrix; N], Fault>,
    ) -> Result<[Tensor; N], Fault> {
        let numbers = self.x.detach().cast(DType::F64).to_vec::<f64>()?;
        let mut results: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
        let size = self.rows * self.columns;
        for i in 0..self.lead.iter().product() {
            let matrix = Matrix::new(self.rows, self.columns, numbers[i * size..][..size].to_vec());
            for (all, one) in results.iter_mut().zip(f(&matrix)?) {
                all.extend(one.data);
            }
        }
        let mut forms = forms.into_iter();
        Ok(results.map(|all| {
            let shape = [&self.lead[..], &forms.next().expect("as many")].concat();
            self.tensor(all, shape)
        }))
    }

    fn tensor(&self, numbers: Vec<f64>, shape: Vec<usize>) -> Tensor {
        match self.x.dtype() {
            DType::F64 => Tensor::from_vec_on(numbers, shape, self.x.device()),
            _ => {
                let narrow = numbers.into_iter().map(|x| x as f32).collect();
                Tensor::from_vec_on::<f32>(narrow, shape, self.x.device())
            }
        }
    }

    /// As a result.
    pub(super) fn result(&self, t: &Tensor) -> Tensor {
        t.cast(self.dtype)
    }
}

/// Rows and columns exchanged.
pub(super) fn turned(x: &Tensor) -> Tensor {
    x.transpose(-2, -1)
}

/// The sum of each diagonal, as a matrix of one element.
pub(super) fn traced(x: &Tensor) -> Tensor {
    x.diagonal(0, -2, -1).sum_keepdim(-1).unsqueeze(-1)
}
