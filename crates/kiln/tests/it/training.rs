//! What training is made of, against PyTorch: `testdata/golden/training.py` writes what is expected.

mod batches;
mod optimizers;
mod precision;
mod resume;
mod schedules;
mod sets;

use serde_json::Value;
use std::sync::LazyLock;

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../testdata/golden/training.json");
    serde_json::from_str(text).expect("JSON")
});

fn numbers(value: &Value) -> Vec<f64> {
    let number = |v: &Value| v.as_f64().unwrap_or(f64::NAN);
    value.as_array().expect("a list").iter().map(number).collect()
}

/// Both sides are f64 and a few dozen operations long.
fn close(got: &[f64], want: &[f64]) -> bool {
    let near = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-11 * w.abs().max(1.0);
    got.len() == want.len() && got.iter().zip(want).all(near)
}
