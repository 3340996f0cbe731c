//! Inverses, determinants and systems of equations, by elimination.

use super::dense::{Lu, Matrix, add_multiple, inverse, lu};
use super::derivative::{functions, transposed};
use super::jacobi::{Svd, svd};
use super::stack::{Stack, traced, turned};
use crate::Tensor;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::Derivative;
use kiln_ir::derivative;
use kiln_ir::derivative::Gradients;

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

    /// The determinant of each matrix of `[.., n, n]`, a float `[..]`. Computes the tensor. It has derivatives of any order, of
    /// a singular matrix, or almost one, the first two; a third one leaves parts out.
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
    let inverse = stack.each([[n, n]], |a| Ok([inverse(a)?]))?;
    let [inverse] = stack.functions(&inverse, [INVERSE])?;
    Ok(stack.result(&inverse))
}

const INVERSE: Derivative = derivative!("inv", of_inverse);

fn of_inverse(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |inverse, [d]| {
        let inverse = inverse.value();
        Ok(inverse.times(&d).times(&inverse).neg())
    })
}

/// The inverse, or zeros of a singular matrix.
fn inverse_or_zeros(lu: &Lu, n: usize) -> Matrix {
    match lu.is_singular() {
        true => Matrix::zeros(n, n),
        false => lu.solve(&Matrix::identity(n)),
    }
}

/// The adjugate and what its derivative is made of: the inverse, or of a singular matrix, or almost one, its [`Spectrum`]. The
/// other is zeros.
fn cofactors(a: &Matrix, near: f64) -> [Matrix; 5] {
    let (n, lu) = (a.rows, lu(a));
    let zeros = || Matrix::zeros(n, n);
    if lu.is_nearly_singular() {
        let spectrum = Spectrum::of(a, near);
        let [u, v] = [&spectrum.u, &spectrum.v].map(|rows| Matrix::of_rows(rows, n));
        return [spectrum.adjugate(), zeros(), u, spectrum.without_pairs(), v];
    }
    let (inverse, determinant) = (lu.solve(&Matrix::identity(n)), lu.determinant());
    let data = inverse.data.iter().map(|x| x * determinant).collect();
    [Matrix::new(n, n, data), inverse, zeros(), zeros(), zeros()]
}

/// Singular values and vectors of a square matrix, and the sign of the product of both determinants of the vectors.
struct Spectrum {
    u: Vec<Vec<f64>>,
    s: Vec<f64>,
    v: Vec<Vec<f64>>,
    sign: f64,
}

impl Spectrum {
    fn of(a: &Matrix, near: f64) -> Spectrum {
        let Svd { u, s, v } = svd(a, true, near);
        let determinant = |rows: &[Vec<f64>]| lu(&Matrix::of_rows(rows, a.rows)).determinant();
        let sign = (determinant(&u) * determinant(&v)).signum();
        Spectrum { u, s, v, sign }
    }

    /// The product of the singular values but for these.
    fn product_without(&self, i: usize, j: usize) -> f64 {
        let others = self.s.iter().enumerate().filter(|(k, _)| *k != i && *k != j);
        self.sign * others.map(|(_, s)| s).product::<f64>()
    }

    fn adjugate(&self) -> Matrix {
        let n = self.s.len();
        let mut result = Matrix::zeros(n, n);
        for (k, (u, v)) in self.u.iter().zip(&self.v).enumerate() {
            let weight = self.product_without(k, k);
            (0..n).for_each(|i| add_multiple(result.row_mut(i), weight * v[i], u));
        }
        result
    }

    /// For each pair of two singular values the product of all others.
    fn without_pairs(&self) -> Matrix {
        let n = self.s.len();
        let pair = |i, j| if i == j { 0.0 } else { self.product_without(i, j) };
        let data = (0..n).flat_map(|i| (0..n).map(move |j| pair(i, j))).collect();
        Matrix::new(n, n, data)
    }
}

fn determinants(x: &Tensor) -> Result<Tensor, Fault> {
    let stack = Stack::square(x)?;
    let n = stack.rows;
    let one = |a: &Matrix| Ok([Matrix::vector(vec![lu(a).determinant()]), a.clone()]);
    let numbers = stack.each([[1, 1], [n, n]], one)?;
    let [values] = stack.functions(&numbers, [DETERMINANT])?;
    Ok(stack.result(&values.squeeze([-2, -1])))
}

const DETERMINANT: Derivative = derivative!("det", of_determinant);
const ADJUGATE: Derivative = derivative!("adjugate", of_adjugate);
/// The sign of the determinant moves in steps.
const SIGN: Derivative = derivative!("sign of slogdet", |_, _| Gradients::new());

/// The derivative of the determinant is the adjugate (Jacobi's formula), also of a singular matrix.
fn of_determinant(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |determinant, [d]| {
        let [_, x] = determinant.numbers();
        let stack = Stack::square(&x)?;
        let (n, near) = (stack.rows, stack.near());
        let numbers = stack.each([[n, n]; 5], |a| Ok(cofactors(a, near)))?;
        let [adjugate] = determinant.also(&numbers, [ADJUGATE])?;
        Ok(traced(&adjugate.times(&d)))
    })
}

/// Of a matrix with an inverse, `adj tr(inv d) - inv d adj`.
fn of_adjugate(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |adjugate, [d]| {
        let [inverses, u, pairs, v] = adjugate.numbers();
        let [inverse] = adjugate.also(&[inverses], [INVERSE])?;
        let (y, share) = (adjugate.value(), inverse.times(&d));
        let regular = y.mul(traced(&share)).sub(share.times(&y));
        Ok(regular.add(change_of_singular(&u, &pairs, &v, &d)))
    })
}

/// How much the adjugate of a singular matrix changes. Between its singular vectors the matrix is diagonal, and so is its
/// adjugate: of a change `e` each element beside the diagonal has the factor `-p`, and each on it adds `p e` to all others,
/// where `p` is the product of the other singular values.
fn change_of_singular(u: &Tensor, pairs: &Tensor, v: &Tensor, d: &Tensor) -> Tensor {
    let seen = u.times(d).times(&turned(v));
    let added = pairs.mul(seen.diagonal(0, -2, -1).unsqueeze(-2)).sum_keepdim(-1);
    let eye = Tensor::eye_with(u.shape()[u.ndim() - 1], (u.dtype(), u.device()));
    turned(v).times(&added.mul(eye).sub(pairs.mul(&seen))).times(u)
}

fn log_determinants(x: &Tensor) -> Result<(Tensor, Tensor), Fault> {
    let stack = Stack::square(x)?;
    let n = stack.rows;
    let both = |a: &Matrix| {
        let (sign, log) = lu(a).log_determinant();
        Ok([Matrix::vector(vec![sign]), Matrix::vector(vec![log]), a.clone()])
    };
    let numbers = stack.each([[1, 1], [1, 1], [n, n]], both)?;
    let [signs, logs] = stack.functions(&numbers, [SIGN, LOG_DETERMINANT])?;
    let [signs, logs] = [signs, logs].map(|t| t.squeeze([-2, -1]));
    Ok((stack.result(&signs), stack.result(&logs)))
}

const LOG_DETERMINANT: Derivative = derivative!("logdet", of_log_determinant);

fn of_log_determinant(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |log, [d]| {
        let [x] = log.numbers();
        let stack = Stack::square(&x)?;
        let n = stack.rows;
        let inverses = stack.each([[n, n]], |a| Ok([inverse_or_zeros(&lu(a), n)]))?;
        let [inverse] = log.also(&inverses, [INVERSE])?;
        Ok(traced(&inverse.times(&d)))
    })
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
    let inputs = [a.value()?, b.value()?];
    // beside each other they are one stack
    let both = Stack::new(&Tensor::cat([&a.detach(), &b.detach()], -1))?;
    let solve = |m: &Matrix| {
        let left = Matrix::new(n, n, (0..n).flat_map(|i| &m.row(i)[..n]).copied().collect());
        let lu = lu(&left);
        match lu.is_singular() {
            true => refuse!("the matrix is singular"),
            false => Ok([lu.solve(&m.columns_after(n)), left]),
        }
    };
    let numbers = both.each([[n, columns], [n, n]], solve)?;
    let [x] = functions(&inputs, &numbers, [SOLUTION])?;
    Ok(x)
}

const SOLUTION: Derivative = derivative!("solve", of_solution);

fn of_solution(y: &UOp, g: &UOp) -> Gradients {
    transposed(y, g, |x, [of_a, of_b]| {
        let [a] = x.numbers();
        let stack = Stack::square(&a)?;
        let n = stack.rows;
        let [inverse] = x.also(&stack.each([[n, n]], |a| Ok([inverse(a)?]))?, [INVERSE])?;
        Ok(inverse.times(&of_b.sub(of_a.times(&x.value()))))
    })
}
