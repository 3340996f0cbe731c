//! Part of passes `collapse` and `options`: loop fusion and loop distribution. Reductions whose loops have the same sizes,
//! and that load something in common, become reductions over the same loops: of `silu(x @ a) * (x @ b)` both sums run over
//! one loop, and each element of `x` is loaded once for both. The order of each sum stays as it is.
//!
//! The reductions must depend on the same earlier reductions. So none depends on another of its loop, not through others
//! either. They must also stay inside of the same loops, whatever later passes split (`is_affine`). Where an option still
//! puts one of them inside of more loops than the others, it gets a loop of its own again (`distribute`; both terms are
//! those of Kennedy and McKinley, *Maximizing Loop Parallelism and Improving Data Locality via Loop Fusion and
//! Distribution*, 1993).

use super::ranges::{axis_of, kind_of, next_axis, replace_ranges, simplified_over, size_of};
use kiln_ir::scope::{AxisSet, closed_ranges};
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort, toposort_all};
use kiln_ir::{DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::smallvec;

/// The reductions over the same loops.
struct Group {
    ranges: Vec<UOp>,
    reduces: Vec<UOp>,
}

/// What groups have in common that may become one: the loops around them, the sizes of their own, and, in the order of the
/// kernel, the reductions that they depend on.
type Place = (AxisSet, Vec<usize>, Vec<UOp>);

/// For each range, what it becomes.
type Renamed = FxHashMap<UOp, (UOp, Srcs)>;

/// The nodes of a kernel with reductions over the same loops where they can be.
pub(super) fn fuse(nodes: Vec<UOp>) -> Vec<UOp> {
    let groups = groups(&nodes);
    let mut renamed = Renamed::default();
    let mut hosts: FxHashMap<Place, &Group> = FxHashMap::default();
    let may_fuse = |group: &&Group| group.shares_no_loop(&groups) && group.is_affine();
    for group in groups.iter().filter(|group| groups.len() > 1 && may_fuse(group)) {
        let host = *hosts.entry(group.place(&nodes)).or_insert(group);
        let own = group.renamed_to(host);
        if !own.is_empty() && host.has_a_load_in_common(group, &own) {
            renamed.extend(own);
        }
    }
    if renamed.is_empty() {
        return nodes;
    }
    toposort(&simplified_over(nodes.last().expect("a kernel"), &renamed))
}

/// The kernel with reductions over the same loops only where they are inside of the same loops.
///
/// Say `sum_k exp(a[k]) b[j, k] + sum_k c[k] b[j, k]` is the same in every iteration of `i`, and `exp(a[k])` is kept in
/// scratch inside of `i`. Then the first sum varies over `i` and the second does not, so one loop over `k` cannot end
/// both.
pub(super) fn distribute(ast: UOp) -> UOp {
    let nodes = toposort(&ast);
    let is_loop = |r: &&UOp| r.op() == Op::Range && !kind_of(r).is_expanded();
    let loops: AxisSet = nodes.iter().filter(is_loop).map(axis_of).collect();
    let mut next = next_axis(&ast);
    let mut copies: FxHashMap<Vec<UOp>, Vec<(AxisSet, Renamed)>> = FxHashMap::default();
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in nodes {
        let new = rebuild(&node, mapped(&node, &done));
        let new = match node.op() {
            Op::Reduce => {
                let mut around = node.scope().clone();
                around.retain(|axis| loops.contains(axis));
                let ranges: Vec<UOp> = closed_ranges(&node).cloned().collect();
                let known = copies.entry(ranges.clone()).or_default();
                match own_loops(known, around, &ranges, &mut next) {
                    own if own.is_empty() => new,
                    own => replace_ranges(&new, own),
                }
            }
            _ => new,
        };
        done.insert(node, new);
    }
    done.remove(&ast).expect("the kernel")
}

/// What the loops of a reduction become inside of the loops `around`. The first keeps its own.
fn own_loops<'a>(
    known: &'a mut Vec<(AxisSet, Renamed)>,
    around: AxisSet,
    ranges: &[UOp],
    next: &mut u32,
) -> &'a Renamed {
    let at = known.iter().position(|(other, _)| *other == around).unwrap_or_else(|| {
        let is_first = known.is_empty();
        let own = if is_first { Renamed::default() } else { renumbered(ranges, next) };
        known.push((around, own));
        known.len() - 1
    });
    &known[at].1
}

/// For each of the ranges, one of its kind with a number of its own.
fn renumbered(ranges: &[UOp], next: &mut u32) -> Renamed {
    let renumber = |range: &UOp| {
        let new = UOp::range(*next, kind_of(range), size_of(range));
        *next += 1;
        (range.clone(), (new.clone(), smallvec![new]))
    };
    ranges.iter().map(renumber).collect()
}

fn groups(nodes: &[UOp]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for reduce in nodes.iter().filter(|n| n.op() == Op::Reduce) {
        let ranges = &reduce.srcs()[1..];
        match groups.iter_mut().find(|group| group.ranges == ranges) {
            Some(group) => group.reduces.push(reduce.clone()),
            None => groups.push(Group { ranges: ranges.to_vec(), reduces: vec![reduce.clone()] }),
        }
    }
    groups
}

impl Group {
    /// Whether no other group has one of its loops.
    fn shares_no_loop(&self, all: &[Group]) -> bool {
        let meets = |other: &Group| other.ranges.iter().any(|r| self.ranges.contains(r));
        all.iter().filter(|other| meets(other)).count() == 1
    }

    /// Whether the loops around are in indices with a factor only. Such a loop may be split later, and then each part of it is
    /// around all reductions over the loop. A predicate or a remainder may vary over one part alone.
    fn is_affine(&self) -> bool {
        let is_sum = |n: &UOp| matches!(n.op(), Op::Add | Op::Mul | Op::Range | Op::Const);
        let is_index = |n: &UOp| matches!(n.dtype(), DType::Index | DType::Bool);
        self.reduces.iter().all(|reduce| {
            let varies = |n: &UOp| n.scope().intersects(reduce.scope());
            let nodes = toposort(reduce.src(0));
            !nodes.iter().any(|n| is_index(n) && !is_sum(n) && varies(n))
        })
    }

    fn place(&self, nodes: &[UOp]) -> Place {
        let below: FxHashSet<UOp> = self.reduces.iter().flat_map(|r| toposort(r.src(0))).collect();
        let before = nodes.iter().filter(|n| n.op() == Op::Reduce && below.contains(n));
        let sizes = self.ranges.iter().map(size_of).collect();
        (self.reduces[0].scope().clone(), sizes, before.cloned().collect())
    }

    /// Its loops as those of its host.
    fn renamed_to(&self, host: &Group) -> Renamed {
        let pairs = self.ranges.iter().zip(&host.ranges).filter(|(own, its)| own != its);
        pairs.map(|(own, its)| (own.clone(), (its.clone(), smallvec![its.clone()]))).collect()
    }

    /// Whether a load that moves along the loops is the same in another group, over renamed loops.
    fn has_a_load_in_common(&self, other: &Group, renamed: &Renamed) -> bool {
        let moves = |n: &UOp| self.ranges.iter().any(|r| n.scope().contains(axis_of(r)));
        let loads = |values: Vec<UOp>| -> FxHashSet<UOp> {
            let nodes = toposort_all(&values, |_| true).into_iter();
            nodes.filter(|n| n.op() == Op::Load && moves(n.src(1))).collect()
        };
        let values = |group: &Group| group.reduces.iter().map(|r| r.src(0).clone()).collect();
        let theirs: Vec<UOp> = values(other);
        let theirs = theirs.iter().map(|value| simplified_over(value, renamed)).collect();
        !loads(values(self)).is_disjoint(&loads(theirs))
    }
}
