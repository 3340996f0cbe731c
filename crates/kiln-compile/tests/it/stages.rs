//! Stages of the compiler, verified after every pass.

use kiln_compile::optimize::{MAX_NODES, Optimized, Room};
use kiln_compile::pass::Checks;
use kiln_compile::pipeline;
use kiln_compile::schedule::Schedule;
use kiln_compile::target::Target;
use kiln_ir::UOp;
use kiln_ir::program::Program;

pub(crate) const CHECKED: Checks = Checks { verify: true, spoiled: None };

pub(crate) fn schedule(roots: &[UOp]) -> Schedule {
    pipeline::schedule(roots, &Target::interp(), CHECKED).unwrap_or_else(|bug| panic!("{bug}"))
}

/// By heuristic; if not `enabled`, only named and trimmed.
pub(crate) fn optimize(kernel: &UOp, target: &Target, enabled: bool) -> Optimized {
    let room = Room::of(if enabled { MAX_NODES } else { 0 });
    let done = pipeline::optimize(kernel, None, target, room, CHECKED);
    done.unwrap_or_else(|bug| panic!("{bug}"))
}

pub(crate) fn lower(kernel: &UOp, target: &Target) -> Program {
    pipeline::lower(kernel, target, CHECKED).unwrap_or_else(|bug| panic!("{bug}"))
}
