//! The observer that writes a record.

use super::line::{Line, Node, PlannedKernel};
use crate::engine::env::{VIZ_CODE, VIZ_MB};
use kiln_ir::observe::{Event, Observer, Planned};
use kiln_ir::uop::{name_lines, toposort_all};
use kiln_ir::{UOp, text};
use rustc_hash::FxHashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

/// What the first line says.
pub(super) const FORMAT: u32 = 1;

/// Writes each event to a file.
pub(crate) struct Recorder {
    started: Instant,
    state: Mutex<State>,
}

struct State {
    out: BufWriter<File>,
    /// Bytes that may still be written.
    left: usize,
    /// Nodes that are written, by hash. They are not held: a program may overwrite what nobody holds.
    nodes: FxHashMap<u128, u32>,
    threads: FxHashMap<ThreadId, u32>,
    /// The first failure of writing; nothing is written after it.
    failed: Option<io::Error>,
    flushed: Instant,
}

/// So often what was written can be read.
const FLUSH: Duration = Duration::from_millis(250);

impl Recorder {
    /// A record in a new file.
    pub(crate) fn create(path: &Path) -> io::Result<Recorder> {
        name_lines();
        let out = BufWriter::with_capacity(1 << 16, File::create(path)?);
        let left = usize::try_from(VIZ_MB.get()).unwrap_or(0).saturating_mul(1 << 20);
        let (nodes, threads, started) =
            (FxHashMap::default(), FxHashMap::default(), Instant::now());
        let mut state = State { out, left, nodes, threads, failed: None, flushed: started };
        let program = std::env::args().next().unwrap_or_default();
        state.line(&Line::Kiln { format: FORMAT, program });
        Ok(Recorder { started, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the file complete up to here, and gives the first failure.
    pub(crate) fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.failed.take() {
            Some(failed) => Err(failed),
            None => state.out.flush(),
        }
    }

    fn time(&self, at: Instant) -> f64 {
        us(at.saturating_duration_since(self.started))
    }
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}

impl State {
    fn line(&mut self, line: &Line) {
        if self.left == 0 || self.failed.is_some() {
            return;
        }
        let mut text = match serde_json::to_vec(line) {
            Ok(text) => text,
            Err(why) => return self.failed = Some(why.into()),
        };
        if text.len() >= self.left {
            self.left = 0;
            text = br#"{"full":{}}"#.to_vec();
        } else {
            self.left -= text.len() + 1;
        }
        text.push(b'\n');
        if let Err(why) = self.out.write_all(&text) {
            self.failed = Some(why);
        }
    }

    /// Whether nothing more is written.
    fn is_done(&self) -> bool {
        self.left == 0 || self.failed.is_some()
    }

    /// What was written can be read from time to time.
    fn flush_at_times(&mut self) {
        if self.flushed.elapsed() > FLUSH {
            self.flushed = Instant::now();
            if let Err(why) = self.out.flush() {
                self.failed.get_or_insert(why);
            }
        }
    }

    fn thread(&mut self) -> u32 {
        let next = self.threads.len() as u32;
        *self.threads.entry(current().id()).or_insert(next)
    }

    /// Writes what is new of these graphs; gives the numbers of the roots.
    fn graph(&mut self, roots: &[UOp]) -> Vec<u32> {
        for node in toposort_all(roots, |node| !self.nodes.contains_key(&node.hash())) {
            if self.nodes.contains_key(&node.hash()) {
                continue;
            }
            let id = self.nodes.len() as u32;
            self.nodes.insert(node.hash(), id);
            let sources = node.srcs().iter().map(|s| self.nodes[&s.hash()]).collect();
            let by = node.origin().map(str::to_owned);
            let (label, shape) = (text::label(&node), node.shape().to_vec());
            self.line(&Line::Node(Node { id, label, shape, sources, by }));
        }
        roots.iter().map(|root| self.nodes[&root.hash()]).collect()
    }
}

fn planned(kernel: Planned) -> PlannedKernel {
    let methods = kernel.methods.into_iter().map(str::to_owned).collect();
    PlannedKernel { kernel: hex(kernel.kernel), arguments: kernel.arguments, methods }
}

impl Observer for Recorder {
    fn see(&self, event: &Event<'_>) {
        let mut state = self.state();
        if state.is_done() {
            return;
        }
        let thread = state.thread();
        let line = match *event {
            Event::Pass { stage, pass, before, after } => Line::Pass {
                thread,
                stage: stage.to_owned(),
                pass: pass.to_owned(),
                before: state.graph(before),
                after: state.graph(after),
            },
            Event::Rules { set, roots } => {
                Line::Rules { thread, set: set.to_owned(), roots: state.graph(roots) }
            }
            Event::RulesDone { roots, .. } => Line::Done { thread, roots: state.graph(roots) },
            Event::Rewrite { rule, place: (file, line), before, after } => Line::Rewrite {
                thread,
                rule: rule.to_owned(),
                file: file.to_owned(),
                line,
                before: state.graph(std::slice::from_ref(before))[0],
                after: state.graph(std::slice::from_ref(after))[0],
            },
            Event::Decision(decision) => Line::Decision {
                thread,
                about: decision.about.clone(),
                alternatives: decision
                    .alternatives
                    .iter()
                    .map(|(name, price)| ((*name).to_owned(), *price))
                    .collect(),
                unit: decision.unit.to_owned(),
                chosen: decision.chosen,
                note: decision.note.clone(),
            },
            Event::Opened { device, backend, compiler } => Line::Opened {
                device: device.to_owned(),
                backend: backend.to_owned(),
                compiler: compiler.to_owned(),
            },
            Event::Scheduled { key, roots, plan, kernels, took, arena_bytes, temporary_bytes } => {
                Line::Scheduled {
                    key: hex(key),
                    at: self.time(Instant::now()),
                    took: took.map(us),
                    count: kernels,
                    roots: state.graph(roots),
                    kernels: plan().into_iter().map(planned).collect(),
                    arena: arena_bytes,
                    temporaries: temporary_bytes,
                }
            }
            Event::Compiled(kernel) => Line::Compiled {
                thread,
                at: self.time(Instant::now()),
                name: kernel.program.name.to_string(),
                scheduled: hex(kernel.scheduled.hash()),
                optimized: hex(kernel.optimized.hash()),
                graphs: [kernel.scheduled, kernel.optimized]
                    .map(|graph| state.graph(std::slice::from_ref(graph))[0]),
                options: kernel.options.to_vec(),
                origin: kernel.origin.to_owned(),
                source: kernel.program.source.clone(),
                code: (VIZ_CODE.get() != 0).then(|| (kernel.disassemble)()).flatten(),
                flops: kernel.program.flops,
                bytes: kernel.program.bytes,
            },
            Event::Launched { device, kernel, program, methods, memory, start, end } => {
                Line::Launch {
                    kernel: hex(kernel.hash()),
                    name: program.name.to_string(),
                    device: device.to_owned(),
                    at: self.time(start),
                    took: us(end - start),
                    flops: program.flops,
                    bytes: program.bytes,
                    memory,
                    methods: methods.iter().map(|method| (*method).to_owned()).collect(),
                }
            }
            Event::Copied { device, from, bytes, start, end } => Line::Copy {
                device: device.to_owned(),
                from: from.to_owned(),
                bytes,
                at: self.time(start),
                took: us(end - start),
            },
            Event::Allocated { device, bytes, start, end } => Line::Alloc {
                device: device.to_owned(),
                bytes,
                at: self.time(start),
                took: us(end - start),
            },
            _ => return,
        };
        state.line(&line);
        state.flush_at_times();
    }
}
