//! What it takes to compute a filler: a value made of constants and positions alone, like `arange` or random numbers.

use kiln_compile::target::Costs;
use kiln_ir::{DType, Op, UOp};

/// What an element of a filler takes, in additions. `sources` are what it is computed from, with what an element of each
/// takes. Example: `(x + y).exp()` of two rows takes 1 + 12.5, and broadcast over many rows next to nothing.
pub(super) fn additions<'a>(node: &UOp, sources: impl Iterator<Item = (&'a UOp, f32)>) -> f32 {
    let outputs = node.numel().max(1) as f32;
    let terms = |source: &UOp| match node.op() {
        Op::Reduce => source.numel() as f32 / outputs,
        _ => (source.numel() as f32 / outputs).min(1.0),
    };
    let (mut below, mut most_terms) = (0.0, 0f32);
    for (source, each) in sources {
        below += terms(source) * each;
        most_terms = most_terms.max(terms(source));
    }
    let own = match node.op() {
        Op::Const | Op::Var | Op::Iota => 0.0,
        op if op.is_movement() => 0.0,
        op => op.additions(node.dtype()) as f32,
    };
    below + own * most_terms
}

/// What reading 32 bits from memory takes, in additions. Masks of bytes count as much: most are bounds of loops.
pub(super) fn read() -> f32 {
    (DType::F32.size() as f64 * Costs::CPU.byte_ns / Costs::CPU.operation_ns) as f32
}

/// Whether computing it again takes longer than reading it, and longer than a launch. To store what is short saves little, and
/// whoever reads it is compiled once more.
pub(super) fn is_dear(filler: &UOp, additions: f32) -> bool {
    let all = f64::from(additions) * filler.numel() as f64 * Costs::CPU.operation_ns;
    additions > read() && all > Costs::CPU.launch_ns
}
