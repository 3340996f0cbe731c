//! Causal attention around the ends of blocks, and caches that hold nonsense behind what was written.

use super::loops::{Case, hold, hold_on_both, small, sum, table, wide};
use super::{numbers, with_lengths};
use kiln::{DType, Tensor, s};

const WIDTH: usize = 4;

fn before(n: usize) -> Tensor {
    let at = Tensor::arange(n);
    at.unsqueeze(0).le(at.unsqueeze(1))
}

fn dot(i: usize, j: usize) -> f64 {
    sum(WIDTH, |k| small(i * WIDTH + k) * small(j * WIDTH + k))
}

/// Products of rows that are seen, times the rows: whole numbers all the way.
const EXACT: &[Case<usize>] = &[
    (
        "a mask of products",
        |n| {
            let x = numbers(&[n, WIDTH]);
            let scores = before(n).where_(x.matmul(&x.t()), 0.0);
            scores.matmul(&x)
        },
        |n| table(n, WIDTH, |i, d| sum(i + 1, |j| dot(i, j) * small(j * WIDTH + d))),
    ),
    (
        "the largest that is seen",
        |n| {
            let x = numbers(&[n, WIDTH]).cast(DType::I32);
            before(n).where_(x.matmul(&x.t()), -1000).max(1)
        },
        |n| table(n, 1, |i, _| (0..=i).map(|j| dot(i, j)).fold(-1000.0, f64::max)),
    ),
    (
        "gradients",
        |n| {
            let x = numbers(&[n, WIDTH]).set_requires_grad(true);
            let fixed = numbers(&[n, WIDTH]);
            let loss = before(n).where_(x.matmul(&fixed.t()), 0.0).sum(..);
            loss.gradient([&x]).expect("reached").remove(0)
        },
        |n| table(n, WIDTH, |i, d| sum(i + 1, |j| small(j * WIDTH + d))),
    ),
];

#[test]
fn causal_products_around_the_ends_of_blocks() {
    hold_on_both(EXACT, &[15, 16, 17, 31, 32, 33, 18, 2, 1]);
    hold(EXACT, &[63, 64, 65, 127, 128, 129]);
}

/// Attention in f64, a row of `WIDTH` for each query.
fn attended(queries: usize, keys: usize) -> Vec<f64> {
    let shift = keys - queries;
    let row = |i: usize| -> Vec<f64> {
        let scores: Vec<f64> = (0..=i + shift).map(|j| dot(i, j) * 0.125).collect();
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores.iter().map(|x| (x - most).exp()).collect();
        let all: f64 = weights.iter().sum();
        let mean = |d| sum(weights.len(), |j| weights[j] * small(j * WIDTH + d)) / all;
        (0..WIDTH).map(mean).collect()
    };
    (0..queries).flat_map(row).collect()
}

/// Up to what sums over so many keys are off in f32.
fn close(found: &[f64], wanted: &[f64], keys: usize, what: &str) {
    let off = 1e-5 + 1e-8 * keys as f64;
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, (a, b)) in found.iter().zip(wanted).enumerate() {
        assert!((a - b).abs() <= off * b.abs().max(1.0), "{what}, element {at}: {a}, not {b}");
    }
}

/// Queries that come last of all keys.
fn attend(queries: usize, keys: usize) -> Tensor {
    let (q, k) = (numbers(&[queries, WIDTH]), numbers(&[keys, WIDTH]));
    let places = Tensor::arange(keys).unsqueeze(0);
    let seen = places.le(Tensor::arange(queries).unsqueeze(1) + (keys - queries) as i32);
    let scores = seen.where_(q.matmul(&k.t()) * 0.125, f32::NEG_INFINITY);
    scores.softmax(-1).matmul(&k)
}

#[test]
fn causal_attention_around_the_ends_of_blocks() {
    let short = [15, 16, 17, 31, 32, 33, 47, 48, 49].map(|n| (n, n));
    let long = [16383, 16384, 16385].map(|n| (2, n));
    for lengths in [&short[..], &long] {
        for mode in [1, 2] {
            for &(queries, keys) in lengths {
                let found = with_lengths(mode, || wide(&attend(queries, keys)));
                let what = format!("{queries} of {keys}, LENGTHS={mode}");
                close(&found, &attended(queries, keys), keys, &what);
            }
        }
    }
}

/// A cache of rows of which none is written yet.
fn nonsense(rows: usize) -> Tensor {
    let t = Tensor::full([rows, WIDTH], f32::NAN);
    t.realize().expect("computes");
    t
}

/// The numbers of the row at a position.
fn row(p: usize) -> Tensor {
    let numbers = (0..WIDTH).map(|d| small(p * WIDTH + d) as f32).collect::<Vec<_>>();
    Tensor::from_vec(numbers, [1, WIDTH])
}

/// What a step reads of a cache whose rows up to a position are written.
const READS: &[Case<usize>] = &[
    ("a part", |p| cache(p).get(s![..p + 1]).sum(0), |p| columns(p, |x| x)),
    (
        "a product with a part",
        |p| {
            let seen = cache(p).get(s![..p + 1]);
            Tensor::ones([3, WIDTH]).matmul(&seen.t()).matmul(&seen)
        },
        |p| {
            let column =
                |d| sum(p + 1, |j| sum(WIDTH, |k| small(j * WIDTH + k)) * small(j * WIDTH + d));
            table(3, WIDTH, |_, d| column(d))
        },
    ),
    (
        "a mask",
        |p| {
            let seen = Tensor::arange(40).le(p as i32).unsqueeze(1);
            Tensor::ones([1, 40]).matmul(&seen.where_(cache(p), 0.0)).flatten()
        },
        |p| columns(p, |x| x),
    ),
    (
        "the largest under a mask",
        |p| {
            let seen = Tensor::arange(40).le(p as i32).unsqueeze(1);
            seen.where_(cache(p), -9.0).max(0)
        },
        |p| table(WIDTH, 1, |d, _| (0..=p).map(|j| small(j * WIDTH + d)).fold(-9.0, f64::max)),
    ),
    (
        "from the end",
        |p| (cache(p).flip(0).get(s![39 - p..]) * 2.0).sum(0),
        |p| columns(p, |x| 2.0 * x),
    ),
    (
        "halves",
        |p| cache(p).cast(DType::F16).get(s![..p + 1;2]).sum(0),
        |p| table(WIDTH, 1, |d, _| sum(p / 2 + 1, |j| small(2 * j * WIDTH + d))),
    ),
];

fn cache(p: usize) -> Tensor {
    let cache = nonsense(40);
    let rows: Vec<Tensor> = (0..=p).map(row).collect();
    cache.set(s![..p + 1], Tensor::cat(&rows, 0).contiguous());
    cache
}

fn columns(p: usize, f: fn(f64) -> f64) -> Vec<f64> {
    table(WIDTH, 1, |d, _| sum(p + 1, |j| f(small(j * WIDTH + d))))
}

#[test]
fn what_is_behind_the_end_of_a_cache_is_never_read() {
    hold_on_both(READS, &[3, 4, 5, 6, 15, 16, 17, 30, 31, 39, 38, 7, 1, 0]);
}

#[test]
fn attention_reads_no_key_behind_the_last() {
    let sum_of = |mode: usize| {
        with_lengths(mode, || {
            let (keys, values) = (nonsense(40), nonsense(40));
            let step = |p: usize| {
                keys.set(s![p..p + 1], row(p));
                values.set(s![p..p + 1], row(p));
                let (k, v) = (keys.get(s![..p + 1]), values.get(s![..p + 1]));
                let scores = (numbers(&[1, WIDTH]).matmul(&k.t()) * 0.125).softmax(-1);
                wide(&scores.matmul(&v))
            };
            (0..40).map(step).collect::<Vec<_>>()
        })
    };
    for mode in [0, 1, 2] {
        for (p, found) in sum_of(mode).iter().enumerate() {
            close(found, &attended(1, p + 1), p + 1, &format!("token {p}, LENGTHS={mode}"));
        }
    }
}
