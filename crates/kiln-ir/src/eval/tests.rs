//! Edge cases; the middle of every range is tested by everything that folds or interprets.

use super::{bitcast, dot, eval, from_bits, to_bits};
use crate::dtype::{Const, DType};
use crate::op::Op;

const SIGNED: [DType; 4] = [DType::I8, DType::I16, DType::I32, DType::I64];
const UNSIGNED: [DType; 4] = [DType::U8, DType::U16, DType::U32, DType::U64];

fn ints(op: Op, dtype: DType, a: i64, b: i64) -> i128 {
    let srcs = [Const::Int(a).cast(dtype), Const::Int(b).cast(dtype)];
    eval(op, dtype, &srcs).and_then(Const::as_i128).expect("an integer")
}

fn floats(op: Op, dtype: DType, srcs: &[f64]) -> f64 {
    let srcs: Vec<Const> = srcs.iter().map(|&x| Const::Float(x).cast(dtype)).collect();
    eval(op, dtype, &srcs).expect("a float").as_f64()
}

#[test]
fn integers_wrap_at_every_width() {
    for dtype in SIGNED {
        let (min, max) = dtype.int_bounds();
        assert_eq!(ints(Op::Add, dtype, max, 1), min as i128);
        assert_eq!(ints(Op::Sub, dtype, min, 1), max as i128);
        assert_eq!(ints(Op::Mul, dtype, min, -1), min as i128);
        assert_eq!(ints(Op::Mul, dtype, max, max), 1);
        let neg = eval(Op::Neg, dtype, &[Const::Int(min)]);
        assert_eq!(neg, Some(Const::Int(min)));
    }
    for dtype in UNSIGNED {
        let max = Const::Int(-1).cast(dtype).as_i128().expect("integer");
        assert_eq!(ints(Op::Sub, dtype, 0, 1), max);
        assert_eq!(ints(Op::Mul, dtype, -1, -1), 1);
        assert_eq!(ints(Op::Add, dtype, -1, 1), 0);
        assert_eq!(eval(Op::Not, dtype, &[Const::UInt(0)]).and_then(Const::as_i128), Some(max));
    }
}

#[test]
fn floor_division() {
    for dtype in SIGNED {
        let (min, _) = dtype.int_bounds();
        assert_eq!(ints(Op::FloorDiv, dtype, min, -1), min as i128);
        assert_eq!(ints(Op::FloorMod, dtype, min, -1), 0);
        assert_eq!(ints(Op::FloorDiv, dtype, 7, 0), 0);
        assert_eq!(ints(Op::FloorMod, dtype, 7, 0), 0);
        let table =
            [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (-6, 3, -2, 0)];
        for (a, b, quotient, remainder) in table {
            assert_eq!(ints(Op::FloorDiv, dtype, a, b), quotient, "{a} // {b}");
            assert_eq!(ints(Op::FloorMod, dtype, a, b), remainder, "{a} % {b}");
        }
        assert_eq!(ints(Op::TruncDiv, dtype, -7, 2), -3);
        assert_eq!(ints(Op::TruncMod, dtype, -7, 2), -1);
    }
    assert_eq!(ints(Op::FloorDiv, DType::U64, -1, 2), i64::MAX as i128);
}

#[test]
fn index_is_exact_or_nothing() {
    let max = Const::Int(i64::MAX);
    assert_eq!(eval(Op::Add, DType::Index, &[max, Const::Int(1)]), None);
    assert_eq!(eval(Op::Add, DType::I64, &[max, Const::Int(1)]), Some(Const::Int(i64::MIN)));
}

#[test]
fn shifts() {
    for dtype in SIGNED.into_iter().chain(UNSIGNED) {
        let bits = dtype.bits() as i64;
        assert_eq!(ints(Op::Shl, dtype, 1, bits), 0);
        assert_eq!(ints(Op::Shl, dtype, 3, 1), 6);
        assert_eq!(ints(Op::Shr, dtype, 100, bits), 0);
        assert_eq!(ints(Op::Shr, dtype, 100, 3), 12);
    }
    for dtype in SIGNED {
        assert_eq!(ints(Op::Shr, dtype, -5, 64), -1);
        assert_eq!(ints(Op::Shr, dtype, -5, 1), -3);
        assert_eq!(ints(Op::Shl, dtype, 1, -1), 0);
    }
}

#[test]
fn max_min_and_comparisons_with_nan_and_zeros() {
    let nan = f64::NAN;
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for op in [Op::Max, Op::Min] {
            assert!(floats(op, dtype, &[nan, 1.0]).is_nan());
            assert!(floats(op, dtype, &[1.0, nan]).is_nan());
            assert!(floats(op, dtype, &[-0.0, 0.0]).is_sign_negative());
            assert!(floats(op, dtype, &[0.0, -0.0]).is_sign_positive());
        }
        assert!(floats(Op::Neg, dtype, &[0.0]).is_sign_negative());
        assert!(floats(Op::Div, dtype, &[0.0, 0.0]).is_nan());
        assert_eq!(floats(Op::Div, dtype, &[-1.0, 0.0]), f64::NEG_INFINITY);
    }
    let compare = |op, a, b| eval(op, DType::Bool, &[Const::Float(a), Const::Float(b)]);
    assert_eq!(compare(Op::CmpLt, nan, 1.0), Some(Const::Bool(false)));
    assert_eq!(compare(Op::CmpEq, nan, nan), Some(Const::Bool(false)));
    assert_eq!(compare(Op::CmpNe, nan, nan), Some(Const::Bool(true)));
    assert_eq!(compare(Op::CmpEq, 0.0, -0.0), Some(Const::Bool(true)));
}

#[test]
fn narrow_floats_round_once() {
    // a tie plus something far below it: rounds up, in one step or not at all
    let above_tie = 1.0 + 2f64.powi(-8) + 2f64.powi(-23);
    assert_eq!(Const::Float(above_tie).cast(DType::BF16), Const::Float(1.0 + 2f64.powi(-7)));
    let above_tie = 1.0 + 2f64.powi(-11) + 2f64.powi(-50);
    assert_eq!(Const::Float(above_tie).cast(DType::F16), Const::Float(1.0 + 2f64.powi(-10)));
    let tie = 1.0 + 2f64.powi(-8);
    assert_eq!(Const::Float(tie).cast(DType::BF16), Const::Float(1.0));
    assert_eq!(Const::Float(1e300).cast(DType::BF16), Const::Float(f64::INFINITY));
    assert_eq!(Const::Float(65519.0).cast(DType::F16), Const::Float(65504.0));
    assert_eq!(Const::Float(65520.0).cast(DType::F16), Const::Float(f64::INFINITY));
    assert_eq!(Const::Float(-1e-300).cast(DType::F16), Const::Float(-0.0));
    // 17 * 15 = 255 is exact in bf16; 255 + 1.5 = 256.5 is not
    assert_eq!(floats(Op::Add, DType::BF16, &[255.0, 1.5]), 256.0);
    // the product is a tie in bf16 and the addend breaks it
    let (a, b) = (1.0 + 2f64.powi(-4), 1.0 + 2f64.powi(-4));
    let fused = floats(Op::MulAdd, DType::BF16, &[a, b, 2f64.powi(-100)]);
    assert_eq!(fused, 1.125 + 2f64.powi(-7));
}

#[test]
fn f32_is_not_f64() {
    let third = floats(Op::Div, DType::F32, &[1.0, 3.0]);
    assert_eq!(third, (1.0f32 / 3.0) as f64);
    assert_eq!(floats(Op::Exp, DType::F32, &[1.0]), std::f64::consts::E as f32 as f64);
    assert_eq!(floats(Op::MulAdd, DType::F32, &[1e30, 1e30, f64::NEG_INFINITY]), f64::NEG_INFINITY);
}

#[test]
fn casts() {
    let to = |x: f64, dtype| Const::Float(x).cast(dtype);
    for dtype in SIGNED.into_iter().chain(UNSIGNED) {
        assert_eq!(to(f64::NAN, dtype).as_i128(), Some(0));
        assert_eq!(to(-0.9, dtype).as_i128(), Some(0));
    }
    assert_eq!(to(1e9, DType::I8), Const::Int(127));
    assert_eq!(to(-1e9, DType::I8), Const::Int(-128));
    assert_eq!(to(-1.0, DType::U8), Const::UInt(0));
    assert_eq!(to(f64::INFINITY, DType::U64), Const::UInt(u64::MAX));
    assert_eq!(to(f64::NAN, DType::Bool), Const::Bool(true));
    assert_eq!(Const::Int(-1).cast(DType::U16), Const::UInt(65535));
    assert_eq!(Const::UInt(255).cast(DType::I8), Const::Int(-1));
    assert_eq!(Const::Int(16_777_217).cast(DType::F32), Const::Float(16_777_216.0));
}

#[test]
fn bitcasts() {
    let one = bitcast(Const::Float(1.0), DType::F32, DType::U32);
    assert_eq!(one, Some(Const::UInt(0x3f80_0000)));
    assert_eq!(bitcast(Const::Int(-1), DType::I16, DType::U16), Some(Const::UInt(0xffff)));
    assert_eq!(bitcast(Const::UInt(0x3c00), DType::U16, DType::F16), Some(Const::Float(1.0)));
    assert_eq!(bitcast(Const::Int(1), DType::I32, DType::I64), None);
    for dtype in DType::STORAGE {
        let x = Const::Int(1).cast(dtype);
        assert_eq!(from_bits(to_bits(x, dtype), dtype), x);
    }
}

#[test]
fn nothing_panics() {
    let values = [Const::Bool(true), Const::Int(i64::MIN), Const::Int(-1), Const::Int(0)];
    let more = [Const::UInt(u64::MAX), Const::UInt(0), Const::Float(f64::NAN), Const::Float(-0.0)];
    let values: Vec<Const> = values.into_iter().chain(more).collect();
    let dtypes = DType::STORAGE.into_iter().chain([DType::Index, DType::Void]);
    for (&op, dtype) in Op::ALL.iter().flat_map(|op| dtypes.clone().map(move |d| (op, d))) {
        eval(op, dtype, &[]);
        for &a in &values {
            eval(op, dtype, &[a]);
            to_bits(a, dtype);
            for &b in &values {
                eval(op, dtype, &[a, b]);
                eval(op, dtype, &[Const::Bool(false), a, b]);
                eval(op, dtype, &[a, a, b]);
            }
        }
    }
}

#[test]
fn a_dot_adds_products_of_parts_in_order() {
    let word = |parts: &[u64], bits: u64| {
        Const::UInt(parts.iter().rev().fold(0, |word, part| word << bits | part))
    };
    let bf16 = |x: f64| to_bits(Const::Float(x), DType::BF16);
    let (x, y) = (word(&[bf16(3.0), bf16(-2.0)], 16), word(&[bf16(0.5), bf16(4.0)], 16));
    let parts = [DType::BF16; 2];
    let of = |c| dot(parts, DType::F32, [x, y, Const::Float(c)]);
    assert_eq!(of(10.0), Some(Const::Float(3.5)));
    // the sum with the first product already rounds
    assert_eq!(of(2f64.powi(25) + 4.0), Some(Const::Float(2f64.powi(25) - 4.0)));
    let (x, y) = (word(&[255, 2, 3, 4], 8), word(&[255, 1, 0x80, 0], 8));
    let sum = dot([DType::U8, DType::I8], DType::I32, [x, y, Const::Int(1)]);
    assert_eq!(sum, Some(Const::Int(1 - 255 + 2 - 384)));
}
