//! Part of pass `render`: what every language must know of ops: names, scratch memory, what fits a type.

use kiln_ir::arg::{Arg, RangeKind, Space};
use kiln_ir::{DType, Op, UOp};

/// The name of a memory or loop variable, in every language.
pub(super) fn definition_name(op: &UOp) -> String {
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
pub(super) fn identifier(name: &str) -> String {
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

/// The launch-time scalars by slot.
pub(super) fn vars(ops: &[UOp]) -> Vec<&UOp> {
    let mut vars: Vec<&UOp> = ops.iter().filter(|op| op.op() == Op::Var).collect();
    vars.sort_by_key(|op| op.arg().slot());
    vars.dedup_by_key(|op| op.arg().slot());
    vars
}

/// How many elements after its index a prefetch asks for, and into which cache: 3 for the first and 2 for the second, as C
/// and LLVM number them. What fits half of a first cache of 32 KiB with all before it is still in it when it is read.
pub(super) fn prefetch(op: &UOp) -> (usize, u8) {
    let ahead = op.arg().prefetch().expect("a prefetch");
    let is_near = ahead * op.memory().dtype().size() < 16 << 10;
    (ahead, if is_near { 3 } else { 2 })
}

/// Whether the range is the one that a launch divides.
pub(super) fn is_thread(op: &UOp) -> bool {
    matches!(op.arg().range(), Some((_, RangeKind::Thread)))
}

/// Whether every value of this shift's distance is inside `0..width`.
pub(super) fn shift_fits(op: &UOp) -> bool {
    let distance = op.src(1);
    distance.min() >= 0 && distance.max() < op.dtype().bits() as i64
}

/// Whether the exact result of a signed sum, difference or product always fits its type: then it cannot wrap.
pub(super) fn cannot_wrap(op: &UOp) -> bool {
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
