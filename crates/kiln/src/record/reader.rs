//! Reads a record: lines become schedules, kernels and launches that belong together.

use super::line::{Line, Node, PlannedKernel};
use super::writer::FORMAT;
use crate::error::{Error, Fault, at_caller, refuse};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A line may have so many bytes.
const MOST_LINE: u64 = 64 << 20;

/// What a program did, read from a file.
#[derive(Clone, Default, Serialize, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The program.
    pub program: String,
    /// Devices with what runs and compiles their kernels.
    pub devices: Vec<(String, String, String)>,
    /// Nodes by number. One that was damaged has an empty label.
    pub nodes: Vec<Node>,
    /// In order. One that was remembered names the one that it is.
    pub schedules: Vec<Schedule>,
    /// Compiled kernels, in order.
    pub kernels: Vec<Kernel>,
    /// In order.
    pub launches: Vec<Launch>,
    /// Copies without a kernel: device, from, bytes, start and microseconds.
    pub copies: Vec<(String, String, usize, f64, f64)>,
    /// Memory that devices gave: device, bytes, start and microseconds.
    pub allocations: Vec<(String, usize, f64, f64)>,
    /// How many lines could not be read.
    pub damaged: usize,
    /// Whether the record had as many bytes as it may have.
    pub is_full: bool,
}

/// A graph that got a schedule.
#[derive(Clone, Default, Serialize, Debug)]
#[non_exhaustive]
pub struct Schedule {
    /// What the graph is known by.
    pub key: String,
    /// When.
    pub at: f64,
    /// Microseconds; none if it was remembered.
    pub took: Option<f64>,
    /// How many kernels it has.
    pub count: usize,
    /// The graph: numbers of nodes.
    pub roots: Vec<u32>,
    /// The kernels.
    pub kernels: Vec<PlannedKernel>,
    /// Bytes of the memory that temporaries share, and of all of them.
    pub memory: (usize, usize),
    /// What stage `schedule` did.
    pub steps: Vec<Step>,
}

/// A kernel that was compiled.
#[derive(Clone, Default, Serialize, Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// Such as `r_32_8`.
    pub name: String,
    /// The hash of its graph after stage `schedule`.
    pub scheduled: String,
    /// The hash of its graph after stage `optimize`.
    pub optimized: String,
    /// These two graphs.
    pub graphs: [u32; 2],
    /// The options that were applied.
    pub options: Vec<String>,
    /// Where its code comes from.
    pub origin: String,
    /// Its text.
    pub source: String,
    /// Its machine code.
    pub code: Option<String>,
    /// Arithmetic operations and bytes of a launch.
    pub work: (u64, u64),
    /// When it was ready.
    pub at: f64,
    /// What stages `optimize` and `lower` did.
    pub steps: Vec<Step>,
}

/// A kernel that ran.
#[derive(Clone, Default, Serialize, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// The hash of its graph after stage `optimize`.
    pub kernel: String,
    /// Its name.
    pub name: String,
    /// Where.
    pub device: String,
    /// When.
    pub at: f64,
    /// Microseconds.
    pub took: f64,
    /// Arithmetic operations and bytes.
    pub work: (u64, u64),
    /// Bytes in use on the device.
    pub memory: usize,
    /// The methods that made it, with the lines that called them.
    pub methods: Vec<String>,
}

/// What the compiler did, in order.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are those of a line")]
pub enum Step {
    /// A pass ran.
    Pass { stage: String, pass: String, before: Vec<u32>, after: Vec<u32> },
    /// A set of rules began.
    Rules { set: String, roots: Vec<u32> },
    /// It is done.
    Done { roots: Vec<u32> },
    /// A rule rewrote a node.
    Rewrite { rule: String, file: String, line: u32, before: u32, after: u32 },
    /// A choice by price.
    Decision {
        about: String,
        alternatives: Vec<(String, Option<f64>)>,
        unit: String,
        chosen: usize,
        note: String,
    },
}

impl Record {
    /// Reads a record. Lines that are damaged are left out, and counted.
    ///
    /// ```
    /// assert!(kiln::record::Record::open("no/such/file").is_err());
    /// ```
    ///
    /// # Errors
    /// A file that cannot be read, or that is no record.
    #[track_caller]
    pub fn open(path: impl AsRef<Path>) -> Result<Record, Error> {
        let path = path.as_ref();
        let failed = |why| Fault::Failed(format!("{}: {why}", path.display()));
        let file = File::open(path).map_err(failed);
        at_caller("record", file.and_then(|file| Record::read(BufReader::new(file))))
    }

    fn read(mut from: impl BufRead) -> Result<Record, Fault> {
        let mut reader = Reader::default();
        let mut text = Vec::new();
        let mut is_first = true;
        loop {
            text.clear();
            let read = from.by_ref().take(MOST_LINE).read_until(b'\n', &mut text);
            match read.map_err(|why| Fault::Failed(why.to_string()))? {
                0 => break,
                _ if text.last() != Some(&b'\n') && text.len() as u64 == MOST_LINE => {
                    return refuse!("a line has more than {MOST_LINE} bytes");
                }
                _ => {}
            }
            let line = serde_json::from_slice::<Line>(&text);
            match (std::mem::take(&mut is_first), line) {
                (true, Ok(Line::Kiln { format: FORMAT, program })) => {
                    reader.record.program = program
                }
                (true, Ok(Line::Kiln { format, .. })) => {
                    return refuse!("a record of format {format}, this kiln reads {FORMAT}");
                }
                (true, _) => return refuse!("no record of kiln"),
                (false, Ok(line)) => reader.add(line),
                (false, Err(_)) => reader.record.damaged += 1,
            }
        }
        if is_first {
            return refuse!("no record of kiln: it is empty");
        }
        Ok(reader.record)
    }
}

/// A record so far.
#[derive(Default)]
struct Reader {
    record: Record,
    /// By thread: steps that belong to the schedule or kernel that comes next.
    steps: HashMap<u32, Vec<Step>>,
}

impl Reader {
    fn add(&mut self, line: Line) {
        match line {
            Line::Node(node) => self.node(node),
            Line::Opened { device, backend, compiler } => {
                self.record.devices.push((device, backend, compiler));
            }
            Line::Scheduled { key, at, took, count, roots, kernels, arena, temporaries } => {
                // the stage ran on the thread that says so: the only one with such steps
                let is_schedule = |steps: &Vec<Step>| {
                    steps
                        .iter()
                        .any(|s| matches!(s, Step::Pass { stage, .. } if stage == "schedule"))
                };
                let thread = self.steps.iter().find(|(_, steps)| is_schedule(steps));
                let thread = thread.map(|(thread, _)| *thread).filter(|_| took.is_some());
                let steps = thread.and_then(|t| self.steps.remove(&t)).unwrap_or_default();
                let roots = self.known(roots);
                let memory = (arena, temporaries);
                let schedule = Schedule { key, at, took, count, roots, kernels, memory, steps };
                self.record.schedules.push(schedule);
            }
            Line::Pass { thread, stage, pass, before, after } => {
                let (before, after) = (self.known(before), self.known(after));
                self.step(thread, Step::Pass { stage, pass, before, after });
            }
            Line::Rules { thread, set, roots } => {
                let roots = self.known(roots);
                self.step(thread, Step::Rules { set, roots });
            }
            Line::Done { thread, roots } => {
                let roots = self.known(roots);
                self.step(thread, Step::Done { roots });
            }
            Line::Rewrite { thread, rule, file, line, before, after } => {
                if self.known(vec![before, after]).len() == 2 {
                    self.step(thread, Step::Rewrite { rule, file, line, before, after });
                }
            }
            Line::Decision { thread, about, alternatives, unit, chosen, note } => {
                if chosen < alternatives.len() {
                    self.step(thread, Step::Decision { about, alternatives, unit, chosen, note });
                }
            }
            Line::Compiled { thread, graphs, .. } if self.known(graphs.to_vec()).len() < 2 => {
                self.steps.remove(&thread);
                self.record.damaged += 1;
            }
            Line::Compiled {
                thread,
                at,
                name,
                scheduled,
                optimized,
                graphs,
                options,
                origin,
                source,
                code,
                flops,
                bytes,
            } => {
                let steps = self.steps.remove(&thread).unwrap_or_default();
                let work = (flops, bytes);
                self.record.kernels.push(Kernel {
                    name,
                    scheduled,
                    optimized,
                    graphs,
                    options,
                    origin,
                    source,
                    code,
                    work,
                    at,
                    steps,
                });
            }
            Line::Launch { kernel, name, device, at, took, flops, bytes, memory, methods } => {
                let work = (flops, bytes);
                let launch = Launch { kernel, name, device, at, took, work, memory, methods };
                self.record.launches.push(launch);
            }
            Line::Copy { device, from, bytes, at, took } => {
                self.record.copies.push((device, from, bytes, at, took));
            }
            Line::Alloc { device, bytes, at, took } => {
                self.record.allocations.push((device, bytes, at, took));
            }
            Line::Full {} => self.record.is_full = true,
            Line::Kiln { .. } => self.record.damaged += 1,
        }
    }

    fn step(&mut self, thread: u32, step: Step) {
        self.steps.entry(thread).or_default().push(step);
    }

    /// A node in its place. What comes before it and is missing was damaged.
    fn node(&mut self, mut node: Node) {
        let nodes = &mut self.record.nodes;
        let at = node.id as usize;
        if at < nodes.len() || at > nodes.len() + self.record.damaged {
            self.record.damaged += 1;
            return;
        }
        while nodes.len() < at {
            let (id, none) = (nodes.len() as u32, String::new());
            nodes.push(Node { id, label: none, shape: vec![], sources: vec![], by: None });
        }
        // sources come first, so that no walk of a graph is without end
        node.sources.retain(|&source| (source as usize) < at);
        nodes.push(node);
    }

    /// The numbers that name nodes.
    fn known(&self, numbers: Vec<u32>) -> Vec<u32> {
        let known = |n: &u32| (*n as usize) < self.record.nodes.len();
        numbers.into_iter().filter(known).collect()
    }
}
