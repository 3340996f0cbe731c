//! What a record consists of, once it is read.

use kiln_ir::Op;
use serde::{Deserialize, Serialize};
use std::ops::Deref;
use std::sync::Arc;

/// What a program did, read from a file. Times are in microseconds since the record began: `at` is when something began,
/// `took` how long it was.
#[derive(Clone, Default, Serialize, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The program.
    pub program: String,
    /// Names of threads, by number; one that has none is empty.
    pub threads: Vec<String>,
    /// In the order in which they were opened.
    pub devices: Vec<OpenDevice>,
    /// How fast this machine is, by number of threads; empty if the program did not come to its end, or was built without
    /// optimization.
    pub measured: Vec<Measured>,
    /// Nodes by number. One that was damaged has an empty label.
    pub nodes: Vec<Node>,
    /// In order. One that was remembered names the one that it is.
    pub schedules: Vec<Schedule>,
    /// Compiled kernels, in order.
    pub kernels: Vec<Kernel>,
    /// Kernels that a schedule needed and the process had compiled before.
    pub found: Vec<Found>,
    /// What launches have in common.
    pub sites: Vec<Arc<Site>>,
    /// In order.
    pub launches: Vec<Launch>,
    /// Copies without a kernel.
    pub copies: Vec<Copy>,
    /// Blocks of memory that devices gave.
    pub blocks: Vec<Block>,
    /// What rules did; empty if the program did not come to its end.
    pub rules: Vec<Rule>,
    /// How many lines could not be read.
    pub damaged: usize,
    /// Whether the record had as many bytes as it may have.
    pub is_full: bool,
}

/// A device.
#[derive(Clone, Serialize, Debug)]
#[non_exhaustive]
pub struct OpenDevice {
    /// As programs name it.
    pub name: String,
    /// What runs its kernels.
    pub backend: String,
    /// What compiles them.
    pub compiler: String,
    /// How fast its description says that it is; none if it is not meant to be fast.
    pub speed: Option<Speed>,
}

/// How fast a machine is.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Measured {
    /// With so many threads.
    pub threads: usize,
    /// Arithmetic operations of f32 a second: multiply-adds in registers.
    pub flops: f64,
    /// Bytes a second of copying or reading memory.
    pub bytes: f64,
}

/// A graph that got a schedule.
#[derive(Clone, Default, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Schedule {
    /// On which thread.
    pub thread: u32,
    /// What the graph is known by.
    pub key: String,
    /// For which device.
    pub device: String,
    /// The method that made the last root, with the line that called it; none for a replay of a recorded function.
    pub by: Option<String>,
    /// When.
    pub at: f64,
    /// None if it was remembered.
    pub took: Option<f64>,
    /// How many kernels it has.
    pub count: usize,
    /// The graph: numbers of nodes.
    pub roots: Vec<u32>,
    /// The kernels.
    pub kernels: Vec<PlannedKernel>,
    /// Values between kernels.
    pub temporaries: Vec<Temporary>,
    /// Bytes of the memory that temporaries share, and of all of them.
    pub memory: (usize, usize),
    /// What stage `schedule` did; a line has it apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A kernel that was compiled.
#[derive(Clone, Default, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Kernel {
    /// On which thread.
    pub thread: u32,
    /// When.
    pub at: f64,
    /// How long it took to optimize, lower and compile it.
    pub took: f64,
    /// Such as `r_32_8`.
    pub name: String,
    /// The hash of its graph after stage `schedule`, by which the cache in memory knows it.
    pub scheduled: String,
    /// The hash of its graph after stage `optimize`, by which launches name it.
    pub optimized: String,
    /// These two graphs.
    pub graphs: [u32; 2],
    /// The options that were applied.
    pub options: Vec<String>,
    /// Where its code comes from: `compiled`, or `from the cache on disk`, whose key is the text.
    pub origin: String,
    /// Its text.
    pub source: String,
    /// Its machine code, an instruction a line.
    pub code: Option<String>,
    /// The line of `source` of each instruction, counted from 1; none for an instruction of several lines or of no line.
    /// Empty without line information. An instruction that LLVM adds on its own, such as the load of a constant, may have
    /// the line of the instruction before it.
    #[serde(default)]
    pub lines: Vec<Option<u32>>,
    /// Arithmetic operations and bytes of a launch.
    pub work: (u64, u64),
    /// About how many instructions a launch executes.
    #[serde(default)]
    pub instructions: u64,
    /// What stages `optimize` and `lower` did; a line has it apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A kernel that was compiled before.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Found {
    /// On which thread.
    pub thread: u32,
    /// When.
    pub at: f64,
    /// As in [`Kernel`].
    pub scheduled: String,
    /// As in [`Kernel`].
    pub optimized: String,
}

/// A kernel as one place of the program launches it.
#[derive(Clone, Default, Serialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Site {
    /// The hash of its graph after stage `optimize`.
    pub kernel: String,
    /// Its name.
    pub name: String,
    /// Where.
    pub device: String,
    /// Arithmetic operations and bytes.
    pub work: (u64, u64),
    /// The methods that made it, with the lines that called them.
    pub methods: Vec<String>,
}

/// A kernel that ran. Its fields are those of its site, too: launches of one site share them.
#[derive(Clone, Serialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Launch {
    /// From which thread.
    pub thread: u32,
    /// What ran: the place in the record's list.
    pub site: usize,
    /// When.
    pub at: f64,
    /// How long.
    pub took: f64,
    /// Bytes in use on the device.
    pub memory: usize,
    #[serde(skip)]
    pub(super) of: Arc<Site>,
}

impl Deref for Launch {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.of
    }
}

/// Memory that was copied without a kernel.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Copy {
    /// From which thread.
    pub thread: u32,
    /// To which device.
    pub device: String,
    /// From which device.
    pub from: String,
    /// How much.
    pub bytes: usize,
    /// When.
    pub at: f64,
    /// How long.
    pub took: f64,
}

/// Memory of a device.
#[derive(Clone, Serialize, Debug)]
#[non_exhaustive]
pub struct Block {
    /// Which device.
    pub device: String,
    /// How much.
    pub bytes: usize,
    /// Its holder: a method with the calling line, `temporaries`, `copies`, or `data of the program`.
    pub holder: String,
    /// Whether it was freed before, and kept.
    pub is_reused: bool,
    /// When.
    pub at: f64,
    /// How long it took to get it.
    pub took: f64,
    /// When it went back; none if it did not, as far as the record goes.
    pub freed: Option<f64>,
}

/// What a rule did.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Its name.
    pub rule: String,
    /// Where it is written.
    pub file: String,
    /// Where in that file.
    pub line: u32,
    /// How often it was tried.
    pub tried: u64,
    /// How often it rewrote a node.
    pub fired: u64,
    /// Microseconds in all attempts.
    pub took: f64,
}

/// What the compiler did, in order.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
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
        /// The node that it is about, in the graph of the pass that decides.
        node: Option<u32>,
        alternatives: Vec<(String, Option<f64>)>,
        unit: String,
        chosen: usize,
        note: String,
    },
}

/// A node of a graph.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Node {
    pub id: u32,
    /// Op, type and argument, as in the text form of graphs.
    pub label: String,
    pub shape: Vec<usize>,
    /// Numbers of nodes that were written before.
    pub sources: Vec<u32>,
    /// The method that made it, with the line that called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Node {
    /// Its op: the first word of its label. A constant has its value there.
    pub fn op(&self) -> &str {
        self.label.split(' ').next().unwrap_or_default()
    }

    /// Whether it is a view of its source: it moves elements and computes none.
    pub fn is_view(&self) -> bool {
        Op::parse(self.op()).is_some_and(Op::is_movement)
    }
}

/// A kernel of a schedule.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct PlannedKernel {
    /// The hash of its graph after stage `schedule`.
    pub kernel: String,
    /// What it writes, then what it reads, each with its bytes: `output 0`, `temporary 2`, `input 1`.
    pub arguments: Vec<(String, usize)>,
    /// The methods that made it, with the lines that called them.
    pub methods: Vec<String>,
}

/// A value that is stored between kernels of a schedule, in memory that they share.
#[derive(Clone, Serialize, Deserialize, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Temporary {
    /// Its node in the graph that pass `assign` is given, if the record has it.
    pub value: Option<u32>,
    pub bytes: usize,
    pub offset: usize,
    /// The kernels, by place in the schedule, between which it is needed.
    pub used: (usize, usize),
}

/// How fast a device is said to be.
#[derive(Clone, Copy, Serialize, Deserialize, PartialEq, Debug)]
#[allow(missing_docs, reason = "the fields say what they are")]
pub struct Speed {
    pub threads: usize,
    /// Arithmetic operations of f32 a second.
    pub flops: f64,
    /// Bytes of memory a second, read and written.
    pub bytes: f64,
    /// The least time of a launch in microseconds.
    pub launch: f64,
}

impl Schedule {
    /// The values that one kernel stores and a later one reads, as numbers of nodes: because of them the two are not one
    /// kernel. A value that is a result of the schedule is a node of the graph that pass `assign` is given.
    pub fn between(&self, first: usize, second: usize) -> Vec<u32> {
        let read = self.arguments(second);
        let is_read = |argument: &&(String, usize)| read.iter().any(|a| a.0 == argument.0);
        let of_first = self.arguments(first).iter().filter(is_read);
        of_first.filter_map(|(name, _)| self.value(name)).collect()
    }

    fn arguments(&self, kernel: usize) -> &[(String, usize)] {
        self.kernels.get(kernel).map_or(&[], |k| &k.arguments)
    }

    /// The value of an argument such as `temporary 2` or `output 0`, as the number of a node. What passes `merge`, `chain` and
    /// `batch` did with the kernel that stores it is among the decisions about it.
    pub fn value(&self, argument: &str) -> Option<u32> {
        let (kind, number) = argument.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        match kind {
            "temporary" => self.temporaries.get(number)?.value,
            "output" => self.placed().get(number).copied(),
            _ => None,
        }
    }

    /// The decisions about a node.
    pub fn decisions_about(&self, about: u32) -> impl Iterator<Item = &Step> {
        let is_it =
            move |s: &&Step| matches!(s, Step::Decision { node, .. } if *node == Some(about));
        self.steps.iter().filter(is_it)
    }

    /// The graph that pass `assign` is given.
    fn placed(&self) -> &[u32] {
        let given = |step: &'_ Step| matches!(step, Step::Pass { pass, .. } if pass == "assign");
        match self.steps.iter().find(|step| given(step)) {
            Some(Step::Pass { before, .. }) => before,
            _ => &[],
        }
    }
}

impl Record {
    /// How fast a device can be: as measured, else as its description says. None if neither is known.
    pub fn speed(&self, device: &str) -> Option<Speed> {
        let told = self.devices.iter().find(|open| open.name == device)?.speed?;
        let measured = self.measured.iter().find(|measured| measured.threads == told.threads);
        Some(match measured {
            Some(Measured { flops, bytes, .. }) => Speed { flops: *flops, bytes: *bytes, ..told },
            None => told,
        })
    }
}
