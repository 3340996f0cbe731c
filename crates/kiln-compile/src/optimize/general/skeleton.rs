//! Beside stage `optimize`, for general kernels: the skeleton of a kernel is all of it but its numbers.

use kiln_ir::arg::Arg;
use kiln_ir::uop::{Mixer, Srcs, rebuild, toposort};
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::hash::Hash;

/// A kernel taken apart: its numbers, and everything else.
#[derive(Clone, Debug)]
pub struct Skeleton {
    /// The kernel.
    pub(super) ast: UOp,
    /// A hash of everything but the numbers. Two kernels with the same key may still differ: see
    /// [`Skeleton::is_like`].
    pub key: u128,
    /// The numbers, once for each use. Two uses may have the same number here and different ones in another kernel.
    pub numbers: Vec<Const>,
    pub(super) uses: Vec<Use>,
}

/// Where a number stands.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) node: UOp,
    /// Which source of the node it is; none if it is the length of a memory.
    pub(super) source: Option<usize>,
}

impl Use {
    /// The number.
    fn number(&self) -> Const {
        match (self.source, self.node.arg()) {
            (Some(i), _) => self.node.src(i).as_const().expect("a use is of a constant"),
            (None, Arg::Memory { len, .. }) => Const::Int(*len as i64),
            (None, _) => Const::Int(self.node.numel() as i64),
        }
    }

    /// The dtype of the number.
    pub(super) fn dtype(&self) -> DType {
        self.source.map_or(DType::Index, |i| self.node.src(i).dtype())
    }

    /// Whether a scalar in place of the number costs nothing. Such are operands of the `sums` of indices, and those of data
    /// that no rule of arithmetic makes cheaper.
    fn is_free(&self, sums: &FxHashSet<usize>) -> bool {
        use Op::{Add, CmpEq, CmpLt, CmpNe, Max, Min, Mul, Sub, Where};
        match (self.source, self.node.op()) {
            (None, _) => false,
            _ if self.dtype() == DType::Index => sums.contains(&self.node.id()),
            (_, Add | Sub | CmpLt | CmpEq | CmpNe | Max | Min | Where) => true,
            (_, op) => op == Mul && self.dtype().is_float(),
        }
    }

    /// Whether it is how often a loop runs.
    pub(super) fn is_trip_count(&self) -> bool {
        self.node.op() == Op::Range && self.source.is_some()
    }
}

/// The hash of each node without its numbers, by id.
type Hashes = FxHashMap<usize, u128>;

impl Skeleton {
    /// The skeleton of a kernel (spec `KERNEL`).
    pub fn of(ast: &UOp) -> Skeleton {
        let hashes = hashes(ast);
        let (nodes, uses) = uses(ast, &hashes);
        let mut key = Mixer::default();
        key.add(hashes[&ast.id()]);
        (nodes, uses.len()).hash(&mut key);
        let numbers = uses.iter().map(Use::number).collect();
        Skeleton { ast: ast.clone(), key: key.finish128(), numbers, uses }
    }

    /// This kernel with other numbers. If that is another kernel whose numbers they are, then the two differ in nothing
    /// else.
    pub fn with(&self, numbers: &[Const]) -> Option<UOp> {
        if numbers.len() != self.uses.len() {
            return None;
        }
        let constant = |i: usize, old: &UOp| UOp::constant(numbers[i], old.dtype());
        let len = |i: usize| numbers[i].as_i128().and_then(|n| n.try_into().ok()).unwrap_or(0);
        Some(self.rebuilt(constant, len))
    }

    /// Whether another kernel is this one with other numbers. Kernels whose keys are equal by chance are not, nor one in
    /// which two expressions are equal that are not in this one.
    pub fn is_like(&self, other: &Skeleton) -> bool {
        self.key == other.key && self.with(&other.numbers).as_ref() == Some(&other.ast)
    }

    /// This kernel with other values in place of its numbers: `source` has the value for a use that is a source, `len` for
    /// one that is a length of memory.
    pub(super) fn rebuilt(
        &self,
        mut source: impl FnMut(usize, &UOp) -> UOp,
        len: impl Fn(usize) -> usize,
    ) -> UOp {
        let at = |(i, u): (usize, &Use)| ((u.node.id(), u.source), i);
        let at: FxHashMap<_, usize> = self.uses.iter().enumerate().map(at).collect();
        let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
        for node in toposort(&self.ast) {
            let srcs = node.srcs().iter().enumerate().map(|(i, src)| {
                let number = at.get(&(node.id(), Some(i)));
                number.map_or_else(|| done[src].clone(), |&n| source(n, src))
            });
            let srcs: Srcs = srcs.collect();
            let new = match (at.get(&(node.id(), None)), node.arg()) {
                (Some(&n), &Arg::Param { slot, .. }) => {
                    UOp::param(slot, node.dtype(), &[len(n)][..])
                }
                (Some(&n), &Arg::Memory { space, id, .. }) => {
                    UOp::local(space, id, len(n), node.dtype(), node.lanes())
                }
                _ => rebuild(&node, srcs),
            };
            done.insert(node, new);
        }
        done[&self.ast].clone()
    }

    /// The numbers that would cost the kernel something as scalars. A position costs nothing: it is added to an index of memory.
    /// Nor does a number that data are compared with or added to. A length or a stride does.
    pub fn costly(&self) -> Vec<Const> {
        let sums = sums_in_indices(&self.ast);
        let all = self.uses.iter().zip(&self.numbers);
        all.filter(|(u, _)| !u.is_free(&sums)).map(|(_, number)| *number).collect()
    }

    /// The kernel.
    pub fn kernel(&self) -> &UOp {
        &self.ast
    }

    /// Whether in these lists of numbers a trip count or a length of memory varies.
    pub fn lengths_vary(&self, seen: &[Vec<Const>]) -> bool {
        let is_length = |u: &Use| u.is_trip_count() || u.source.is_none();
        let lengths = self.uses.iter().enumerate().filter(|(_, u)| is_length(u));
        let mut lengths = lengths.map(|(at, _)| at);
        lengths.any(|at| seen.iter().any(|numbers| numbers[at] != seen[0][at]))
    }
}

/// The sums that make up indices: `a + b` and `(a + b) + c` of the index `(a + b) + c`.
fn sums_in_indices(ast: &UOp) -> FxHashSet<usize> {
    let mut sums = FxHashSet::default();
    for access in toposort(ast).iter().filter(|n| matches!(n.op(), Op::Load | Op::Store)) {
        let mut stack = vec![access.src(1).clone()];
        while let Some(node) = stack.pop() {
            if node.op() == Op::Add && sums.insert(node.id()) {
                stack.extend(node.srcs().iter().cloned());
            }
        }
    }
    sums
}

fn hashes(ast: &UOp) -> Hashes {
    let mut hashes = Hashes::default();
    for node in toposort(ast) {
        let mut h = Mixer::default();
        (node.op(), node.dtype(), node.lanes()).hash(&mut h);
        match node.arg() {
            Arg::Const(_) if is_number(&node) => {}
            Arg::Param { slot, .. } => slot.hash(&mut h),
            Arg::Memory { space, id, .. } => (space, id).hash(&mut h),
            arg => arg.hash(&mut h),
        }
        in_order(&node, &hashes).iter().for_each(|&i| h.add(hashes[&node.src(i).id()]));
        hashes.insert(node.id(), h.finish128());
    }
    hashes
}

/// Whether a node is a number. Truth values belong to the skeleton.
fn is_number(node: &UOp) -> bool {
    node.op() == Op::Const && node.dtype() != DType::Bool
}

/// The sources of a node by position. Commuting operands of index arithmetic stand in an order that depends on numbers;
/// here they stand in one that does not.
fn in_order(node: &UOp, hashes: &Hashes) -> SmallVec<[usize; 4]> {
    let mut order: SmallVec<[usize; 4]> = (0..node.srcs().len()).collect();
    if node.op().is_commutative() && node.dtype() == DType::Index {
        order.sort_by_key(|&i| hashes[&node.src(i).id()]);
    }
    order
}

/// How many nodes there are, and the uses of numbers, in the order of a walk that no number changes.
fn uses(ast: &UOp, hashes: &Hashes) -> (usize, Vec<Use>) {
    let mut seen = FxHashSet::from_iter([ast.id()]);
    let mut uses = Vec::new();
    let mut stack = vec![(ast.clone(), in_order(ast, hashes), 0)];
    while let Some((node, order, next)) = stack.last_mut() {
        let Some(&i) = order.get(*next) else {
            stack.pop();
            continue;
        };
        *next += 1;
        let (node, src) = (node.clone(), node.src(i).clone());
        if is_number(&src) {
            uses.push(Use { node, source: Some(i) });
        } else if seen.insert(src.id()) {
            if matches!(src.op(), Op::Param | Op::Local) {
                uses.push(Use { node: src.clone(), source: None });
            }
            let order = in_order(&src, hashes);
            stack.push((src, order, 0));
        }
    }
    (seen.len(), uses)
}
