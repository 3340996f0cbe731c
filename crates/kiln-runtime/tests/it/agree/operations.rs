//! One program per dtype that applies every operation it has to the same pairs of values.

use super::build::{Builder, Dice, int};
use super::check;
use kiln_ir::arg::RangeKind;
use kiln_ir::{Const, DType, Op, UOp};

const N: usize = 1024;

/// Dtypes that linear programs compute in.
const COMPUTED: [DType; 11] = [
    DType::Bool,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::F32,
    DType::F64,
];

fn operations(dtype: DType) -> Vec<Op> {
    use Op::*;
    let compare = [CmpLt, CmpEq, CmpNe, Max, Min, Where];
    let own: &[Op] = match dtype {
        DType::Bool => &[Not, Add, Mul, And, Or, Xor],
        d if d.is_float() => &[Neg, Sqrt, Trunc, Add, Sub, Mul, Div, MulAdd],
        _ => &[Neg, Not, Add, Sub, Mul, TruncDiv, TruncMod, Shl, Shr, And, Or, Xor],
    };
    own.iter().copied().chain(compare).collect()
}

/// `op` of up to three values; divisors that the machine's division cannot take become 3.
pub(super) fn apply(b: &mut Builder, op: Op, x: &UOp, y: &UOp, z: &UOp) -> UOp {
    let value = match op {
        Op::Neg | Op::Not | Op::Sqrt | Op::Trunc => UOp::unary(op, x),
        Op::MulAdd => UOp::ternary(op, x, y, z),
        Op::Where => {
            let condition = b.add(UOp::binary(Op::CmpLt, x, y));
            UOp::ternary(op, &condition, y, z)
        }
        Op::TruncDiv | Op::TruncMod => {
            let zero = b.add(y.eq_(&y.const_like(0)));
            let y = b.add(zero.where_(&y.const_like(3), y));
            let ones = b.add(y.eq_(&y.const_like(Const::Int(-1))));
            let y = b.add(ones.where_(&y.const_like(3), &y));
            UOp::binary(op, x, &y)
        }
        _ => UOp::binary(op, x, y),
    };
    b.add(value)
}

fn every_operation(dtype: DType, lanes: u16) {
    let mut dice = Dice(dtype as u64 + 77);
    let mut b = Builder::new();
    let inputs: Vec<UOp> = (0..3).map(|_| b.buffer(dtype, dice.memory(dtype, N), false)).collect();
    for op in operations(dtype) {
        let out = b.output(if op.is_comparison() { DType::Bool } else { dtype }, N);
        let i = b.open(RangeKind::Loop, &int((N / lanes as usize) as i64));
        let at = b.add(&i * &int(lanes as i64));
        let x: Vec<UOp> = inputs.iter().map(|m| b.load(m, &at, lanes)).collect();
        let value = apply(&mut b, op, &x[0], &x[1], &x[2]);
        b.store(&out, &at, &value);
        b.close(&i);
    }
    check(&b.finish(&format!("every_{dtype}x{lanes}")), &[]);
}

#[test]
fn every_scalar_operation() {
    COMPUTED.into_iter().for_each(|d| every_operation(d, 1));
}

#[test]
fn every_vector_operation() {
    COMPUTED.into_iter().for_each(|d| every_operation(d, 8));
}

/// Distances that are known to fit are spelled without a test; constants are literals.
#[test]
fn shifts_by_constants() {
    for dtype in [DType::I8, DType::U16, DType::I32, DType::U64] {
        let mut b = Builder::new();
        let x = b.buffer(dtype, Dice(5).memory(dtype, 64), false);
        for (op, distance) in [(Op::Shl, 3), (Op::Shr, 5), (Op::Shl, 64), (Op::Shr, 64)] {
            let out = b.output(dtype, 64);
            let i = b.open(RangeKind::Loop, &int(16));
            let at = b.add(&i * &int(4));
            let v = b.load(&x, &at, 4);
            let value = b.add(UOp::binary(op, &v, &v.const_like(distance)));
            b.store(&out, &at, &value);
            b.close(&i);
        }
        check(&b.finish(&format!("shift_{dtype}")), &[]);
    }
}

fn every_conversion(from: DType, lanes: u16) {
    let mut b = Builder::new();
    let x = b.buffer(from, Dice(from as u64 + 3).memory(from, N), false);
    let storage = DType::STORAGE.into_iter().chain(DType::FP8);
    for (to, op) in storage.flat_map(|d| [(d, Op::Cast), (d, Op::Bitcast)]) {
        let as_bits = |d: DType| d == DType::BF16 || d.is_fp8();
        let as_bits = as_bits(from) || as_bits(to);
        if from == to || op == Op::Cast && as_bits || op == Op::Bitcast && from.size() != to.size()
        {
            continue;
        }
        let out = b.output(to, N);
        let i = b.open(RangeKind::Loop, &int((N / lanes as usize) as i64));
        let at = b.add(&i * &int(lanes as i64));
        let v = b.load(&x, &at, lanes);
        let value = if op == Op::Cast { v.cast(to) } else { v.bitcast(to) };
        let value = b.add(value);
        b.store(&out, &at, &value);
        b.close(&i);
    }
    check(&b.finish(&format!("convert_{from}x{lanes}")), &[]);
}

#[test]
fn every_scalar_conversion() {
    DType::STORAGE.into_iter().chain(DType::FP8).for_each(|d| every_conversion(d, 1));
}

#[test]
fn every_vector_conversion() {
    DType::STORAGE.into_iter().chain(DType::FP8).for_each(|d| every_conversion(d, 4));
}
