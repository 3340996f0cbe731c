//! Lengths that vary change speed, never meaning: programs at many lengths against the same programs with each length
//! compiled for itself. Numbers are small integers held as floats, so that every order of a sum gives the same bits.

mod causal;
mod equal;
mod history;
mod hot;
mod images;
mod loops;
mod many;
mod profitable;
mod random;
mod regions;
mod tokens;
mod variables;
mod windows;

use crate::fuzz::{Rng, seeds};
use kiln::{Device, Tensor, measure, s};

/// A program over lengths.
type Program = fn(usize, usize) -> Tensor;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("computes")
}

/// Small integers, in memory.
fn numbers(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7 + 3) % 13) as f32 - 6.0).collect::<Vec<_>>();
    Tensor::from_vec(values, shape)
}

fn causal(n: usize) -> Tensor {
    let at = Tensor::arange(n);
    at.reshape([n, 1]).lt(at.reshape([1, n]))
}

/// Programs whose kernels depend on lengths in ways of their own.
const PROGRAMS: &[(&str, Program)] = &[
    ("rows", |n, _| numbers(&[n, 8]).sum(1)),
    ("columns", |n, m| numbers(&[n, m]).sum(0) * 2.0),
    ("all", |n, m| numbers(&[n, m]).sum(..)),
    ("largest", |n, m| numbers(&[n, m]).max(1) + numbers(&[n, m]).max(0).max(0)),
    ("product", |n, m| numbers(&[n, 16]).matmul(&numbers(&[16, m]))),
    ("deep product", |n, m| numbers(&[m, n]).matmul(&numbers(&[n, m]))),
    ("batched product", |n, m| numbers(&[3, n, m]).matmul(&numbers(&[3, m, n]))),
    ("heads put together", |n, m| {
        let heads = numbers(&[3, n, 32]).transpose(0, 1).reshape([n, 96]);
        heads.matmul(&numbers(&[96, m]))
    }),
    ("outer", |n, m| numbers(&[n, 1]) + numbers(&[1, m])),
    ("turned", |n, m| numbers(&[n, m, 4]).permute([1, 0, 2]).contiguous() * 2.0),
    ("joined", |n, m| Tensor::cat([&numbers(&[n, 4]), &numbers(&[m, 4])], 0)),
    ("padded", |n, m| numbers(&[n, m]).pad([(1, 2), (n % 3, 0)]).sum(1)),
    ("cumulated", |n, m| numbers(&[n, m]).cumsum(1)),
    ("running sums below the whole", |n, m| {
        let x = numbers(&[n, m]).abs().cast(kiln::DType::F64);
        x.cumsum(1).lt(x.sum_keepdim(1)).cast(kiln::DType::F32)
    }),
    ("a causal sum", |n, _| causal(n).where_(0.0, numbers(&[n, n])).sum(1)),
    ("positions", |n, m| numbers(&[n, m]).argmax(1).cast(kiln::DType::F32)),
    ("picked", |n, m| {
        let at = Tensor::arange(m) * 5 % (n as i32);
        numbers(&[n, 4]).get(s![&at])
    }),
    ("written", |n, m| {
        let t = Tensor::zeros([n + m, 4]);
        t.set(s![n..n + m], numbers(&[m, 4]));
        t.get(s![m / 2..]).sum(0) + t.get(s![..n, 1..3]).sum(..)
    }),
    ("strided", |n, m| numbers(&[n, 2 * m]).get(s![..;2, 1..;2]).flip(0) * 3.0),
    ("windows", |n, m| {
        let kernel = numbers(&[4, 2, 3, 3]);
        numbers(&[1, 2, n + 2, m + 2]).conv2d(&kernel, None, 1, 1, 1, 1)
    }),
    ("sorted", |n, m| numbers(&[m, n]).sort(-1, false).0),
    ("in order of writing", |n, m| {
        let at = Tensor::arange(n) % 3;
        let t = Tensor::zeros([m + 3]);
        t.set(s![&at], Tensor::arange(n).cast(kiln::DType::F32));
        t * 2.0
    }),
    ("gradients", |n, m| {
        let x = numbers(&[n, m]).set_requires_grad(true);
        let loss = (x.matmul(&numbers(&[m, 3])) * numbers(&[n, 3])).sum(..);
        loss.gradient([&x]).expect("reached").remove(0)
    }),
];

/// Lengths around vectors, blocks and bounds.
const LENGTHS: [usize; 11] = [7, 8, 5, 16, 2, 17, 3, 33, 1, 100, 6];

fn with_lengths<R>(mode: usize, run: impl FnOnce() -> R) -> R {
    kiln::with([("LENGTHS", mode)], run).expect("settings")
}

/// The program at its lengths, one after the other.
fn results(program: Program, lengths: &[(usize, usize)], mode: usize) -> Vec<Vec<f32>> {
    let run = || lengths.iter().map(|&(n, m)| floats(&program(n, m))).collect();
    with_lengths(mode, run)
}

fn agree(programs: &[(&str, Program)], lengths: &[(usize, usize)]) {
    for (name, program) in programs {
        let fixed = results(*program, lengths, 0);
        for mode in [1, 2] {
            for (at, (found, wanted)) in
                results(*program, lengths, mode).iter().zip(&fixed).enumerate()
            {
                assert_eq!(found, wanted, "{name} at {:?}, LENGTHS={mode}", lengths[at]);
            }
        }
    }
}

#[test]
fn programs_mean_the_same_at_every_length() {
    for seed in seeds(1) {
        let rng = &mut Rng(seed);
        let lengths: Vec<_> = LENGTHS.iter().map(|&n| (n, rng.pick(&LENGTHS))).collect();
        agree(PROGRAMS, &lengths);
    }
}

#[test]
fn programs_mean_the_same_on_the_interpreter() {
    let lengths = [(7, 3), (8, 3), (9, 5), (2, 6), (6, 6), (12, 9)];
    kiln::with([("DEV", "INTERP")], || agree(PROGRAMS, &lengths)).expect("settings");
}

/// One length after the other, as when text is decoded.
#[test]
fn lengths_that_grow_stop_scheduling_and_compiling() {
    for (name, program) in PROGRAMS.iter().filter(|(name, _)| *name != "sorted") {
        let (mut compiled, mut scheduled) = (Vec::new(), Vec::new());
        with_lengths(1, || {
            for n in 20..36 {
                // no other test has a graph of these operations
                let only_here = || (program(n, 6) * 3.0 - 1.0).abs().exp2();
                let (_, counts) = measure(|| floats(&only_here()));
                compiled.push(counts.compiled + counts.loaded);
                scheduled.push(counts.scheduled);
            }
        });
        // in steps of 3: `padded`
        let late = |counts: &[u64]| counts[10..].iter().sum::<u64>();
        assert_eq!(late(&compiled), 0, "{name}: {compiled:?}");
        assert_eq!(late(&scheduled), 0, "{name} is scheduled: {scheduled:?}");
    }
}

/// Attention over a cache, as a person would write it.
fn attend(keys: &Tensor, values: &Tensor, p: usize) -> Tensor {
    let new = numbers(&[2, 1, 8]) + p as f32;
    keys.set(s![.., p..p + 1], &new);
    values.set(s![.., p..p + 1], &new * 2.0);
    let (k, v) = (keys.get(s![.., ..p + 1]), values.get(s![.., ..p + 1]));
    let scores = (new.matmul(&k.transpose(-1, -2)) * 0.01).softmax(-1);
    scores.matmul(&v)
}

#[test]
fn decoding_compiles_nothing_after_a_few_tokens() {
    let caches = || (Tensor::zeros([2, 64, 8]), Tensor::zeros([2, 64, 8]));
    let fixed: Vec<Vec<f32>> = with_lengths(0, || {
        let (k, v) = caches();
        (0..40).map(|p| floats(&attend(&k, &v, p))).collect()
    });
    let (k, v) = caches();
    let mut compiled = Vec::new();
    with_lengths(1, || {
        for (p, wanted) in fixed.iter().enumerate() {
            let (found, counts) = measure(|| floats(&attend(&k, &v, p)));
            compiled.push(counts.compiled + counts.loaded);
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
            assert!(found.iter().zip(wanted).all(close), "token {p}: {found:?} {wanted:?}");
        }
    });
    // where prices change, the plan does: see the schedule's decisions
    let late: u64 = compiled[24..].iter().sum();
    assert_eq!(late, 0, "{compiled:?}");
}

/// A general kernel has loops that run no iteration at the lengths that it was made for.
#[test]
fn what_would_be_read_outside_is_in_a_loop_that_does_not_run() {
    let joined = |n: usize| {
        let parts = [(n, 7u8), (4, 1)].map(|(n, x)| Tensor::from_vec(vec![x; n], [n]));
        Tensor::cat(&parts, 0).to_vec::<u8>().expect("computes")
    };
    with_lengths(2, || {
        for n in [12, 13, 40] {
            assert_eq!(joined(n), [vec![7; n], vec![1; 4]].concat(), "{n}");
        }
    });
}

/// What a launch does is counted for its own lengths.
#[test]
fn counts_are_of_the_lengths_that_run() {
    let counts = |n: usize| {
        let x = numbers(&[n, 8]);
        x.realize().expect("computes");
        measure(|| floats(&(x.sum(1) * 3.0))).1
    };
    with_lengths(2, || {
        for n in [11, 12, 13, 14] {
            let found = counts(n);
            assert_eq!((found.kernels, found.bytes), (1, (n * 9 * 4) as u64), "{n}");
            assert_eq!(found.flops, (n * 9) as u64, "{n}");
        }
    });
    let _ = Device::default();
}
