//! The lines of a record.

use serde::{Deserialize, Serialize};

/// One line. Times are in microseconds since the record began, `at` is when something began and `took` how long it was;
/// hashes are in hexadecimal; graphs are numbers of nodes.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields say what the events of the compiler say")]
pub enum Line {
    /// The first line: the format's number and the program.
    Kiln { format: u32, program: String },
    /// The name of a thread, before the first line that has its number.
    Thread { thread: u32, name: String },
    /// A node of a graph.
    Node(Node),
    /// A device is open, and how fast it is said to be.
    Opened { device: String, backend: String, compiler: String, speed: Option<Speed> },
    /// How fast devices with so many threads are, measured when the record ends.
    Measured { threads: usize, flops: f64, bytes: f64 },
    /// A graph got a schedule; `took` is missing if it was remembered, and then so are the graph, the kernels and the
    /// temporaries.
    Scheduled {
        thread: u32,
        key: String,
        device: String,
        by: Option<String>,
        at: f64,
        took: Option<f64>,
        count: usize,
        roots: Vec<u32>,
        kernels: Vec<PlannedKernel>,
        temporaries: Vec<Temporary>,
        memory: (usize, usize),
    },
    /// A pass ran on a thread.
    Pass { thread: u32, stage: String, pass: String, before: Vec<u32>, after: Vec<u32> },
    /// A set of rules began.
    Rules { thread: u32, set: String, roots: Vec<u32> },
    /// The set of rules that began last is done.
    Done { thread: u32, roots: Vec<u32> },
    /// A rule rewrote a node.
    Rewrite { thread: u32, rule: String, file: String, line: u32, before: u32, after: u32 },
    /// A choice by price.
    Decision {
        thread: u32,
        about: String,
        node: Option<u32>,
        alternatives: Vec<(String, Option<f64>)>,
        unit: String,
        chosen: usize,
        note: String,
    },
    /// A kernel was compiled: the graphs after scheduling and after optimizing, and its text.
    Compiled {
        thread: u32,
        at: f64,
        took: f64,
        name: String,
        scheduled: String,
        optimized: String,
        graphs: [u32; 2],
        options: Vec<String>,
        origin: String,
        source: String,
        code: Option<String>,
        #[serde(default)]
        lines: Vec<Option<u32>>,
        work: (u64, u64),
        #[serde(default)]
        instructions: u64,
    },
    /// A schedule needs a kernel that the process compiled before.
    Found { thread: u32, at: f64, scheduled: String, optimized: String },
    /// A kernel ran.
    Launch {
        thread: u32,
        kernel: String,
        name: String,
        device: String,
        at: f64,
        took: f64,
        work: (u64, u64),
        memory: usize,
        methods: Vec<String>,
    },
    /// Memory was copied.
    Copy { thread: u32, device: String, from: String, bytes: usize, at: f64, took: f64 },
    /// A device gave a block of memory.
    Alloc {
        device: String,
        block: u64,
        bytes: usize,
        holder: String,
        reused: bool,
        at: f64,
        took: f64,
    },
    /// A block went back.
    Free { device: String, block: u64, at: f64 },
    /// What a rule has done in all, when the record ends: microseconds in all attempts.
    Rule { rule: String, file: String, line: u32, tried: u64, fired: u64, took: f64 },
    /// The record has as many bytes as it may have (`VIZ_MB`); what follows is missing.
    Full {},
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
