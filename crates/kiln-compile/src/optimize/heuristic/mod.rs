//! Which options to apply, without a search.
//!
//! A reduction whose operands are used again and again is planned as a whole: tiles, blocks, staged operands, threads
//! (`plan`, `blocks`; prices are in `tile_price`, `memory_price`). For all other kernels, in order: one loop of each nest
//! becomes vectors (the one along which memory is read and written in a row), a reduction gets a register tile over an
//! output loop along which something is reused, one across memory takes many outputs at a time (`across`), the outermost
//! output loop is shared among threads, and what loops after a reduction need again is kept. Short reductions are
//! unrolled in both, and long ones of short steps get several accumulators (`accumulators`).

mod accumulators;
mod across;
mod blocks;
mod memory_price;
mod operand;
mod plan;
mod text;
mod threads;
mod tile;
mod tile_price;
mod vectors;

use super::access::Kernel;
use super::dot;
use super::keep;
use super::options::{Opt, axis_of, ranges_of, size_of};
use super::ordered::ordered;
use crate::target::{Dot, Target};
use kiln_ir::UOp;
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::toposort;

/// The options for a kernel, which multiply its text to no more than `nodes` nodes.
pub(super) fn choose(ast: &UOp, target: &Target, nodes: usize) -> Vec<Opt> {
    if let Some(options) = with_dots(ast, target, nodes) {
        return options;
    }
    let mut chooser = Chooser::of(ast, target, nodes);
    if chooser.plan(ast, target) {
        return chooser.options;
    }
    chooser.vectors(vectors::lanes(ast, target));
    chooser.upcast_lanes();
    if !chooser.across(target) {
        chooser.tile(target);
    }
    chooser.unroll();
    chooser.accumulators(ast, target);
    chooser.threads(target);
    chooser.keep(ast, target);
    chooser.options
}

/// The plan of a sum of products that the target has a dot product for, if it is worth one.
fn with_dots(ast: &UOp, target: &Target, nodes: usize) -> Option<Vec<Opt>> {
    let fits = |unit: &Dot| dot::axis(ast, unit.parts, unit.sum).map(|axis| (axis, unit.parts));
    let (axis, parts) = target.dots.iter().find_map(fits)?;
    let packed = dot::pack(ast, axis, parts).ok()?;
    let mut chooser = Chooser::of(&packed, target, nodes);
    let price = chooser.plan_price(&packed, target)? / dot::count(parts[0]) as f64;
    let plain = Chooser::of(ast, target, nodes).plan_price(ast, target);
    if plain.is_some_and(|plain| plain < price) {
        return None;
    }
    chooser.options.push(Opt::Dot { axis, parts });
    chooser.plan(&packed, target).then_some(chooser.options)
}

struct Chooser {
    kernel: Kernel,
    /// Every loop with the iterations that options have left of it.
    left: Vec<(usize, UOp)>,
    options: Vec<Opt>,
    /// Whether gated vectors are cheap.
    masks: bool,
    /// How long the text may become.
    nodes: usize,
    /// How many times the text may still be multiplied.
    room: usize,
}

impl Chooser {
    fn of(ast: &UOp, target: &Target, nodes: usize) -> Chooser {
        // loops that must run in their order are left alone
        let ordered = ordered(ast);
        let free = ranges_of(ast).into_iter().filter(|r| !ordered.contains(&axis_of(r)));
        Chooser {
            kernel: Kernel::of(ast),
            left: free.map(|r| (size_of(&r), r)).collect(),
            options: Vec::new(),
            masks: target.masks,
            nodes,
            room: nodes / toposort(ast).len().max(1),
        }
    }

    /// Makes a loop of `by` iterations, further out than earlier ones.
    fn block(&mut self, i: usize, by: usize) {
        if by > 1 {
            self.options.push(Opt::Block { axis: axis_of(&self.left[i].1), by });
            self.left[i].0 = self.left[i].0.div_ceil(by);
        }
    }

    /// Values that loops after a reduction need again stay in the second cache.
    fn keep(&mut self, ast: &UOp, target: &Target) {
        let bytes = target.cache_bytes[1] / 4;
        if keep::pays(ast, bytes) {
            self.options.push(Opt::Keep { bytes });
        }
    }

    fn apply(&mut self, kind: RangeKind, i: usize, by: usize) {
        if by == 1 && kind != RangeKind::Thread {
            return;
        }
        self.options.push(Opt::Split { kind, axis: axis_of(&self.left[i].1), by });
        self.left[i].0 = self.left[i].0.div_ceil(by);
        if kind != RangeKind::Vector {
            self.room /= by;
        }
    }
}
