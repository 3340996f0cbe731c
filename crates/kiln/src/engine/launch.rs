//! One run of a schedule: what each launch needs is put together before the first of them, because kernels push
//! everything else out of the caches, and what is looked up between them is looked up slowly.

use super::bind::Bound;
use super::cache::{Ready, ReadyKernel};
use super::device::Opened;
use super::measure::{count, is_counting};
use super::{Failure, debug, testing};
use crate::Device;
use kiln_runtime::Buffer;
use std::time::Instant;

/// All that the kernels of a schedule are called with.
pub(super) struct Launches<'a> {
    ready: &'a Ready,
    /// The arguments of each kernel, one kernel's after the other's.
    buffers: Vec<Buffer>,
    /// Its launch-time scalars, likewise.
    vars: Vec<i64>,
    /// What a kernel's first argument must hold before it runs, if that is other memory, by its number.
    copied: Vec<(usize, Buffer)>,
}

/// Whether somebody wants to know what launches take. A clock takes as long as a tenth of a small kernel.
fn is_watched() -> bool {
    is_counting() || debug::shows_launches()
}

impl Launches<'_> {
    /// Puts it all together; if that fails, which kernel has something missing and what.
    pub(super) fn new<'a>(
        ready: &'a Ready,
        bound: &Bound,
        scalars: &[i64],
    ) -> Result<Launches<'a>, (usize, Failure)> {
        let buffers = Vec::with_capacity(ready.kernels.iter().map(arguments).sum());
        let mut all = Launches { ready, buffers, vars: Vec::new(), copied: Vec::new() };
        for step in 0..ready.kernels.len() {
            all.add(bound, scalars, step).map_err(|why| (step, why))?;
        }
        Ok(all)
    }

    /// What the kernel at `step` is called with.
    fn add(&mut self, bound: &Bound, scalars: &[i64], step: usize) -> Result<(), Failure> {
        testing::step()?;
        let kernel = &self.ready.kernels[step];
        for which in kernel.plan.args.iter().take(arguments(kernel)) {
            self.buffers.push(bound.buffer(self.ready, which)?);
        }
        self.vars.extend(kernel.plan.vars.iter().take(scalars_of(kernel)).map(|&v| scalars[v]));
        self.copied.extend(bound.copied_first(self.ready, step)?.map(|old| (step, old)));
        Ok(())
    }

    /// Runs the kernels; if one fails, which one and why.
    pub(super) fn run(&self, device: &Device, opened: &Opened) -> Result<(), (usize, Failure)> {
        let (mut buffers, mut vars) = (&self.buffers[..], &self.vars[..]);
        let mut copied = self.copied.iter().peekable();
        for (step, kernel) in self.ready.kernels.iter().enumerate() {
            let (own, others) = buffers.split_at(arguments(kernel));
            let (scalars, other_scalars) = vars.split_at(scalars_of(kernel));
            (buffers, vars) = (others, other_scalars);
            let old = copied.next_if(|(at, _)| *at == step).map(|(_, old)| old);
            let call = Call { kernel, buffers: own, vars: scalars, old };
            call.run(device, opened).map_err(|why| (step, why))?;
        }
        Ok(())
    }
}

/// How many arguments a kernel is called with: those that were simplified away are none if they were the last.
fn arguments(kernel: &ReadyKernel) -> usize {
    kernel.plan.args.len().min(kernel.code.compiled.program.params.len())
}

fn scalars_of(kernel: &ReadyKernel) -> usize {
    kernel.plan.vars.len().min(kernel.code.compiled.program.vars.len())
}

/// One launch.
struct Call<'a> {
    kernel: &'a ReadyKernel,
    buffers: &'a [Buffer],
    vars: &'a [i64],
    /// What the first argument must hold before.
    old: Option<&'a Buffer>,
}

impl Call<'_> {
    fn run(&self, device: &Device, opened: &Opened) -> Result<(), Failure> {
        let start = is_watched().then(Instant::now);
        if let Some(old) = self.old {
            self.buffers[0].copy_from(old).map_err(|e| e.to_string())?;
        }
        let code = &self.kernel.code;
        code.kernel.launch(self.buffers, self.vars).map_err(|e| e.to_string())?;
        testing::launched()?;
        if let Some(took) = start.map(|start| start.elapsed()) {
            let program = &code.compiled.program;
            let copied = self.old.map_or(0, |old| 2 * old.len() as u64);
            count(|c| {
                c.kernels += 1;
                c.bytes += program.bytes + copied;
                c.flops += program.flops;
                c.kernel_ns += took.as_nanos() as u64;
            });
            debug::launched(device, self.kernel, took, opened);
        }
        Ok(())
    }
}
