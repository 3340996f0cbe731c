//! What the compiler hands to a device: a linear program, its text, and what a launch needs to know.

use crate::arg::Space;
use crate::dtype::DType;
use crate::op::Op;
use crate::uop::{UOp, toposort};
use std::sync::Arc;

/// One compiled-to-text kernel. Everything in it is plain data; a backend turns it into something that runs.
#[derive(Clone, Debug)]
pub struct Program {
    /// Such as `r_32_8`; deterministic, not unique.
    pub name: Arc<str>,
    /// The linear program (spec `PROGRAM`), which INTERP executes and renderers spell.
    pub ops: Vec<UOp>,
    /// The program in the target's language; empty for INTERP.
    pub source: String,
    /// Arguments by slot.
    pub params: Vec<ParamInfo>,
    /// Dtypes of the launch-time scalars by slot. Each is passed as 8 bytes: integers extended, floats as the bits of
    /// their own type in the low bytes.
    pub vars: Vec<DType>,
    /// The size of the `Thread` range, or 1: the launch may divide `0..threads` as it likes. It may depend on launch-time
    /// scalars: see [`value_at_launch`].
    pub threads: UOp,
    /// Sizes of the `Global` ranges in order of axis.
    pub global: Vec<usize>,
    /// Sizes of the `Local` ranges in order of axis.
    pub local: Vec<usize>,
    /// Bytes of scratch that each thread (or work-group) brings.
    pub scratch_bytes: usize,
    /// Arithmetic operations of one launch.
    pub flops: u64,
    /// Distinct bytes that one launch reads and writes.
    pub bytes: u64,
    /// Bytes that its loads and stores of arguments and scratch move, each time that one runs.
    pub accessed: u64,
}

impl Program {
    /// Whether it uses matrix units, which a system may keep from a process.
    pub fn has_matrices(&self) -> bool {
        self.ops.iter().any(|op| op.op() == Op::Mma)
    }

    /// About how many instructions one launch executes: each op once for each iteration of the loops around it. A loop whose
    /// length only a launch knows counts as long as it may be.
    pub fn instructions(&self) -> u64 {
        let (mut times, mut count) = (vec![1u64], 0u64);
        for op in &self.ops {
            let now = times.last().copied().unwrap_or(1);
            match op.op() {
                Op::Range => times.push(now.saturating_mul(op.src(0).max().max(0) as u64)),
                Op::End => drop(times.pop()),
                Op::Const | Op::Param | Op::Var | Op::Local => {}
                _ => count = count.saturating_add(now),
            }
        }
        count
    }

    /// About how much memory it takes.
    pub fn size(&self) -> usize {
        let lists = size_of_val(&self.params[..]) + size_of_val(&self.vars[..]);
        let ops = self.ops.len() * UOp::SIZE;
        size_of::<Program>() + self.name.len() + self.source.len() + lists + ops
    }
}

/// Whether [`value_at_launch`] knows an index.
pub fn at_launch(index: &UOp) -> bool {
    use Op::{Add, Const, FloorDiv, Max, Min, Mul, Var};
    toposort(index).iter().all(|n| matches!(n.op(), Add | Const | FloorDiv | Max | Min | Mul | Var))
}

/// An index over launch-time scalars, given their values by slot.
///
/// ```
/// use kiln_ir::program::value_at_launch;
/// use kiln_ir::{DType, UOp};
///
/// let n = UOp::var(0, DType::Index, 2, 1024);
/// let blocks = (n + 4).floordiv(&UOp::index(5));
/// assert_eq!(value_at_launch(&blocks, &[31]), Some(7));
/// ```
pub fn value_at_launch(index: &UOp, vars: &[i64]) -> Option<i64> {
    if let Some(value) = index.as_int() {
        return Some(value);
    }
    let of = |i: usize| value_at_launch(index.src(i), vars);
    match index.op() {
        Op::Var => vars.get(index.arg().slot()?).copied(),
        Op::Add => of(0)?.checked_add(of(1)?),
        Op::Mul => of(0)?.checked_mul(of(1)?),
        Op::FloorDiv => of(1).filter(|by| *by > 0).and_then(|by| Some(of(0)?.div_euclid(by))),
        Op::Max => Some(of(0)?.max(of(1)?)),
        Op::Min => Some(of(0)?.min(of(1)?)),
        _ => None,
    }
}

/// The scratch memories among ops with their byte offsets, in order of id, each at a multiple of 64; and all their bytes.
pub fn scratch_layout(ops: &[UOp]) -> (Vec<(&UOp, usize)>, usize) {
    let scratch = |op: &UOp| match op.arg().memory() {
        Some((Space::Scratch, id, len)) if op.op() == Op::Local => Some((id, len)),
        _ => None,
    };
    let mut found: Vec<_> = ops.iter().filter_map(|op| Some((scratch(op)?, op))).collect();
    found.sort_by_key(|((id, _), _)| *id);
    let mut end = 0usize;
    let place = |((_, len), op): ((u32, usize), _)| {
        let op: &UOp = op;
        let start = end;
        end = (start + len * op.lanes() as usize * op.dtype().size()).next_multiple_of(64);
        (op, start)
    };
    let places = found.into_iter().map(place).collect();
    (places, end)
}

/// One memory argument of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamInfo {
    /// The element type.
    pub dtype: DType,
    /// Length in elements.
    pub len: usize,
    /// Whether the program stores to it.
    pub written: bool,
    /// Whether the program loads from it.
    pub read: bool,
    /// Whether it is only written, and that past the caches: memory that begins with a cache line of 64 bytes.
    pub streamed: bool,
}
