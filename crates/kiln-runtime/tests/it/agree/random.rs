//! Random programs: values of mixed types feed each other, inside loops and out.

use super::build::{Builder, Dice, int};
use super::check;
use super::operations::apply;
use kiln_ir::arg::RangeKind;
use kiln_ir::{DType, Op, UOp};

const OPS: [Op; 21] = [
    Op::Neg,
    Op::Not,
    Op::Sqrt,
    Op::Trunc,
    Op::Add,
    Op::Sub,
    Op::Mul,
    Op::Div,
    Op::TruncDiv,
    Op::TruncMod,
    Op::Shl,
    Op::Shr,
    Op::And,
    Op::Or,
    Op::Xor,
    Op::Max,
    Op::Min,
    Op::CmpLt,
    Op::CmpNe,
    Op::Where,
    Op::MulAdd,
];

fn applies(op: Op, dtype: DType) -> bool {
    match op {
        Op::Sqrt | Op::Trunc | Op::Div | Op::MulAdd => dtype.is_float(),
        Op::TruncDiv | Op::TruncMod | Op::Shl | Op::Shr => dtype.is_int(),
        Op::Not | Op::And | Op::Or | Op::Xor => !dtype.is_float(),
        Op::Neg | Op::Sub => dtype != DType::Bool,
        _ => true,
    }
}

fn computes(dtype: DType) -> bool {
    !matches!(dtype, DType::F16 | DType::BF16)
}

fn any<'a>(dice: &mut Dice, pool: &'a [UOp], dtype: Option<DType>) -> &'a UOp {
    let fits: Vec<&UOp> = pool.iter().filter(|v| dtype.is_none_or(|d| v.dtype() == d)).collect();
    fits[dice.below(fits.len())]
}

/// One more value from those in the pool.
fn grow(b: &mut Builder, dice: &mut Dice, pool: &mut Vec<UOp>) {
    let x = any(dice, pool, None).clone();
    let value = if dice.below(4) == 0 {
        let to = DType::STORAGE[dice.below(13)];
        if x.dtype() == DType::BF16 || to == DType::BF16 {
            return;
        }
        b.add(x.cast(to))
    } else {
        let op = OPS[dice.below(OPS.len())];
        if !computes(x.dtype()) || !applies(op, x.dtype()) {
            return;
        }
        let y = any(dice, pool, Some(x.dtype())).clone();
        let z = any(dice, pool, Some(x.dtype())).clone();
        apply(b, op, &x, &y, &z)
    };
    pool.push(value);
}

fn random_program(seed: u64, lanes: u16) {
    let mut dice = Dice(seed * 7919 + 1);
    let mut b = Builder::new();
    let inputs: Vec<UOp> = DType::STORAGE.map(|d| b.buffer(d, dice.memory(d, 64), false)).to_vec();
    let outs: Vec<UOp> = DType::STORAGE.map(|d| b.output(d, 256)).to_vec();
    let i = b.open(RangeKind::Loop, &int((64 / lanes as usize) as i64));
    let at = b.add(&i * &int(lanes as i64));
    let mut pool: Vec<UOp> = inputs.iter().map(|m| b.load(m, &at, lanes)).collect();
    for _ in 0..150 {
        grow(&mut b, &mut dice, &mut pool);
    }
    for (out, copy) in outs.iter().flat_map(|out| (0..4).map(move |c| (out, c))) {
        let value = any(&mut dice, &pool, Some(out.dtype())).clone();
        let at = b.add(&at + &int(64 * copy));
        b.store(out, &at, &value);
    }
    b.close(&i);
    check(&b.finish(&format!("random_{seed}x{lanes}")), &[]);
}

#[test]
fn random_scalar_programs() {
    (0..6).for_each(|seed| random_program(seed, 1));
}

#[test]
fn random_vector_programs() {
    (0..6).for_each(|seed| random_program(seed, 8));
}
