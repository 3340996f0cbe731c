//! The time to compute a filler: a value made of constants and positions alone, like `arange` or random numbers.

use kiln_compile::schedule::own_time;
use kiln_compile::target::Costs;
use kiln_ir::{DType, Op, UOp};

/// The time of an element, in nanoseconds, from those of its `sources`. Example: `x.exp()` of a row takes 12 additions. If the
/// row is broadcast to many, an element takes next to nothing.
pub(super) fn time<'a>(node: &UOp, sources: impl Iterator<Item = (&'a UOp, f32)>) -> f32 {
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
    below + own_time(&Costs::CPU, node) as f32 * most_terms
}

/// The time to read 32 bits from memory. Masks of bytes count as much: most are bounds of loops.
pub(super) fn read() -> f32 {
    (DType::F32.size() as f64 * Costs::CPU.byte_ns) as f32
}

/// Whether computing it again takes longer than reading it, and longer than a launch. To store what is short saves little, and
/// whoever reads it is compiled once more.
pub(super) fn is_dear(filler: &UOp, time: f32) -> bool {
    time > read() && f64::from(time) * filler.numel() as f64 > Costs::CPU.launch_ns
}
