//! Part of pass `assign`: which values are the *epilogue* of a sum: everything that becomes of the sum goes through them.
//!
//! Example: `y = relu(x @ w + b)`. The kernel that computes the product can store `y` in its place, with `b` and `relu` done
//! in registers. So storing `y` costs no memory of its own: if `y` is computed where it is needed, the product is
//! stored instead.
//!
//! A sum starts with all of itself, and a node passes on to each of its users an equal part of what it was given. If a
//! node is given all of a sum, no way leads around it: it post-dominates the sum.

use super::cost;
use kiln_ir::arg::Shape;
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;

/// The sums that a node is computed from.
#[derive(Clone, Default)]
struct Sums {
    /// Those over the loops of the node: the position of each, and how much of it the node is given.
    parts: SmallVec<[(usize, f64); 2]>,
    /// Whether there are such of which no later node is given all.
    has_ended: bool,
    /// Whether there are others, over fewer loops or in another order. A kernel that computes them too is no tile.
    has_others: bool,
}

/// A node of more sums than this is the epilogue of none.
const MOST_SUMS: usize = 8;

/// How far the parts of a whole may be from 1, which they add up to with roundings.
const ROUNDING: f64 = 1e-9;

/// By position, the sums of which a node is the epilogue. `sources` are each node's distinct sources. Roots are read from
/// outside, too.
pub(super) fn epilogues(
    nodes: &[UOp],
    sources: &[SmallVec<[usize; 3]>],
    roots: &[usize],
) -> Vec<SmallVec<[usize; 1]>> {
    let mut users = vec![0usize; nodes.len()];
    sources.iter().flatten().chain(roots).for_each(|&i| users[i] += 1);
    let is_end = ends(nodes, sources, roots);
    let mut sums: Vec<Sums> = Vec::with_capacity(nodes.len());
    for (i, node) in nodes.iter().enumerate() {
        sums.push(match node.op() {
            Op::Reduce => Sums { parts: SmallVec::from_slice(&[(i, 1.0)]), ..Sums::default() },
            _ if cost::is_read(node) => Sums::default(),
            _ => given(node, &sources[i], &sums, |source| (!is_end[source]).then(|| users[source])),
        });
    }
    sums.iter().enumerate().map(|(i, sums)| sums.whole(i)).collect()
}

/// By position, whether a part of what a node was given ends there: a user of it passes nothing on. No later node is given all
/// of its sums. In a chain of residuals this is each of them, of which a norm is taken.
fn ends(nodes: &[UOp], sources: &[SmallVec<[usize; 3]>], roots: &[usize]) -> Vec<bool> {
    let mut is_end = vec![false; nodes.len()];
    roots.iter().for_each(|&root| is_end[root] = true);
    for (node, sources) in nodes.iter().zip(sources) {
        if cost::is_read(node) || !passes_on(node) {
            sources.iter().for_each(|&source| is_end[source] = true);
        }
    }
    is_end
}

impl Sums {
    /// The sums of which node `i` is given all.
    fn whole(&self, i: usize) -> SmallVec<[usize; 1]> {
        let whole = self.parts.iter().filter(|&&(sum, part)| sum != i && part > 1.0 - ROUNDING);
        let whole = whole.filter(|_| !self.has_others);
        whole.map(|&(sum, _)| sum).collect()
    }

    fn add(&mut self, sum: usize, part: f64) {
        match self.parts.iter_mut().find(|(known, _)| *known == sum) {
            Some((_, known)) => *known += part,
            None => self.parts.push((sum, part)),
        }
    }
}

/// The sums that a node gets from its sources. `users` says how many nodes share those of a source; none if it is an end.
fn given(
    node: &UOp,
    sources: &[usize],
    sums: &[Sums],
    users: impl Fn(usize) -> Option<usize>,
) -> Sums {
    let mut all = Sums::default();
    for &source in sources {
        let given = &sums[source];
        all.has_others |= given.has_others;
        all.has_ended |= given.has_ended;
        match users(source) {
            Some(users) => {
                given.parts.iter().for_each(|&(s, part)| all.add(s, part / users as f64))
            }
            None => all.has_ended |= !given.parts.is_empty(),
        }
    }
    if all.parts.len() > MOST_SUMS || !passes_on(node) {
        let has_others = all.has_others || all.has_ended || !all.parts.is_empty();
        return Sums { has_others, ..Sums::default() };
    }
    all
}

/// Whether a node has the loops of its sources: it is computed from the same elements of them, or it is a view that only adds
/// or drops axes of length 1.
fn passes_on(node: &UOp) -> bool {
    let loops = |n: &UOp| n.shape().iter().copied().filter(|&len| len != 1).collect::<Shape>();
    let is_same = || node.op() == Op::Reshape && loops(node) == loops(node.src(0));
    cost::is_elementwise(node) || is_same()
}
