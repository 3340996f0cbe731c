//! A tensor as a stack of matrices: what is computed of each in memory, and how that depends on the tensor.
//!
//! A factorization is computed when its method is called, and its values are constants of the graph. Gradients come from what is
//! added to these: the first terms of the factorization's series in `x - x.detach()`, which is zero.

use super::dense::Matrix;
use crate::defaults::OrFloat;
use crate::engine;
use crate::error::{Fault, refuse};
use crate::{DType, Tensor};

/// Matrices of one form.
pub(super) struct Stack {
    /// In the dtype that sums are computed in.
    pub(super) x: Tensor,
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
        Ok(Stack { x: x.cast(dtype.accumulator()), dtype, lead, rows, columns })
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

    /// Zeros that depend on the tensor, if a gradient could reach it.
    pub(super) fn moved(&self) -> Result<Option<Tensor>, Fault> {
        let leads_on = engine::has_gradient(&self.x.value()?, None);
        Ok(leads_on.then(|| self.x.sub(self.x.detach())))
    }

    /// As [`moved`](Stack::moved), for a series that has only its first term. A gradient of its gradient, which would lack
    /// terms, is NaN.
    pub(super) fn moved_once(&self) -> Result<Option<Tensor>, Fault> {
        let once = |g: &Tensor| {
            [g.with_gradient([g, &self.x], |again| [again.clone(), again.mul(f64::NAN)])]
        };
        Ok(self.moved()?.map(|zeros| zeros.detach().with_gradient([&self.x], once)))
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

/// The sum of each diagonal.
pub(super) fn traced(x: &Tensor) -> Tensor {
    x.diagonal(0, -2, -1).sum(-1)
}
