//! Counts of elements between ends.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor};

/// By comparing each element with each end; the last interval has both of its ends.
fn counted(x: &[f64], ends: &[f64]) -> Vec<f64> {
    let last = ends.len() - 2;
    let is_in =
        |k: usize, x: f64| ends[k] <= x && (x < ends[k + 1] || k == last && x == ends[k + 1]);
    (0..=last).map(|k| x.iter().filter(|&&x| is_in(k, x)).count() as f64).collect()
}

fn wide(t: &Tensor) -> Vec<f64> {
    t.cast(DType::F64).to_vec().expect("computes")
}

/// Elements on the ends of intervals and next to them, and some that are far outside or no numbers.
#[test]
fn counts_of_a_histogram_are_those_between_its_ends() {
    for seed in seeds(60) {
        let rng = &mut Rng(seed);
        let dtype = rng.pick(&[DType::F16, DType::BF16, DType::F32, DType::F64]);
        let (bins, low) = (1 + rng.below(12), -(rng.below(100) as f64) / 31.0);
        let high = low + (1 + rng.below(100)) as f64 / 7.0;
        let ends = wide(&Tensor::linspace_with(low, high, bins + 1, dtype));
        let nudges = [0.0, -1e-3, 1e-3, -1e-7, 1e-7, -1e-16, 1e-16];
        let beside = ends.iter().flat_map(|e| nudges.map(|n| e + n * e.abs().max(1e-300)));
        let x: Vec<f64> = beside.chain([f64::NAN, f64::INFINITY, -1e4, 5e-324, -5e-324]).collect();
        let x = Tensor::from(x).cast(dtype);
        let (counts, edges) = x.histogram(bins, low, high);
        assert_eq!(wide(&edges), ends);
        assert_eq!(
            wide(&counts),
            counted(&wide(&x), &ends),
            "seed {seed}: {dtype} {bins} {low} {high}"
        );
    }
}

/// As floats the elements round, and an end that is given as a literal does so too.
#[test]
fn both_ends_of_a_range_are_inside_in_every_dtype() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (low, high) in [(0.1, 0.3), (-0.3, -0.1), (0.7, 1.7)] {
            let x = Tensor::from([low, high]).cast(dtype);
            assert_eq!(wide(&x.histc(3, low, high)), [1.0, 0.0, 1.0], "{dtype} {low} {high}");
        }
    }
}
