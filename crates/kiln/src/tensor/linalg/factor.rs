//! Products of triangular and orthogonal matrices.

use super::dense::{cholesky, qr};
use super::derivative::{Number, transposed};
use super::stack::{Stack, turned};
use crate::Tensor;
use crate::error::Fault;
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use kiln_ir::derivative::Gradients;

/// Factors.
impl Tensor {
    /// The lower triangle `l` of `l l^T`, for each positive definite matrix of `[.., n, n]`, of which the lower triangle is
    /// read; if `upper`, its transpose. A float. Computes the tensor.
    ///
    /// ```
    /// let l = kiln::Tensor::from([[4.0f32, 2.0], [2.0, 2.0]]).cholesky(false);
    /// assert_eq!(l.to_vec::<f32>()?, [2.0, 0.0, 1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square, or not positive definite; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn cholesky(&self, upper: bool) -> Tensor {
        let _method = outermost("cholesky");
        let lower = Tensor::or_broken("cholesky", lower_root(self));
        if upper && lower.error().is_none() { turned(&lower) } else { lower }
    }

    /// `q`, with orthogonal columns, and the upper triangle `r` of `q r`, for each matrix of `[.., m, n]`: floats of
    /// `min(m, n)` columns and rows. Computes the tensor. A gradient is NaN where the first columns are not independent.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[3.0f32, 1.0], [4.0, 2.0]]);
    /// let (q, r) = a.qr();
    /// assert!(q.matmul(&r).sub(&a).abs().max(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn qr(&self) -> (Tensor, Tensor) {
        let _method = outermost("qr");
        match orthogonal(self) {
            Ok(both) => both,
            Err(fault) => {
                let broken = Tensor::broken(fault.at("qr"));
                (broken.clone(), broken)
            }
        }
    }

    /// As [`qr`](Tensor::qr), with all `m` columns of `q`, and `r` of `[.., m, n]` with zeros below (NumPy's mode
    /// `complete`). No gradient goes through it.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[3.0f32], [4.0]]);
    /// let (q, r) = a.qr_complete();
    /// assert_eq!((q.shape(), r.shape()), (&[2, 2][..], &[2, 1][..]));
    /// assert!(q.matmul(&r).sub(&a).abs().max(..).item::<f32>()? < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`qr`](Tensor::qr).
    #[must_use]
    #[track_caller]
    pub fn qr_complete(&self) -> (Tensor, Tensor) {
        let _method = outermost("qr_complete");
        let a = self.detach();
        let &[.., m, n] = a.shape() else { return a.qr() };
        if n >= m || a.error().is_some() || !a.dtype().is_float() {
            return a.qr();
        }
        // the identity's columns have what is missing of a basis
        let mut shape = a.shape().to_vec();
        shape[a.ndim() - 1] = m;
        let identity = Tensor::eye_with(m, (a.dtype(), a.device())).broadcast_to(shape);
        let (q, r) = Tensor::cat([&a, &identity], -1).qr();
        (q, r.narrow(-1, 0, n).triu(0))
    }
}

/// What is below the diagonal, and half of that.
fn lower_half(x: &Tensor) -> Tensor {
    x.tril(0).add(x.tril(-1)).mul(0.5)
}

fn lower_root(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::square(x)?;
    let n = stack.rows;
    let [l] = stack.functions(&stack.each([[n, n]], |a| Ok([cholesky(a)?]))?, [CHOLESKY])?;
    Ok(stack.result(&l))
}

const CHOLESKY: Derivative = derivative!("cholesky", of_cholesky);

fn of_cholesky(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |l, [d]| {
        let (l, d) = (l.value(), d.add(turned(&d)).mul(0.5));
        let inverse = l.inv();
        Ok(l.times(&lower_half(&inverse.times(&d).times(&turned(&inverse)))))
    })
}

fn orthogonal(x: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let stack = Stack::new(x)?;
    let (m, n) = (stack.rows, stack.columns);
    let count = m.min(n);
    let numbers = stack.each([[m, count], [count, n]], |a| Ok(qr(a).into()))?;
    let [q, r] = stack.functions(&numbers, QR)?;
    Ok((stack.result(&q), stack.result(&r)))
}

const QR: [Derivative; 2] = [
    derivative!("q of qr", |y, g| transposed(y, g, |q, [d]| Ok(changes(q, &d)?.0))),
    derivative!("r of qr", |y, g| transposed(y, g, |r, [d]| Ok(changes(r, &d)?.1))),
];

/// Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum experimental
/// design", 2010.
fn changes(number: &Number<'_>, d: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let [q, r] = number.all(QR)?;
    let (count, n) = (q.shape()[q.ndim() - 1], r.shape()[r.ndim() - 1]);
    let square = r.narrow(-1, 0, count);
    let share = d.narrow(-1, 0, count).times(&square.inv());
    let along = turned(&q).times(&share);
    let turn = along.tril(-1).sub(turned(&along.tril(-1)));
    let of_q = q.times(&turn).add(share.sub(q.times(&along)));
    let of_square = along.sub(&turn).times(&square);
    if n == count {
        return Ok((of_q, of_square));
    }
    // what is right of the square follows from q
    let rest = |t: &Tensor| t.narrow(-1, count, n - count);
    let right = turned(&of_q).times(&rest(&number.input(0))).add(turned(&q).times(&rest(d)));
    Ok((of_q, Tensor::cat([&of_square, &right], -1)))
}
