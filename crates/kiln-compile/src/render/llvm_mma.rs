//! Part of pass `render`: matrix units in LLVM IR. AMX instructions name their registers by number, as operands of
//! intrinsics. LLVM keeps their order and does not look into them, so what is written here is what runs, in every
//! release since 15.

use super::llvm_function::Function;
use crate::target::Mma;
use kiln_ir::{Op, UOp};

/// The bytes of a row in memory and in a register.
const ROW: usize = 64;
/// The rows of a register.
const ROWS: usize = 16;
/// The layout of all registers, as `ldtilecfg` takes it: a palette, then bytes of a row, then rows of each.
const CONFIGURATION: &str = "@matrices";

/// What stands before the function.
pub(super) fn globals(f: &Function<'_>) -> String {
    if f.matrices.is_empty() {
        return String::new();
    }
    let mut bytes = [0u8; 64];
    bytes[0] = 1;
    for register in 0..8 {
        bytes[16 + 2 * register] = ROW as u8;
        bytes[48 + register] = ROWS as u8;
    }
    let text: String = bytes.iter().map(|b| format!("\\{b:02X}")).collect();
    format!("{CONFIGURATION} = private constant [64 x i8] c\"{text}\", align 64\n")
}

/// Before the first matrix.
pub(super) fn begin(f: &mut Function<'_>) {
    if !f.matrices.is_empty() {
        f.call("x86.ldtilecfg", &[], "void", &[format!("ptr {CONFIGURATION}")]);
    }
}

/// After the last one.
pub(super) fn end(f: &mut Function<'_>) {
    if !f.matrices.is_empty() {
        f.call("x86.tilerelease", &[], "void", &[]);
    }
}

/// Spells an op on matrices; false if it is none.
pub(super) fn spell(f: &mut Function<'_>, op: &UOp, units: &[Mma]) -> bool {
    let register = |n: usize| format!("i8 {n}");
    match (op.op(), f.matrices.number(op)) {
        (Op::Local, Some(_)) => {}
        (Op::Load, Some(_)) if f.matrices.number(op.memory()).is_some() => {}
        (Op::Load, Some(n)) => {
            let at = f.address(op, false);
            let args = [register(n), format!("ptr {at}"), format!("i64 {ROW}")];
            f.call("x86.tileloadd64", &[], "void", &args);
        }
        (Op::Mma, Some(n)) => {
            let factors =
                [0, 1].map(|i| f.matrices.number(op.src(i)).expect("a factor's register"));
            let fits = |unit: &&Mma| Some(unit.parts) == op.arg().parts();
            let unit = units.iter().find(fits).expect("the target has it");
            let args = [n, factors[0], factors[1]].map(register);
            f.call(unit.intrinsic, &[], "void", &args);
        }
        (Op::Store, Some(n)) => {
            // what is no constant is computed or loaded there
            if op.src(2).uniform().is_const(0) {
                f.call("x86.tilezero", &[], "void", &[register(n)]);
            }
        }
        (Op::Store, None) => {
            let Some(n) = f.matrices.number(op.src(2)) else { return false };
            let at = f.address(op, false);
            let args = [register(n), format!("ptr {at}"), format!("i64 {ROW}")];
            f.call("x86.tilestored64", &[], "void", &args);
        }
        _ => return false,
    }
    true
}
