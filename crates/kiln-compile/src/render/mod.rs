//! A linear program as text in the target's language. Renderers walk the list once and spell what they find: they
//! choose nothing that a pass could have chosen, and they know no devices.

mod c;
mod c_alu;
mod c_helpers;
mod cstyle;
mod llvm;
mod llvm_alu;
mod llvm_mma;

use crate::target::{Language, Target};
use kiln_ir::arg::{Arg, RangeKind, Space};
use kiln_ir::program::Program;
use kiln_ir::{DType, Op, UOp};

/// The text of `program`. Empty for targets that execute the list itself.
pub fn render(program: &Program, target: &Target) -> String {
    match target.language {
        Language::Linear => String::new(),
        Language::C => c::render(program, target),
        Language::Llvm => llvm::render(program, target),
    }
}

/// The name of a memory or loop variable, in every language.
fn definition_name(op: &UOp) -> String {
    match op.arg() {
        Arg::Param { slot, .. } => format!("data{slot}"),
        Arg::Var { slot, .. } => format!("var{slot}"),
        Arg::Range { axis, .. } => format!("ridx{axis}"),
        Arg::Memory { space: Space::Register, id, .. } => format!("acc{id}"),
        Arg::Memory { space: Space::Scratch, id, .. } => format!("tmp{id}"),
        _ => unreachable!("{op:?} defines nothing"),
    }
}

/// The program's name as an identifier that is nobody else's: with a digit, as all generated names have, it is neither
/// a keyword nor one of the entry's parameters.
fn identifier(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut name: String = name.chars().map(letter).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if !name.contains(|c: char| c.is_ascii_digit()) {
        name.push_str("_0");
    }
    name
}

/// The scratch memories and their byte offsets: in order of id, each aligned to 64.
fn scratch_layout(ops: &[UOp]) -> Vec<(&UOp, usize)> {
    let scratch = |op: &&UOp| op.arg().memory().is_some_and(|(s, ..)| s == Space::Scratch);
    let mut found: Vec<&UOp> =
        ops.iter().filter(|op| op.op() == Op::Local).filter(scratch).collect();
    found.sort_by_key(|op| op.arg().memory().map(|(_, id, _)| id));
    let mut offset = 0usize;
    let place = |op| {
        let here = offset.next_multiple_of(64);
        offset = here + memory_len(op) * op.dtype().size();
        (op, here)
    };
    found.into_iter().map(place).collect()
}

/// The length in scalars of a `Local`.
fn memory_len(op: &UOp) -> usize {
    let (_, _, len) = op.arg().memory().expect("a local");
    len * op.lanes() as usize
}

/// The launch-time scalars by slot.
fn vars(ops: &[UOp]) -> Vec<&UOp> {
    let mut vars: Vec<&UOp> = ops.iter().filter(|op| op.op() == Op::Var).collect();
    vars.sort_by_key(|op| op.arg().slot());
    vars.dedup_by_key(|op| op.arg().slot());
    vars
}

/// Whether the range is the one that a launch divides.
fn is_thread(op: &UOp) -> bool {
    matches!(op.arg().range(), Some((_, RangeKind::Thread)))
}

/// Whether every value of this shift's distance is inside `0..width`.
fn shift_fits(op: &UOp) -> bool {
    let distance = op.src(1);
    distance.min() >= 0 && distance.max() < op.dtype().bits() as i64
}

/// Whether the exact result of a signed sum, difference or product always fits its type: then it cannot wrap.
fn cannot_wrap(op: &UOp) -> bool {
    if !matches!(op.dtype(), DType::I32 | DType::I64) {
        return false;
    }
    let bounds = |i: usize| (op.src(i).min() as i128, op.src(i).max() as i128);
    let ((a0, a1), (b0, b1)) = (bounds(0), bounds(1));
    let (lo, hi) = match op.op() {
        Op::Add => (a0 + b0, a1 + b1),
        Op::Sub => (a0 - b1, a1 - b0),
        Op::Mul => {
            let corners = [a0 * b0, a0 * b1, a1 * b0, a1 * b1];
            (corners.into_iter().min().expect("4"), corners.into_iter().max().expect("4"))
        }
        _ => return false,
    };
    let (min, max) = op.dtype().int_bounds();
    lo >= min as i128 && hi <= max as i128
}
