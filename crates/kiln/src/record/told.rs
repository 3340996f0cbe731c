//! Events as lines of a record.

use super::file::State;
use super::line::{Line, hex};
use super::parts::{Copy, Found, Kernel, PlannedKernel, Schedule, Speed, Temporary};
use crate::engine::env::VIZ_CODE;
use kiln_ir::UOp;
use kiln_ir::observe::{self, Compilation, Decision, Event, Planned};
use std::time::{Duration, Instant};

/// Tells events to a file.
pub(super) struct Telling<'a> {
    pub(super) started: Instant,
    pub(super) state: &'a mut State,
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

impl Telling<'_> {
    /// The line of an event, after those of its graphs.
    pub(super) fn line(&mut self, event: &Event<'_>) -> Option<Line> {
        match *event {
            Event::Pass { .. }
            | Event::Rules { .. }
            | Event::RulesDone { .. }
            | Event::Rewrite { .. } => self.step(event),
            Event::Decision(decision) => self.is_written(&[]).then(|| self.decision(decision)),
            Event::Compiled(kernel) => Some(self.compiled(kernel)),
            Event::Opened { .. } | Event::Scheduled { .. } | Event::Found { .. } => {
                self.news(event)
            }
            Event::Launched { .. } | Event::Copied { .. } => self.run(event),
            Event::Allocated { .. } | Event::Freed { .. } => self.memory(event),
            _ => None,
        }
    }

    fn time(&self, at: Instant) -> f64 {
        us(at.saturating_duration_since(self.started))
    }

    /// Whether the steps of this thread are written; the first one has the graph.
    fn is_written(&mut self, roots: &[UOp]) -> bool {
        let thread = self.state.thread();
        self.state.units.is_written(thread, roots)
    }

    /// What a stage did.
    fn step(&mut self, event: &Event<'_>) -> Option<Line> {
        let roots = match *event {
            Event::Pass { before: roots, .. } | Event::Rules { roots, .. } => roots,
            _ => &[],
        };
        if !self.is_written(roots) {
            return None;
        }
        let thread = self.state.thread();
        Some(match *event {
            Event::Pass { stage, pass, before, after } => Line::Pass {
                thread,
                stage: stage.to_owned(),
                pass: pass.to_owned(),
                before: self.state.graph(before),
                after: self.state.graph(after),
            },
            Event::Rules { set, roots } => {
                Line::Rules { thread, set: set.to_owned(), roots: self.state.graph(roots) }
            }
            Event::RulesDone { roots, .. } => Line::Done { thread, roots: self.state.graph(roots) },
            Event::Rewrite { rule, place: (file, line), before, after } => Line::Rewrite {
                thread,
                rule: rule.to_owned(),
                file: file.to_owned(),
                line,
                before: self.state.node(before),
                after: self.state.node(after),
            },
            _ => return None,
        })
    }

    fn decision(&mut self, decision: &Decision) -> Line {
        let alternatives = decision.alternatives.iter();
        Line::Decision {
            thread: self.state.thread(),
            about: decision.about.clone(),
            node: decision.node.as_ref().map(|node| self.state.node(node)),
            alternatives: alternatives
                .map(|(name, price)| (name.clone().into_owned(), *price))
                .collect(),
            unit: decision.unit.to_owned(),
            chosen: decision.chosen,
            note: decision.note.clone(),
        }
    }

    fn compiled(&mut self, kernel: &Compilation<'_>) -> Line {
        let (program, thread) = (kernel.program, self.state.thread());
        self.state.units.end(thread);
        let code = (VIZ_CODE.get() != 0).then(|| (kernel.disassemble)()).flatten();
        let (code, lines) = code.map(|code| (code.text, code.lines)).unzip();
        Line::Compiled(Kernel {
            thread,
            at: self.time(kernel.start),
            took: us(kernel.start.elapsed()),
            name: program.name.to_string(),
            scheduled: hex(kernel.scheduled.hash()),
            optimized: hex(kernel.optimized.hash()),
            graphs: [kernel.scheduled, kernel.optimized].map(|graph| self.state.node(graph)),
            options: kernel.options.to_vec(),
            origin: kernel.origin.to_owned(),
            source: program.source.clone(),
            code,
            lines: lines.unwrap_or_default(),
            work: (program.flops, program.bytes),
            instructions: program.instructions(&[], 1),
            steps: Vec::new(),
        })
    }

    /// Devices, schedules, and kernels that were found.
    fn news(&mut self, event: &Event<'_>) -> Option<Line> {
        Some(match *event {
            Event::Opened { device, backend, compiler, speed } => {
                self.state.speeds.extend(speed.map(|speed| speed.threads));
                Line::Opened {
                    device: device.to_owned(),
                    backend: backend.to_owned(),
                    compiler: compiler.to_owned(),
                    speed: speed.map(told_speed),
                }
            }
            Event::Scheduled { key, device, roots, by, plan, kernels, start, took, .. } => {
                let Event::Scheduled { arena_bytes, temporary_bytes, .. } = *event else {
                    return None;
                };
                let roots = self.state.graph(roots);
                let ((planned, temporaries), thread) = (plan(), self.state.thread());
                if took.is_some() {
                    self.state.units.end(thread);
                }
                Line::Scheduled(Schedule {
                    thread,
                    key: hex(key),
                    device: device.to_owned(),
                    by: by.map(str::to_owned),
                    at: self.time(start),
                    took: took.map(us),
                    count: kernels,
                    roots,
                    kernels: planned.into_iter().map(told_kernel).collect(),
                    temporaries: temporaries.iter().map(|t| self.temporary(t)).collect(),
                    memory: (arena_bytes, temporary_bytes),
                    steps: Vec::new(),
                })
            }
            Event::Found { kernel, optimized } => Line::Found(Found {
                thread: self.state.thread(),
                at: self.time(Instant::now()),
                scheduled: hex(kernel),
                optimized: hex(optimized),
            }),
            _ => return None,
        })
    }

    fn temporary(&self, temporary: &observe::Temporary) -> Temporary {
        let observe::Temporary { value, bytes, offset, used } = *temporary;
        Temporary { value: self.state.known(value), bytes, offset, used }
    }

    /// What ran on a device.
    fn run(&mut self, event: &Event<'_>) -> Option<Line> {
        let thread = self.state.thread();
        Some(match *event {
            Event::Launched { memory, start, end, .. } => {
                let site = self.state.site(event)?;
                let (at, took) = (self.time(start), us(end - start));
                Line::Launch { thread, site, at, took, memory }
            }
            Event::Copied { device, from, bytes, start, end } => Line::Copy(Copy {
                thread,
                device: device.to_owned(),
                from: from.to_owned(),
                bytes,
                at: self.time(start),
                took: us(end - start),
            }),
            _ => return None,
        })
    }

    /// Memory that came or went. A thread that ends may free some: it has no number any more.
    fn memory(&self, event: &Event<'_>) -> Option<Line> {
        Some(match *event {
            Event::Allocated { device, block, bytes, holder, is_reused, start, end } => {
                Line::Alloc {
                    device: device.to_owned(),
                    block,
                    bytes,
                    holder: holder.to_owned(),
                    reused: is_reused,
                    at: self.time(start),
                    took: us(end - start),
                }
            }
            Event::Freed { device, block } => {
                Line::Free { device: device.to_owned(), block, at: self.time(Instant::now()) }
            }
            _ => return None,
        })
    }
}

fn told_speed(speed: observe::Speed) -> Speed {
    let observe::Speed { threads, flops, bytes, launch } = speed;
    Speed { threads, flops, bytes, launch: us(launch) }
}

fn told_kernel(kernel: Planned) -> PlannedKernel {
    let methods = kernel.methods.into_iter().map(str::to_owned).collect();
    PlannedKernel { kernel: hex(kernel.kernel), arguments: kernel.arguments, methods }
}
