//! What observers are shown of schedules and kernels.

use crate::device::Device;
use kiln_compile::pipeline::Compiled;
use kiln_compile::schedule::{BufferRef, Schedule, ScheduledKernel, Temp};
use kiln_ir::UOp;
use kiln_ir::observe::{self, Compilation, Event, Kind, Planned, Temporary};
use kiln_runtime::{Loaded, Origin};
use std::time::{Duration, Instant};

/// A graph that got a schedule.
pub(super) struct Graph<'a> {
    /// What it is known by.
    pub(super) key: u128,
    pub(super) device: &'a Device,
    /// The last of its roots, if it is at hand.
    pub(super) last: Option<&'a UOp>,
}

/// What a schedule consists of, for whoever asks.
type Parts = (Vec<Planned>, Vec<Temporary>);

/// A schedule was remembered.
pub(super) fn remembered(of: Graph<'_>, schedule: &Schedule, kernels: usize) {
    show(of, &[], schedule, (kernels, &Default::default), None);
}

/// A schedule was made, of these kernels.
pub(super) fn scheduled(
    of: Graph<'_>,
    roots: &[UOp],
    schedule: &Schedule,
    kernels: &[ScheduledKernel],
    (start, took): (Instant, Duration),
) {
    let temporaries = || schedule.temps.iter().map(temporary).collect();
    let plan = || (kernels.iter().map(planned).collect(), temporaries());
    show(of, roots, schedule, (kernels.len(), &plan), Some((start, took)));
}

fn show(
    of: Graph<'_>,
    roots: &[UOp],
    schedule: &Schedule,
    (kernels, plan): (usize, &dyn Fn() -> Parts),
    time: Option<(Instant, Duration)>,
) {
    if observe::is_wanted(Kind::News) {
        let temporary_bytes = schedule.temps.iter().map(|t| t.len * t.dtype.size()).sum();
        let arena_bytes = schedule.arena_bytes;
        observe::see(&Event::Scheduled {
            key: of.key,
            device: of.device.name(),
            by: of.last.and_then(UOp::origin),
            roots,
            plan,
            kernels,
            start: time.map_or_else(Instant::now, |(start, _)| start),
            took: time.map(|(_, took)| took),
            arena_bytes,
            temporary_bytes,
        });
    }
}

fn temporary(temp: &Temp) -> Temporary {
    let Temp { offset, dtype, len, value, used } = *temp;
    Temporary { value, bytes: len * dtype.size(), offset, used }
}

fn planned(kernel: &ScheduledKernel) -> Planned {
    let name = |which: &BufferRef| match which {
        BufferRef::Param(slot) => format!("input {slot}"),
        BufferRef::Output(root) => format!("output {root}"),
        BufferRef::Temp(temp) => format!("temporary {temp}"),
    };
    let arguments = kernel.args.iter().map(name).zip(kernel.argument_bytes());
    Planned {
        kernel: kernel.ast.hash(),
        arguments: arguments.collect(),
        methods: kernel.origins.clone(),
    }
}

/// A schedule needs a kernel that was compiled before.
pub(super) fn found(scheduled: &UOp, optimized: u128) {
    if observe::is_wanted(Kind::News) {
        observe::see(&Event::Found { kernel: scheduled.hash(), optimized });
    }
}

/// A kernel was compiled, or found compiled.
pub(super) fn compiled(scheduled: &UOp, compiled: &Compiled, loaded: &Loaded, start: Instant) {
    if observe::is_wanted(Kind::News) {
        let options: Vec<String> = compiled.applied.iter().map(ToString::to_string).collect();
        observe::see(&Event::Compiled(&Compilation {
            scheduled,
            optimized: &compiled.ast,
            options: &options,
            program: &compiled.program,
            origin: match loaded.origin {
                Origin::Compiled => "compiled",
                Origin::Disk => "from the cache on disk",
                Origin::Memory => "compiled before",
                Origin::Interpreted => "interpreted",
            },
            start,
            disassemble: &|| loaded.kernel.disassemble(),
        }));
    }
}
