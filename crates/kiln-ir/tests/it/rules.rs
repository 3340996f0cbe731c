//! The rules as data: an expression and its normal form. `r0..` are ranges, in infix form.

use expect_test::{Expect, expect};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::check::{check_rule_on, check_set};
use kiln_ir::rules::{gates, simplify, simplify_under, symbolic};
use kiln_ir::text::expr;
use kiln_ir::{DType, Op, UOp, graph_rewrite};

pub(crate) fn r(axis: u32, n: usize) -> UOp {
    UOp::range(axis, RangeKind::Loop, n)
}

pub(crate) fn i(value: i64) -> UOp {
    UOp::index(value)
}

pub(crate) fn div(x: &UOp, c: i64) -> UOp {
    x.floordiv(&i(c))
}

pub(crate) fn rem(x: &UOp, c: i64) -> UOp {
    x.floormod(&i(c))
}

fn check(node: &UOp, expected: Expect) {
    let normal = simplify(node);
    expected.assert_eq(&expr(&normal));
    assert_eq!(simplify(&normal), normal, "not idempotent");
}

fn var(slot: usize, dtype: DType) -> UOp {
    UOp::var(slot, dtype, i64::MIN, i64::MAX)
}

/// The row-major offset of an index tuple.
fn flatten(index: &[UOp], shape: &[usize]) -> UOp {
    index.iter().zip(shape).fold(i(0), |sum, (x, &n)| &sum * n as i64 + x)
}

/// The index tuple of a row-major offset.
fn unflatten(offset: &UOp, shape: &[usize]) -> Vec<UOp> {
    let mut stride = shape.iter().product::<usize>() as i64;
    shape
        .iter()
        .map(|&n| {
            stride /= n as i64;
            rem(&div(offset, stride), n as i64)
        })
        .collect()
}

/// Reads an array of the first shape through reshapes to the others.
pub(crate) fn reshaped(shapes: &[&[usize]]) -> Vec<UOp> {
    let last = shapes[shapes.len() - 1];
    let start: Vec<UOp> = last.iter().enumerate().map(|(a, &n)| r(a as u32, n)).collect();
    shapes.windows(2).rev().fold(start, |index, pair| unflatten(&flatten(&index, pair[1]), pair[0]))
}

fn check_all(index: &[UOp], expected: Expect) {
    let normal: Vec<String> = index.iter().map(|x| expr(&simplify(x))).collect();
    expected.assert_eq(&normal.join(", "));
}

#[test]
fn sums() {
    let (a, b) = (r(0, 4), r(1, 5));
    check(&(&a * 2 + &a * 3), expect!["r0*5"]);
    check(&(((&a + 1) * 4 + &b) * 2 + 3), expect!["r0*8 + r1*2 + 11"]);
    check(&((&b + &a) - &b), expect!["r0"]);
    check(&(i(3) - &a), expect!["r0*-1 + 3"]);
    check(&(&a - &a), expect!["0"]);
    check(&(-&(&a - 7)), expect!["r0*-1 + 7"]);
    check(&(&b + (&a + 1) + 2), expect!["r0 + r1 + 3"]);
    check(&(r(2, 1) * 5 + &a), expect!["r0"]);
    check(&((&a * &b) * 3 + &a * &b), expect!["r0*r1*4"]);
    check(&(i(3) - (i(3) - &a)), expect!["r0"]);
}

#[test]
fn quotients_and_remainders() {
    let (a, b, x) = (r(0, 8), r(1, 4), var(0, DType::Index));
    check(&div(&(&a * 4 + &b), 4), expect!["r0"]);
    check(&rem(&(&a * 4 + &b), 4), expect!["r1"]);
    check(&div(&(&a * 8 + &b * 2), 4), expect!["r0*2 + r1//2"]);
    check(&rem(&(&a * 8 + &b * 2), 4), expect!["r1%2*2"]);
    check(&div(&b, 4), expect!["0"]);
    check(&rem(&b, 4), expect!["r1"]);
    check(&div(&div(&x, 3), 5), expect!["v0//15"]);
    check(&div(&(div(&x, 3) + 2), 5), expect!["(v0 + 6)//15"]);
    check(&div(&rem(&x, 12), 4), expect!["v0//4%3"]);
    check(&rem(&rem(&x, 12), 4), expect!["v0%4"]);
    check(&rem(&(rem(&x, 12) * 3), 9), expect!["v0%3*3"]);
    check(&rem(&(&a * 9 + 9), 8), expect!["(r0 + 1)%8"]);
    check(&div(&(&a * 9 + 1), 8), expect!["r0 + (r0 + 1)//8"]);
    check(&div(&(&a * 6 + &b * 4), 2), expect!["r0*3 + r1*2"]);
    check(&div(&(&a * 4 + 2), 8), expect!["r0//2"]);
    check(&rem(&(&a * 4 + 2), 8), expect!["r0%2*4 + 2"]);
    check(&div(&(&a * 4 + &b - 3), 4), expect!["r0 + (r1 + 1)//4 - 1"]);
    check(&div(&x, -4), expect!["v0*-1//4"]);
    check(&rem(&x, -4), expect!["v0*-1%4*-1"]);
    check(&div(&x, 0), expect!["0"]);
    check(&rem(&x, 1), expect!["0"]);
    check(&rem(&(i(7) - &a), 8), expect!["r0*-1 + 7"]);
    check(&div(&(i(7) - &a), 4), expect!["(r0*-1 + 7)//4"]);
    check(&(&a + &b).maximum(&(&a + 3)), expect!["r0 + 3"]);
    check(&(&a + &b).minimum(&(&b - 1)), expect!["r1 - 1"]);
    // of several operands, also those of the dual
    let (x, y) = (&var(0, DType::Index), &var(1, DType::Index));
    check(&x.minimum(&i(6)).minimum(&y.minimum(&(x + 1))), expect!["min(min(v0, 6), v1)"]);
    check(&x.maximum(&y.maximum(&i(0))).minimum(y), expect!["v1"]);
    check(&i(0).minimum(&x.maximum(&i(0)).minimum(y)), expect!["min(0, v1)"]);
    check(&x.minimum(&y.minimum(&i(3))).maximum(&i(3)), expect!["3"]);
    check(&div(&(&b - 4), 4), expect!["-1"]);
    check(&rem(&(&b - 4), 4), expect!["r1"]);
}

#[test]
fn quotients_meet_their_remainders() {
    let (a, x) = (r(0, 100), var(0, DType::Index));
    check(&(div(&x, 4) * 4 + rem(&x, 4)), expect!["v0"]);
    check(&(rem(&div(&x, 4), 3) * 4 + rem(&x, 4)), expect!["v0%12"]);
    check(&(rem(&div(&x, 4), 3) * 8 + rem(&x, 4) * 2 + 1), expect!["v0%12*2 + 1"]);
    check(&(&x - div(&x, 7) * 7), expect!["v0%7"]);
    check(&(div(&x, 12) * 12 + rem(&div(&x, 4), 3) * 4 + rem(&x, 4)), expect!["v0"]);
    check(&(div(&(&a * 6 + 5), 4) * 4 + rem(&(&a * 6 + 5), 4)), expect!["r0*6 + 5"]);
    let (b, c) = (r(1, 6), r(2, 7));
    let sum = &a * 42 + &b * 7 + &c;
    check(&(div(&sum, 10) * 10 + rem(&sum, 10)), expect!["r0*42 + r1*7 + r2"]);
    let both = rem(&div(&sum, 10), 9) * 10 + rem(&sum, 10);
    check(&both, expect!["(r0*42 + r1*7 + r2)%90"]);
}

#[test]
fn reshapes_cancel() {
    check_all(&reshaped(&[&[4, 8], &[32], &[4, 8]]), expect!["r0, r1"]);
    check_all(&reshaped(&[&[2, 3, 4], &[6, 4], &[2, 12], &[2, 3, 4]]), expect!["r0, r1, r2"]);
    check_all(&reshaped(&[&[6, 4], &[3, 8], &[24], &[8, 3], &[6, 4]]), expect!["r0, r1"]);
    check_all(
        &reshaped(&[&[5, 7, 3], &[7, 15], &[105], &[3, 5, 7], &[5, 7, 3]]),
        expect!["r0, r1, r2"],
    );
    check_all(&reshaped(&[&[24], &[2, 3, 4]]), expect!["r0*12 + r1*4 + r2"]);
    check_all(&reshaped(&[&[2, 3, 4], &[24]]), expect!["r0//12, r0//4%3, r0%4"]);
    check_all(&reshaped(&[&[24], &[3, 8], &[6, 4]]), expect!["r0*4 + r1"]);
    check_all(&reshaped(&[&[1, 6, 1], &[2, 3]]), expect!["0, r0*3 + r1, 0"]);
}

#[test]
fn convolution_windows() {
    // rows repeated, flattened, cut and folded: the window trick on 8 columns with 3 taps, o = r0, tap = r1
    let (o, tap) = (r(0, 6), r(1, 3));
    let flat = &tap * 9 + &o;
    check_all(&[div(&flat, 8), rem(&flat, 8)], expect!["r1, r0 + r1"]);
    let flat = &o * 9 + &tap;
    check_all(&[div(&flat, 8), rem(&flat, 8)], expect!["r0, r0 + r1"]);
    // im2col of [2, 3, 10, 10] by 3x3: column = (channel, ky, kx), row = (image, y, x)
    let (row, column) = (r(0, 2 * 8 * 8), r(1, 3 * 9));
    let at = [
        div(&row, 64),
        div(&column, 9),
        rem(&div(&row, 8), 8) + rem(&div(&column, 3), 3),
        rem(&row, 8) + rem(&column, 3),
    ];
    check(
        &flatten(&at, &[2, 3, 10, 10]),
        expect!["r1%3 + r1//3%3*10 + r0%8 + r1//9*100 + r0//64*300 + r0//8%8*10"],
    );
    // and with the rows and columns split, nothing is left of it
    let parts: Vec<UOp> =
        [2, 8, 8, 3, 3, 3].iter().enumerate().map(|(a, &n)| r(a as u32, n)).collect();
    let (row, column) = (flatten(&parts[..3], &[2, 8, 8]), flatten(&parts[3..], &[3, 3, 3]));
    let at = [
        div(&row, 64),
        div(&column, 9),
        rem(&div(&row, 8), 8) + rem(&div(&column, 3), 3),
        rem(&row, 8) + rem(&column, 3),
    ];
    check(&flatten(&at, &[2, 3, 10, 10]), expect!["r0*300 + r1*10 + r2 + r3*100 + r4*10 + r5"]);
}

#[test]
fn flips() {
    let a = r(0, 8);
    let flip = |x: &UOp| i(7) - x;
    check(&flip(&flip(&a)), expect!["r0"]);
    check(&flip(&a).lt(&i(3)), expect!["!(r0 < 5)"]);
    check(&div(&flip(&(&a + 0)), 8), expect!["0"]);
    let (b, c) = (r(1, 4), r(2, 3));
    let flat = (i(3) - &b) * 3 + (i(2) - &c);
    check(&flat, expect!["r1*-3 + r2*-1 + 11"]);
    check_all(&unflatten(&flat, &[4, 3]), expect!["r1*-1 + 3, r2*-1 + 2"]);
}

#[test]
fn comparisons() {
    let (a, b, x) = (r(0, 8), r(1, 4), var(0, DType::Index));
    check(&(&a + 2).lt(&i(5)), expect!["r0 < 3"]);
    check(&(&a * 4 + &b).lt(&i(12)), expect!["r0 < 3"]);
    check(&(&a * 4 + &b).lt(&i(13)), expect!["r0*4 + r1 < 13"]);
    check(&(&a * 4).lt(&i(13)), expect!["r0 < 4"]);
    check(&i(3).lt(&a), expect!["!(r0 < 4)"]);
    check(&a.lt(&i(8)), expect!["true"]);
    check(&a.lt(&i(0)), expect!["false"]);
    check(&(&a + 1).lt(&(&b + 3)), expect!["r0 < r1 + 2"]);
    check(&div(&x, 4).lt(&i(3)), expect!["v0 < 12"]);
    check(&(&a + &x).lt(&(&x + 3)), expect!["r0 < 3"]);
    check(&a.lt(&a), expect!["false"]);
    check(&(&a + 2).eq_(&i(5)), expect!["r0 == 3"]);
    check(&(&a * 2).eq_(&i(5)), expect!["false"]);
    check(&(&a * 2).ne_(&(&b * 2 + 4)), expect!["r1 + 2 != r0"]);
    check(&i(9).eq_(&a), expect!["false"]);
}

#[test]
fn conjunctions() {
    let (a, b) = (r(0, 8), r(1, 4));
    check(&(a.lt(&i(3)) & a.lt(&i(5))), expect!["r0 < 3"]);
    check(&(a.lt(&i(3)) & a.lt(&i(5)).not()), expect!["false"]);
    check(&(a.lt(&i(3)) & (b.lt(&i(2)) & a.lt(&i(3)))), expect!["(r0 < 3) & (r1 < 2)"]);
    check(&(a.lt(&i(5)).not() & a.lt(&i(6))), expect!["!(r0 < 5) & (r0 < 6)"]);
    check(&(a.lt(&i(4)) & (div(&a, 4)).lt(&i(1))), expect!["r0 < 4"]);
    check(&(a.lt(&i(4)) & rem(&a, 4).lt(&i(2))), expect!["r0 < 2"]);
}

#[test]
fn gates_simplify_indices() {
    let (y, k) = (r(0, 8), r(3, 3));
    let valid = (&y + &k).lt(&i(1)).not() & (&y + &k).lt(&i(9));
    let index = rem(&(&y + &k - 1), 8);
    expect!["r0 + r3 - 1"].assert_eq(&expr(&simplify_under(&valid, &simplify(&index))));
    let memory = UOp::param(0, DType::F32, [8].as_slice());
    let gated = UOp::load_lanes(&memory, &index, Some(&valid), 1);
    check(&gated, expect!["p0[r0 + r3 - 1 if !(r0 + r3 < 1) & (r0 + r3 < 9)]"]);
    let flat = UOp::load(&memory, &index);
    let padded = valid.where_(&flat, &UOp::constant(0.0f32, DType::F32));
    check(&padded, expect!["where(!(r0 + r3 < 1) & (r0 + r3 < 9), p0[(r0 + r3 + 7)%8], 0.0)"]);
    let loads = graph_rewrite(&simplify(&padded), gates());
    check(&loads, expect!["p0[r0 + r3 - 1 if !(r0 + r3 < 1) & (r0 + r3 < 9)]"]);
    let half = valid.where_(&flat.cast(DType::F16), &UOp::constant(0.0f32, DType::F16));
    let loads = graph_rewrite(&simplify(&half), gates());
    check(&loads, expect!["f16(p0[r0 + r3 - 1 if !(r0 + r3 < 1) & (r0 + r3 < 9)])"]);
    check(&UOp::load_lanes(&memory, &y, Some(&UOp::bool(false)), 1), expect!["0.0"]);
    let store = UOp::store(&memory, &div(&(&y + 3), 4), &flat, Some(&y.lt(&i(1))));
    expect!["0"].assert_eq(&expr(simplify(&store).src(1)));
}

#[test]
fn branches_know_their_condition() {
    let (a, b) = (r(0, 8), r(1, 4));
    let c = a.lt(&i(4));
    check(&c.where_(&div(&a, 4), &(div(&a, 4) + &b)), expect!["where(!(r0 < 4), r1 + 1, 0)"]);
    check(&c.where_(&c.where_(&a, &b), &i(9)), expect!["where(r0 < 4, r0, 9)"]);
    let inner = b.lt(&i(2)).where_(&a, &i(0));
    check(&c.where_(&inner, &i(0)), expect!["where((r0 < 4) & (r1 < 2), r0, 0)"]);
    check(&c.not().where_(&i(0), &a), expect!["where(r0 < 4, r0, 0)"]);
    check(&c.where_(&UOp::bool(true), &UOp::bool(false)), expect!["r0 < 4"]);
}

#[test]
fn what_both_branches_have_is_computed_once() {
    let (a, x) = (r(0, 8), var(0, DType::F32));
    let clamped = a.lt(&i(6)).where_(&(&x * &x), &x);
    let chain = a.lt(&i(4)).where_(&(&clamped + &x), &clamped);
    check(
        &chain,
        expect!["where(r0 < 4, where(r0 < 6, v0*v0, v0) + v0, where(r0 < 6, v0*v0, v0))"],
    );
    let alone = a.lt(&i(4)).where_(&clamped, &x);
    check(&alone, expect!["where(r0 < 4, v0*v0, v0)"]);
}

#[test]
fn floats_are_exact() {
    let x = var(0, DType::F32);
    let f = |v: f32| UOp::constant(v, DType::F32);
    check(&(&x + f(0.0)), expect!["v0 + 0.0"]);
    check(&(&x + f(-0.0)), expect!["v0"]);
    check(&(&x - f(0.0)), expect!["v0"]);
    check(&(&x * f(0.0)), expect!["v0*0.0"]);
    check(&(&x * f(1.0)), expect!["v0"]);
    check(&(&x - &x), expect!["v0 - v0"]);
    check(&x.eq_(&x), expect!["v0 == v0"]);
    check(&((&x + f(1.0)) + f(2.0)), expect!["v0 + 1.0 + 2.0"]);
    check(&UOp::binary(Op::Div, &x, &f(8.0)), expect!["v0*0.125"]);
    check(&UOp::binary(Op::Div, &x, &f(3.0)), expect!["v0/3.0"]);
    check(&UOp::binary(Op::Div, &x, &f(2f32.powi(127))), expect!["v0/1.7014118346046923e38"]);
    check(&x.maximum(&x), expect!["v0"]);
    check(&(f(1.5) * f(2.0)), expect!["3.0"]);
    check(&x.lt(&x), expect!["false"]);
}

#[test]
fn integers_wrap() {
    let x = var(0, DType::I8);
    let c = |v: i64| UOp::constant(v, DType::I8);
    check(&((&x + c(100)) + c(100)), expect!["v0 - 56"]);
    check(&(&x - c(-128)), expect!["v0 - 128"]);
    check(&(&x * c(0)), expect!["0"]);
    check(&(&x + c(1)).lt(&c(5)), expect!["v0 + 1 < 5"]);
    check(&(&x & c(-1)), expect!["v0"]);
    let u = var(1, DType::U64);
    check(
        &u.maximum(&UOp::constant(i64::MAX, DType::U64)),
        expect!["max(v1, 9223372036854775807)"],
    );
    check(&(&u | UOp::constant(-1, DType::U64)), expect!["18446744073709551615"]);
}

#[test]
fn casts() {
    let x = var(0, DType::I16);
    check(&x.cast(DType::I32).cast(DType::I64), expect!["i64(v0)"]);
    check(&x.cast(DType::I64).cast(DType::I8), expect!["i8(v0)"]);
    check(&x.cast(DType::I8).cast(DType::I64), expect!["i64(i8(v0))"]);
    check(&x.cast(DType::F32).cast(DType::F64), expect!["f64(v0)"]);
    check(&x.cast(DType::F32).cast(DType::I8), expect!["i8(f32(v0))"]);
    check(&x.cast(DType::F32).cast(DType::I32), expect!["i32(v0)"]);
    check(&x.cast(DType::F16).cast(DType::F32), expect!["f32(f16(v0))"]);
    let large = var(2, DType::U64).cast(DType::I64);
    check(&large.maximum(&large.const_like(0)), expect!["max(i64(v2), 0)"]);
    let b = var(1, DType::Bool);
    check(&b.cast(DType::F32).ne_(&UOp::constant(0.0f32, DType::F32)), expect!["v1"]);
    // arange arithmetic in i32 is index arithmetic
    let (a, c) = (r(0, 8).cast(DType::I32), r(1, 4).cast(DType::I32));
    check(&((&a * 4 + &c) - &c).lt(&(&c + 1)), expect!["r0*4 < r1 + 1"]);
    check(&(&a * (1 << 30)), expect!["i32(r0)*1073741824"]);
}

#[test]
fn reductions() {
    let (a, k) = (r(0, 8), r(1, 4));
    let sum = |x: &UOp| x.reduce_ranges(ReduceOp::Add, [k.clone()]);
    check(&sum(&a), expect!["r0*4"]);
    check(&sum(&(&k * 3)), expect!["reduce(r1, r1)*3"]);
    let f = var(0, DType::F32);
    check(&sum(&f), expect!["reduce(v0, r1)"]);
    check(&f.reduce_ranges(ReduceOp::Max, [k.clone()]), expect!["v0"]);
    let any = var(1, DType::Bool);
    check(&sum(&any), expect!["v1"]);
    let empty = UOp::range(2, RangeKind::Reduce, 0);
    check(&f.reduce_ranges(ReduceOp::Max, [empty]), expect!["reduce(v0, r2)"]);
}

#[test]
fn names_are_unique() {
    for set in [symbolic(), gates()] {
        assert!(set.duplicate_names().is_empty(), "{:?}", set.duplicate_names());
    }
}

#[test]
fn long_chains_stay_linear() {
    let x = var(0, DType::Index);
    let chain = (1..20_000).fold(x, |sum, n| sum + UOp::range(n, RangeKind::Loop, 3));
    let normal = simplify(&chain);
    assert_eq!(simplify(&normal), normal);
    let x = var(0, DType::Index);
    let deep = (0..20_000).fold(x, |x, n| if n % 2 == 0 { div(&x, 2) } else { rem(&x, 1000) });
    simplify(&deep);
    let c = var(1, DType::Bool);
    let wheres = (0..2_000).fold(r(0, 8), |x, n| (&c & r(0, 8).lt(&i(n % 9))).where_(&x, &r(1, 4)));
    simplify(&wheres);
}

/// Rules that random graphs do not meet, each with a graph that it applies to.
fn examples() -> Vec<(&'static str, UOp)> {
    let (a, b) = (r(0, 8), r(1, 4));
    let (x, y) = (a.cast(DType::I32), b.cast(DType::I32));
    vec![
        ("index_compare", x.lt(&y)),
        ("index_arithmetic", &x * &y),
        ("where_branches", a.lt(&i(4)).where_(&div(&a, 4), &b)),
    ]
}

#[test]
fn every_rule_passes_its_checks() {
    let examples = examples();
    let complaints: Vec<String> = check_set(symbolic())
        .into_iter()
        .filter(|c| {
            !examples.iter().any(|(name, _)| c.contains(&format!(" {name}: never applied")))
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    for (name, example) in examples {
        let rule = symbolic().plain_rules().find(|r| r.name == name).expect(name);
        assert_eq!(check_rule_on(rule, &[example]), Ok(()));
    }
}
