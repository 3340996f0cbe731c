//! Part of pass `render`: a function of LLVM IR under construction: lines, values, blocks, and the intrinsics that it
//! calls.

use super::facts::definition_name;
use super::llvm_registers::Registers;
use super::llvm_text::{all, argument_type, literal, mangled, memory_type, type_of};
use crate::target::{Dot, Mma};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fmt::{Display, Write};

/// The function under construction.
#[derive(Default)]
pub(super) struct Function<'a> {
    pub(super) dots: &'a [Dot],
    pub(super) mmas: &'a [Mma],
    pub(super) matrices: Registers,
    pub(super) text: String,
    /// `alloca`s, which belong at the start of the entry block.
    pub(super) variables: String,
    pub(super) declarations: BTreeSet<String>,
    pub(super) values: FxHashMap<UOp, String>,
    /// The label of the block that is being written; empty for the entry.
    block: String,
    pub(super) open: Vec<usize>,
    next_value: usize,
    next_label: usize,
    /// For each slot, whether it is written past the caches.
    pub(super) streamed: Vec<bool>,
    /// How long `@zeros` must be: what gated-off loads read.
    pub(super) zero_bytes: usize,
}

impl<'a> Function<'a> {
    /// Nothing yet.
    pub(super) fn new(dots: &'a [Dot], mmas: &'a [Mma], matrices: Registers) -> Function<'a> {
        Function { dots, mmas, matrices, ..Function::default() }
    }

    /// The intrinsic of a `Dot`, without `llvm.` before it.
    pub(super) fn dot_intrinsic(&self, op: &UOp) -> &'static str {
        let fits = |dot: &&Dot| Some(dot.parts) == op.arg().parts() && dot.lanes == op.lanes();
        self.dots.iter().find(fits).expect("others are taken apart in lower").intrinsic
    }

    /// A line of the current block.
    pub(super) fn line(&mut self, line: impl Display) {
        // a string takes all that is written to it
        let _ = writeln!(self.text, "  {line}");
    }

    /// An instruction with a result, which is returned.
    pub(super) fn emit(&mut self, instruction: impl Display) -> String {
        let name = ["%v", &self.next_value.to_string()].concat();
        self.next_value += 1;
        ["  ", &name, " = "].iter().for_each(|part| self.text.push_str(part));
        // a string takes all that is written to it
        let _ = writeln!(self.text, "{instruction}");
        name
    }

    /// A call of an intrinsic that is overloaded on `types`: `of` is the result, `args` have their types.
    pub(super) fn call(&mut self, name: &str, types: &[&str], of: &str, args: &[String]) -> String {
        let suffixes: String = types.iter().map(|t| format!(".{}", mangled(t))).collect();
        let declared: Vec<&str> = args.iter().map(|a| argument_type(a)).collect();
        self.declarations.insert(format!("{of} @llvm.{name}{suffixes}({})", declared.join(", ")));
        let call = format!("call {of} @llvm.{name}{suffixes}({})", args.join(", "));
        if of == "void" {
            self.line(&call);
            return String::new();
        }
        self.emit(&call)
    }

    /// The operand for a source: a literal, or the name of a value.
    pub(super) fn value(&mut self, src: &UOp) -> String {
        if let Some(c) = src.as_const() {
            return literal(c, src.dtype());
        }
        match (src.op(), self.values.get(src)) {
            (_, Some(name)) => name.clone(),
            (Op::Splat, None) => self.splat(src),
            _ => unreachable!("sources come first, but {src:?} did not"),
        }
    }

    pub(super) fn label(&mut self) -> usize {
        self.next_label += 1;
        self.next_label - 1
    }

    pub(super) fn begin(&mut self, label: String) {
        self.text.push_str(&format!("{label}:\n"));
        self.block = label;
    }

    pub(super) fn current(&self) -> &str {
        if self.block.is_empty() { "entry" } else { &self.block }
    }

    /// The address of a load or store. Without a gate it is known to be inside the memory.
    pub(super) fn address(&mut self, op: &UOp, gated: bool) -> String {
        let memory = op.memory();
        let name = definition_name(memory);
        if op.src(1).is_const(0) {
            return format!("%{name}");
        }
        let (index, index_type) = (self.value(op.src(1)), type_of(op.src(1).dtype(), 1));
        let of = memory_type(memory.dtype(), memory.lanes());
        let inbounds = if gated { "" } else { " inbounds" };
        self.emit(format_args!("getelementptr{inbounds} {of}, ptr %{name}, {index_type} {index}"))
    }

    /// The same scalar in every lane: a literal where it is a constant.
    pub(super) fn splat(&mut self, op: &UOp) -> String {
        let (dtype, lanes) = (op.dtype(), op.lanes());
        let scalar = self.value(op.src(0));
        if op.src(0).as_const().is_some() || lanes == 1 {
            return all(lanes, dtype, &scalar);
        }
        let of = type_of(dtype, lanes);
        let first = format!("insertelement {of} poison, {} {scalar}, i32 0", type_of(dtype, 1));
        let first = self.emit(&first);
        self.emit(format_args!(
            "shufflevector {of} {first}, {of} poison, <{lanes} x i32> zeroinitializer"
        ))
    }
}
