//! Lowered kernels, with and without vectors: those of `testdata`, and every operation that a user can write on every
//! dtype, so that what decomposition makes of it means the same on each device.

use super::build::{Dice, Kernel};
use super::{check, target};
use kiln_compile::pass::Checks;
use kiln_compile::pipeline::lower;
use kiln_compile::target::{Language, Target};
use kiln_ir::arg::RangeKind;
use kiln_ir::text::parse;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};

/// Lowers for machines with vectors of this many bytes and compares the devices.
fn check_kernel(kernel: &UOp, vector_bytes: usize) {
    let target =
        Target { vector_bytes, vector_registers: 16, groups: false, ..target(Language::C) };
    let program = lower(kernel, &target, Checks { verify: true, spoiled: None }).expect("lowers");
    let mut dice = Dice(31);
    let data = program.params.iter().map(|p| dice.memory(p.dtype, p.len)).collect();
    let vars: Vec<i64> = program.vars.iter().map(|_| 3).collect();
    check(&Kernel { program, data }, &vars);
}

#[test]
fn kernels_of_testdata() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "uop")) {
        let kernel = parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        if !toposort(&kernel).iter().any(needs_groups) {
            [0, 32].into_iter().for_each(|bytes| check_kernel(&kernel, bytes));
        }
    }
}

/// CPUs have no work-groups.
fn needs_groups(op: &UOp) -> bool {
    let kind = op.arg().range().map(|(_, kind)| kind);
    matches!(kind, Some(RangeKind::Global | RangeKind::Local)) || op.op() == Op::Barrier
}

fn applies(op: Op, dtype: DType) -> bool {
    match op {
        Op::Trunc | Op::Sqrt | Op::Div | Op::MulAdd => dtype.is_float(),
        _ if op.is_transcendental() => dtype.is_float(),
        Op::Shl | Op::Shr => dtype.is_int(),
        Op::And | Op::Or | Op::Xor | Op::Not => !dtype.is_float(),
        Op::Neg | Op::Sub | Op::FloorDiv | Op::FloorMod => dtype != DType::Bool,
        // preconditions that only lowering can promise, and ops of another type
        Op::TruncDiv | Op::TruncMod | Op::Where | Op::Cast | Op::Bitcast | Op::Dot => false,
        _ => op.is_elementwise(),
    }
}

/// A loop nest of its own: `out[i] = op(x[i], y[i], z[i])`, eight lanes at a time.
fn nest(slot: usize, inputs: &[UOp], value: impl Fn(&[UOp]) -> UOp) -> UOp {
    let n = inputs[0].numel();
    let axis = 2 * slot as u32;
    let i = UOp::range(axis, RangeKind::Loop, n / 8);
    let lane = UOp::range(axis + 1, RangeKind::Vector, 8);
    let at = &i * 8 + &lane;
    let loads: Vec<UOp> = inputs.iter().map(|x| UOp::load(x, &at)).collect();
    let value = value(&loads);
    let out = UOp::param(slot, value.dtype(), [n].as_slice());
    UOp::store(&out, &at, &value, None).end([i, lane])
}

fn apply(op: Op, x: &[UOp]) -> UOp {
    match op.group() {
        kiln_ir::op::Group::Unary => UOp::unary(op, &x[0]),
        kiln_ir::op::Group::Binary => UOp::binary(op, &x[0], &x[1]),
        _ => UOp::ternary(op, &x[0], &x[1], &x[2]),
    }
}

fn everything(dtype: DType) -> UOp {
    let inputs: Vec<UOp> = (0..3).map(|s| UOp::param(s, dtype, [256].as_slice())).collect();
    let ops = Op::ALL.iter().filter(|op| applies(**op, dtype));
    let mut effects: Vec<UOp> =
        ops.enumerate().map(|(k, op)| nest(3 + k, &inputs, |x| apply(*op, x))).collect();
    for to in DType::STORAGE.into_iter().filter(|to| *to != dtype) {
        effects.push(nest(3 + effects.len(), &inputs[..1], |x| x[0].cast(to)));
    }
    UOp::kernel(effects, &format!("every_{dtype}"))
}

#[test]
fn every_operation_without_vectors() {
    DType::STORAGE.into_iter().for_each(|d| check_kernel(&everything(d), 0));
}

#[test]
fn every_operation_with_vectors() {
    DType::STORAGE.into_iter().for_each(|d| check_kernel(&everything(d), 32));
}
