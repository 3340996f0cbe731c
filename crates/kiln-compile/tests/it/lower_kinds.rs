//! How a range is executed never changes what a kernel means: small kernels with every choice of range kinds give
//! the numbers that plain loops give.

use crate::stages::lower;
use kiln_compile::target::Target;
use kiln_ir::arg::{RangeKind, ReduceOp, Space};
use kiln_ir::text::print_list;
use kiln_ir::{DType, Op, UOp};
use std::cell::Cell;

use RangeKind::{Loop, Reduce, Unroll, Upcast, Vector};

/// What a range over outputs can be, and what a range of a reduction can be.
const OUTPUT: [RangeKind; 3] = [Loop, Upcast, Vector];
const REDUCTION: [RangeKind; 3] = [Reduce, Unroll, Vector];

/// Every choice of one kind per axis.
fn choices(axes: &[&[RangeKind]]) -> Vec<Vec<RangeKind>> {
    axes.iter().fold(vec![vec![]], |partial, kinds| {
        let with =
            |p: &Vec<RangeKind>| kinds.iter().map(|&k| [p.as_slice(), &[k]].concat()).collect();
        partial.iter().flat_map(|p| -> Vec<Vec<RangeKind>> { with(p) }).collect()
    })
}

/// Kernels may have one vector range, unless their loops are separate.
fn one_vector(kinds: &[RangeKind]) -> bool {
    kinds.iter().filter(|&&k| k == Vector).count() <= 1
}

fn values(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 5 + 2) % 13) as f32 - 6.0).collect()
}

fn run(kernel: &UOp, lens: &[usize], fma: bool) -> Vec<f32> {
    let program = lower(kernel, &Target { fma, ..Target::interp() });
    super::lower::verify(&program);
    let bytes = |v: Vec<f32>| v.iter().flat_map(|v| v.to_le_bytes()).map(Cell::new).collect();
    let buffers: Vec<Vec<Cell<u8>>> = lens.iter().map(|&n| bytes(values(n))).collect();
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    kiln_runtime::interp::run(&program, &views, &[])
        .unwrap_or_else(|e| panic!("{e}\n{}", print_list(&program.ops)));
    let out: Vec<u8> = buffers[0].iter().map(Cell::get).collect();
    out.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Arguments have the lengths `lens`, the output first.
fn check(lens: &[usize], choices: Vec<Vec<RangeKind>>, kernel: impl Fn(&[RangeKind]) -> UOp) {
    let expected = run(&kernel(&choices[0]), lens, false);
    assert_ne!(expected, values(lens[0]), "the kernel writes something");
    for kinds in &choices[1..] {
        for fma in [false, true] {
            assert_eq!(run(&kernel(kinds), lens, fma), expected, "{kinds:?}, fma {fma}");
        }
    }
}

fn data(slot: usize, len: usize) -> UOp {
    UOp::param(slot, DType::F32, [len].as_slice())
}

fn float(value: f32) -> UOp {
    UOp::constant(value, DType::F32)
}

#[test]
fn matmul() {
    let mut all = choices(&[&OUTPUT, &OUTPUT, &REDUCTION]);
    all.retain(|k| one_vector(k));
    check(&[15, 12, 20], all, |kinds| {
        let (i, j) = (UOp::range(0, kinds[0], 3), UOp::range(1, kinds[1], 5));
        let k = UOp::range(2, kinds[2], 4);
        let a = UOp::load(&data(1, 12), &(&(&i * 4) + &k));
        let b = UOp::load(&data(2, 20), &(&(&k * 5) + &j));
        let sum = (&a * &b).reduce_ranges(ReduceOp::Add, [k]);
        let store = UOp::store(&data(0, 15), &(&(&i * 5) + &j), &sum, None);
        UOp::kernel([store.end([i, j])], "matmul")
    });
}

#[test]
fn a_sum_over_split_ranges() {
    let mut all = choices(&[&REDUCTION, &REDUCTION, &REDUCTION]);
    all.retain(|k| one_vector(k));
    check(&[2, 24], all, |kinds| {
        let r = [2, 3, 4].iter().zip(kinds).zip(0..).map(|((&n, &k), axis)| UOp::range(axis, k, n));
        let r: Vec<UOp> = r.collect();
        let index = &(&(&r[0] * 12) + &(&r[1] * 4)) + &r[2];
        let x = UOp::load(&data(1, 24), &index);
        let sum = x.reduce_ranges(ReduceOp::Add, r.clone());
        let max = (&x * &x).reduce_ranges(ReduceOp::Max, r);
        let stores =
            [(0, sum), (1, max)].map(|(i, v)| UOp::store(&data(0, 2), &UOp::index(i), &v, None));
        UOp::kernel(stores, "sum")
    });
}

#[test]
fn a_padded_convolution() {
    let mut all = choices(&[&OUTPUT, &OUTPUT, &REDUCTION]);
    all.retain(|k| one_vector(k));
    check(&[8, 8, 3], all, |kinds| {
        let (o, i) = (UOp::range(0, kinds[0], 2), UOp::range(1, kinds[1], 4));
        let k = UOp::range(2, kinds[2], 3);
        let at = &(&o * 4) + &i;
        let from = &(&at + &k) + -1;
        let inside = UOp::index(-1).lt(&from).and(&from.lt(&UOp::index(8)));
        let x = UOp::load_lanes(&data(1, 8), &from, Some(&inside), 1);
        let x = inside.where_(&x, &float(0.0));
        let w = UOp::load(&data(2, 3), &k);
        let sum = (&x * &w).reduce_ranges(ReduceOp::Add, [k]);
        UOp::kernel([UOp::store(&data(0, 8), &at, &sum, None).end([o, i])], "conv")
    });
}

#[test]
fn staged_rows() {
    let all = choices(&[&[Loop], &REDUCTION, &OUTPUT, &REDUCTION, &OUTPUT]);
    check(&[12, 12], all, |kinds| {
        let sizes = [3, 4, 4, 4, 4];
        let r: Vec<UOp> = (0..5).map(|a| UOp::range(a as u32, kinds[a], sizes[a])).collect();
        let at = |axis: usize| &(&r[0] * 4) + &r[axis];
        let load = |axis: usize| UOp::load(&data(1, 12), &at(axis));
        let max = load(1).reduce_ranges(ReduceOp::Max, [r[1].clone()]);
        let stage = UOp::local(Space::Scratch, 0, 4, DType::F32, 1);
        let filled = UOp::store(&stage, &r[2], &(&load(2) - &max), None).end([r[2].clone()]);
        let staged = stage.after([filled]);
        let sum = UOp::load(&staged, &r[3]).reduce_ranges(ReduceOp::Add, [r[3].clone()]);
        let out = &UOp::load(&staged, &r[4]) - &sum;
        let store = UOp::store(&data(0, 12), &at(4), &out, None);
        UOp::kernel([store.end([r[0].clone(), r[4].clone()])], "staged")
    });
}

#[test]
fn registers_indexed_by_expanded_ranges() {
    let all = choices(&[&[Loop], &[Upcast, Vector], &[Upcast, Vector]]);
    check(&[8, 8], all, |kinds| {
        let r: Vec<UOp> =
            [2, 4, 4].iter().zip(0..).map(|(&n, a)| UOp::range(a, kinds[a as usize], n)).collect();
        let keep = UOp::local(Space::Register, 0, 4, DType::F32, 1);
        let x = UOp::load(&data(1, 8), &(&(&r[0] * 4) + &r[1]));
        let put = UOp::store(&keep, &r[1], &(&x + &x), None).end([r[1].clone()]);
        let back = UOp::load(&keep.after([put]), &(&(&r[2] * -1) + 3));
        let store = UOp::store(&data(0, 8), &(&(&r[0] * 4) + &r[2]), &back, None);
        UOp::kernel([store.end([r[0].clone(), r[2].clone()])], "registers")
    });
}

#[test]
fn wrapped_and_masked_indices() {
    let mut all = choices(&[&OUTPUT, &OUTPUT]);
    all.retain(|k| one_vector(k));
    check(&[12, 7], all, |kinds| {
        let (o, i) = (UOp::range(0, kinds[0], 3), UOp::range(1, kinds[1], 4));
        let at = &(&o * 4) + &i;
        let wrapped = UOp::load(&data(1, 7), &(&at * 5).floormod(&UOp::index(7)));
        let slow = UOp::load(&data(1, 7), &at.floordiv(&UOp::index(2)));
        let thirds = UOp::load(&data(1, 7), &(&(&o * 3) + &i).floordiv(&UOp::index(3)));
        let number = at.cast(DType::I32).cast(DType::F32);
        let value = at.lt(&UOp::index(8)).where_(&(&wrapped + &number), &slow);
        let value = UOp::index(2).lt(&at).where_(&value, &(&thirds * 2));
        let value = UOp::index(4).lt(&at).where_(&value, &(&thirds + 9));
        let value = UOp::index(3).lt(&at).where_(&value, &(&thirds + 1));
        let cut = at.lt(&UOp::index(11));
        UOp::kernel([UOp::store(&data(0, 12), &at, &value, Some(&cut)).end([o, i])], "wrapped")
    });
}

#[test]
fn many_values_and_one_sum() {
    let mut all = choices(&[&OUTPUT, &REDUCTION]);
    all.retain(|k| one_vector(k));
    check(&[4, 12], all, |kinds| {
        let (i, k) = (UOp::range(0, kinds[0], 4), UOp::range(1, kinds[1], 3));
        let x = UOp::load(&data(1, 12), &(&(&i * 3) + &k));
        let total = x.reduce_ranges(ReduceOp::Add, [k.clone()]);
        // the product has two users, so it does not contract
        let square = UOp::binary(Op::Mul, &x, &x);
        let squares = square.reduce_ranges(ReduceOp::Add, [k.clone()]);
        let largest = square.reduce_ranges(ReduceOp::Max, [k]);
        let value = &(&total + &squares) + &largest;
        UOp::kernel([UOp::store(&data(0, 4), &i, &value, None).end([i])], "many")
    });
}

#[test]
fn functions_and_types_in_lanes() {
    let mut all = choices(&[&OUTPUT, &OUTPUT]);
    all.retain(|k| one_vector(k));
    check(&[16, 16], all, |kinds| {
        let (o, i) = (UOp::range(0, kinds[0], 4), UOp::range(1, kinds[1], 4));
        let at = &(&o * 4) + &i;
        let x = UOp::load(&data(1, 16), &at);
        let half = UOp::unary(Op::Tanh, &x.cast(DType::F16));
        let brain = &x.cast(DType::BF16) * &x.cast(DType::BF16);
        let grown = UOp::unary(Op::Exp, &(&x * &float(0.5)));
        let int = x.cast(DType::I8);
        let divided = int.floordiv(&UOp::constant(3, DType::I8)).cast(DType::I64);
        let by_itself = int.floormod(&(&int + 1)).cast(DType::U16);
        let shifted = UOp::binary(Op::Shl, &x.cast(DType::U32), &at.cast(DType::U32));
        let terms = [
            half.cast(DType::F32),
            brain.cast(DType::F32),
            grown,
            divided.cast(DType::F32),
            by_itself.cast(DType::F32),
            shifted.cast(DType::F32),
            x.lt(&float(1.0)).cast(DType::F32),
        ];
        let sum = terms.into_iter().reduce(|a, b| &a + &b).unwrap();
        UOp::kernel([UOp::store(&data(0, 16), &at, &sum, None).end([o, i])], "functions")
    });
}

#[test]
fn sums_of_what_does_not_vary() {
    let mut all = choices(&[&OUTPUT, &REDUCTION, &REDUCTION, &REDUCTION]);
    all.retain(|k| one_vector(k));
    check(&[4, 8, 4], all, |kinds| {
        let r =
            [4, 3, 2, 5].iter().zip(kinds).zip(0..).map(|((&n, &k), axis)| UOp::range(axis, k, n));
        let r: Vec<UOp> = r.collect();
        let x = UOp::load(&data(1, 8), &(&(&r[0] * 2) + &r[2]));
        let some = x.reduce_ranges(ReduceOp::Add, [r[1].clone(), r[2].clone()]);
        let none = UOp::load(&data(2, 4), &r[0]).reduce_ranges(ReduceOp::Add, [r[3].clone()]);
        UOp::kernel(
            [UOp::store(&data(0, 4), &r[0], &(&some - &none), None).end([r[0].clone()])],
            "same",
        )
    });
}
