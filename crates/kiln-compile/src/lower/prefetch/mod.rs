//! Pass `prefetch` of stage `lower`: asks for what a later iteration reads.
//!
//! `panels` finds panels that are copied and then computed with, `rows` rows that several loops read, `streams` arguments
//! that are read once. A prefetch is a hint: it may name memory past the end of the argument.

mod panels;
mod reads;
mod rounds;
mod rows;
mod streams;

use crate::target::Target;
use kiln_ir::uop::toposort_all;
use kiln_ir::{Op, UOp};
use reads::Marks;
use rustc_hash::FxHashSet;

/// The list of a program with prefetches, each before the load that has time for it.
pub(super) fn prefetch(ops: Vec<UOp>, target: &Target) -> Vec<UOp> {
    // threads of a GPU wait for memory in turn, while others compute
    if target.groups {
        return ops;
    }
    let mut marks = Marks::default();
    let copies = panels::marks(&ops, target, &mut marks);
    rows::marks(&ops, target, &mut marks);
    streams::marks(&ops, target, &copies, &mut marks);
    if marks.is_empty() {
        return ops;
    }
    let mut list = List::default();
    for op in ops {
        for prefetch in marks.get(&op).into_iter().flatten() {
            let index = toposort_all(&[prefetch.src(1).clone()], |n| !list.is_visible(n));
            index.into_iter().filter(|n| n.op() != Op::Const).for_each(|n| list.push(n));
            list.push(prefetch.clone());
        }
        list.push(op);
    }
    list.ops
}

/// A list that grows. It takes a value once, and again after the block that had it has ended.
#[derive(Default)]
struct List {
    ops: Vec<UOp>,
    /// The values of blocks that have not ended.
    visible: FxHashSet<UOp>,
    /// The same in order, and where each block begins.
    values: Vec<UOp>,
    blocks: Vec<usize>,
}

impl List {
    fn is_visible(&self, op: &UOp) -> bool {
        self.visible.contains(op)
    }

    fn push(&mut self, op: UOp) {
        match op.op() {
            Op::Range | Op::If => self.blocks.push(self.values.len()),
            Op::End | Op::EndIf => {
                let begin = self.blocks.pop().expect("blocks are nested");
                for value in self.values.drain(begin..) {
                    self.visible.remove(&value);
                }
            }
            _ => {}
        }
        if !op.op().is_effect() || op.op() == Op::If {
            if !self.visible.insert(op.clone()) {
                return;
            }
            self.values.push(op.clone());
        }
        self.ops.push(op);
    }
}
