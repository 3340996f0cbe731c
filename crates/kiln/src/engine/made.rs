//! How kernels are made, as the environment says.

use super::device::Opened;
use super::{env, testing};
use kiln_compile::optimize::NOMINAL_THREADS;
use kiln_compile::pass::Checks;
use kiln_compile::pipeline::{self, Bug, Settings};
use kiln_compile::target::Target;
use kiln_ir::UOp;
use kiln_ir::program::Program;

/// Whether kernels are optimized, and whether their machine code tells its lines.
pub(super) type Made = (bool, bool);

pub(super) fn made() -> Made {
    (env::NOOPT.get() == 0, env::VIZ_CODE.get() != 0)
}

/// How to compile. If graphs are verified, a pass that fails is an error; otherwise the kernel gets fewer options.
pub(super) fn settings() -> Settings {
    let verify = cfg!(debug_assertions) || env::SPEC.get() != 0;
    let optimize = env::NOOPT.get() == 0;
    let checks = Checks { verify, spoiled: None };
    Settings { optimize, fall_back: !verify, checks, most_options: None }
}

/// The program of a kernel, without text, as it is for a device with a nominal number of threads: what follows from it must not
/// depend on how many processors there are.
pub(super) fn program(kernel: &UOp, opened: &Opened) -> Result<Program, Bug> {
    let target = Target { threads: NOMINAL_THREADS, ..(*opened.target).clone() };
    pipeline::program(kernel, &target, testing::settings(settings()))
}
