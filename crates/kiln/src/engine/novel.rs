//! Programs whose last graph was a new one: what they ask for next is written out at once.
//!
//! A graph with whole composites is smaller than the same graph with composites written out, so a program's graph is first
//! captured whole, and written out only if no schedule is known for it. In a loop whose lengths grow (decoding a token after
//! the other) each graph is a new one, and the first capture is in vain. Either way gives the same schedule.

use kiln_ir::UOp;
use kiln_ir::uop::Mixer;
use rustc_hash::FxHashSet;
use std::cell::RefCell;
use std::hash::Hash;

/// How far down from a root its program is looked at.
const DEPTH: usize = 16;

/// More programs than this are all forgotten.
const MOST: usize = 4096;

thread_local! {
    static NOVEL: RefCell<FxHashSet<u128>> = RefCell::default();
}

/// The ops below the roots of a graph, along first sources: what can be seen of a program without a walk. Two programs may
/// have the same.
#[derive(Clone, Copy)]
pub(super) struct Signature(u128);

impl Signature {
    /// Of the program that asks for these nodes.
    pub(super) fn of(roots: &[UOp]) -> Signature {
        let mut h = Mixer::default();
        for root in roots {
            let chain = std::iter::successors(Some(root), |node| node.srcs().first()).take(DEPTH);
            chain.for_each(|node| (node.op(), node.dtype(), node.srcs().len()).hash(&mut h));
        }
        Signature(h.finish128())
    }

    /// Whether its last graph on this thread was a new one.
    pub(super) fn is_novel(self) -> bool {
        NOVEL.with_borrow(|all| all.contains(&self.0))
    }

    /// Notes whether its graph was a new one.
    pub(super) fn note(self, is_novel: bool) {
        NOVEL.with_borrow_mut(|all| {
            if all.len() >= MOST {
                all.clear();
            }
            _ = if is_novel { all.insert(self.0) } else { all.remove(&self.0) };
        });
    }
}
