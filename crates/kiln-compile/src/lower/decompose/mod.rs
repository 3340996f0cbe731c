//! Pass `decompose` of stage `lower`: replaces ops that machines do not have by ops that all have. Transcendental
//! functions become polynomials, flooring division the machine's, saturating casts clamps, and arithmetic on narrow
//! floats f32.
//!
//! The result is exact IR arithmetic: every op rounds once and nothing contracts, so all devices give the same bits.
//! Devices without `MulAdd` are the exception: there the product in a formula is rounded, too.
//!
//! Post-condition: no transcendental op, no `FloorDiv` or `FloorMod`, no shift past the width, no cast from a float
//! outside of the integer's range, no cast to bool, and no arithmetic on f16, bf16 or bool except `And`, `Or`, `Xor`,
//! `Not`.

mod convert;
mod division;
mod double;
mod exp;
mod integer;
mod log;
mod narrow;
mod pieces;
mod pow;
mod remainder;
mod sigmoid;
mod tanh;
mod trig;

use crate::target::Target;
use kiln_ir::uop::{Srcs, rebuild, remade};
use kiln_ir::{DType, Op, UOp};
use narrow::{Wide, is_narrow};
use pieces::Sums;

/// The graph in ops that every language can print. The same for all targets, but for products that are added: some have no
/// fused multiply-add.
pub fn decompose(root: &UOp, target: &Target) -> UOp {
    let mut wide = Wide::over(Sums { fused: target.fma });
    remade(root, |node, srcs| node_in_machine_ops(node, srcs, &mut wide))
}

fn node_in_machine_ops(node: &UOp, srcs: Srcs, wide: &mut Wide) -> UOp {
    if node.op() == Op::Cast {
        return convert::cast(&srcs[0], node.dtype(), wide);
    }
    if node.op().is_alu() && srcs.iter().any(|s| is_narrow(s.dtype())) {
        return narrow::arithmetic(node, srcs, wide, arithmetic);
    }
    arithmetic(node, srcs, wide.sums)
}

/// The node over `srcs`, none of which is a narrow float (nor is the node one).
fn arithmetic(node: &UOp, srcs: Srcs, sums: Sums) -> UOp {
    match (node.op(), srcs.as_slice()) {
        (op, [x]) if op.is_transcendental() => transcendental(op, x, sums),
        (Op::MulAdd, [a, b, c]) => sums.mul_add(a, b, c),
        (Op::Div, [a, b]) => division::div(a, b),
        (Op::Pow, [a, b]) => pow::pow(a, b, sums),
        (Op::FloorDiv, [a, b]) if a.dtype().is_float() => remainder::floor_div(a, b, sums),
        (Op::FloorMod, [a, b]) if a.dtype().is_float() => remainder::floor_mod(a, b, sums),
        (Op::FloorDiv, [a, b]) => integer::floor_div(a, b),
        (Op::FloorMod, [a, b]) => integer::floor_mod(a, b),
        (Op::Shl, [a, b]) => integer::shl(a, b),
        (Op::Shr, [a, b]) => integer::shr(a, b),
        (op, [a, b]) if op.is_alu() && a.dtype() == DType::Bool => bools(op, a, b),
        _ => rebuild(node, srcs),
    }
}

fn transcendental(op: Op, x: &UOp, sums: Sums) -> UOp {
    match op {
        Op::Exp => exp::exp(x, sums),
        Op::Exp2 => exp::exp2(x, sums),
        Op::Log => log::log(x, sums),
        Op::Log2 => log::log2(x, sums),
        Op::Sin => trig::sin(x, sums),
        Op::Cos => trig::cos(x, sums),
        Op::Tanh => tanh::tanh(x, sums),
        Op::Expm1 => exp::expm1(x, sums),
        Op::Log1p => log::log1p(x, sums),
        Op::Sigmoid => sigmoid::sigmoid(x, sums),
        _ => unreachable!("{op} is not transcendental"),
    }
}

/// Arithmetic and comparisons of bools, as logic.
fn bools(op: Op, a: &UOp, b: &UOp) -> UOp {
    match op {
        Op::Add | Op::Max => a | b,
        Op::Mul | Op::Min => a & b,
        Op::CmpNe => a ^ b,
        Op::CmpEq => UOp::unary(Op::Not, &(a ^ b)),
        Op::CmpLt => UOp::unary(Op::Not, a) & b,
        _ => UOp::binary(op, a, b),
    }
}
