//! Eigenvalues and singular values, and what follows from them.

use super::dense::{Matrix, add_multiple};
use super::derivative::{Number, transposed};
use super::jacobi::{Svd, eigh, svd};
use super::stack::{Stack, turned};
use crate::error::Fault;
use crate::origin::outermost;
use crate::{DType, Tensor};
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use kiln_ir::derivative::Gradients;

/// Spectra.
impl Tensor {
    /// The eigenvalues of each symmetric matrix of `[.., n, n]`, of which the lower triangle is read, in rising order,
    /// `[.., n]`, and the eigenvectors as columns, `[.., n, n]`: floats. Computes the tensor. Where eigenvalues are equal,
    /// the gradient leaves out how their vectors turn into each other.
    ///
    /// ```
    /// let (values, vectors) = kiln::Tensor::from([[2.0f32, 0.0], [0.0, 1.0]]).eigh();
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0]);
    /// assert_eq!(vectors.abs().to_vec::<f32>()?, [0.0, 1.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn eigh(&self) -> (Tensor, Tensor) {
        let _method = outermost("eigh");
        match eigen(self) {
            Ok(both) => both,
            Err(fault) => {
                let broken = Tensor::broken(fault.at("eigh"));
                (broken.clone(), broken)
            }
        }
    }

    /// The eigenvalues alone of [`eigh`](Tensor::eigh).
    ///
    /// ```
    /// let values = kiln::Tensor::from([[2.0f32, 0.0], [0.0, 1.0]]).eigvalsh();
    /// assert_eq!(values.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`eigh`](Tensor::eigh).
    #[must_use]
    #[track_caller]
    pub fn eigvalsh(&self) -> Tensor {
        let _method = outermost("eigvalsh");
        Tensor::or_broken("eigvalsh", eigen(self).map(|(values, _)| values))
    }

    /// `u`, `s` and `vh` of each matrix `u diag(s) vh` of `[.., m, n]`: orthogonal columns, singular values in falling order,
    /// and orthogonal rows, `min(m, n)` of each. If `full`, `u` and `vh` are square; no gradient goes through what is more
    /// than these. Floats. Computes the tensor. Where singular values are equal, the gradient leaves out how their vectors
    /// turn into each other.
    ///
    /// ```
    /// let (u, s, vh) = kiln::Tensor::from([[0.0f32, 2.0], [1.0, 0.0]]).svd(false);
    /// assert_eq!(s.to_vec::<f32>()?, [2.0, 1.0]);
    /// assert_eq!((u * s).matmul(&vh).to_vec::<f32>()?, [0.0, 2.0, 1.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two axes; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn svd(&self, full: bool) -> (Tensor, Tensor, Tensor) {
        let _method = outermost("svd");
        match singular(self, full) {
            Ok(all) => all,
            Err(fault) => {
                let broken = Tensor::broken(fault.at("svd"));
                (broken.clone(), broken.clone(), broken)
            }
        }
    }

    /// The singular values alone of [`svd`](Tensor::svd).
    ///
    /// ```
    /// let s = kiln::Tensor::from([[0.0f32, 2.0], [1.0, 0.0]]).svdvals();
    /// assert_eq!(s.to_vec::<f32>()?, [2.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Tensor::svd).
    #[must_use]
    #[track_caller]
    pub fn svdvals(&self) -> Tensor {
        let _method = outermost("svdvals");
        Tensor::or_broken("svdvals", singular(self, false).map(|(_, s, _)| s))
    }

    /// The pseudo-inverse of Moore and Penrose of each matrix of `[.., m, n]`: `[.., n, m]`, a float. Singular values below
    /// `max(m, n)` units in the last place of the largest one count as zero. Computes the tensor.
    ///
    /// ```
    /// let p = kiln::Tensor::from([[2.0f32], [0.0]]).pinv();
    /// assert_eq!(p.to_vec::<f32>()?, [0.5, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Tensor::svd).
    #[must_use]
    #[track_caller]
    pub fn pinv(&self) -> Tensor {
        let _method = outermost("pinv");
        Tensor::or_broken("pinv", pseudo_inverse(self))
    }

    /// `x` with the least `|self x - b|` for each matrix of `[.., m, n]`, and of those the shortest. `b` is `[m]` or
    /// `[.., m, k]`. Computes the tensor.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let a = Tensor::from([[1.0f32], [1.0]]);
    /// let x = a.lstsq(&Tensor::from([1.0f32, 3.0]));
    /// assert!((x.item::<f32>()? - 2.0).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Tensor::svd) and [`matmul`](Tensor::matmul).
    #[must_use]
    #[track_caller]
    pub fn lstsq(&self, b: &Tensor) -> Tensor {
        let _method = outermost("lstsq");
        Tensor::or_broken("lstsq", pseudo_inverse(self)).times(b)
    }

    /// How many singular values of each matrix of `[.., m, n]` are larger than `max(m, n)` units in the last place of the
    /// largest one: i32, `[..]`. Computes the tensor.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1.0f32, 2.0], [2.0, 4.0]]).matrix_rank().item::<i32>()?, 1);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Tensor::svd).
    #[must_use]
    #[track_caller]
    pub fn matrix_rank(&self) -> Tensor {
        let _method = outermost("matrix_rank");
        let rank = || -> Result<Tensor, Fault> {
            let least = least(self)?;
            let s = singular(&self.detach(), false)?.1;
            if s.shape()[s.ndim() - 1] == 0 {
                return Ok(s.cast(DType::I32).sum(-1));
            }
            let bound = s.max_keepdim(-1).mul(least);
            Ok(s.gt(&bound).cast(DType::I32).sum(-1))
        };
        Tensor::or_broken("matrix_rank", rank())
    }

    /// The largest singular value over the smallest, of each matrix of `[.., m, n]`: a float `[..]`. Computes the tensor.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[4.0f32, 0.0], [0.0, 2.0]]);
    /// assert_eq!(a.cond().item::<f32>()?, 2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`svd`](Tensor::svd); empty matrices.
    #[must_use]
    #[track_caller]
    pub fn cond(&self) -> Tensor {
        let _method = outermost("cond");
        let s = Tensor::or_broken("cond", singular(self, false).map(|(_, s, _)| s));
        s.max(-1).div(s.min(-1))
    }
}

/// Below which part of the largest singular value one counts as zero.
fn least(x: &Tensor) -> Result<f64, Fault> {
    let stack = Stack::new(x)?;
    let unit = match x.dtype() {
        DType::F64 => f64::EPSILON,
        DType::F16 => f64::exp2(-10.0),
        DType::BF16 => f64::exp2(-7.0),
        _ => f64::from(f32::EPSILON),
    };
    Ok(stack.rows.max(stack.columns) as f64 * unit)
}

/// `1 / (b - a)` for each pair, or 0 for equal ones.
fn gaps(values: &Tensor) -> Tensor {
    let gap = values.unsqueeze(-2).sub(values.unsqueeze(-1));
    let none = gap.eq(0.0);
    none.where_(0.0, none.where_(1.0, &gap).reciprocal())
}

fn eigen(x: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let stack = Stack::square(x)?;
    let (n, near) = (stack.rows, stack.near());
    let numbers = stack.each([[1, n], [n, n]], |a| {
        let (values, rows) = eigh(a, near);
        Ok([Matrix::vector(values), Matrix::of_rows(&rows, n).transposed()])
    })?;
    let [values, vectors] = stack.functions(&numbers, EIGH)?;
    Ok((stack.result(&values.squeeze(-2)), stack.result(&vectors)))
}

const EIGH: [Derivative; 2] = [
    derivative!("values of eigh", of_eigenvalues),
    derivative!("vectors of eigh", of_eigenvectors),
];

/// The change as the eigenvectors see it. The lower triangle counts for both.
fn seen(vectors: &Tensor, d: &Tensor) -> Tensor {
    let d = d.add(turned(d)).mul(0.5);
    turned(vectors).times(&d).times(vectors)
}

fn of_eigenvalues(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |values, [d]| {
        let [_, vectors] = values.all(EIGH)?;
        Ok(seen(&vectors, &d).diagonal(0, -2, -1).unsqueeze(-2))
    })
}

fn of_eigenvectors(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |vectors, [d]| {
        let [values, vectors] = vectors.all(EIGH)?;
        Ok(vectors.times(&seen(&vectors, &d).mul(gaps(&values.squeeze(-2)))))
    })
}

fn singular(x: &Tensor, full: bool) -> Result<(Tensor, Tensor, Tensor), Fault> {
    let stack = Stack::new(x)?;
    let (m, n, near) = (stack.rows, stack.columns, stack.near());
    let count = m.min(n);
    let (left, right) = if full { (m, n) } else { (count, count) };
    let [u, s, vh] = stack.each([[m, left], [1, count], [right, n]], |a| {
        let Svd { u, s, v } = svd(a, full, near);
        Ok([Matrix::of_rows(&u, m).transposed(), Matrix::vector(s), Matrix::of_rows(&v, n)])
    })?;
    let own = [u.narrow(-1, 0, count), s, vh.narrow(-2, 0, count)];
    let [own_u, s, own_vh] = stack.functions(&own, SVD)?;
    let rest = |own: Tensor, all: Tensor, axis: i64, len: usize| match len - count {
        0 => own,
        more => Tensor::cat([&own, &all.narrow(axis, count, more)], axis),
    };
    let (u, vh) = (rest(own_u, u, -1, left), rest(own_vh, vh, -2, right));
    Ok((stack.result(&u), stack.result(&s.squeeze(-2)), stack.result(&vh)))
}

const SVD: [Derivative; 3] = [
    derivative!("u of svd", |y, g| transposed(y, g, |u, [d]| Ok(changes(u, &d)?.0))),
    derivative!("s of svd", |y, g| transposed(y, g, |s, [d]| Ok(changes(s, &d)?.1))),
    derivative!("vh of svd", |y, g| transposed(y, g, |vh, [d]| Ok(changes(vh, &d)?.2))),
];

/// Townsend, "Differentiating the singular value decomposition", 2016.
fn changes(number: &Number<'_>, d: &Tensor) -> Result<(Tensor, Tensor, Tensor), Fault> {
    let [u, across, vh] = number.all(SVD)?;
    let (s, v) = (across.squeeze(-2), turned(&vh));
    let seen = turned(&u).times(d).times(&v);
    let (apart, down) = (gaps(&s.square()), s.unsqueeze(-1));
    let turn_u = apart.mul(seen.mul(&across).add(turned(&seen).mul(&down)));
    let turn_v = apart.mul(seen.mul(&down).add(turned(&seen).mul(&across)));
    let none = across.eq(0.0);
    let inverse = none.where_(0.0, none.where_(1.0, &across).reciprocal());
    // what leaves the space of the columns
    let out_u = d.times(&v).sub(u.times(&seen)).mul(&inverse);
    let out_v = turned(d).times(&u).sub(v.times(&turned(&seen))).mul(&inverse);
    let (of_u, of_v) = (u.times(&turn_u).add(out_u), v.times(&turn_v).add(out_v));
    Ok((of_u, seen.diagonal(0, -2, -1).unsqueeze(-2), turned(&of_v)))
}

fn pseudo_inverse(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::new(x)?;
    let (m, n, near, least) = (stack.rows, stack.columns, stack.near(), least(x)?);
    let inverse = stack.each([[n, m]], |a| {
        let Svd { u, s, v } = svd(a, false, near);
        let mut sum = Matrix::zeros(n, m);
        let bound = s.first().copied().unwrap_or(0.0) * least;
        for ((u, v), s) in u.iter().zip(&v).zip(&s).filter(|(_, s)| s.is_nan() || **s > bound) {
            (0..n).for_each(|i| add_multiple(sum.row_mut(i), v[i] / s, u));
        }
        Ok([sum])
    })?;
    let [inverse] = stack.functions(&inverse, [PSEUDO_INVERSE])?;
    Ok(stack.result(&inverse))
}

const PSEUDO_INVERSE: Derivative = derivative!("pinv", of_pseudo_inverse);

/// Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose variables separate",
/// 1973.
fn of_pseudo_inverse(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |p, [d]| {
        let (p, a) = (p.value(), p.input(0));
        let (turned_p, turned_d) = (turned(&p), turned(&d));
        let left = p.times(&turned_p).times(&turned_d);
        let left = left.sub(left.times(&a).times(&p));
        let right = turned_d.times(&turned_p).times(&p);
        let right = right.sub(p.times(&a).times(&right));
        Ok(left.add(right).sub(p.times(&d).times(&p)))
    })
}
