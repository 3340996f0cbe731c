//! Pass `options` of stage `optimize`: applies options. `VECTOR(axis 0, 16)` makes a loop of 100 a loop of 7 around 16
//! lanes.

use super::align::Rows;
use super::carry::{carry, settle};
use super::cover::Covered;
use super::dot;
use super::gate::gate;
use super::keep::keep;
use super::loops::{Loops, Staged, packed};
use super::mma::{through_scratch, without_matrices};
use super::opt::Opt;
use super::ranges::{axis_of, kind_of, next_axis, ranges_of, replace_ranges_of};
use super::share::{Shared, share};
use super::stage::{Panel, outer_loops, stage};
use super::together::{Team, together};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// What a staged value inside of these loops holds, if its windows overlap. New loops have numbers from the last argument on.
type Windows<'a> = dyn Fn(&Staged, &[UOp], u32) -> Option<Covered> + 'a;

/// A kernel of one nest with options applied, which are legal.
pub(super) fn rewritten(ast: &UOp, options: &[Opt]) -> Result<UOp, String> {
    let ast = packed(ast, options)?;
    let mut loops = Loops::of(&ast);
    options.iter().for_each(|&opt| loops.apply(opt));
    Ok(loops.rewrite(&ast))
}

impl Loops {
    /// The kernel over the new loops. They are numbered by position: threads, the loops as they were, blocks, expanded
    /// ranges.
    pub(super) fn rewrite(mut self, ast: &UOp) -> UOp {
        self.sort_parts();
        let map = self.new_ranges(ast);
        let mut values: Vec<UOp> = self.staged.iter().map(|s| s.value.clone()).collect();
        let mut follow = |done: FxHashMap<UOp, UOp>, ast: &UOp| {
            values.iter_mut().for_each(|v| *v = done[v].clone());
            done[ast].clone()
        };
        // the predicates are written over the old ranges, and then replaced with everything else
        let (kernel, mut ast) = (ast, ast.clone());
        for &i in &self.padded {
            let range = &self.ranges[i];
            let below = range.lt(range.src(0));
            let valid = match self.aligned.contains_key(&i) {
                true => UOp::index(-1).lt(range).and(&below),
                false => below,
            };
            ast = follow(gate(&ast, range, &valid, |_| true), &ast);
        }
        values.insert(0, ast);
        let mut values = replace_ranges_of(&values, &map);
        ast = values.remove(0);
        let over = blocks_of_reductions(&ast);
        let is_shared = self.staged.iter().any(|staged| staged.banks > 0);
        let with_panels = if is_shared { Loops::shared } else { Loops::copied };
        let covered = |staged: &Staged, around: &[UOp], axis: u32| {
            self.covered(kernel, staged, &map, (around, axis))
        };
        ast = with_panels(&self, &ast, &values, &covered);
        let mut id = self.staged.len() as u32;
        for over in &over {
            ast = settle(&carry(&ast, over, &mut id));
        }
        if self.parts.iter().any(|p| p.kind == RangeKind::Matrix) {
            ast = if over.is_empty() { through_scratch(&ast, id) } else { ast };
            ast = without_matrices(&ast);
        }
        if let Some(item) = self.team() {
            ast = together(&ast, id, &Team { item, lanes: self.subgroup, parts: self.combined });
        }
        let ast = kiln_ir::rules::simplify(&ast);
        if self.kept > 0 { keep(&ast, self.kept) } else { ast }
    }

    /// The kernel with each staged value in scratch of its own.
    fn copied(&self, ast: &UOp, values: &[UOp], covered: &Windows<'_>) -> UOp {
        let (loops, over) = (outer_loops(ast), blocks_of_reductions(ast));
        let outer = |staged: &Staged, value: &UOp| -> Vec<UOp> {
            let outer = loops.iter().take(staged.depth);
            let outer = outer.filter(|l| !over.contains(l) || is_reduced_over(ast, value, l));
            outer.cloned().collect()
        };
        let all = self.staged.iter().zip(values).enumerate();
        all.fold(ast.clone(), |done, (id, (staged, value))| {
            let (outer, lanes) = (outer(staged, value), staged.lanes);
            let covered = covered(staged, &outer, next_axis(&done));
            stage(&done, value, &Panel { id: id as u32, outer, lanes, covered })
        })
    }

    /// The kernel with all staged values shared by the items of a group.
    fn shared(&self, ast: &UOp, values: &[UOp], covered: &Windows<'_>) -> UOp {
        let ranges = ranges_of(ast);
        let of_kind = |kind| ranges.iter().filter(move |r| kind_of(r) == kind).cloned();
        let loops = of_kind(RangeKind::Global).chain(of_kind(RangeKind::Loop));
        let around = |depth| loops.clone().chain(of_kind(RangeKind::Reduce).take(depth));
        let shared = self.staged.iter().zip(values).enumerate().map(|(id, (staged, value))| {
            let around: Vec<UOp> = around(staged.depth).collect();
            let covered = covered(staged, &around, next_axis(ast));
            Shared { id: id as u32, value: value.clone(), around, covered, banks: staged.banks }
        });
        share(ast, &shared.collect::<Vec<Shared>>())
    }

    /// What a panel of an operand holds, if its windows overlap.
    fn covered(
        &self,
        kernel: &UOp,
        staged: &Staged,
        map: &FxHashMap<UOp, (UOp, Srcs)>,
        outer: (&[UOp], u32),
    ) -> Option<Covered> {
        let has_matrices = self.parts.iter().any(|p| p.kind == RangeKind::Matrix);
        if has_matrices || dot::parts_of(kernel, &staged.value) > 1 {
            return None;
        }
        let padded: Vec<UOp> = self.padded.iter().map(|&i| self.ranges[i].clone()).collect();
        Covered::of((kernel, &staged.value), &padded, map, outer, staged.lanes)
    }

    /// Sorts the parts by nesting. A reduction is inside all loops over outputs, and so inside blocks.
    ///
    /// Of unrolled loops over outputs the longest is the outermost. In a tile of 3 vectors and 4 rows the 3 vectors are
    /// then held in registers while the rows pass one by one; the other way round 4 rows would be held.
    fn sort_parts(&mut self) {
        let (blocks, ranges) = (self.blocks, &self.ranges);
        self.parts.sort_by_key(|p| {
            let inner = blocks > 0 && (p.block > 0 || p.kind == RangeKind::Reduce);
            let order = if p.kind == RangeKind::Reduce { blocks } else { blocks - p.block };
            let order = if inner { order } else { 0 };
            let is_output = kind_of(&ranges[p.range]) != RangeKind::Reduce;
            let is_side = p.kind == RangeKind::Upcast && is_output;
            let held = Reverse(if is_side { p.size } else { 0 });
            let launched = match p.kind {
                RangeKind::Global | RangeKind::Thread => 0,
                // items of one row are neighbours
                RangeKind::Local if p.along => 2,
                RangeKind::Local => 1,
                _ => 3,
            };
            let nesting = (launched, p.kind.is_expanded(), p.side, inner, order);
            (nesting, held, p.range)
        });
    }

    /// For each old range, its value over the new ones, and those.
    fn new_ranges(&self, ast: &UOp) -> FxHashMap<UOp, (UOp, Srcs)> {
        let mut replaced: Vec<(UOp, Srcs)> = vec![(UOp::index(0), Srcs::new()); self.ranges.len()];
        let (team, mut axis) = (self.team(), 0);
        for part in self.parts.iter().filter(|p| p.size != 1) {
            let new = match &team {
                Some(team) if part.along => team.clone(),
                _ => UOp::range(axis, part.kind, part.size),
            };
            axis = axis.max(axis_of(&new) + 1);
            let (value, ranges) = &mut replaced[part.range];
            *value = if value.is_const(0) {
                scaled(&new, part.stride)
            } else {
                &*value + scaled(&new, part.stride)
            };
            ranges.push(new);
        }
        let mut map: FxHashMap<_, _> = self.ranges.iter().cloned().zip(replaced).collect();
        let rows = (!self.aligned.is_empty()).then(|| Rows::of(ast).expect("aligned to rows"));
        for (&i, &by) in &self.aligned {
            let past = rows.as_ref().expect("aligned to rows").past(by, &map);
            let (value, _) = map.get_mut(&self.ranges[i]).expect("every range has a value");
            *value = &*value - &past;
        }
        map
    }
}

/// Loops over blocks of a reduction: they are loops that some reduction still closes.
fn blocks_of_reductions(ast: &UOp) -> Vec<UOp> {
    let reduces = toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce);
    let mut over: Vec<UOp> = reduces
        .flat_map(|r| r.srcs()[1..].to_vec())
        .filter(|r| kind_of(r) == RangeKind::Loop)
        .collect();
    over.sort_by_key(axis_of);
    over.dedup();
    over
}

/// Whether the value is part of a reduction over `range`: not if only another reduction of the kernel is in such blocks.
fn is_reduced_over(ast: &UOp, value: &UOp, range: &UOp) -> bool {
    let reduces = toposort(ast).into_iter().filter(|n| n.op() == Op::Reduce);
    let mut over = reduces.filter(|r| r.srcs()[1..].contains(range));
    over.any(|r| toposort(&r).contains(value))
}

fn scaled(range: &UOp, stride: usize) -> UOp {
    if stride == 1 { range.clone() } else { range * stride as i64 }
}
