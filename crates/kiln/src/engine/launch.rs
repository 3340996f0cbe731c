//! One run of a schedule. The arguments of all launches are prepared before the first one: kernels push everything else
//! out of the caches, so what is looked up between them is looked up slowly.

use super::bind::Bound;
use super::cache::{Ready, ReadyKernel};
use super::device::Opened;
use super::measure::{Counts, count, is_counting};
use super::{Failure, Few, testing};
use crate::device::Device;
use kiln_ir::observe::{self, Event, Kind};
use kiln_runtime::{Buffer, Prepared};
use smallvec::SmallVec;
use std::time::{Duration, Instant};

/// The arguments of all kernels of a schedule.
pub(super) struct Launches<'a> {
    ready: &'a Ready,
    /// The arguments of each kernel, in one list.
    buffers: SmallVec<[Buffer; 8]>,
    /// The launch-time scalars, likewise.
    vars: Vec<i64>,
    /// By kernel: a value that must be copied to its first argument before it runs.
    copied: Vec<(usize, Buffer)>,
    /// Whether arguments are files.
    has_files: bool,
}

impl Launches<'_> {
    /// Prepares all launches. The error says which kernel lacks something, and what.
    pub(super) fn new<'a>(
        ready: &'a Ready,
        bound: &Bound,
        scalars: &[i64],
    ) -> Result<Launches<'a>, (usize, Failure)> {
        let buffers = SmallVec::with_capacity(ready.kernels.iter().map(arguments).sum());
        let has_files = bound.access.is_some();
        let mut all = Launches { ready, buffers, vars: Vec::new(), copied: Vec::new(), has_files };
        for step in 0..ready.kernels.len() {
            all.add(bound, scalars, step).map_err(|why| (step, why))?;
        }
        Ok(all)
    }

    /// The arguments of the kernel at `step`.
    fn add(&mut self, bound: &Bound, scalars: &[i64], step: usize) -> Result<(), Failure> {
        testing::step()?;
        let kernel = &self.ready.kernels[step];
        for which in kernel.plan.args.iter().take(arguments(kernel)) {
            self.buffers.push(bound.buffer(self.ready, which)?);
        }
        let own = kernel.plan.vars.iter().map(|&v| scalars[v]);
        let all = own.chain(kernel.numbers.iter().copied());
        self.vars.extend(all.take(scalars_of(kernel)));
        self.copied.extend(bound.copied_first(self.ready, step)?.map(|old| (step, old)));
        Ok(())
    }

    /// Runs the kernels; if one fails, which one and why.
    pub(super) fn run(&self, device: &Device, opened: &Opened) -> Result<(), (usize, Failure)> {
        let calls = self.calls()?;
        let watch = Watch::new(device, opened);
        let mut counts = Counts::default();
        let run = |step: usize, counts: &mut Counts| {
            let (call, kernel) = (&calls[step], &self.ready.kernels[step]);
            watch.copy(call)?;
            let started = watch.now();
            call.run()?;
            testing::launched()?;
            if let Some(start) = started {
                let end = Instant::now();
                add_launch(counts, call, end - start);
                watch.show(kernel, call, start, end);
            }
            Ok(())
        };
        let mut steps = 0..calls.len();
        let done = steps.try_for_each(|step| run(step, &mut counts).map_err(|why| (step, why)));
        report(counts);
        done
    }

    /// The launches, with all that they need at hand.
    fn calls(&self) -> Result<Few<Call<'_>>, (usize, Failure)> {
        let (mut buffers, mut vars) = (&self.buffers[..], &self.vars[..]);
        let mut copied = self.copied.iter().peekable();
        let mut calls = Few::with_capacity(self.ready.kernels.len());
        for (step, kernel) in self.ready.kernels.iter().enumerate() {
            let (own, others) = buffers.split_at(arguments(kernel));
            let (scalars, other_scalars) = vars.split_at(scalars_of(kernel));
            (buffers, vars) = (others, other_scalars);
            let copied = copied.next_if(|(at, _)| *at == step).map(|(_, old)| (old, &own[0]));
            let launch = kernel.code.kernel.prepare(own, scalars);
            let launch = launch.map_err(|e| (step, e.to_string()))?;
            let (flops, bytes) = kernel.costs();
            let bytes = bytes + copied.map_or(0, |(old, _)| 2 * old.len() as u64);
            let files = if self.has_files { own } else { &[] };
            calls.push(Call { launch, copied, files, bytes, flops });
        }
        Ok(calls)
    }
}

/// How many arguments a kernel has. Trailing ones that were simplified away are left out.
fn arguments(kernel: &ReadyKernel) -> usize {
    kernel.plan.args.len().min(kernel.code.compiled.program.params.len())
}

fn scalars_of(kernel: &ReadyKernel) -> usize {
    let all = kernel.plan.vars.len() + kernel.numbers.len();
    all.min(kernel.code.compiled.program.vars.len())
}

/// One launch.
struct Call<'a> {
    launch: Prepared<'a>,
    /// The value that must be copied to its first argument before, and that argument.
    copied: Option<(&'a Buffer, &'a Buffer)>,
    /// Arguments, if there are files among them.
    files: &'a [Buffer],
    /// What it reads and writes.
    bytes: u64,
    flops: u64,
}

impl Call<'_> {
    /// Copies the value that must be in the first argument before.
    fn copy(&self) -> Result<usize, Failure> {
        let Some((old, new)) = self.copied else { return Ok(0) };
        new.copy_from(old).map_err(|e| e.to_string())?;
        Ok(old.len())
    }

    fn run(&self) -> Result<(), Failure> {
        self.files.iter().try_for_each(Buffer::check).map_err(|e| e.to_string())?;
        (self.launch)().map_err(|e| e.to_string())
    }
}

/// Watches launches, if anybody wants to know: reading a clock takes a tenth of a small kernel's time.
struct Watch<'a> {
    is_on: bool,
    is_shown: bool,
    device: &'a Device,
    opened: &'a Opened,
}

impl Watch<'_> {
    fn new<'a>(device: &'a Device, opened: &'a Opened) -> Watch<'a> {
        let is_shown = observe::is_wanted(Kind::Runs);
        Watch { is_on: is_shown || is_counting(), is_shown, device, opened }
    }

    fn now(&self) -> Option<Instant> {
        self.is_on.then(Instant::now)
    }

    /// What must be copied before a launch.
    fn copy(&self, call: &Call<'_>) -> Result<(), Failure> {
        let start = self.now();
        let bytes = call.copy()?;
        if let Some(start) = start.filter(|_| self.is_shown && bytes > 0) {
            let (device, end) = (self.device.name(), Instant::now());
            observe::see(&Event::Copied { device, from: device, bytes, start, end });
        }
        Ok(())
    }

    /// Shows a launch.
    fn show(&self, kernel: &ReadyKernel, call: &Call<'_>, start: Instant, end: Instant) {
        if self.is_shown {
            let ReadyKernel { code, plan, .. } = kernel;
            observe::see(&Event::Launched {
                device: self.device.name(),
                kernel: &code.compiled.ast,
                key: code.key,
                work: (call.flops, call.bytes),
                program: &code.compiled.program,
                methods: &plan.origins,
                memory: self.opened.backend.pool().map_or(0, |pool| pool.memory_use().used),
                start,
                end,
            });
        }
    }
}

fn add_launch(counts: &mut Counts, call: &Call<'_>, took: Duration) {
    counts.kernels += 1;
    counts.bytes += call.bytes;
    counts.flops += call.flops;
    counts.kernel_ns += took.as_nanos() as u64;
}

fn report(new: Counts) {
    count(|c| {
        c.kernels += new.kernels;
        c.bytes += new.bytes;
        c.flops += new.flops;
        c.kernel_ns += new.kernel_ns;
    });
}
