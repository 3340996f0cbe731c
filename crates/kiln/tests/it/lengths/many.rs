//! Five lengths that vary independently, as those of the tokens that each of five experts gets.

use super::{numbers, with_lengths};
use crate::fuzz::{Rng, seeds};
use kiln::{Tensor, measure, s};

type Lengths = [usize; 5];
type Program = fn(Lengths) -> Tensor;

/// Whole numbers in memory, which differ from part to part.
fn part(k: usize, shape: &[usize]) -> Tensor {
    let x = numbers(shape) + k as f32;
    x.realize().expect("computes");
    x
}

/// Rows of a table, some of them twice.
fn rows(k: usize, n: usize) -> Tensor {
    let at: Vec<i64> = (0..n).map(|i| ((i * 5 + k) % 64) as i64).collect();
    Tensor::from_vec(at, [n])
}

/// The gradients of weights by which rows of `x` are multiplied, and which are added to `out`.
fn experts(lengths: Lengths) -> Tensor {
    let (x, mut out) = (part(0, &[64, 6]), Tensor::zeros([64, 6]));
    let weights = part(1, &[5, 6, 6]).set_requires_grad(true);
    for (k, n) in lengths.into_iter().enumerate() {
        let at = rows(k, n);
        let y = x.index_select(0, &at).matmul(&weights.get(s![k])).relu();
        out = out.index_add(0, &at, &y);
    }
    (out * part(2, &[64, 6])).sum(..).gradient([&weights]).expect("reached").remove(0)
}

fn joined(lengths: Lengths) -> Tensor {
    let parts = lengths.iter().enumerate().map(|(k, &n)| part(k, &[n, 3]));
    let x = Tensor::cat(parts.collect::<Vec<_>>(), 0);
    (&x * x.get(s![.., ..1])).sum(0)
}

fn padded(lengths: Lengths) -> Tensor {
    let row = |(k, &n): (usize, &usize)| {
        let x = part(k, &[n]) * 2.0;
        x.pad([(0, 128 - n)])
    };
    Tensor::stack(lengths.iter().enumerate().map(row).collect::<Vec<_>>(), 0)
}

fn outer([a, b, c, d, e]: Lengths) -> Tensor {
    let x = part(0, &[a, b]).unsqueeze(2) + part(1, &[b, c]);
    let y = part(2, &[c, d]).matmul(&part(3, &[d, e]));
    x.sum(0).matmul(&y).max(0)
}

const PROGRAMS: &[(&str, Program)] =
    &[("experts", experts), ("joined", joined), ("padded", padded), ("outer", outer)];

/// Five lengths that differ, in any order.
fn distinct(rng: &mut Rng) -> Lengths {
    let mut all: Vec<usize> = (9..60).collect();
    std::array::from_fn(|_| all.swap_remove(rng.below(all.len())))
}

#[test]
fn five_lengths_need_one_schedule() {
    for seed in seeds(1) {
        let mut rng = Rng(seed);
        let mut lengths: Vec<Lengths> = (0..16).map(|_| distinct(&mut rng)).collect();
        // by chance some are equal, one, or few
        lengths.extend([[20; 5], [31, 17, 31, 9, 9], [1, 40, 2, 30, 3]]);
        for &(name, program) in PROGRAMS {
            let run = |mode: usize| {
                let once = |&l: &Lengths| {
                    let (x, n) = measure(|| program(l).to_vec::<f32>().expect("computes"));
                    (x, n.scheduled)
                };
                with_lengths(mode, || lengths.iter().map(once).collect::<Vec<_>>())
            };
            let (fixed, general) = (run(0), run(1));
            for ((l, wanted), found) in lengths.iter().zip(&fixed).zip(&general) {
                assert_eq!(found.0, wanted.0, "{name} at {l:?}, seed {seed}");
            }
            let late: Vec<u64> = general[12..16].iter().map(|(_, scheduled)| *scheduled).collect();
            assert!(late.iter().sum::<u64>() <= 1, "{name}, seed {seed}: {late:?}");
        }
    }
}
