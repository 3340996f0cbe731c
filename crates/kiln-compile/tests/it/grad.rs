//! Gradients against finite differences, in f64.

use kiln_compile::grad::gradient;
use kiln_ir::arg::{Arg, PadAxis, ReduceOp, SliceAxis};
use kiln_ir::reference::evaluate;
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp};
use smallvec::smallvec;

/// The variable: 2 by 3 numbers.
fn x() -> UOp {
    UOp::param(0, DType::F64, [2, 3].as_slice())
}

const POSITIVE: [f64; 6] = [0.3, 1.7, 0.9, 2.2, 0.6, 1.1];
const MIXED: [f64; 6] = [0.3, -1.7, 0.9, -0.2, 2.6, 1.1];

fn numbers(root: &UOp, inputs: &[f64]) -> Vec<f64> {
    let values = evaluate(root, &|_| inputs.iter().map(|&v| Const::Float(v)).collect());
    values.into_iter().map(Const::as_f64).collect()
}

/// A sum with different weights, so that gradients that swap elements are seen.
fn weighted(y: &UOp) -> UOp {
    let n = y.numel();
    let weights = UOp::iota(n, DType::F64) * UOp::constant(0.37, DType::F64);
    let flat = y.reshape([n].as_slice()).cast(DType::F64);
    (flat * (weights + UOp::constant(0.5, DType::F64))).reduce(ReduceOp::Add, [0].as_slice())
}

fn one() -> UOp {
    UOp::constant(1.0, DType::F64)
}

fn gradient_of(loss: &UOp) -> UOp {
    gradient(loss, &one(), &[x()]).remove(0).expect("a gradient")
}

fn finite_differences(loss: &UOp, at: &[f64]) -> Vec<f64> {
    let step = 1e-5;
    let moved = |i: usize, by: f64| {
        let mut inputs = at.to_vec();
        inputs[i] += by;
        numbers(loss, &inputs)[0]
    };
    (0..at.len()).map(|i| (moved(i, step) - moved(i, -step)) / (2.0 * step)).collect()
}

#[track_caller]
fn assert_close(got: &[f64], wanted: &[f64]) {
    assert_eq!(got.len(), wanted.len());
    let close = |(g, w): (&f64, &f64)| (g - w).abs() <= 1e-5 * (1.0 + w.abs());
    assert!(got.iter().zip(wanted).all(close), "{got:?} is not {wanted:?}");
}

/// The first and the second derivatives agree with differences.
#[track_caller]
fn check(y: &UOp, at: &[f64]) {
    let loss = weighted(y);
    let grad = gradient_of(&loss);
    assert_eq!((grad.shape(), grad.dtype()), (x().shape(), x().dtype()));
    assert_close(&numbers(&grad, at), &finite_differences(&loss, at));
    let slope = weighted(&grad);
    match gradient(&slope, &one(), &[x()]).remove(0) {
        Some(second) => assert_close(&numbers(&second, at), &finite_differences(&slope, at)),
        None => assert_close(&finite_differences(&slope, at), &[0.0; 6]),
    }
}

#[test]
fn of_unary_ops() {
    let ops = [
        Op::Neg,
        Op::Sqrt,
        Op::Exp,
        Op::Exp2,
        Op::Log,
        Op::Log2,
        Op::Sin,
        Op::Cos,
        Op::Tanh,
        Op::Expm1,
        Op::Log1p,
        Op::Sigmoid,
    ];
    for op in ops {
        check(&UOp::unary(op, &x()), &POSITIVE);
    }
}

#[test]
fn of_binary_and_ternary_ops() {
    let b = &UOp::unary(Op::Sin, &(x() + UOp::constant(0.4, DType::F64)));
    for op in [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min] {
        check(&UOp::binary(op, &x(), b), &MIXED);
        check(&UOp::binary(op, b, &x()), &POSITIVE);
    }
    let base = &(x() * x() + UOp::constant(0.5, DType::F64));
    check(&UOp::binary(Op::Pow, base, &x()), &MIXED);
    check(&UOp::binary(Op::Pow, base, &x().const_like(2.5)), &MIXED);
    check(&UOp::binary(Op::FloorMod, &x(), &UOp::constant(0.7, DType::F64)), &POSITIVE);
    check(&UOp::ternary(Op::MulAdd, &x(), b, &(&x() * x())), &MIXED);
    check(&x().lt(b).where_(&(x() * x()), b), &MIXED);
}

#[test]
fn of_what_rank_0_meets() {
    let total = x().reduce(ReduceOp::Add, [0, 1].as_slice());
    check(&(x() * total), &MIXED);
}

#[test]
fn of_equal_operands_is_shared() {
    let zero = x().const_like(0.3);
    for op in [Op::Max, Op::Min] {
        let loss = UOp::binary(op, &x(), &zero).reduce(ReduceOp::Add, [0, 1].as_slice());
        assert_eq!(numbers(&gradient_of(&loss), &MIXED)[0], 0.5);
    }
}

#[test]
fn of_movements() {
    let pad = |before, between, after| PadAxis { before, between, after };
    let slice = |start, step, len| SliceAxis { start, step, len };
    let y = &(x() * x());
    check(&y.reshape([3, 2].as_slice()), &MIXED);
    check(&y.permute([1, 0].as_slice()), &MIXED);
    let rows = y.reduce(ReduceOp::Add, [1].as_slice());
    let column = rows.reshape([2, 1].as_slice());
    check(&column.expand([2, 4].as_slice()), &MIXED);
    check(&y.pad(&[pad(1, 0, 2), pad(0, 2, 1)]), &MIXED);
    for columns in
        [slice(0, 2, 2), slice(1, 1, 2), slice(2, -2, 2), slice(2, -1, 3), slice(1, -1, 1)]
    {
        check(&y.slice(&[slice(1, 1, 1), columns]), &MIXED);
        check(&y.slice(&[slice(1, -1, 2), columns]), &MIXED);
    }
}

#[test]
fn of_empty_slices_is_zero() {
    let none = SliceAxis { start: 0, step: 1, len: 0 };
    let loss = x().slice(&[none, SliceAxis::full(3)]).reduce(ReduceOp::Add, [0, 1].as_slice());
    assert_eq!(numbers(&gradient_of(&loss), &MIXED), [0.0; 6]);
}

#[test]
fn of_reductions() {
    for op in ReduceOp::ALL {
        for axes in [&[0][..], &[1], &[0, 1]] {
            check(&UOp::unary(Op::Sin, &x()).reduce(op, axes), &MIXED);
        }
    }
}

#[test]
fn of_products_with_zeros() {
    let loss = weighted(&x().reduce(ReduceOp::Mul, [1].as_slice()));
    let grad = gradient_of(&loss);
    for at in [[0.0, 2.0, 3.0, 1.0, 0.0, 0.0], [0.0; 6]] {
        assert_close(&numbers(&grad, &at), &finite_differences(&loss, &at));
    }
}

#[test]
fn of_extremes_is_shared_by_ties() {
    let at = [1.0, 2.0, 2.0, 5.0, 5.0, 5.0];
    let loss = x().reduce(ReduceOp::Max, [1].as_slice()).reduce(ReduceOp::Add, [0].as_slice());
    let third = 1.0 / 3.0;
    assert_eq!(numbers(&gradient_of(&loss), &at), [0.0, 0.5, 0.5, third, third, third]);
}

#[test]
fn of_notes_and_copies() {
    let y = &(x() * x());
    check(&y.contiguous(), &MIXED);
    check(&y.mark(7, false), &MIXED);
    check(&y.after([x()]), &MIXED);
    check(
        &UOp::new(Op::Copy, DType::F64, 1, smallvec![y.clone()], Arg::Device("b".into())),
        &MIXED,
    );
    let factor = UOp::unary(Op::Sin, &x());
    let grad = gradient_of(&weighted(&(factor.detach() * x())));
    let value = weighted(&(&factor * x()));
    let held = gradient(&value, &one(), &[x()]).remove(0).expect("a gradient");
    assert_ne!(numbers(&grad, &MIXED), numbers(&held, &MIXED));
    assert_eq!(gradient(&weighted(&x().detach()), &one(), &[x()]), [None]);
    assert_eq!(numbers(&gradient_of(&weighted(&UOp::unary(Op::Trunc, &x()))), &MIXED), [0.0; 6]);
    let compared = x().lt(&x().const_like(0)).cast(DType::F64);
    assert_eq!(gradient(&weighted(&(compared * factor.detach())), &one(), &[x()]), [None]);
}

#[test]
fn copies_go_back() {
    let leaf = UOp::buffer(0, DType::F64, smallvec![2], "a".into());
    let moved = UOp::new(Op::Copy, DType::F64, 1, smallvec![leaf.clone()], Arg::Device("b".into()));
    let grad = gradient(&moved, &one(), &[leaf]).remove(0).expect("a gradient");
    assert_eq!(grad.arg(), &Arg::Device("a".into()));
}

#[test]
fn of_updates_goes_inside_and_outside() {
    let positions = UOp::positions(x().shape().clone());
    let at = positions.permute([1, 0].as_slice()).slice(&[
        SliceAxis { start: 2, step: -2, len: 2 },
        SliceAxis { start: 1, step: 1, len: 1 },
    ]);
    let at = at.reshape([2].as_slice());
    let value = (x() * x()).reduce(ReduceOp::Add, [1].as_slice());
    let base = UOp::unary(Op::Sin, &x());
    check(&base.update(&value, &at), &MIXED);
    check(&base.update(&x().const_like(3.0), &positions), &MIXED);
    let one = (x() * x()).reduce(ReduceOp::Add, [0, 1].as_slice());
    check(&base.update(&one, &at), &MIXED);
    let again = (UOp::iota(4, DType::I32).floordiv(&UOp::constant(2, DType::I32))) + 1;
    let several = base.gather(&again);
    check(&several, &MIXED);
    for op in [None, Some(ReduceOp::Add), Some(ReduceOp::Mul), Some(ReduceOp::Max)] {
        check(&base.update_with(op, &value, &at), &MIXED);
    }
}

#[test]
fn of_many_slices_adds_up() {
    let slice = |start, step, len| SliceAxis { start, step, len };
    let part = |i: usize| {
        let row = x().slice(&[slice(i % 2, 1, 1), slice(2 * (i % 2), 1 - 2 * (i % 2) as isize, 2)]);
        row * UOp::constant(i as f64, DType::F64)
    };
    let sum = (0..12).map(part).reduce(|a, b| a * b.clone() + b).expect("twelve");
    check(&(sum * x().slice(&[slice(1, 1, 1), slice(0, 2, 2)])), &MIXED);
}

#[test]
fn of_casts_comes_back_in_the_type() {
    let narrow = x().cast(DType::F32);
    let loss = (&narrow * &narrow).reduce(ReduceOp::Add, [0, 1].as_slice());
    let grad = gradient(&loss, &one().cast(DType::F32), &[x()]).remove(0).expect("a gradient");
    assert_eq!(grad.dtype(), DType::F64);
    let near = |g: &f64, x: &f64| (g - 2.0 * x).abs() < 1e-6;
    assert!(numbers(&grad, &MIXED).iter().zip(&MIXED).all(|(g, x)| near(g, x)));
}

#[test]
fn of_a_softmax_and_a_matrix_product() {
    let rows = |v: UOp| v.reshape([2, 1].as_slice()).expand([2, 3].as_slice());
    let shifted = x() - rows(x().reduce(ReduceOp::Max, [1].as_slice())).detach();
    let e = UOp::unary(Op::Exp, &shifted);
    let softmax = UOp::binary(Op::Div, &e, &rows(e.reduce(ReduceOp::Add, [1].as_slice())));
    check(&softmax, &MIXED);
    let left = x().reshape([2, 1, 3].as_slice()).expand([2, 2, 3].as_slice());
    let right = x().reshape([1, 2, 3].as_slice()).expand([2, 2, 3].as_slice());
    check(&(left * right).reduce(ReduceOp::Add, [2].as_slice()), &MIXED);
}

#[test]
fn marks_that_are_targets_end_the_walk() {
    let (a, b) = (x().mark(1, true), x().mark(2, true));
    let loss = weighted(&(&a * &a + &b));
    let grads = gradient(&loss, &one(), &[a.clone(), b, x()]);
    assert!(grads[0].is_some() && grads[1].is_some());
    assert_eq!(grads[2], None);
    assert_ne!(grads[0], grads[1]);
    // what does not lead to a target is not in the way
    assert_eq!(gradient(&weighted(&x()), &one(), &[a]), [None]);
}

#[test]
fn of_a_long_chain_is_no_longer_than_the_chain() {
    let half = UOp::constant(0.5, DType::F64);
    let y = (0..20_000).fold(x(), |y, _| y * &half + &half);
    let grad = gradient_of(&weighted(&y));
    assert!(toposort(&grad).len() < 100_000);
}
