//! Products of triangular and orthogonal matrices.

use super::dense::{Matrix, cholesky, lu, qr};
use super::stack::{Stack, turned};
use crate::Tensor;
use crate::error::Fault;
use crate::origin::outermost;

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
    /// `min(m, n)` columns and rows. Computes the tensor. A gradient of its gradient
    /// is NaN.
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
    let both = |a: &Matrix| {
        let l = cholesky(a)?;
        let inverse = lu(&l).solve(&Matrix::identity(n));
        Ok([l, inverse])
    };
    let [l, inverse] = stack.each([[n, n], [n, n]], both)?;
    Ok(stack.result(&match stack.moved()? {
        None => l,
        Some(d) => {
            let d = d.add(turned(&d)).mul(0.5);
            let share = inverse.times(&d).times(&turned(&inverse));
            let first = lower_half(&share);
            let second = lower_half(&first.times(&turned(&first)));
            l.add(l.times(&first.sub(second)))
        }
    }))
}

fn orthogonal(x: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let stack = Stack::new(x)?;
    let (m, n) = (stack.rows, stack.columns);
    let count = m.min(n);
    let [q, r] = stack.each([[m, count], [count, n]], |a| {
        let (q, r) = qr(a);
        Ok([q, r])
    })?;
    let (q, r) = match stack.moved_once()? {
        None => (q, r),
        Some(d) => moved(q, r, &d, &stack.x),
    };
    Ok((stack.result(&q), stack.result(&r)))
}

/// With gradients: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
/// experimental design", 2010.
fn moved(q: Tensor, r: Tensor, d: &Tensor, x: &Tensor) -> (Tensor, Tensor) {
    let count = q.shape()[q.ndim() - 1];
    let n = r.shape()[r.ndim() - 1];
    let first = |t: &Tensor| t.narrow(-1, 0, count);
    let (square, d) = (first(&r), first(d));
    // d r^-1, as the transpose of what solves r^T
    let share = turned(&turned(&square).solve(&turned(&d)));
    let along = turned(&q).times(&share);
    let turn = along.tril(-1).sub(turned(&along.tril(-1)));
    let moved_q = q.times(&turn).add(share.sub(q.times(&along)));
    let moved_r = along.sub(&turn).times(&square);
    let new_q = q.add(moved_q);
    if n == count {
        return (new_q, r.add(moved_r));
    }
    // what is right of the square follows from q
    let rest = turned(&new_q).times(&x.narrow(-1, count, n - count));
    (new_q, Tensor::cat([&square.add(moved_r), &rest], -1))
}
