//! Which options to apply, without a search.
//!
//! In order: one loop of each nest becomes vectors (the one along which memory is read and written in a row), a
//! reduction gets a register tile over an output loop along which something is reused, short reductions are unrolled,
//! and the outermost output loop is shared among threads.

use super::access::{Access, Kernel};
use super::options::{Opt, axis_of, kind_of, ranges_of, size_of};
use crate::target::Target;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, UOp};

/// Reductions of at most this many iterations are unrolled whole.
const UNROLL_WHOLE: usize = 5;
/// Accumulators of a register tile, in vectors: enough to hide the latency of a multiply-add.
const TILE: usize = 8;
/// Below this many arithmetic operations and accesses, starting threads costs more than they bring.
const THREAD_WORK: usize = 1 << 16;
/// What a vector of 1, 2, 4, 8 or 16 lanes costs: wide ones take two turns on many processors.
const WIDTH: [f64; 5] = [1.0, 1.0, 1.0, 1.0, 1.5];
/// What a gate on a vector adds.
const MASKED: f64 = 1.3;
/// Past this many nodes the kernel's text is not multiplied further.
const MAX_NODES: usize = 2000;

/// The options for a kernel.
pub(super) fn choose(ast: &UOp, target: &Target) -> Vec<Opt> {
    let mut chooser = Chooser {
        kernel: Kernel::of(ast),
        left: ranges_of(ast).into_iter().map(|r| (size_of(&r), r)).collect(),
        options: Vec::new(),
        masks: target.masks,
        room: MAX_NODES / toposort(ast).len().max(1),
    };
    chooser.vectors(lanes(ast, target));
    chooser.tile(target);
    chooser.unroll();
    chooser.threads(target);
    chooser.options
}

/// Lanes of a vector of the kernel's widest type.
fn lanes(ast: &UOp, target: &Target) -> usize {
    let widest = |n: &UOp| {
        if matches!(n.dtype(), DType::Index | DType::Void) { 1 } else { n.dtype().size() }
    };
    let bytes = toposort(ast).iter().map(widest).max().unwrap_or(1);
    // wider than 16 lanes only makes masks and conversions expensive
    (target.vector_bytes / bytes.max(4)).min(16)
}

struct Chooser {
    kernel: Kernel,
    /// Every loop with the iterations that options have left of it.
    left: Vec<(usize, UOp)>,
    options: Vec<Opt>,
    /// Whether gated vectors are cheap.
    masks: bool,
    /// How many times the text may still be multiplied.
    room: usize,
}

impl Chooser {
    fn apply(&mut self, kind: RangeKind, i: usize, by: usize) {
        self.options.push(Opt { kind, axis: axis_of(&self.left[i].1), by });
        self.left[i].0 = self.left[i].0.div_ceil(by);
        if kind != RangeKind::Vector {
            self.room /= by;
        }
    }

    fn vectors(&mut self, lanes: usize) {
        let mut candidates: Vec<(f64, usize, usize)> = Vec::new();
        for (i, (size, range)) in self.left.iter().enumerate() {
            if matches!(kind_of(range), RangeKind::Loop | RangeKind::Reduce) {
                let widths = widths(*size, lanes, self.masks);
                candidates.extend(widths.map(|by| (self.vector_cost(range, by), i, by)));
            }
        }
        // cheapest first; of equals the innermost output loop, and the narrower vector
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(&b.2)));
        let mut taken: Vec<u32> = Vec::new();
        for (cost, i, by) in candidates {
            let axis = axis_of(&self.left[i].1);
            if cost < 1.0 && taken.iter().all(|&t| t != axis && !self.kernel.together(t, axis)) {
                taken.push(axis);
                self.apply(RangeKind::Vector, i, by);
            }
        }
    }

    /// The price of the accesses inside a loop as vectors, relative to the loop as it is (1.0 is no gain).
    fn vector_cost(&self, range: &UOp, by: usize) -> f64 {
        let (axis, size) = (axis_of(range), size_of(range));
        let inside: Vec<&Access> =
            self.kernel.accesses.iter().filter(|a| a.scope.contains(&axis)).collect();
        let vectors = size.div_ceil(by) as f64;
        let partly = if size.is_multiple_of(by) { 1.0 } else { MASKED };
        let whole = WIDTH[by.trailing_zeros() as usize] * partly;
        let price = |a: &&Access| match a.stride(axis) {
            _ if a.gate.contains(&axis) && !self.masks => by as f64 * 3.0,
            Some(0) if a.is_store => by as f64,
            Some(0) => 0.5,
            Some(1) => whole,
            _ => by as f64 * 1.2,
        };
        let vector: f64 = inside.iter().map(price).sum::<f64>() + self.horizontal(range);
        vector * vectors / (inside.len().max(1) * size.max(1)) as f64
    }

    /// Combining the lanes of a reduction, spread over its iterations.
    fn horizontal(&self, range: &UOp) -> f64 {
        match kind_of(range) {
            RangeKind::Reduce => 16.0 / size_of(range) as f64 + 0.5,
            _ => 0.0,
        }
    }

    /// A register tile: output loops along which some load stands still share what it loaded.
    fn tile(&mut self, target: &Target) {
        if !self.left.iter().any(|(_, r)| kind_of(r) == RangeKind::Reduce)
            || target.vector_registers < 16
        {
            return;
        }
        let mut tile = 1;
        for i in (0..self.left.len()).rev() {
            let (size, range) = self.left[i].clone();
            if kind_of(&range) != RangeKind::Loop || !self.reuses(axis_of(&range)) {
                continue;
            }
            let by = largest_divisor(size, (TILE / tile).min(self.room).min(4));
            if by > 1 {
                self.apply(RangeKind::Upcast, i, by);
                tile *= by;
            }
        }
    }

    /// Whether some load inside a reduction stands still along an output loop while another moves.
    fn reuses(&self, axis: u32) -> bool {
        let reduces: Vec<u32> = self
            .left
            .iter()
            .filter(|(_, r)| kind_of(r) == RangeKind::Reduce)
            .map(|(_, r)| axis_of(r))
            .collect();
        let inner = |a: &&Access| !a.is_store && reduces.iter().any(|r| a.scope.contains(r));
        let loads: Vec<&Access> = self.kernel.accesses.iter().filter(inner).collect();
        // every load of the reduction must be in a loop that this one shares, or the tile would repeat other work
        loads.iter().any(|a| a.stride(axis) == Some(0))
            && loads.iter().any(|a| a.stride(axis) != Some(0))
    }

    fn unroll(&mut self) {
        for i in (0..self.left.len()).rev() {
            let (size, range) = self.left[i].clone();
            if kind_of(&range) == RangeKind::Reduce
                && size > 1
                && size <= UNROLL_WHOLE.min(self.room)
            {
                self.apply(RangeKind::Unroll, i, size);
            }
        }
    }

    fn threads(&mut self, target: &Target) {
        let iterations: usize =
            self.left.iter().map(|(_, r)| size_of(r)).fold(1, usize::saturating_mul);
        let work = iterations.saturating_mul(self.kernel.operations + self.kernel.accesses.len());
        if target.threads < 2 || work < THREAD_WORK {
            return;
        }
        // the outermost output loop, if nothing outside it would be done by every thread
        let Some(i) = self.left.iter().position(|(n, r)| *n > 1 && kind_of(r) == RangeKind::Loop)
        else {
            return;
        };
        let (size, axis) = (self.left[i].0, axis_of(&self.left[i].1));
        let everything_inside = self.kernel.nests.iter().all(|nest| nest.contains(&axis));
        if size >= target.threads && everything_inside {
            self.apply(RangeKind::Thread, i, 1);
        }
    }
}

/// Lanes worth trying for a loop of `n`: powers of two that divide it, or, where parts of vectors are cheap, any.
fn widths(n: usize, lanes: usize, masks: bool) -> impl Iterator<Item = usize> {
    // a loop of three or four is not worth a mask
    let fits = move |by: &usize| n.is_multiple_of(*by) || masks && n > 4 && n > *by / 2;
    [4, 8, 16].into_iter().filter(move |&by| by <= lanes && n > 0).filter(fits)
}

fn largest_divisor(n: usize, limit: usize) -> usize {
    (1..=limit).rev().find(|&d| n > 0 && n.is_multiple_of(d)).unwrap_or(1)
}
