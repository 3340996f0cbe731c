//! Singular values and eigenvalues by rotations of pairs of columns: Demmel and Veselić, "Jacobi's method is more accurate than
//! QR", SIAM J. Matrix Anal. Appl. 13(4), 1992.

use super::dense::{Matrix, add_multiple, dot};

/// Sweeps over all pairs, at most. Ten are usual.
const MOST_SWEEPS: usize = 40;

/// Rotates pairs of `columns` until all are orthogonal but for `near`, and `along` with them.
fn orthogonalize(columns: &mut [Vec<f64>], along: &mut [Vec<f64>], near: f64) {
    for _ in 0..MOST_SWEEPS {
        if !sweep(columns, along, near) {
            return;
        }
    }
}

/// Whether a pair was rotated.
fn sweep(columns: &mut [Vec<f64>], along: &mut [Vec<f64>], near: f64) -> bool {
    let mut squares: Vec<f64> = columns.iter().map(|c| dot(c, c)).collect();
    let mut rotated = false;
    for q in 1..columns.len() {
        for p in 0..q {
            let (before, after) = columns.split_at_mut(q);
            let product = dot(&before[p], &after[0]);
            if product.abs() <= near * (squares[p] * squares[q]).sqrt() {
                continue;
            }
            rotated = true;
            let tangent = tangent((squares[q] - squares[p]) / (2.0 * product));
            rotate(&mut before[p], &mut after[0], tangent);
            squares[p] -= tangent * product;
            squares[q] += tangent * product;
            if !along.is_empty() {
                let (before, after) = along.split_at_mut(q);
                rotate(&mut before[p], &mut after[0], tangent);
            }
        }
    }
    rotated
}

/// Of the smaller of the two angles that make columns orthogonal.
fn tangent(cotangent_of_double: f64) -> f64 {
    let z = cotangent_of_double;
    (1.0 / (z.abs() + z.hypot(1.0))).copysign(z)
}

fn rotate(a: &mut [f64], b: &mut [f64], tangent: f64) {
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    for (a, b) in a.iter_mut().zip(b) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
}

/// Columns on the left, values in falling order, columns on the right.
pub(super) struct Svd {
    pub(super) u: Vec<Vec<f64>>,
    pub(super) s: Vec<f64>,
    pub(super) v: Vec<Vec<f64>>,
}

/// Of any matrix, with as many columns as it has values; `full`: with as many as fit.
pub(super) fn svd(a: &Matrix, full: bool, near: f64) -> Svd {
    if a.rows < a.columns {
        let Svd { u, s, v } = svd(&a.transposed(), full, near);
        return Svd { u: v, s, v: u };
    }
    let (m, n) = (a.rows, a.columns);
    if !a.is_finite() {
        let width = if full { m } else { n };
        return Svd {
            u: vec![vec![f64::NAN; m]; width],
            s: vec![f64::NAN; n],
            v: vec![vec![f64::NAN; n]; n],
        };
    }
    let scale = largest(&a.data);
    let mut columns = a.transposed().vectors();
    columns.iter_mut().flatten().for_each(|x| *x /= scale);
    let mut v = Matrix::identity(n).vectors();
    orthogonalize(&mut columns, &mut v, near);
    let lengths: Vec<f64> = columns.iter().map(|c| dot(c, c).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| lengths[j].total_cmp(&lengths[i]));
    let rank = lengths.iter().filter(|&&l| l > 0.0).count();
    let direction = |&i: &usize| columns[i].iter().map(|x| x / lengths[i]).collect();
    let mut u: Vec<Vec<f64>> = order[..rank].iter().map(direction).collect();
    complete(&mut u, if full { m } else { n }, m);
    Svd {
        u,
        s: order.iter().map(|&i| lengths[i] * scale).collect(),
        v: order.iter().map(|&i| v[i].clone()).collect(),
    }
}

/// The size of the largest number, or 1 for zeros.
fn largest(data: &[f64]) -> f64 {
    let most = data.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    if most > 0.0 { most } else { 1.0 }
}

/// More orthogonal directions of length 1 in `m` dimensions, until there are `count`.
fn complete(u: &mut Vec<Vec<f64>>, count: usize, m: usize) {
    let mut next = 0;
    while u.len() < count {
        let mut new = vec![0.0; m];
        new[next % m] = 1.0;
        next += 1;
        // twice, so that rounding leaves nothing of the others
        for _ in 0..2 {
            for other in u.iter() {
                let share = -dot(other, &new);
                add_multiple(&mut new, share, other);
            }
        }
        let length = dot(&new, &new).sqrt();
        // of all units one keeps as large a part as this
        if length * length > 0.5 * (m - u.len()) as f64 / m as f64 {
            new.iter_mut().for_each(|x| *x /= length);
            u.push(new);
        }
    }
}

/// Eigenvalues of the symmetric matrix whose lower triangle is given, in rising order, and a row of `n` for each.
pub(super) fn eigh(a: &Matrix, near: f64) -> (Vec<f64>, Vec<Vec<f64>>) {
    let n = a.rows;
    if !a.is_finite() {
        return (vec![f64::NAN; n], vec![vec![f64::NAN; n]; n]);
    }
    let at = |i: usize, j: usize| a.row(i.max(j))[i.min(j)];
    let scale = largest(&a.data);
    let whole: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| at(i, j) / scale).collect()).collect();
    // all eigenvalues become positive: then they are the singular values
    let sum = |row: &Vec<f64>| row.iter().map(|x| x.abs()).sum::<f64>();
    // the largest element is 1, or all are zero
    let shift = 1.5 * whole.iter().map(sum).fold(1.0, f64::max);
    let mut columns = whole.clone();
    (0..n).for_each(|i| columns[i][i] += shift);
    orthogonalize(&mut columns, &mut [], near);
    let pairs = columns.iter().map(|c| {
        let length = dot(c, c).sqrt();
        let v: Vec<f64> = c.iter().map(|x| x / length).collect();
        // the shift has cost digits, which the quotient of Rayleigh has
        let value: f64 = whole.iter().zip(&v).map(|(row, x)| x * dot(row, &v)).sum();
        (value * scale, v)
    });
    let mut pairs: Vec<(f64, Vec<f64>)> = pairs.collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    pairs.into_iter().unzip()
}
