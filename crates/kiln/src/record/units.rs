//! Of which schedules and kernels the steps are written.
//!
//! A program whose lengths change makes a schedule for each, thousands of them, whose steps are the same but for numbers.
//! What they cost would be most of a step, so a line of the program has the steps of its first schedules only.

use kiln_ir::UOp;
use rustc_hash::FxHashMap;

/// So many schedules that one line asks for have their steps in a record.
const MOST: usize = 3;

/// What the threads are at.
#[derive(Default)]
pub(super) struct Units {
    /// By thread: whether the steps of what it is at are written.
    current: FxHashMap<u32, bool>,
    /// By the method that made the last root, with its line: how many schedules have begun.
    asked: FxHashMap<&'static str, usize>,
}

impl Units {
    /// Whether a step is written. If it is the first of a schedule, these are the graph. Kernels have no maker.
    pub(super) fn is_written(&mut self, thread: u32, roots: &[UOp]) -> bool {
        if let Some(&known) = self.current.get(&thread) {
            return known;
        }
        let is_written = match roots.last().and_then(UOp::origin) {
            None => true,
            Some(maker) => {
                let count = self.asked.entry(maker).or_default();
                *count += 1;
                *count <= MOST
            }
        };
        self.current.insert(thread, is_written);
        is_written
    }

    /// The schedule or kernel is done.
    pub(super) fn end(&mut self, thread: u32) {
        self.current.remove(&thread);
    }
}
