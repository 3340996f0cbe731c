//! What observers are shown of schedules and kernels.

use kiln_compile::pipeline::Compiled;
use kiln_compile::schedule::{BufferRef, Schedule, ScheduledKernel};
use kiln_ir::UOp;
use kiln_ir::observe::{self, Compilation, Event, Kind, Planned};
use kiln_runtime::{Loaded, Origin};
use std::time::Duration;

/// A schedule was remembered.
pub(super) fn remembered(key: u128, schedule: &Schedule, kernels: usize) {
    show(key, &[], schedule, (kernels, &Vec::new), None);
}

/// A schedule was made, of these kernels.
pub(super) fn scheduled(
    key: u128,
    roots: &[UOp],
    schedule: &Schedule,
    kernels: &[ScheduledKernel],
    took: Duration,
) {
    let plan = || kernels.iter().map(planned).collect();
    show(key, roots, schedule, (kernels.len(), &plan), Some(took));
}

fn show(
    key: u128,
    roots: &[UOp],
    schedule: &Schedule,
    (kernels, plan): (usize, &dyn Fn() -> Vec<Planned>),
    took: Option<Duration>,
) {
    if observe::is_wanted(Kind::News) {
        let temporary_bytes = schedule.temps.iter().map(|t| t.len * t.dtype.size()).sum();
        let arena_bytes = schedule.arena_bytes;
        observe::see(&Event::Scheduled {
            key,
            roots,
            plan,
            kernels,
            took,
            arena_bytes,
            temporary_bytes,
        });
    }
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

/// A kernel was compiled, or found compiled.
pub(super) fn compiled(scheduled: &UOp, compiled: &Compiled, loaded: &Loaded) {
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
            disassemble: &|| loaded.kernel.disassemble(),
        }));
    }
}
