//! The whole compiler, read from top to bottom: what each pass does, and the spec that it leaves true.

use crate::lower;
use crate::optimize::{self, Opt};
use crate::render;
use crate::target::Target;
use kiln_ir::UOp;
use kiln_ir::program::Program;
use kiln_ir::spec;

/// A compiled-to-text kernel, and what may be shown of the way there.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The optimized kernel (spec `KERNEL`).
    pub ast: UOp,
    /// What the optimizer did.
    pub applied: Vec<Opt>,
    /// The result.
    pub program: Program,
}

/// Kernel -> program text. With `optimize` false the loops stay as they were scheduled.
pub fn compile(kernel: &UOp, target: &Target, optimize: bool) -> Compiled {
    check("schedule", kernel);
    let optimized = optimize::optimize(kernel, target, optimize);
    check("optimize", &optimized.ast);
    let mut program = lower::lower(&optimized.ast, target);
    if cfg!(debug_assertions)
        && let Err(error) = spec::verify_program(&program.ops)
    {
        panic!("lower left a broken program: {error}\n{}", kiln_ir::text::print_list(&program.ops));
    }
    program.source = render::render(&program, target);
    Compiled { ast: optimized.ast, applied: optimized.applied, program }
}

/// In debug builds, a graph that breaks its spec is a bug of the pass that made it, and says so with the graph.
fn check(pass: &str, kernel: &UOp) {
    if cfg!(debug_assertions)
        && let Err(error) = spec::verify(&spec::KERNEL, kernel)
    {
        panic!("{pass} left a broken kernel: {error}\n{}", kiln_ir::text::print(kernel));
    }
}
