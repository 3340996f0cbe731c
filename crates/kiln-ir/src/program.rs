//! What the compiler hands to a device: a linear program, its text, and what a launch needs to know.

mod traffic;

pub use traffic::Traffic;

use crate::arg::{RangeKind, Space};
use crate::dtype::{Const, DType};
use crate::eval::eval;
use crate::op::Op;
use crate::uop::{UOp, toposort};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Bytes of a cache line.
pub const LINE: usize = 64;

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

    /// About how many instructions a launch with these launch-time scalars (by slot) executes in the thread that has most to do:
    /// each op once for each iteration of the loops around it. A loop that threads share counts by the iterations of one of
    /// `threads` threads. Accesses to registers are no instructions. A loop whose length depends on those around it counts
    /// as in their first iterations: the last block counts as a whole one. One whose length depends on a scalar that is not given counts as long as it may be.
    pub fn instructions(&self, vars: &[i64], threads: usize) -> u64 {
        let (mut times, mut count) = (vec![1u64], 0u64);
        let mut known = Known::new(vars, threads);
        for op in &self.ops {
            let now = times.last().copied().unwrap_or(1);
            match op.op() {
                Op::Range => times.push(now.saturating_mul(known.trip_count(op))),
                Op::End => drop(times.pop()),
                Op::Const | Op::Param | Op::Var | Op::Local => {}
                Op::Load | Op::Store if op.is_in_registers() => {}
                _ => count = count.saturating_add(now),
            }
            known.add(op);
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

/// The scalars of a program that a launch knows before it starts, with their values.
struct Known<'a> {
    vars: &'a [i64],
    threads: usize,
    values: FxHashMap<&'a UOp, Const>,
}

impl<'a> Known<'a> {
    fn new(vars: &'a [i64], threads: usize) -> Known<'a> {
        Known { vars, threads: threads.max(1), values: FxHashMap::default() }
    }

    /// The next op of the program.
    fn add(&mut self, op: &'a UOp) {
        let value = match op.op() {
            Op::Var => self.var(op),
            Op::Range => Some(Const::Int(0).cast(op.dtype())),
            Op::Cast => self.computed(op),
            alu if alu.is_alu() && op.lanes() == 1 => self.computed(op),
            _ => None,
        };
        if let Some(value) = value {
            self.values.insert(op, value);
        }
    }

    fn var(&self, op: &UOp) -> Option<Const> {
        let value = *self.vars.get(op.arg().slot()?)?;
        op.dtype().is_int().then(|| Const::Int(value).cast(op.dtype()))
    }

    fn computed(&self, op: &UOp) -> Option<Const> {
        let values = op.srcs().iter().map(|src| self.value(src));
        eval(op.op(), op.dtype(), &values.collect::<Option<SmallVec<[Const; 3]>>>()?)
    }

    /// A constant may be no op of the program.
    fn value(&self, op: &UOp) -> Option<Const> {
        op.as_const().or_else(|| self.values.get(op).copied())
    }

    /// Of a loop that threads share, the iterations of the thread that has most.
    fn trip_count(&self, range: &UOp) -> u64 {
        let of = range.src(0);
        let known = || self.value(of)?.as_i128()?.try_into().ok();
        let all = known().unwrap_or(of.max()).max(0) as u64;
        let is_shared = matches!(range.arg().range(), Some((_, RangeKind::Thread)));
        if is_shared { all.div_ceil(self.threads as u64) } else { all }
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
