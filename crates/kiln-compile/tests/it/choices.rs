//! What the heuristic chooses for kernels in which choices exclude each other.

use crate::stages::{CHECKED, schedule};
use kiln_compile::optimize::Opt;
use kiln_compile::pipeline::{Settings, compile};
use kiln_compile::target::{Costs, Target};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::{DType, Op, UOp};

fn target() -> Target {
    Target {
        costs: Costs::CPU,
        vector_bytes: 32,
        vector_registers: 16,
        cache_bytes: [32 << 10, 512 << 10, 32 << 20],
        masks: true,
        threads: 2,
        ..Target::interp()
    }
}

fn range(axis: u32, kind: RangeKind, n: usize) -> UOp {
    UOp::range(axis, kind, n)
}

fn param(slot: usize, n: usize) -> UOp {
    UOp::param(slot, DType::F32, [n].as_slice())
}

fn sum(value: &UOp, ranges: &[UOp]) -> UOp {
    value.reduce_ranges(ReduceOp::Add, ranges.iter().cloned())
}

/// The sum of a row, and after it a chain of so many operations.
fn chain(operations: usize) -> UOp {
    let (i, j) = (range(0, RangeKind::Loop, 64), range(1, RangeKind::Reduce, 512));
    let x = UOp::load(&param(1, 64 * 512), &(&i * 512 + &j));
    let mut y = sum(&x, &[j]);
    for number in 0..operations {
        let index = &i * operations as i64 + number as i64;
        let x = UOp::load(&param(2, 64 * operations), &index);
        y = &y * &x + &x;
    }
    UOp::kernel([UOp::store(&param(0, 64), &i, &y, None).end([i])], "chain")
}

#[test]
fn a_kernel_that_is_long_as_it_is_keeps_its_vectors() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    let plain = Settings { optimize: false, ..settings };
    for operations in [10, 1000] {
        let [plain, done] =
            [plain, settings].map(|s| compile(&chain(operations), &target(), s).expect("compiles"));
        let is_vector = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, .. });
        assert!(done.applied.iter().any(is_vector), "{operations}: {:?}", done.applied);
        assert!(operations < 1000 || done.program.ops.len() < 2 * plain.program.ops.len());
    }
}

/// Adds the product of `[m, k]` and `[k, n]` to the rows of `[rows, n]` that data choose.
fn scattered([m, k, n]: [usize; 3], rows: usize) -> UOp {
    let param = |slot, shape: &[usize]| UOp::param(slot, DType::I32, shape);
    let all = &[m, k, n][..];
    let x = param(1, &[m, k]).reshape(&[m, k, 1][..]).expand(all);
    let w = param(2, &[k, n]).reshape(&[1, k, n][..]).expand(all);
    let product = (x * w).reduce(ReduceOp::Add, &[1][..]);
    let row = param(3, &[m]).reshape(&[m, 1][..]).expand(&[m, n][..]);
    let column = UOp::iota(n, DType::I32).reshape(&[1, n][..]).expand(&[m, n][..]);
    let at = row * n as i64 + column;
    param(0, &[rows * n]).update_with(Some(ReduceOp::Add), &product, &at)
}

#[test]
fn a_product_is_stored_before_data_scatter_it() {
    let kernels = |shape| schedule(&[scattered(shape, 100)]).kernels.len();
    assert_eq!(kernels([64, 128, 256]), 2);
    // a short sum is as fast in order
    assert_eq!(kernels([64, 4, 256]), 1);
}

/// Each element of a row times the sum of the row, where an element takes two divisions.
fn shares(rows: usize, n: usize) -> UOp {
    let x = UOp::param(0, DType::F32, [rows, n].as_slice());
    let value = UOp::binary(Op::Div, &UOp::binary(Op::Div, &x, &(&x + 2)), &(&x + 3));
    let sum = value.reduce(ReduceOp::Add, &[1][..]).reshape(&[rows, 1][..]);
    value * sum.expand(&[rows, n][..])
}

#[test]
fn what_an_unrolled_reduction_has_is_not_computed_again() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    let lanes = target().vector_bytes / 4;
    for vectors in 1..=5 {
        let kernel = schedule(&[shares(64, vectors * lanes)]).kernels[0].ast.clone();
        let done = compile(&kernel, &target(), settings).expect("compiles");
        let divisions = done.program.ops.iter().filter(|node| node.op() == Op::Div).count();
        assert_eq!(divisions, 2 * vectors, "{vectors}: {:?}", done.applied);
    }
}

/// Of `[2, rows, channels]` each element times the sum of 64 parts for its channel. It is written as it is read, or with
/// channels before rows.
fn scaled_by_parts(rows: usize, channels: usize, turned: bool) -> UOp {
    let (b, r, c) = (
        range(0, RangeKind::Loop, 2),
        range(1, RangeKind::Loop, rows),
        range(2, RangeKind::Loop, channels),
    );
    let part = range(3, RangeKind::Reduce, 64);
    let scale = sum(&UOp::load(&param(2, 64 * channels), &(&c * 64 + &part)), &[part]);
    let sizes = rows as i64 * channels as i64;
    let place = &b * sizes + &r * channels as i64 + &c;
    let value = UOp::load(&param(1, 2 * sizes as usize), &place) * scale;
    let to = if turned { &b * sizes + &c * rows as i64 + &r } else { place };
    let store = UOp::store(&param(0, 2 * sizes as usize), &to, &value, None);
    UOp::kernel([store.end([b, r, c])], "scaled")
}

fn chosen(kernel: &UOp) -> Vec<Opt> {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    compile(kernel, &target(), settings).expect("compiles").applied
}

#[test]
fn a_short_sum_inside_keeps_no_lanes_from_a_long_loop() {
    let options = chosen(&scaled_by_parts(512, 32, false));
    assert!(options.contains(&Opt::Split { kind: RangeKind::Vector, axis: 2, by: 8 }));
}

#[test]
fn threads_share_a_loop_that_everything_is_inside_of() {
    let options = chosen(&scaled_by_parts(512, 32, false));
    assert!(options.contains(&Opt::Split { kind: RangeKind::Thread, axis: 2, by: 1 }));
}

#[test]
fn a_transpose_beside_a_sum_goes_by_squares() {
    let options = chosen(&scaled_by_parts(512, 32, true));
    let upcast = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Upcast, axis: 2, .. });
    assert!(options.iter().any(upcast));
}
