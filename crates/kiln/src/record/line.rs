//! The lines of a record.

use serde::{Deserialize, Serialize};

/// One line. Times are in microseconds since the record began; hashes are in hexadecimal; graphs are numbers of nodes.
#[derive(Clone, Serialize, Deserialize, PartialEq, Debug)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields say what the events of the compiler say")]
pub enum Line {
    /// The first line: the format's number and the program.
    Kiln { format: u32, program: String },
    /// A node of a graph.
    Node(Node),
    /// A device was opened.
    Opened { device: String, backend: String, compiler: String },
    /// A graph got a schedule; `took` is missing if it was remembered, and then so are the graph and the kernels.
    Scheduled {
        key: String,
        at: f64,
        took: Option<f64>,
        count: usize,
        roots: Vec<u32>,
        kernels: Vec<PlannedKernel>,
        arena: usize,
        temporaries: usize,
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
        alternatives: Vec<(String, Option<f64>)>,
        unit: String,
        chosen: usize,
        note: String,
    },
    /// A kernel was compiled: the graphs after scheduling and after optimizing, and its text.
    Compiled {
        thread: u32,
        at: f64,
        name: String,
        scheduled: String,
        optimized: String,
        graphs: [u32; 2],
        options: Vec<String>,
        origin: String,
        source: String,
        code: Option<String>,
        flops: u64,
        bytes: u64,
    },
    /// A kernel ran.
    Launch {
        kernel: String,
        name: String,
        device: String,
        at: f64,
        took: f64,
        flops: u64,
        bytes: u64,
        memory: usize,
        methods: Vec<String>,
    },
    /// Memory was copied.
    Copy { device: String, from: String, bytes: usize, at: f64, took: f64 },
    /// A device gave memory.
    Alloc { device: String, bytes: usize, at: f64, took: f64 },
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
    /// The hash of its graph.
    pub kernel: String,
    /// What it writes, then what it reads, each with its bytes.
    pub arguments: Vec<(String, usize)>,
    /// The methods that made it, with the lines that called them.
    pub methods: Vec<String>,
}
