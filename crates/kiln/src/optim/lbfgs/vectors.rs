//! Sums of vectors.

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn scaled(a: &[f64], by: f64) -> Vec<f64> {
    a.iter().map(|a| a * by).collect()
}

/// `from`, `by` times `d` away.
pub(super) fn moved(from: &[f64], by: f64, d: &[f64]) -> Vec<f64> {
    from.iter().zip(d).map(|(x, d)| x + by * d).collect()
}

/// The largest magnitude. NaN is none.
pub(super) fn largest(a: &[f64]) -> f64 {
    a.iter().fold(0.0, |most, a| most.max(a.abs()))
}
