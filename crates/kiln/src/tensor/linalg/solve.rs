//! Inverses, determinants and systems of equations, by elimination.

use super::dense::{Matrix, add_multiple, inverse, lu};
use super::jacobi::{Svd, svd};
use super::stack::{Stack, traced};
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;

/// Equations.
impl Tensor {
    /// The inverse of each matrix of `[.., n, n]`, a float. Computes the tensor.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[2.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.inv().to_vec::<f32>()?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square, or singular; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn inv(&self) -> Tensor {
        let _method = outermost("inv");
        Tensor::or_broken("inv", inverted(self))
    }

    /// The determinant of each matrix of `[.., n, n]`, a float `[..]`. Computes the tensor.
    ///
    /// ```
    /// let a = kiln::Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.det().item::<f32>()?, -2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square; whatever computing the tensor gives.
    #[must_use]
    #[track_caller]
    pub fn det(&self) -> Tensor {
        let _method = outermost("det");
        Tensor::or_broken("det", determinants(self))
    }

    /// The sign of each determinant of `[.., n, n]`, and the logarithm of its size: floats `[..]`. Of a singular matrix 0 and
    /// -infinity. Computes the tensor.
    ///
    /// ```
    /// let (sign, log) = kiln::Tensor::from([[0.0f32, 1.0], [1.0, 0.0]]).slogdet();
    /// assert_eq!((sign.item::<f32>()?, log.item::<f32>()?), (-1.0, 0.0));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`det`](Tensor::det).
    #[must_use]
    #[track_caller]
    pub fn slogdet(&self) -> (Tensor, Tensor) {
        let _method = outermost("slogdet");
        match log_determinants(self) {
            Ok(both) => both,
            Err(fault) => {
                let broken = Tensor::broken(fault.at("slogdet"));
                (broken.clone(), broken)
            }
        }
    }

    /// `x` of `self x = b`, for each matrix of `[.., n, n]`. `b` is a vector `[n]`, or one for each matrix, or matrices
    /// `[.., n, k]`; leading axes broadcast. Computes both.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let a = Tensor::from([[2.0f32, 0.0], [0.0, 4.0]]);
    /// assert_eq!(a.solve(&Tensor::from([2.0f32, 2.0])).to_vec::<f32>()?, [1.0, 0.5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Matrices that are not square, or singular; shapes that do not fit; other devices; whatever computing them gives.
    #[must_use]
    #[track_caller]
    pub fn solve(&self, b: &Tensor) -> Tensor {
        let _method = outermost("solve");
        Tensor::or_broken("solve", solved(self, b))
    }

    /// As [`solve`](Tensor::solve), of the triangle of each matrix that has the diagonal and what is above it, if `upper`, or
    /// below; if `unit`, the diagonal counts as ones. The other elements do not matter.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let a = Tensor::from([[2.0f32, 9.0], [2.0, 4.0]]);
    /// let x = a.solve_triangular(&Tensor::from([2.0f32, 6.0]), false, false);
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`solve`](Tensor::solve).
    #[must_use]
    #[track_caller]
    pub fn solve_triangular(&self, b: &Tensor, upper: bool, unit: bool) -> Tensor {
        let _method = outermost("solve_triangular");
        Tensor::or_broken(
            "solve_triangular",
            triangle(self, upper, unit).and_then(|a| solved(&a, b)),
        )
    }
}

fn inverted(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::square(x)?;
    let n = stack.rows;
    let [inverse] = stack.each([[n, n]], |a| Ok([inverse(a)?]))?;
    Ok(stack.result(&match stack.moved()? {
        None => inverse,
        Some(d) => {
            let share = inverse.times(&d);
            let first = share.times(&inverse);
            inverse.sub(&first).add(share.times(&first))
        }
    }))
}

/// The determinant, the inverse or zeros, and the adjugate.
fn cofactors(a: &Matrix, near: f64) -> [Matrix; 3] {
    let (n, lu) = (a.rows, lu(a));
    let determinant = lu.determinant();
    let (inverse, adjugate) = match lu.is_singular() {
        true => (Matrix::zeros(n, n), adjugate(a, near)),
        false => {
            let inverse = lu.solve(&Matrix::identity(n));
            let data = inverse.data.iter().map(|x| x * determinant).collect();
            (inverse, Matrix::new(n, n, data))
        }
    };
    [Matrix::vector(vec![determinant]), inverse, adjugate]
}

/// Of a singular matrix, by its singular values.
fn adjugate(a: &Matrix, near: f64) -> Matrix {
    let Svd { u, s, v } = svd(a, true, near);
    let n = a.rows;
    let sign =
        lu(&Matrix::of_rows(&u, n)).determinant() * lu(&Matrix::of_rows(&v, n)).determinant();
    let others =
        |i: usize| s.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, s)| s).product::<f64>();
    let mut result = Matrix::zeros(n, n);
    for k in 0..n {
        let weight = sign.signum() * others(k);
        for (i, x) in v[k].iter().enumerate() {
            add_multiple(result.row_mut(i), weight * x, &u[k]);
        }
    }
    result
}

fn determinants(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::square(x)?;
    let (n, near) = (stack.rows, stack.near());
    let Some(d) = stack.moved()? else {
        let one = |a: &Matrix| Ok([Matrix::vector(vec![lu(a).determinant()])]);
        let [values] = stack.each([[1, 1]], one)?;
        return Ok(stack.result(&values.squeeze([-2, -1])));
    };
    let [values, inverses, adjugates] =
        stack.each([[1, 1], [n, n], [n, n]], |a| Ok(cofactors(a, near)))?;
    let values = values.squeeze([-2, -1]);
    let first = traced(&adjugates.times(&d));
    let share = inverses.times(&d);
    let second = traced(&share).square().sub(traced(&share.times(&share)));
    Ok(stack.result(&values.add(first).add(second.mul(&values).mul(0.5))))
}

fn log_determinants(x: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let stack = Stack::square(x)?;
    let n = stack.rows;
    let both = |a: &Matrix| {
        let lu = lu(a);
        let (sign, log) = lu.log_determinant();
        let inverse = match lu.is_singular() {
            true => Matrix::zeros(n, n),
            false => lu.solve(&Matrix::identity(n)),
        };
        Ok([Matrix::vector(vec![sign]), Matrix::vector(vec![log]), inverse])
    };
    let [signs, logs, inverses] = stack.each([[1, 1], [1, 1], [n, n]], both)?;
    let [signs, mut logs] = [signs, logs].map(|t| t.squeeze([-2, -1]));
    if let Some(d) = stack.moved()? {
        let share = inverses.times(&d);
        logs = logs.add(traced(&share)).sub(traced(&share.times(&share)).mul(0.5));
    }
    Ok((stack.result(&signs), stack.result(&logs)))
}

fn triangle(a: &Tensor, upper: bool, unit: bool) -> Result<Tensor, Fault> {
    let n = Stack::square(a)?.rows;
    let part = |offset: i64| if upper { a.triu(offset) } else { a.tril(-offset) };
    match unit {
        true => Ok(part(1).add(Tensor::eye_with(n, (a.dtype(), a.device())))),
        false => Ok(part(0)),
    }
}

fn solved(a: &Tensor, b: &Tensor) -> Result<Tensor, Fault> {
    Tensor::all_valid([a, b])?;
    crate::tensor::broadcast::one_device([a, b])?;
    let stack = Stack::square(a)?;
    let is_vector =
        b.ndim() == 1 || (b.ndim() + 1 == a.ndim() && b.shape() == &a.shape()[..b.ndim()]);
    let right = if is_vector { b.unsqueeze(-1) } else { b.clone() };
    let n = stack.rows;
    if right.ndim() < 2 || right.shape()[right.ndim() - 2] != n {
        return refuse!("matrices {:?} and right side {:?} do not fit", a.shape(), b.shape());
    }
    let dtype = a.dtype().promote(b.dtype()).or_float();
    let wide = dtype.accumulator();
    let (a, right) = together(&a.cast(wide), &right.cast(wide))?;
    let columns = right.shape()[right.ndim() - 1];
    let x = solution(&a, &right, [n, columns])?.cast(dtype);
    Ok(if is_vector { x.squeeze(-1) } else { x })
}

/// Both with the same leading axes.
fn together(a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let split =
        |t: &Tensor| (t.shape()[..t.ndim() - 2].to_vec(), t.shape()[t.ndim() - 2..].to_vec());
    let ((lead, own), (other, its)) = (split(a), split(b));
    let lead = crate::tensor::broadcast::broadcast_shapes(&lead, &other)?;
    let spread = |t: &Tensor, last: &[usize]| t.expand([&lead[..], last].concat());
    Ok((spread(a, &own), spread(b, &its)))
}

fn solution(a: &Tensor, b: &Tensor, [n, columns]: [usize; 2]) -> Result<Tensor, Fault> {
    let (of_a, of_b) = (Stack::new(a)?.moved()?, Stack::new(b)?.moved()?);
    // beside each other they are one stack
    let both = Stack::new(&Tensor::cat([&a.detach(), &b.detach()], -1))?;
    let solve = |m: &Matrix| {
        let right = m.columns_after(n);
        let left = (0..n).flat_map(|i| &m.row(i)[..n]).copied().collect();
        let lu = lu(&Matrix::new(n, n, left));
        match lu.is_singular() {
            true => refuse!("the matrix is singular"),
            false => Ok([lu.solve(&right), lu.solve(&Matrix::identity(n))]),
        }
    };
    let [x, inverse] = both.each([[n, columns], [n, n]], solve)?;
    let step = |x: &Tensor| {
        let of_a = of_a.as_ref().map(|d| d.times(x).neg());
        let sum = match (&of_b, of_a) {
            (Some(b), Some(a)) => b.add(a),
            (Some(b), None) => b.clone(),
            (None, Some(a)) => a,
            (None, None) => return None,
        };
        Some(inverse.times(&sum))
    };
    // the first step has the first derivative, the second one the second
    let first = step(&x).map(|change| x.add(change));
    Ok(first.and_then(|first| step(&first)).map_or(x.clone(), |change| x.add(change)))
}
