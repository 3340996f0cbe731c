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

/// A prompt of five rows, and then a row a step. What the prompt writes is in memory with the prompt, so that the first step
/// does not compute it again. That step says which length varies: no other one compiles anything.
#[test]
fn after_a_prompt_the_first_step_is_like_all_others() {
    const PROMPT: usize = 5;
    let (cache, weight) = (Tensor::zeros([64, 8]), weight());
    let rows = |from: usize, to: usize| {
        let rows = Tensor::from_vec((from..to).flat_map(row).collect(), [to - from, 8]);
        rows.realize().expect("there is memory");
        rows
    };
    let step = |from: usize, to: usize| {
        let new = rows(from, to);
        let step = || {
            cache.set(s![from..to, ..], new * &weight);
            cache.get(s![..to, ..]).max(0).to_vec::<f32>().expect("computes")
        };
        let (found, counts) = measure(step);
        let largest = |i: usize| (0..to).map(|q| row(q)[i] * 2.0).fold(f32::MIN, f32::max);
        assert_eq!(found, (0..8).map(largest).collect::<Vec<_>>(), "rows {from}..{to}");
        counts
    };
    assert_eq!(step(0, PROMPT).kernels, 2, "one writes the cache, one reads it");
    for p in PROMPT..PROMPT + 20 {
        let counts = step(p, p + 1);
        assert_eq!(counts.kernels, 2, "step {p}");
        let made = counts.compiled + counts.loaded + counts.scheduled;
        assert!(p == PROMPT || made == 0, "step {p}: {counts:?}");
    }
}

/// A cache that is read whole is a value like others: nothing is stored that nobody asked for.
#[test]
fn a_write_that_is_read_whole_is_not_stored() {
    let weight = weight();
    let table = Tensor::zeros([32, 8]);
    table.set(s![3..5, ..], &weight);
    let (sum, counts) = measure(|| table.sum(..).item::<f32>().expect("computes"));
    assert_eq!((sum, counts.kernels), (32.0, 1));
}

/// Blocks with a residual have the kernels of one block, however many there are: what all later ones read is stored.
#[test]
fn blocks_with_a_residual_share_their_kernels() {
    let compiled = |blocks: usize| {
        let weights = [Tensor::eye(768), Tensor::eye(768) * 0.5].map(|w| w.contiguous());
        let x = Tensor::ones([1, 768]).contiguous();
        kiln::realize(weights.iter().chain([&x])).expect("there is memory");
        let mut y = x;
        for _ in 0..blocks {
            let norm = &y - y.mean_keepdim(1);
            y = &y + norm.matmul(&weights[0]).gelu().matmul(&weights[1]);
        }
        let ((), counts) = measure(|| y.realize().map(|_| ()).expect("computes"));
        counts.compiled + counts.loaded
    };
    let [few, many] = [4, 16].map(compiled);
    assert!(many <= few + 1, "{many} kernels for 16 blocks, {few} for 4");
}
