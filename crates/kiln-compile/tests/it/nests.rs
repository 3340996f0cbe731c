//! Kernels in a row become one, with rows of values in scratch; its options leave what it computes as it is.

use crate::options::{run, small_target};
use crate::stages::{lower, optimize, schedule};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::schedule::{BufferRef, Schedule};
use kiln_compile::target::Target;
use kiln_ir::arg::{Axes, RangeKind, ReduceOp, Shape, Space};
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp};
use std::slice::from_ref;

/// `[heads, m, k] x [heads, k, n]`.
fn product(a: &UOp, b: &UOp) -> UOp {
    let (heads, m, k, n) = (a.shape()[0], a.shape()[1], a.shape()[2], b.shape()[2]);
    let all: Shape = [heads, m, n, k].as_slice().into();
    let a = a.reshape(&[heads, m, 1, k][..]).expand(all.clone());
    let b = b.permute(&[0, 2, 1][..]).reshape(&[heads, 1, n, k][..]).expand(all);
    (a * b).reduce(ReduceOp::Add, Axes::from_slice(&[3]))
}

/// What attention does, in integers: scores, their distance from the largest of each row, and a mean of values.
fn attention(heads: usize, queries: usize, keys: usize, width: usize) -> UOp {
    scores_and_attention(heads, queries, keys, width)[1].clone()
}

fn scores_and_attention(heads: usize, queries: usize, keys: usize, width: usize) -> [UOp; 2] {
    let param = |slot, shape: [usize; 3]| UOp::param(slot, DType::I32, shape.as_slice());
    let query = param(0, [heads, queries, width]);
    let (key, value) = (param(1, [heads, keys, width]), param(2, [heads, keys, width]));
    let scores = product(&query, &key.permute(&[0, 2, 1][..]));
    let most = scores.reduce(ReduceOp::Max, Axes::from_slice(&[2]));
    let most = most.reshape(&[heads, queries, 1][..]).expand(scores.shape().clone());
    let distance = &scores - &most;
    let out = product(&(&distance * &distance), &value);
    [scores, out]
}

/// The same of keys up to a query's place: others are nothing to the largest, to a sum of each row, and to the mean.
fn causal_attention(heads: usize, queries: usize, keys: usize, width: usize) -> UOp {
    let param = |slot, shape: [usize; 3]| UOp::param(slot, DType::I32, shape.as_slice());
    let query = param(0, [heads, queries, width]);
    let (key, value) = (param(1, [heads, keys, width]), param(2, [heads, keys, width]));
    let scores = product(&query, &key.permute(&[0, 2, 1][..]));
    let all = scores.shape().clone();
    let along = |shape: [usize; 3], n| {
        UOp::iota(n, DType::I32).reshape(shape.as_slice()).expand(all.clone())
    };
    let hidden = along([1, queries, 1], queries).lt(&along([1, 1, keys], keys));
    let seen = |x: &UOp| hidden.not().where_(x, &UOp::constant(Const::Int(0), DType::I32));
    let of_row = |x: &UOp, op| {
        let of_row = x.reduce(op, Axes::from_slice(&[2]));
        of_row.reshape(&[heads, queries, 1][..]).expand(all.clone())
    };
    let distance = &scores - &of_row(&seen(&scores), ReduceOp::Max);
    let squares = seen(&(0..12).fold(distance, |x, i| &x * &x + i));
    product(&(&squares + &of_row(&squares, ReduceOp::Add)), &value)
}

/// Lengths of a kernel's scratch memories.
fn scratch(kernel: &UOp) -> Vec<usize> {
    let locals = toposort(kernel).into_iter().filter(|n| n.op() == Op::Local);
    let memories: Vec<_> = locals.filter_map(|n| n.arg().memory()).collect();
    memories.iter().filter(|m| m.0 == Space::Scratch).map(|m| m.2).collect()
}

fn one_kernel(root: &UOp) -> UOp {
    let Schedule { kernels, temps, .. } = schedule(from_ref(root));
    assert_eq!((kernels.len(), temps.len()), (1, 0));
    kernels[0].ast.clone()
}

#[test]
fn scores_of_attention_stay_in_scratch() {
    let kernel = one_kernel(&attention(3, 64, 160, 8));
    let rows = scratch(&kernel);
    assert!(!rows.is_empty() && rows.iter().all(|&n| n == 160), "{rows:?}");
}

#[test]
fn what_others_read_goes_to_memory() {
    let schedule = schedule(&scores_and_attention(3, 64, 160, 8));
    assert!(schedule.kernels.len() > 1);
    assert!(schedule.kernels.iter().any(|k| k.args[0] == BufferRef::Output(0)));
}

#[test]
fn rows_in_blocks_change_nothing() {
    for (heads, queries) in [(1, 52), (3, 31)] {
        let kernel = one_kernel(&attention(heads, queries, 350, 3));
        let plain = run(&apply(&kernel, &[]).expect("legal").ast, &Target::interp());
        for by in [1, 4, 7, 31, 52] {
            for blocks in [0, 1, 2] {
                let optimized = apply(&kernel, &[Opt::Rows { by, blocks }]).expect("legal");
                assert!(run(&optimized.ast, &Target::interp()) == plain, "{by} {blocks}");
            }
        }
    }
}

#[test]
fn what_the_heuristic_chooses_for_nests_changes_nothing() {
    let shapes = [(1, 53, 330), (3, 32, 190), (2, 31, 255)];
    let kernels = shapes.into_iter().flat_map(|(heads, queries, keys)| {
        [attention, causal_attention].map(|f| one_kernel(&f(heads, queries, keys, 5)))
    });
    for kernel in kernels {
        let plain = run(&apply(&kernel, &[]).expect("legal").ast, &Target::interp());
        let caches = [[64, 512, 2048], [4096, 16384, 65536], [32 << 10, 1 << 20, 1 << 25]];
        for (cache_bytes, (bytes, masks)) in
            caches.into_iter().zip([(64, true), (32, true), (16, false)])
        {
            let target = Target { cache_bytes, ..small_target(bytes, masks) };
            let optimized = optimize(&kernel, &target, true);
            assert!(run(&optimized.ast, &target) == plain, "{:?}", optimized.applied);
        }
    }
}

#[test]
fn scratch_grows_with_the_sequence_only() {
    let target = Target { cache_bytes: [32 << 10, 1 << 20, 32 << 20], ..small_target(64, true) };
    for n in [512, 2048, 8192] {
        let kernel = one_kernel(&attention(2, n, n, 8));
        let bytes = lower(&optimize(&kernel, &target, true).ast, &target).scratch_bytes;
        // half of the second cache for rows, and copies of keys, values and a row
        assert!(bytes < (1 << 19) + 4 * n * (8 + 8 + 2), "{n}: {bytes}");
    }
}

#[test]
fn rows_end_where_a_condition_says() {
    let kernel = one_kernel(&causal_attention(2, 64, 160, 8));
    let nodes = toposort(&apply(&kernel, &[]).expect("legal").ast);
    let bounded = |n: &&UOp| n.op() == Op::Range && n.src(0).as_int().is_none();
    let kinds: Vec<_> = nodes.iter().filter(bounded).map(|n| n.arg().range()).collect();
    // what is computed of a row, and what is filled
    assert!(kinds.len() == 2 && kinds.iter().all(|k| k.is_some_and(|k| k.1 == RangeKind::Loop)));
}
