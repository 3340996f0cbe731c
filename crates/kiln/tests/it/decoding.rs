//! Loops that write a part of a cache and read all that has been written, as language models do for each token.

use kiln::{Counts, Tensor, measure, s};

/// The row that step `p` writes.
fn row(p: usize) -> Vec<f32> {
    (0..8).map(|i| ((p * 7 + i * 3) % 11) as f32 - 5.0).collect()
}

/// One step: writes a row, and gives the sums of each column so far.
fn step(cache: &Tensor, weight: &Tensor, p: usize) -> (Vec<f32>, Counts) {
    measure(|| {
        let new = Tensor::from_vec(row(p), [1, 8]) * weight;
        cache.set(s![p..p + 1, ..], &new);
        cache.get(s![..p + 1, ..]).sum(0).to_vec().expect("computes")
    })
}

/// What the steps up to `p` wrote, added up.
fn sums(p: usize) -> Vec<f32> {
    (0..8).map(|i| (0..=p).map(|q| row(q)[i] * 2.0).sum()).collect()
}

fn weight() -> Tensor {
    let weight = Tensor::full([8], 2.0);
    weight.realize().expect("computes");
    weight
}

#[test]
fn each_row_is_written_once() {
    let (cache, weight) = (Tensor::zeros([32, 8]), weight());
    for p in 0..24 {
        let (found, counts) = step(&cache, &weight, p);
        assert_eq!(found, sums(p), "step {p}");
        // from the third step on: one kernel writes the row, and one reads the cache
        assert!(p < 2 || counts.kernels <= 2, "step {p}: {} kernels", counts.kernels);
        assert!(p < 2 || counts.bytes < 2000, "step {p}: {} bytes", counts.bytes);
    }
    // nothing waits
    let (_, counts) = measure(|| cache.get(s![3]).to_vec::<f32>().expect("computes"));
    assert!(counts.kernels <= 1, "{} kernels", counts.kernels);
}

#[test]
fn a_snapshot_of_a_cache_stays() {
    let (cache, weight) = (Tensor::zeros([32, 8]), weight());
    let mut snapshots = Vec::new();
    for p in 0..12 {
        let (found, _) = step(&cache, &weight, p);
        assert_eq!(found, sums(p), "step {p}");
        snapshots.push((p, cache.copy(), cache.get(s![..p + 1]).sum(0)));
    }
    for (p, copy, lazy) in snapshots {
        let rows = copy.sum(0).to_vec::<f32>().expect("computes");
        assert_eq!(rows, sums(p), "copied at step {p}");
        assert_eq!(lazy.to_vec::<f32>().expect("computes"), sums(p), "read at step {p}");
    }
}
