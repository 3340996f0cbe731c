//! Norms and exponentials of matrices, and products of many.

use super::stack::Stack;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use crate::{DType, Tensor};
use std::borrow::Borrow;

/// Which norm of a matrix.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MatrixNorm {
    /// The root of the sum of squares.
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// The largest singular value.
    Spectral,
    /// The smallest singular value.
    LeastSingular,
    /// The largest sum of sizes of a column.
    Columns,
    /// The largest sum of sizes of a row.
    Rows,
}

/// Functions of matrices.
impl Tensor {
    /// The norm of each matrix of `[.., m, n]`: a float `[..]`. Those of singular values compute the tensor.
    ///
    /// ```
    /// use kiln::MatrixNorm;
    /// let a = kiln::Tensor::from([[3.0f32, 0.0], [0.0, -4.0]]);
    /// assert_eq!(a.matrix_norm(MatrixNorm::Frobenius).item::<f32>()?, 5.0);
    /// assert_eq!(a.matrix_norm(MatrixNorm::Nuclear).item::<f32>()?, 7.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes; the largest or smallest of nothing; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn matrix_norm(&self, norm: MatrixNorm) -> Tensor {
        let _method = outermost("matrix_norm");
        if let Err(fault) = measurable(self, norm) {
            return Tensor::broken(fault.at("matrix_norm"));
        }
        match norm {
            MatrixNorm::Frobenius => self.norm(2.0, [-2, -1]),
            MatrixNorm::Nuclear => self.svdvals().sum(-1),
            MatrixNorm::Spectral => self.svdvals().max(-1),
            MatrixNorm::LeastSingular => self.svdvals().min(-1),
            MatrixNorm::Columns => self.abs().sum(-2).max(-1),
            MatrixNorm::Rows => self.abs().sum(-1).max(-1),
        }
    }

    /// `1 + a + a^2 / 2 + ..` of each matrix `a` of `[.., n, n]`, a float: its series, of the matrix halved until it is small,
    /// and squared as often. How often, the tensor's largest norm says, which is computed.
    ///
    /// ```
    /// let e = kiln::Tensor::from([[0.0f32, 1.0], [0.0, 0.0]]).matrix_exp();
    /// assert_eq!(e.to_vec::<f32>()?, [1.0, 1.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn matrix_exp(&self) -> Tensor {
        let _method = outermost("matrix_exp");
        Tensor::or_broken("matrix_exp", exponential(self))
    }

    /// The product of matrices, in the order of multiplication that takes the fewest operations. The first may be a row, and
    /// the last a column, of one axis.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (a, b) = (Tensor::ones([2, 3]), Tensor::ones([3, 4]));
    /// assert_eq!(Tensor::multi_dot([&a, &b, &Tensor::ones([4])]).to_vec::<f32>()?, [12.0, 12.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensors; others than matrices between; as [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn multi_dot<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>) -> Tensor {
        let _method = outermost("multi_dot");
        let all: Vec<Tensor> = tensors.into_iter().map(|t| t.borrow().clone()).collect();
        match chain(&all) {
            Ok(order) => multiplied(&all, &order, 0, all.len() - 1),
            Err(fault) => Tensor::broken(fault.at("multi_dot")),
        }
    }
}

/// Terms of the exponential's series: with a norm of at most 1/2 the next one is less than the rounding error.
fn terms(dtype: DType) -> usize {
    if dtype == DType::F64 { 14 } else { 8 }
}

/// Fails where a norm is the largest or smallest of numbers that a matrix has none of.
fn measurable(x: &Tensor, norm: MatrixNorm) -> Result<(), Fault> {
    let Stack { rows, columns, .. } = Stack::new(x)?;
    let among = match norm {
        MatrixNorm::Frobenius | MatrixNorm::Nuclear => 1,
        MatrixNorm::Spectral | MatrixNorm::LeastSingular => rows.min(columns),
        MatrixNorm::Columns => columns,
        MatrixNorm::Rows => rows,
    };
    match among {
        0 => refuse!("{norm:?} wants elements, and matrices of {:?} are empty", x.shape()),
        _ => Ok(()),
    }
}

fn exponential(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::square(x)?;
    let a = &stack.x;
    if a.numel() == 0 {
        return Ok(stack.result(a));
    }
    let most: f64 = a.detach().abs().sum(-2).max(..).cast(DType::F64).item()?;
    // what is not finite stays so
    let halvings =
        if most.is_finite() && most > 0.5 { (2.0 * most).log2().ceil() as i32 } else { 0 };
    let small = a.mul(f64::exp2(-f64::from(halvings)));
    let eye = Tensor::eye_with(stack.rows, (a.dtype(), a.device()));
    let last = small.mul(0.0).add(&eye);
    let horner = |sum: Tensor, k: usize| small.times(&sum).mul(1.0 / k as f64).add(&eye);
    let series = (1..=terms(a.dtype())).rev().fold(last, horner);
    Ok(stack.result(&(0..halvings).fold(series, |e, _| e.times(&e))))
}

/// Where to split the product of each run of factors.
fn chain(all: &[Tensor]) -> Result<Vec<Vec<usize>>, Fault> {
    Tensor::all_valid(all)?;
    let n = all.len();
    let fits =
        |(i, t): (usize, &Tensor)| t.ndim() == 2 || (t.ndim() == 1 && (i == 0 || i == n - 1));
    if n == 0 || !all.iter().enumerate().all(fits) {
        let shapes: Vec<&[usize]> = all.iter().map(Tensor::shape).collect();
        return refuse!("wants matrices, and vectors at the ends, not {shapes:?}");
    }
    let first = if all[0].ndim() == 1 { 1 } else { all[0].shape()[0] };
    let last = |t: &Tensor| if t.ndim() == 1 { 1 } else { t.shape()[1] };
    let mut lengths = vec![first];
    // a row's columns are its only axis
    lengths.extend(
        all.iter().enumerate().map(
            |(i, t)| {
                if i == 0 && t.ndim() == 1 { t.shape()[0] } else { last(t) }
            },
        ),
    );
    Ok(cheapest(&lengths))
}

/// The order for factors of `lengths[i]` rows and `lengths[i + 1]` columns.
fn cheapest(lengths: &[usize]) -> Vec<Vec<usize>> {
    let n = lengths.len() - 1;
    let (mut costs, mut splits) = (vec![vec![0u128; n]; n], vec![vec![0; n]; n]);
    for run in 1..n {
        for i in 0..n - run {
            let j = i + run;
            let cost = |k: usize| {
                let own = lengths[i] as u128 * lengths[k + 1] as u128 * lengths[j + 1] as u128;
                costs[i][k] + costs[k + 1][j] + own
            };
            let best = (i..j).min_by_key(|&k| cost(k)).expect("a split");
            (costs[i][j], splits[i][j]) = (cost(best), best);
        }
    }
    splits
}

#[track_caller]
fn multiplied(all: &[Tensor], splits: &[Vec<usize>], i: usize, j: usize) -> Tensor {
    if i == j {
        return all[i].clone();
    }
    let k = splits[i][j];
    multiplied(all, splits, i, k).matmul(&multiplied(all, splits, k + 1, j))
}
