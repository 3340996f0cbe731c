//! The text form of graphs: what is printed parses back to the very same nodes.
//!
//! One node a line, sources before users, the root last:
//!
//! ```text
//! # adds one to four floats
//! %out = param f32 slot=0 [4]
//! %x = param f32 slot=1 [4]
//! %r = range index axis=0 loop 4
//! %v = load f32 %x %r
//! %sum = add f32 %v 1.0:f32
//! %s = store %out %r %sum
//! %e = end %s %r
//! sink name=E_4 %e
//! ```
//!
//! - A line is `%name = op type attributes sources`, in any order after the type. Names are free; `#` starts a comment.
//! - The type is a dtype, with lanes as in `f32x4`. Where it is left out it follows from the sources, as the
//!   constructors of [`UOp`] would have it.
//! - Constants stand inline: `3` is an index, `true` a bool, all others name their type: `1.5:f32`, `nan:f16`,
//!   `7:u8`. `1.0:f32x4` is that constant splatted.
//! - Attributes: `slot=0 [16]` (param), `slot=0 min=0 max=9` (var), `[2,3]` (shapes and axes), `[1:0:2]` (pad, per axis
//!   before, between, after), `[0:1:4]` (slice, per axis start, step, length), `add [1]` (reduce with its axes; none in
//!   kernels), `id=7 device=CPU [4]` (buffer), `axis=0 loop` (range and its kind), `scratch id=0 len=16` (local),
//!   `lane=2`, `storage=5 ends=0` (mark; `ends=1` is left out), `device=CPU` (copy), `name=E_4` (sink).
//! - The gate of a load or store is `gate=%g`.
//! - In a linear program each line is an entry of the list, but for lines that start with `with`: those are nodes
//!   that entries mention without listing them, such as the `after` around a memory.
//!
//! Sources are kept in the order written: the text does not canonicalize.

mod cursor;
mod expr;
mod fields;
mod lex;
mod nest;
mod parse;
mod tree;

pub use expr::expr;
pub use nest::{NestLine, nest};
pub use parse::{ParseError, parse, parse_list};
pub use tree::tree;

use crate::arg::{Arg, PadAxis, SliceAxis};
use crate::dtype::{Const, DType};
use crate::op::Op;
use crate::uop::{UOp, toposort, toposort_all};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write;

/// The graph under `root`, one node a line.
pub fn print(root: &UOp) -> String {
    let nodes = toposort(root);
    let mut printer = Printer::new(&nodes);
    for node in &nodes {
        if node == root || literal(node).is_none() {
            printer.line(node, false);
        }
    }
    printer.out
}

/// The graph under `root`, one node a line, each with a comment if `note` has one for it.
pub fn print_with(root: &UOp, note: impl Fn(&UOp) -> Option<String>) -> String {
    let nodes = toposort(root);
    let mut printer = Printer::new(&nodes);
    for node in nodes.iter().filter(|node| *node == root || literal(node).is_none()) {
        printer.line(node, false);
        if let Some(note) = note(node) {
            printer.out.pop();
            printer.out += &format!("  # {}\n", note.replace(char::is_control, " "));
        }
    }
    printer.out
}

/// What a node is, without its sources.
pub fn label(node: &UOp) -> String {
    match literal(node) {
        Some(text) => text,
        None => head(node),
    }
}

/// A linear program, one entry a line in the list's own order.
pub fn print_list(ops: &[UOp]) -> String {
    let mut printer = Printer::new(&toposort_all(ops, |_| true));
    for op in ops {
        let unseen =
            toposort_all(std::slice::from_ref(op), |n| !printer.numbers.contains_key(&n.id()));
        for node in &unseen {
            let known = printer.numbers.contains_key(&node.id());
            if node != op && !known && literal(node).is_none() {
                printer.line(node, true);
            }
        }
        printer.line(op, false);
    }
    printer.out
}

/// One node with its sources as expressions, for messages.
pub fn describe(node: &UOp) -> String {
    let srcs: Vec<String> = node.srcs().iter().map(expr).collect();
    format!("{} {}", head(node), srcs.join(", ")).trim_end().to_string()
}

struct Printer {
    out: String,
    numbers: FxHashMap<usize, usize>,
    used: FxHashSet<usize>,
    count: usize,
}

impl Printer {
    fn new(nodes: &[UOp]) -> Printer {
        let used = nodes.iter().flat_map(|n| n.srcs()).map(UOp::id).collect();
        Printer { out: String::new(), numbers: FxHashMap::default(), used, count: 0 }
    }

    fn line(&mut self, node: &UOp, unlisted: bool) {
        let mut line = String::from(if unlisted { "with " } else { "" });
        if node.dtype() != DType::Void || self.used.contains(&node.id()) {
            line += &format!("%{} = ", self.count);
        }
        line += &self.node(node);
        if node.dtype() != DType::Void || self.used.contains(&node.id()) {
            self.numbers.insert(node.id(), self.count);
            self.count += 1;
        }
        self.out.push_str(&line);
        self.out.push('\n');
    }

    fn node(&self, node: &UOp) -> String {
        if let (Op::Const, Some(text)) = (node.op(), literal(node)) {
            return format!("const {text}");
        }
        let mut out = head(node);
        let (srcs, gate) = node.srcs().split_at(ungated(node));
        for src in srcs {
            out += &format!(" {}", self.operand(src));
        }
        for gate in gate {
            out += &format!(" gate={}", self.operand(gate));
        }
        out
    }

    fn operand(&self, node: &UOp) -> String {
        match self.numbers.get(&node.id()) {
            Some(number) => format!("%{number}"),
            None => literal(node).unwrap_or_else(|| "%?".to_string()),
        }
    }
}

/// Op, type and argument.
fn head(node: &UOp) -> String {
    let op = node.op();
    let mut out = op.name().to_string();
    if node.dtype() != DType::Void || node.lanes() != 1 || !op.is_effect() {
        out += &format!(" {}", type_name(node.dtype(), node.lanes()));
    }
    if op != Op::After || matches!(node.arg(), Arg::Check(_)) {
        print_arg(&mut out, node.arg());
    }
    out
}

/// How many sources come before the gate.
fn ungated(node: &UOp) -> usize {
    match node.op() {
        Op::Load => node.srcs().len().min(2),
        Op::Store => node.srcs().len().min(3),
        _ => node.srcs().len(),
    }
}

fn type_name(dtype: DType, lanes: u16) -> String {
    if lanes == 1 { dtype.to_string() } else { format!("{dtype}x{lanes}") }
}

/// The inline form of a constant, or of a constant splatted.
fn literal(node: &UOp) -> Option<String> {
    let inner = if node.op() == Op::Splat { node.src(0) } else { node };
    let value = inner.as_const().filter(|_| inner.lanes() == 1)?;
    let text = match (value, inner.dtype()) {
        (Const::Float(f), DType::F64) => format!("{f:?}").to_lowercase(),
        // the narrow floats are exact in f32, whose shortest digits are the fewest
        (Const::Float(f), _) => format!("{:?}", f as f32).to_lowercase(),
        (value, _) => value.to_string(),
    };
    Some(match (inner.dtype(), node.lanes()) {
        (DType::Index | DType::Bool, 1) => text,
        (dtype, lanes) => format!("{text}:{}", type_name(dtype, lanes)),
    })
}

fn print_arg(out: &mut String, arg: &Arg) {
    match arg {
        Arg::None | Arg::Const(_) => {}
        Arg::Shape(list) => *out += &format!(" {}", numbers(list)),
        Arg::Axes(list) => *out += &format!(" {}", numbers(list)),
        Arg::Window(w) => {
            let (axis, len, size) = (w.axis, w.len, w.size);
            *out += &format!(
                " axis={axis} len={len} size={size} stride={} dilation={}",
                w.stride, w.dilation
            );
        }
        Arg::Pad(pads) => *out += &format!(" {}", listed(pads, pad_axis)),
        Arg::Slice(slices) => *out += &format!(" {}", listed(slices, slice_axis)),
        Arg::Reduce { op, axes } if axes.is_empty() => *out += &format!(" {}", op.name()),
        Arg::Reduce { op, axes } => *out += &format!(" {} {}", op.name(), numbers(axes)),
        Arg::Buffer { id, shape, device } => {
            *out += &format!(" id={id} device={} {}", quoted(device), numbers(shape));
        }
        Arg::Param { slot, shape } => *out += &format!(" slot={slot} {}", numbers(shape)),
        Arg::Var { slot, min, max } => *out += &format!(" slot={slot} min={min} max={max}"),
        Arg::Range { axis, kind } => *out += &format!(" axis={axis} {}", kind.name()),
        Arg::Memory { space, id, len } => *out += &format!(" {} id={id} len={len}", space.name()),
        Arg::Lane(i) => *out += &format!(" lane={i}"),
        Arg::Mask(bits) => *out += &format!(" mask={bits}"),
        Arg::Prefetch(n) => *out += &format!(" ahead={n}"),
        Arg::Parts([x, y]) => *out += &format!(" x={x} y={y}"),
        Arg::Mma { parts: [x, y], shape: [rows, depth, columns] } => {
            *out += &format!(" x={x} y={y} rows={rows} depth={depth} columns={columns}");
        }
        Arg::Mark { storage, ends: true } => *out += &format!(" storage={storage}"),
        Arg::Mark { storage, ends: false } => *out += &format!(" storage={storage} ends=0"),
        Arg::Derivative(of) => *out += &format!(" derivative={}", quoted(of.name)),
        Arg::Composite { function, axes, shape } => {
            let (axes, shape) = (numbers(axes), numbers(shape));
            *out += &format!(" function={} axes={axes} {shape}", quoted(function.name));
        }
        Arg::Check(text) => *out += &format!(" check={}", quoted(text)),
        Arg::Device(device) => *out += &format!(" device={}", quoted(device)),
        Arg::Kernel { name } => *out += &format!(" name={}", quoted(name)),
    }
}

fn numbers(list: &[usize]) -> String {
    listed(list, usize::to_string)
}

fn pad_axis(p: &PadAxis) -> String {
    format!("{}:{}:{}", p.before, p.between, p.after)
}

fn slice_axis(s: &SliceAxis) -> String {
    format!("{}:{}:{}", s.start, s.step, s.len)
}

fn listed<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let items: Vec<String> = items.iter().map(text).collect();
    format!("[{}]", items.join(","))
}

/// A name as it is, or in quotes where it has characters that would end it.
fn quoted(name: &str) -> String {
    if !name.is_empty() && name.chars().all(lex::is_atom) {
        return name.to_string();
    }
    let mut out = String::from("\"");
    for c in name.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{{{:x}}}", c as u32).expect("a string grows"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
