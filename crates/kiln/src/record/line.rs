//! The lines of a record.

use super::parts::{Copy, Found, Kernel, Measured, Node, Rule, Schedule, Speed};
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
    Measured(Measured),
    /// A graph got a schedule; `took` is missing if it was remembered, and then so are the graph, the kernels and the
    /// temporaries.
    Scheduled(Schedule),
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
    Compiled(Kernel),
    /// A schedule needs a kernel that the process compiled before.
    Found(Found),
    /// A kernel as one place of the program launches it, before its first launch.
    Site {
        site: u32,
        kernel: String,
        name: String,
        device: String,
        work: (u64, u64),
        methods: Vec<String>,
    },
    /// A kernel ran, of which site.
    Launch { thread: u32, site: u32, at: f64, took: f64, memory: usize },
    /// Memory was copied.
    Copy(Copy),
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
    Rule(Rule),
    /// The record has as many bytes as it may have (`VIZ_MB`); what follows is missing.
    Full {},
}

/// A hash as lines have it.
pub(super) fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}
