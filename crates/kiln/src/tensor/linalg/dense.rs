//! Factorizations of one matrix in memory, in f64. Each is a fixed number of steps, or has a bounded number of sweeps.

use crate::error::{Fault, refuse};

/// Numbers in rows.
#[derive(Clone, Debug)]
pub(super) struct Matrix {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) data: Vec<f64>,
}

impl Matrix {
    pub(super) fn new(rows: usize, columns: usize, data: Vec<f64>) -> Matrix {
        Matrix { rows, columns, data }
    }

    pub(super) fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix::new(rows, columns, vec![0.0; rows * columns])
    }

    pub(super) fn identity(n: usize) -> Matrix {
        let mut eye = Matrix::zeros(n, n);
        (0..n).for_each(|i| eye.row_mut(i)[i] = 1.0);
        eye
    }

    /// One row.
    pub(super) fn vector(data: Vec<f64>) -> Matrix {
        Matrix::new(1, data.len(), data)
    }

    /// Of these rows, which are `columns` long.
    pub(super) fn of_rows(rows: &[Vec<f64>], columns: usize) -> Matrix {
        Matrix::new(rows.len(), columns, rows.concat())
    }

    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.data[i * self.columns..][..self.columns]
    }

    pub(super) fn row_mut(&mut self, i: usize) -> &mut [f64] {
        &mut self.data[i * self.columns..][..self.columns]
    }

    pub(super) fn transposed(&self) -> Matrix {
        let column = |j: usize| (0..self.rows).map(move |i| self.data[i * self.columns + j]);
        Matrix::new(self.columns, self.rows, (0..self.columns).flat_map(column).collect())
    }

    /// The columns from `first` on.
    pub(super) fn columns_after(&self, first: usize) -> Matrix {
        let data = (0..self.rows).flat_map(|i| &self.row(i)[first..]).copied().collect();
        Matrix::new(self.rows, self.columns - first, data)
    }

    pub(super) fn vectors(&self) -> Vec<Vec<f64>> {
        (0..self.rows).map(|i| self.row(i).to_vec()).collect()
    }

    pub(super) fn is_finite(&self) -> bool {
        self.data.iter().all(|x| x.is_finite())
    }
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    // eight sums, which a compiler keeps in vectors
    let mut sums = [0.0; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = a8.remainder().iter().zip(b8.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a8.zip(b8) {
        for i in 0..8 {
            sums[i] += x[i] * y[i];
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// `y + a x` in place of `y`.
pub(super) fn add_multiple(y: &mut [f64], a: f64, x: &[f64]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
}

/// Rows `i` and `j`, of which `i` is before `j`.
fn two_rows(data: &mut [f64], width: usize, i: usize, j: usize) -> (&mut [f64], &mut [f64]) {
    let (before, after) = data.split_at_mut(j * width);
    (&mut before[i * width..][..width], &mut after[..width])
}

/// Both triangles of a factorization with rows exchanged.
pub(super) struct Lu {
    factors: Matrix,
    order: Vec<usize>,
    sign: f64,
}

/// Elimination with partial pivoting: Golub and Van Loan, *Matrix Computations*, 4th ed., 3.4.
pub(super) fn lu(a: &Matrix) -> Lu {
    let (n, mut factors) = (a.rows, a.clone());
    let (mut order, mut sign): (Vec<usize>, f64) = ((0..n).collect(), 1.0);
    for k in 0..n {
        let size = |i: usize| factors.row(i)[k].abs();
        let best = (k + 1..n).fold(k, |best, i| if size(i) > size(best) { i } else { best });
        if best != k {
            let (upper, lower) = two_rows(&mut factors.data, n, k, best);
            upper.swap_with_slice(lower);
            order.swap(k, best);
            sign = -sign;
        }
        let pivot = factors.row(k)[k];
        for i in k + 1..n {
            let (upper, lower) = two_rows(&mut factors.data, n, k, i);
            if pivot != 0.0 && lower[k] != 0.0 {
                lower[k] /= pivot;
                let share = -lower[k];
                add_multiple(&mut lower[k + 1..], share, &upper[k + 1..]);
            }
        }
    }
    Lu { factors, order, sign }
}

impl Lu {
    fn pivots(&self) -> impl Iterator<Item = f64> {
        (0..self.factors.rows).map(|i| self.factors.row(i)[i])
    }

    /// Whether an inverse has lost half of its digits, or there is none.
    pub(super) fn is_nearly_singular(&self) -> bool {
        let sizes = || self.pivots().map(f64::abs);
        sizes().fold(f64::INFINITY, f64::min) <= 1e-8 * sizes().fold(0.0, f64::max)
    }

    pub(super) fn is_singular(&self) -> bool {
        self.pivots().any(|p| p == 0.0)
    }

    pub(super) fn determinant(&self) -> f64 {
        self.pivots().fold(self.sign, |product, p| product * p)
    }

    /// The sign of the determinant, and the logarithm of its size.
    pub(super) fn log_determinant(&self) -> (f64, f64) {
        let sign = |p: f64| if p == 0.0 { 0.0 } else { p.signum() };
        let signs = self.pivots().fold(self.sign, |s, p| s * sign(p));
        // from 0, as the sum of no numbers is -0
        (signs, self.pivots().fold(0.0, |sum, p| sum + p.abs().ln()))
    }

    /// `x` of `a x = b`.
    pub(super) fn solve(&self, b: &Matrix) -> Matrix {
        let (n, width) = (self.factors.rows, b.columns);
        let rows: Vec<Vec<f64>> = self.order.iter().map(|&i| b.row(i).to_vec()).collect();
        let mut x = Matrix::of_rows(&rows, width);
        for i in 0..n {
            for k in 0..i {
                let (known, row) = two_rows(&mut x.data, width, k, i);
                add_multiple(row, -self.factors.row(i)[k], known);
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                let (row, known) = two_rows(&mut x.data, width, i, k);
                add_multiple(row, -self.factors.row(i)[k], known);
            }
            let pivot = self.factors.row(i)[i];
            x.row_mut(i).iter_mut().for_each(|x| *x /= pivot);
        }
        x
    }
}

/// The inverse.
pub(super) fn inverse(a: &Matrix) -> Result<Matrix, Fault> {
    let lu = lu(a);
    match lu.is_singular() {
        true => refuse!("the matrix is singular"),
        false => Ok(lu.solve(&Matrix::identity(a.rows))),
    }
}

/// The lower triangle `l` of `l l^T`, of the lower triangle of `a`: Golub and Van Loan, 4.2.
pub(super) fn cholesky(a: &Matrix) -> Result<Matrix, Fault> {
    let n = a.rows;
    let mut l = Matrix::zeros(n, n);
    for i in 0..n {
        for j in 0..=i {
            let rest = a.row(i)[j] - dot(&l.row(i)[..j], &l.row(j)[..j]);
            l.row_mut(i)[j] = match i == j {
                true if rest > 0.0 => rest.sqrt(),
                true => return refuse!("the matrix is not positive definite"),
                false => rest / l.row(j)[j],
            };
        }
    }
    Ok(l)
}

/// `q` of as many columns as `r` has rows, and `r`: reflections of one column after the other, Golub and Van Loan, 5.2. A
/// diagonal element has the sign that makes the reflection exact.
pub(super) fn qr(a: &Matrix) -> (Matrix, Matrix) {
    let (m, n) = (a.rows, a.columns);
    let count = m.min(n);
    let mut columns = a.transposed().vectors();
    let mut mirrors: Vec<(Vec<f64>, f64)> = Vec::new();
    for k in 0..count {
        let mirror = mirror(&mut columns[k][k..]);
        columns[k + 1..].iter_mut().for_each(|c| reflect(&mirror, &mut c[k..]));
        mirrors.push(mirror);
    }
    let mut q: Vec<Vec<f64>> = (0..count).map(|i| unit(m, i)).collect();
    for (k, mirror) in mirrors.iter().enumerate().rev() {
        q.iter_mut().for_each(|c| reflect(mirror, &mut c[k..]));
    }
    columns.iter_mut().for_each(|c| c.truncate(count));
    let q = Matrix::of_rows(&q, m).transposed();
    (q, Matrix::of_rows(&columns, count).transposed())
}

fn unit(n: usize, i: usize) -> Vec<f64> {
    let mut unit = vec![0.0; n];
    unit[i] = 1.0;
    unit
}

/// The reflection that leaves only the first element of `x`, which is done to it.
fn mirror(x: &mut [f64]) -> (Vec<f64>, f64) {
    let below = dot(&x[1..], &x[1..]);
    if below == 0.0 {
        return (vec![0.0; x.len()], 0.0);
    }
    let length = (x[0] * x[0] + below).sqrt();
    let first = if x[0] >= 0.0 { -length } else { length };
    let mut direction = x.to_vec();
    direction[0] -= first;
    x.fill(0.0);
    x[0] = first;
    let scale = 2.0 / dot(&direction, &direction);
    (direction, scale)
}

fn reflect((direction, scale): &(Vec<f64>, f64), x: &mut [f64]) {
    if *scale != 0.0 {
        let share = -scale * dot(direction, x);
        add_multiple(x, share, direction);
    }
}
