//! Combines runs of writes to one storage, before anything is scheduled.
//!
//! A program that fills a storage element by element makes a version for every line. A run of versions that nobody
//! reads as a whole becomes a few writes: what is overwritten again is dropped, constants become one constant, one
//! sequence or one table, and a read of a part becomes what was written there. An index of intervals finds the last
//! write to a position, so `n` writes and reads take `n log n` steps.

mod index;
mod table;

use super::walk::Walk;
use index::{Found, Index};
use kiln_ir::arg::SliceAxis;
use kiln_ir::region::{self, Region};
use kiln_ir::uop::{Srcs, rebuild};
use kiln_ir::{Const, Op, UOp, eval};
use rustc_hash::FxHashMap;
use table::Table;
pub(super) use table::Upload;

/// The roots with their runs of writes combined; `None` if there are none.
pub(super) fn collect(walk: &Walk, roots: &[usize], upload: &Upload<'_>) -> Option<Vec<UOp>> {
    if !walk.has_versions {
        return None;
    }
    let mut collector = Collector::new(walk, roots, upload);
    (0..walk.nodes.len()).for_each(|at| collector.node(at));
    Some(roots.iter().map(|&r| collector.root(r)).collect())
}

/// One write of a run.
struct Write {
    /// The update's position in the walk.
    update: usize,
    value: UOp,
    at: UOp,
    /// The positions from the first to the one after the last, if there are no gaps and they are in order.
    run: Option<(i64, i64)>,
}

/// Writes to one storage, of which nothing has read a version as a whole.
struct Run {
    base: UOp,
    writes: Vec<Write>,
    index: Index,
}

struct Collector<'a> {
    walk: &'a Walk,
    upload: &'a Upload<'a>,
    /// The replacement of each node; none for versions that are not needed as a whole, and for views of them.
    new: Vec<Option<UOp>>,
    /// By version: whether it is needed as a whole.
    whole: Vec<bool>,
    /// By version: the views of it that are read (positions).
    reads: FxHashMap<usize, Vec<usize>>,
    /// By version that is the end of a run.
    runs: FxHashMap<usize, Run>,
}

impl<'a> Collector<'a> {
    fn new(walk: &'a Walk, roots: &[usize], upload: &'a Upload<'a>) -> Collector<'a> {
        let (whole, reads) = users(walk, roots);
        let new = vec![None; walk.nodes.len()];
        Collector { walk, upload, new, whole, reads, runs: FxHashMap::default() }
    }

    fn node(&mut self, at: usize) {
        let node = self.walk.node(at);
        if self.new[at].is_some() {
            return; // a read that found what it looks for
        }
        if self.walk.is_computed(at) || node.op() == Op::Buffer {
            self.new[at] = Some(node.clone());
        } else if node.op() == Op::Update {
            self.update(at);
        } else if let Some(srcs) = self.sources(at) {
            self.new[at] = Some(rebuilt(node, srcs));
        }
    }

    /// The replacement of a root. A number that is known needs no kernel.
    fn root(&self, at: usize) -> UOp {
        let (old, new) = (self.walk.node(at), &self.new[at]);
        let new = new.as_ref().expect("a root is needed as a whole");
        let known = uniform(new).filter(|_| new != old && old.numel() == 1);
        let value = known.and_then(UOp::as_const);
        let leaf = value.and_then(|v| (self.upload)(&[v], old.dtype(), old.shape().clone()));
        leaf.unwrap_or_else(|| new.clone())
    }

    /// The replacements of the sources; none if one of them is a version that is not needed as a whole.
    fn sources(&self, at: usize) -> Option<Srcs> {
        let node = self.walk.node(at);
        // after the sources of a composite comes what it is written out as
        let edges = self.walk.nodes[at].edges.iter().take(node.srcs().len());
        let mut srcs = edges.map(|&s| self.new[s].clone()).collect::<Option<Srcs>>()?;
        // the effects of an `After` are roots of their own
        srcs.extend(node.srcs()[srcs.len()..].iter().cloned());
        Some(srcs)
    }

    fn update(&mut self, at: usize) {
        let &[base, value, positions] = self.walk.nodes[at].edges.as_slice() else {
            unreachable!("an update has three sources")
        };
        let mut run = self.runs.remove(&base).unwrap_or_else(|| Run {
            base: self.new[base].clone().expect("a version that is no run's end is whole"),
            writes: Vec::new(),
            index: Index::default(),
        });
        let whole = |s: usize| self.new[s].clone().expect("a value is needed as a whole");
        run.push(self.walk.node(at), at, whole(value), whole(positions));
        let mut whole = self.whole[at];
        for read in self.reads.remove(&at).unwrap_or_default() {
            self.new[read] = run.read(self.walk.node(read), self.walk.node(at));
            whole |= self.new[read].is_none();
        }
        if whole {
            self.new[at] = Some(run.written(self.walk, self.upload));
        } else {
            self.runs.insert(at, run);
        }
    }
}

/// For every update, whether it is needed as a whole, and which views of it are read.
fn users(walk: &Walk, roots: &[usize]) -> (Vec<bool>, FxHashMap<usize, Vec<usize>>) {
    let n = walk.nodes.len();
    let is_version = |at: usize| walk.node(at).op() == Op::Update && !walk.is_computed(at);
    // the version that a view shows, if it shows one
    let mut viewed: Vec<Option<usize>> = vec![None; n];
    let (mut whole, mut read, mut next) = (vec![false; n], vec![false; n], vec![false; n]);
    roots.iter().for_each(|&r| (whole[r], read[r]) = (true, true));
    for at in 0..n {
        let (node, edges) = (walk.node(at), &walk.nodes[at].edges);
        if is_view(node) && !walk.is_computed(at) {
            viewed[at] = if is_version(edges[0]) { Some(edges[0]) } else { viewed[edges[0]] };
            continue;
        }
        for (i, &s) in edges.iter().enumerate() {
            // the next write does not read what it overwrites; a second write to the same version does
            let follows = i == 0 && is_version(at) && !std::mem::replace(&mut next[s], true);
            whole[s] |= !follows;
            read[s] = true;
        }
    }
    let mut reads: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for at in (0..n).filter(|&at| read[at]) {
        if let Some(version) = viewed[at] {
            reads.entry(version).or_default().push(at);
        }
    }
    (whole, reads)
}

fn is_view(node: &UOp) -> bool {
    matches!(node.op(), Op::Reshape | Op::Permute | Op::Slice | Op::Expand)
}

/// The node over other sources. Arithmetic on constants is done here, so that a run of constants stays one.
fn rebuilt(node: &UOp, srcs: Srcs) -> UOp {
    if let Some(value) = folded(node, &srcs) {
        return UOp::constant(value, node.dtype());
    }
    if node.srcs() == srcs.as_slice() {
        return node.clone();
    }
    let new = rebuild(node, srcs);
    new.copy_origin(node);
    new
}

/// The number that is computed from constants alone.
fn folded(node: &UOp, srcs: &[UOp]) -> Option<Const> {
    if !node.op().is_elementwise() || !node.shape().is_empty() {
        return None;
    }
    let constant = |x: &UOp| uniform(x)?.as_const();
    let constants = srcs.iter().map(constant).collect::<Option<Vec<Const>>>()?;
    eval::eval(node.op(), node.dtype(), &constants)
}

/// The constant that all elements of a value are.
fn uniform(value: &UOp) -> Option<&UOp> {
    let mut value = value;
    while is_view(value) || value.op() == Op::Copy {
        value = value.src(0);
    }
    (value.op() == Op::Const).then_some(value)
}

impl Run {
    fn push(&mut self, node: &UOp, update: usize, value: UOp, at: UOp) {
        let plain = node.arg().reduce_op().is_none();
        let region = Region::of(&at).filter(|_| plain);
        let run = region.as_ref().filter(|r| r.is_run()).and_then(Region::bounds);
        let reach = region.map_or(Some((0, node.numel() as i64)), |r| r.bounds());
        if let Some((start, end)) = reach {
            self.index.write(start, end, self.writes.len());
        }
        self.writes.push(Write { update, value, at, run });
    }

    /// What a view of the latest version shows, if it shows a part of one write or of the base only.
    fn read(&self, view: &UOp, version: &UOp) -> Option<UOp> {
        let at = positions(view, version);
        let (start, end) = Region::of(&at)?.bounds()?;
        match self.index.find(start, end) {
            Found::Nobody => match uniform(&self.base) {
                Some(constant) => Some(constant.broadcast_to(view.shape())),
                None => region::view(&self.base, &at),
            },
            Found::One(write) => self.writes[write].read(view, &at, start, end),
            Found::Several => None,
        }
    }

    /// The version that the run ends with.
    fn written(&self, walk: &Walk, upload: &Upload<'_>) -> UOp {
        let mut version = self.base.clone();
        let mut rest = self.writes.as_slice();
        while let Some((first, others)) = rest.split_first() {
            let plain = rest.iter().take_while(|w| w.run.is_some()).count();
            if plain == 0 {
                version = first.apply(&version, walk);
                rest = others;
            } else {
                version = plain_writes(&version, &rest[..plain], walk, upload);
                rest = &rest[plain..];
            }
        }
        version
    }
}

/// The positions that a view of a version shows.
fn positions(view: &UOp, version: &UOp) -> UOp {
    let (mut nodes, mut node) = (Vec::new(), view);
    while is_view(node) {
        nodes.push(node);
        node = node.src(0);
    }
    let all = UOp::positions(version.shape().clone());
    nodes.iter().rev().fold(all, |x, node| node.viewed(&x))
}

impl Write {
    /// What a view shows that lies inside of this write.
    fn read(&self, view: &UOp, at: &UOp, start: i64, end: i64) -> Option<UOp> {
        let (first, _) = self.run?;
        if let Some(constant) = uniform(&self.value) {
            return Some(constant.broadcast_to(view.shape()));
        }
        if self.at == *at {
            return Some(self.value.broadcast_to(view.shape()));
        }
        let run = Region::of(at)?.is_run().then_some((start - first) as usize)?;
        let flat = self.value.broadcast_to(self.at.shape());
        let flat = flat.reshape([flat.numel()].as_slice());
        let part = SliceAxis { start: run, step: 1, len: (end - start) as usize };
        Some(flat.slice(&[part]).reshape(view.shape().clone()))
    }

    fn apply(&self, version: &UOp, walk: &Walk) -> UOp {
        let node = walk.node(self.update);
        let new = version.update_with(node.arg().reduce_op(), &self.value, &self.at);
        new.copy_origin(node);
        new
    }
}

/// The writes that are visible in the end, without gaps; constants come last and together.
fn plain_writes(version: &UOp, writes: &[Write], walk: &Walk, upload: &Upload<'_>) -> UOp {
    let mut index = Index::default();
    for (i, write) in writes.iter().enumerate() {
        let (start, end) = write.run.expect("a write without gaps");
        index.write(start, end, i);
    }
    let mut seen = vec![false; writes.len()];
    let mut table = Table::default();
    for (start, end, i) in index.intervals() {
        seen[i] = true;
        if let Some(constant) = uniform(&writes[i].value) {
            table.push(start, end, constant.as_const().expect("a constant"));
        }
    }
    let tabled = table.is_worth_it();
    let mut version = version.clone();
    for (write, _) in writes.iter().zip(seen).filter(|(_, seen)| *seen) {
        if !tabled || uniform(&write.value).is_none() {
            version = write.apply(&version, walk);
        }
    }
    let last = walk.node(writes.last().expect("at least one write").update);
    match tabled {
        true => table.written(&version, last, upload),
        false => version,
    }
}
