//! Part of passes `choose` and `options`: kernels of several loop nests, which pass `chain` made.
//!
//! Each nest is optimized as a kernel of its own, for which the rows of the other nests are an argument. Then the nests
//! are put together again. The innermost loop that the nests share may be blocked: several rows are computed in one
//! nest before the next nest begins, so that an operand that all rows need is read once.

use super::gate::gate;
use super::legal;
use super::opt::Opt;
use super::options::rewritten;
use super::ranges::{axis_of, kind_of, ranges_of, replace_ranges, size_of};
use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{Srcs, mapped, rebuild, substitute, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

/// A kernel with several nests.
pub(super) struct Nests {
    ast: UOp,
    /// The loops around all nests, outermost first.
    shared: Vec<UOp>,
    /// What fills each scratch memory, in an order in which they run.
    ends: Vec<UOp>,
    /// The first slot that the kernel has no argument for.
    slots: usize,
}

/// How the innermost shared loop is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rows {
    /// Rows that are done at once.
    pub(super) by: usize,
    /// How many such blocks make an iteration of a loop around all others; 0 where there is no such loop.
    pub(super) blocks: usize,
}

/// How much the nests compute in a launch.
pub(super) struct Launch {
    /// Iterations of the innermost shared loop.
    pub(super) rows: usize,
    /// Those of the loops around it, outermost first.
    pub(super) outer: Vec<usize>,
    /// Bytes of what is between the nests for one row.
    pub(super) row_bytes: usize,
}

/// The nests as kernels of their own.
pub(super) struct Apart {
    pub(super) kernels: Vec<UOp>,
    /// Loops with smaller axes than this are around all nests, and the same in all kernels.
    pub(super) around: u32,
}

impl Nests {
    /// The nests of a scheduled kernel, if it has several.
    pub(super) fn of(ast: &UOp) -> Option<Nests> {
        let nodes = toposort(ast);
        let fills = |n: &&UOp| n.op() == Op::End && scratch_of(n).is_some();
        let ends: Vec<UOp> = nodes.iter().filter(fills).cloned().collect();
        let shared: Vec<UOp> = ends.first()?.src(0).src(0).srcs()[1..].to_vec();
        let alike = |end: &UOp| end.src(0).src(0).srcs()[1..] == shared[..];
        let slots = nodes.iter().filter(|n| n.op() == Op::Param).filter_map(|n| n.arg().slot());
        let slots = slots.max().map_or(0, |s| s + 1);
        let fits = !shared.is_empty() && ends.iter().all(alike);
        fits.then(|| Nests { ast: ast.clone(), shared, ends, slots })
    }

    /// Iterations of the innermost shared loop in the longest launch, and of those around it, outermost first.
    fn rows(&self) -> (usize, Vec<usize>) {
        let (last, outer) = self.shared.split_last().expect("there are shared loops");
        (size_of(last), outer.iter().map(size_of).collect())
    }

    /// What there is to compute in a launch in which loops have so many `trips`.
    pub(super) fn launch(&self, trips: &dyn Fn(&UOp) -> usize) -> Launch {
        let (last, outer) = self.shared.split_last().expect("there are shared loops");
        let bytes = |(i, end): (usize, &UOp)| {
            let own = end.srcs()[1..].iter();
            let row = own.fold(self.row(i), |row, r| row * trips(r) / size_of(r).max(1));
            row * self.scratch(i).dtype().size()
        };
        let row_bytes = self.ends.iter().enumerate().map(bytes).sum();
        Launch { rows: trips(last), outer: outer.iter().map(trips).collect(), row_bytes }
    }

    fn scratch(&self, i: usize) -> &UOp {
        self.ends[i].src(0).memory()
    }

    /// Elements of a row of the nest's values.
    fn row(&self, i: usize) -> usize {
        self.scratch(i).arg().memory().expect("it is scratch").2
    }

    /// The kernel of each nest over divided rows.
    pub(super) fn apart(&self, rows: Rows) -> Apart {
        let around = Around::new(self, rows);
        let first = |i: usize| first_of_row(&self.shared, self.row(i), around.padded);
        let argument = |i: usize| {
            let outer: usize = self.rows().1.iter().product();
            let len = outer * around.padded * self.row(i);
            UOp::param(self.slots + i, self.scratch(i).dtype(), [len].as_slice())
        };
        let mut loads: FxHashMap<UOp, UOp> = FxHashMap::default();
        for load in toposort(&self.ast).into_iter().filter(|n| n.op() == Op::Load) {
            if let Some(i) = self.ends.iter().position(|e| Some(e) == load.src(0).srcs().get(1)) {
                let place = simplify(&(load.src(1) + first(i)));
                let new = UOp::load_lanes(&argument(i), &place, load.gate(), 1);
                loads.insert(load, new);
            }
        }
        let nest = |i: usize| {
            let (store, own) = (self.ends[i].src(0), &self.ends[i].srcs()[1..]);
            let value = substitute(std::slice::from_ref(store.src(2)), &loads).swap_remove(0);
            let place = simplify(&(store.src(1) + first(i)));
            let store = UOp::store(&argument(i), &place, &value, None);
            UOp::kernel([store.end(self.shared.iter().chain(own).cloned())], "")
        };
        let last = substitute(std::slice::from_ref(&self.ast), &loads);
        let kernels = (0..self.ends.len()).map(nest).chain(last);
        let divided = kernels.map(|k| around.divide(&k, self.slots)).collect();
        Apart { kernels: divided, around: around.number }
    }

    /// Whether options may be applied in this order; if not, the first that may not and why.
    pub(super) fn check(&self, options: &[Opt]) -> Result<(), String> {
        let (rows, of_nests) = self.sorted(options)?;
        let apart = self.apart(rows);
        for (kernel, options) in apart.kernels.iter().zip(&of_nests) {
            let around = |o: &&Opt| axis_named(o).is_some_and(|axis| axis < apart.around);
            let (outside, inside): (Vec<&Opt>, Vec<&Opt>) = options.iter().partition(around);
            let thread = |o: &&Opt| matches!(o, Opt::Split { kind: RangeKind::Thread, .. });
            if !outside.iter().all(thread) || outside.len() > 1 {
                return Err(
                    "a loop around several nests can only be divided among threads".to_owned()
                );
            }
            let alike = thread_of(options) == thread_of(&of_nests[0]);
            if !alike || thread_of(options).is_some_and(|axis| axis >= apart.around) {
                return Err("threads must share the same loop in all nests, and one that is around all of them".to_owned());
            }
            let inside: Vec<Opt> = inside.into_iter().copied().collect();
            legal::check(kernel, &inside)?;
        }
        Ok(())
    }

    /// How rows are divided, and the options of each nest.
    fn sorted(&self, options: &[Opt]) -> Result<(Rows, Vec<Vec<Opt>>), String> {
        let mut rows = Rows { by: 1, blocks: 0 };
        let mut of_nests: Vec<Vec<Opt>> = vec![Vec::new(); self.ends.len() + 1];
        let mut current = None;
        for (i, &option) in options.iter().enumerate() {
            match (option, current) {
                (Opt::Rows { by, blocks }, None) if i == 0 && by > 0 => rows = Rows { by, blocks },
                (Opt::Nest { nest }, _) if nest < of_nests.len() => current = Some(nest),
                (Opt::Mma { .. } | Opt::Align { .. }, _) => {
                    return Err(format!(
                        "{option}: the kernel has several nests, which excludes this option"
                    ));
                }
                (Opt::Rows { .. } | Opt::Nest { .. }, _) | (_, None) => {
                    return Err(format!(
                        "{option}: ROWS must come first, and every other option after the NEST that it is for"
                    ));
                }
                (option, Some(nest)) => of_nests[nest].push(option),
            }
        }
        Ok((rows, of_nests))
    }

    /// The kernel with legal options applied.
    pub(super) fn apply(&self, options: &[Opt]) -> Result<UOp, String> {
        let (rows, of_nests) = self.sorted(options)?;
        let apart = self.apart(rows);
        let optimized = apart.kernels.iter().zip(&of_nests);
        let optimized = optimized.map(|(kernel, options)| rewritten(kernel, options));
        Ok(self.together(optimized.collect::<Result<_, _>>()?, rows, thread_of(&of_nests[0])))
    }

    /// One kernel of the nests' kernels, of which all have the same loops around.
    fn together(&self, kernels: Vec<UOp>, rows: Rows, thread: Option<u32>) -> UOp {
        let around = Around::new(self, rows);
        let loops: Vec<UOp> = ranges_of(&kernels[0])[..around.number as usize].to_vec();
        let order = around.before(thread);
        let old: Vec<UOp> = order.iter().map(|&i| loops[i].clone()).collect();
        let shared = around.values(&old);
        let (mut axis, mut id) = (around.number, 0);
        let mut renamed = Vec::new();
        for kernel in &kernels {
            let moved = moved(kernel, around.number, &mut axis, &mut id);
            renamed.push(moved);
        }
        let mut joint =
            Joint { nests: self, by: rows.by, loops, first: Vec::new(), filled: Vec::new() };
        for i in 0..self.ends.len() {
            joint.first.push(first_of_row(&shared, self.row(i), around.padded));
        }
        let mut last = None;
        for (i, kernel) in renamed.iter().enumerate() {
            last = Some(joint.add(i, kernel, id));
        }
        simplify(&last.expect("there are nests"))
    }
}

/// The scratch that a loop of stores fills.
fn scratch_of(end: &UOp) -> Option<&UOp> {
    let store = end.src(0);
    let memory = (store.op() == Op::Store).then(|| store.memory())?;
    let is_scratch = memory.arg().memory().is_some_and(|(space, ..)| space == Space::Scratch);
    let after = store.src(0).op() == Op::After;
    let ranges = after && store.src(0).srcs()[1..].iter().all(|s| s.op() == Op::Range);
    (is_scratch && ranges).then_some(memory)
}

/// The loop that threads share.
fn thread_of(options: &[Opt]) -> Option<u32> {
    let is_thread = |o: &&Opt| matches!(o, Opt::Split { kind: RangeKind::Thread, .. });
    options.iter().find(is_thread).and_then(axis_named)
}

/// The axis that an option names.
fn axis_named(option: &Opt) -> Option<u32> {
    match *option {
        Opt::Split { axis, .. } | Opt::Block { axis, .. } | Opt::Align { axis, .. } => Some(axis),
        Opt::Stage { .. }
        | Opt::Share { .. }
        | Opt::Dot { .. }
        | Opt::Mma { .. }
        | Opt::Keep { .. } => None,
        Opt::Rows { .. } | Opt::Nest { .. } => None,
        Opt::Subgroup { .. } | Opt::Combine { .. } => None,
    }
}

/// The position of the first element of a row, if the innermost loop had `padded` iterations.
fn first_of_row(shared: &[UOp], row: usize, padded: usize) -> UOp {
    let mut stride = row as i64;
    let mut at = UOp::index(0);
    for (i, value) in shared.iter().rev().enumerate() {
        at = at + value * stride;
        stride *= if i == 0 { padded as i64 } else { value.max() + 1 };
    }
    at
}

/// The loops around all nests once rows are divided: blocks of rows in an outermost loop, the shared loops, and blocks
/// inside.
struct Around {
    shared: Vec<UOp>,
    rows: Rows,
    /// Iterations of an outermost loop over rows, and of the innermost of blocks.
    shares: usize,
    blocks: usize,
    /// Rows, those beyond the end included.
    padded: usize,
    /// How many loops there are.
    number: u32,
}

impl Around {
    fn new(nests: &Nests, rows: Rows) -> Around {
        let (n, outer) = nests.rows();
        let all = n.div_ceil(rows.by);
        let (shares, blocks) = match rows.blocks {
            0 => (1, all),
            blocks => (all.div_ceil(blocks), blocks),
        };
        Around {
            shared: nests.shared.clone(),
            rows,
            shares,
            blocks,
            padded: shares * blocks * rows.by,
            number: (outer.len() + (shares > 1) as usize + (blocks > 1) as usize) as u32,
        }
    }

    /// The values of the shared loops, without the place in a block, over the loops in their order.
    fn values(&self, loops: &[UOp]) -> Vec<UOp> {
        let mut loops = loops.iter().cloned();
        let share = if self.shares > 1 { loops.next() } else { None };
        let outer: Vec<UOp> = loops.by_ref().take(self.shared.len() - 1).collect();
        let block = loops.next();
        let times = |range: Option<UOp>, n: usize| {
            range.map_or_else(|| UOp::index(0), |r| if n == 1 { r } else { r * n as i64 })
        };
        let first = times(share, self.blocks * self.rows.by) + times(block, self.rows.by);
        outer.into_iter().chain([simplify(&first)]).collect()
    }

    /// By position before the options of a nest, the position of each loop after them: threads come first.
    fn before(&self, thread: Option<u32>) -> Vec<usize> {
        let thread = thread.map(|t| t as usize);
        let place = |i: usize| match thread {
            Some(t) if i == t => 0,
            Some(t) if i < t => i + 1,
            _ => i,
        };
        (0..self.number as usize).map(place).collect()
    }

    /// A nest over divided rows. Arguments from slot `slots` on have room for rows beyond the end.
    fn divide(&self, kernel: &UOp, slots: usize) -> UOp {
        let (last, outer) = self.shared.split_last().expect("there are shared loops");
        let mut kernel = kernel.clone();
        if self.padded > size_of(last) {
            let argument = |access: &UOp| access.memory().arg().slot().is_some_and(|s| s < slots);
            kernel = gate(&kernel, last, &last.lt(last.src(0)), argument)[&kernel].clone();
        }
        let mut next = 0;
        let mut range = |kind, size| {
            next += 1;
            UOp::range(next - 1, kind, size)
        };
        let kind = kind_of(last);
        let share = (self.shares > 1).then(|| range(kind, self.shares));
        let mut around: Vec<UOp> = share.into_iter().collect();
        around.extend(outer.iter().map(|r| range(kind_of(r), size_of(r))));
        around.extend((self.blocks > 1).then(|| range(kind, self.blocks)));
        let inside = (self.rows.by > 1).then(|| range(kind, self.rows.by));
        let values = self.values(&around);
        let (row, outer_values) = values.split_last().expect("there are shared loops");
        let mut map: FxHashMap<UOp, (UOp, Srcs)> = FxHashMap::default();
        for (old, new) in outer.iter().zip(outer_values) {
            map.insert(old.clone(), (new.clone(), smallvec![new.clone()]));
        }
        let own = inside.iter().chain(around.iter().filter(|r| !outer_values.contains(r)));
        let own: Srcs = own.cloned().collect();
        let value = inside.as_ref().map_or(row.clone(), |inside| row + inside);
        map.insert(last.clone(), (value, own));
        for old in ranges_of(&kernel).into_iter().filter(|r| !self.shared.contains(r)) {
            let new = range(kind_of(&old), size_of(&old));
            map.insert(old, (new.clone(), smallvec![new]));
        }
        simplify(&replace_ranges(&kernel, &map))
    }
}

/// The kernel with loops inside the first `around`, and local memories, of numbers that no other nest has.
fn moved(kernel: &UOp, around: u32, axis: &mut u32, id: &mut u32) -> UOp {
    let (mut next_axis, mut next_id) = (*axis, *id);
    let mut map: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort(kernel) {
        match node.op() {
            Op::Range if axis_of(&node) >= around => {
                let number = *axis + axis_of(&node) - around;
                next_axis = next_axis.max(number + 1);
                let new = UOp::range(number, kind_of(&node), size_of(&node));
                map.insert(node, new);
            }
            Op::Local => {
                let (space, number, len) = node.arg().memory().expect("local memory");
                next_id = next_id.max(*id + number + 1);
                let new = UOp::local(space, *id + number, len, node.dtype(), node.lanes());
                map.insert(node, new);
            }
            _ => {}
        }
    }
    (*axis, *id) = (next_axis, next_id);
    substitute(std::slice::from_ref(kernel), &map).swap_remove(0)
}

/// Nests while they are put together.
struct Joint<'a> {
    nests: &'a Nests,
    /// Rows in a block.
    by: usize,
    loops: Vec<UOp>,
    /// By nest, where the first row of a block is in the argument that stands for its values.
    first: Vec<UOp>,
    /// By nest, the scratch with its values in it.
    filled: Vec<UOp>,
}

impl Joint<'_> {
    /// Nest `i`, whose scratch has number `id + i`: its values go to scratch, and those that it reads come from there.
    fn add(&mut self, i: usize, kernel: &UOp, id: u32) -> UOp {
        let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
        for node in toposort(kernel) {
            let srcs = mapped(&node, &done);
            let between =
                |n: &UOp| n.src(0).arg().slot().and_then(|s| s.checked_sub(self.nests.slots));
            let new = match node.op() {
                Op::Load | Op::Store if between(&node).is_some() => {
                    let from = between(&node).expect("just checked");
                    let mut srcs = srcs;
                    srcs[0] = match node.op() {
                        Op::Load => self.filled[from].clone(),
                        _ => self.scratch(i, id).after(self.loops.iter().cloned()),
                    };
                    srcs[1] = simplify(&(&srcs[1] - &self.first[from]));
                    UOp::new(node.op(), node.dtype(), node.lanes(), srcs, node.arg().clone())
                }
                Op::End if i < self.nests.ends.len() && node == *kernel.src(0) => {
                    srcs[0].end(srcs[1..].iter().filter(|r| !self.loops.contains(r)).cloned())
                }
                _ => rebuild(&node, srcs),
            };
            done.insert(node, new);
        }
        if i < self.nests.ends.len() {
            self.filled.push(self.scratch(i, id).after([done[kernel.src(0)].clone()]));
        }
        done[kernel].clone()
    }

    fn scratch(&self, i: usize, id: u32) -> UOp {
        let dtype = self.nests.scratch(i).dtype();
        UOp::local(Space::Scratch, id + i as u32, self.nests.row(i) * self.by, dtype, 1)
    }
}
