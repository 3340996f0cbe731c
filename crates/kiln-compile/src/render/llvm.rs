//! Part of pass `render`: LLVM IR with opaque pointers (LLVM 15 and newer): control flow and memory.
//!
//! No fast-math flags, and `nsw` only if bounds prove it, so that LLVM may change nothing that `docs/rules.md` forbids.
//! Pointers may alias. A bool is an `i1` in values and a byte in memory.

use super::facts::{definition_name, is_thread, prefetch, vars};
use super::llvm_function::Function;
use super::llvm_registers::Registers;
use super::llvm_text::{memory_type, type_of, zero};
use super::{llvm_alu, llvm_mma};
use crate::target::{LINE, Target};
use kiln_ir::arg::Space;
use kiln_ir::program::{Program, scratch_layout};
use kiln_ir::{DType, Op, UOp};

/// The whole module of a kernel.
pub(super) fn render(program: &Program, target: &Target) -> String {
    let matrices = Registers::of(&program.ops, target);
    let mut f = Function::new(&target.dots, &target.mmas, matrices);
    f.entry(program);
    llvm_mma::begin(&mut f);
    program.ops.iter().for_each(|op| f.op(op));
    llvm_mma::end(&mut f);
    let mut text = format!("; {}\n{}", program.name, llvm_mma::globals(&f));
    if f.zero_bytes > 0 {
        let n = f.zero_bytes;
        text.push_str(&format!("@zeros = private constant [{n} x i8] zeroinitializer, align 64\n"));
    }
    text.push_str(
        "define void @kiln_entry(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) #0 {\n\
         entry:\n",
    );
    text.push_str(&f.variables);
    text.push_str(&f.text);
    if f.streamed.contains(&true) {
        // whoever is told that the kernel has ended sees what it streamed
        text.push_str("  fence seq_cst\n");
    }
    text.push_str("  ret void\n}\n");
    for declaration in &f.declarations {
        text.push_str(&format!("declare {declaration}\n"));
    }
    text.push_str(&attributes(target));
    if f.streamed.contains(&true) {
        text.push_str("!0 = !{i32 1}\n");
    }
    text
}

fn attributes(target: &Target) -> String {
    let mut all = "nounwind".to_string();
    if !target.cpu.is_empty() {
        // no features but those of the processor: without the second attribute the compiler's own would be added
        all.push_str(&format!(" \"target-cpu\"=\"{}\" \"target-features\"=\"\"", target.cpu));
    }
    format!("attributes #0 = {{ {all} }}\n")
}

impl Function<'_> {
    /// Arguments out of their arrays.
    fn entry(&mut self, program: &Program) {
        self.streamed = program.params.iter().map(|p| p.streamed).collect();
        for slot in 0..program.params.len() {
            let at = self.emit(format_args!("getelementptr ptr, ptr %bufs, i64 {slot}"));
            self.line(format_args!("%data{slot} = load ptr, ptr {at}"));
        }
        for op in vars(&program.ops) {
            let slot = op.arg().slot().expect("a var's slot");
            let at = self.emit(format_args!("getelementptr i64, ptr %vars, i64 {slot}"));
            let value = self.load_plain(op.dtype(), 1, &at, 8);
            self.values.insert(op.clone(), value);
        }
        for (op, offset) in scratch_layout(&program.ops).0 {
            let name = definition_name(op);
            self.line(format_args!("%{name} = getelementptr i8, ptr %scratch, i64 {offset}"));
        }
    }

    fn op(&mut self, op: &UOp) {
        if llvm_mma::spell(self, op, self.mmas) {
            return;
        }
        match op.op() {
            Op::Const | Op::Param | Op::Var | Op::After => {}
            Op::Local => self.local(op),
            Op::Range => self.range(op),
            Op::End => self.end(op),
            Op::If => {
                let condition = self.value(op.src(0));
                let n = self.label();
                self.open.push(n);
                self.line(format_args!("br i1 {condition}, label %then{n}, label %endif{n}"));
                self.begin(format!("then{n}"));
            }
            Op::EndIf => {
                let n = self.open.pop().expect("an open if");
                self.line(format_args!("br label %endif{n}"));
                self.begin(format!("endif{n}"));
            }
            Op::Store => self.store(op),
            Op::Prefetch => self.prefetch(op),
            Op::Load => {
                let value = self.load(op);
                self.values.insert(op.clone(), value);
            }
            _ => {
                let value = llvm_alu::instruction(self, op);
                self.values.insert(op.clone(), value);
            }
        }
    }

    fn local(&mut self, op: &UOp) {
        let (space, _, len) = op.arg().memory().expect("a local");
        if space == Space::Register {
            let of = memory_type(op.dtype(), op.lanes());
            let name = definition_name(op);
            self.variables.push_str(&format!("  %{name} = alloca {of}, i32 {len}\n"));
        }
    }

    /// `ridx` counts up in a phi; the loop is left at its head, so that it may run no times.
    fn range(&mut self, op: &UOp) {
        let (name, n) = (definition_name(op), self.label());
        let of = type_of(op.dtype(), 1);
        let (from, to) = if is_thread(op) {
            (self.narrow("%lo", op.dtype()), self.narrow("%hi", op.dtype()))
        } else {
            ("0".to_string(), self.value(op.src(0)))
        };
        let before = self.current().to_string();
        self.line(format_args!("br label %head{n}"));
        self.begin(format!("head{n}"));
        self.line(format_args!(
            "%{name} = phi {of} [ {from}, %{before} ], [ %{name}.next, %tail{n} ]"
        ));
        self.line(format_args!("%{name}.more = icmp slt {of} %{name}, {to}"));
        self.line(format_args!("br i1 %{name}.more, label %body{n}, label %exit{n}"));
        self.begin(format!("body{n}"));
        self.values.insert(op.clone(), format!("%{name}"));
        self.open.push(n);
    }

    /// What the launch divides is passed as i64.
    fn narrow(&mut self, value: &str, dtype: DType) -> String {
        match dtype.size() {
            8 => value.to_string(),
            _ => self.emit(format_args!("trunc i64 {value} to {}", type_of(dtype, 1))),
        }
    }

    /// The counter is below its bound, so one more cannot overflow.
    fn end(&mut self, op: &UOp) {
        let n = self.open.pop().expect("an open loop");
        let (name, of) = (definition_name(op.src(0)), type_of(op.src(0).dtype(), 1));
        self.line(format_args!("br label %tail{n}"));
        self.begin(format!("tail{n}"));
        self.line(format_args!("%{name}.next = add nsw {of} %{name}, 1"));
        self.line(format_args!("br label %head{n}"));
        self.begin(format!("exit{n}"));
    }

    fn load_plain(&mut self, dtype: DType, lanes: u16, at: &str, align: usize) -> String {
        let of = memory_type(dtype, lanes);
        let value = self.emit(format_args!("load {of}, ptr {at}, align {align}"));
        self.unpacked(dtype, lanes, value)
    }

    /// A value as it was loaded, made what it is in arithmetic.
    fn unpacked(&mut self, dtype: DType, lanes: u16, value: String) -> String {
        match dtype {
            DType::Bool => {
                let (of, zero) = (memory_type(dtype, lanes), zero(DType::U8, lanes));
                self.emit(format_args!("icmp ne {of} {value}, {zero}"))
            }
            _ => value,
        }
    }

    fn load(&mut self, op: &UOp) -> String {
        let (dtype, lanes) = (op.dtype(), op.lanes());
        let gate = op.gate();
        let at = self.address(op, gate.is_some());
        let at = match gate {
            None => at,
            Some(gate) if gate.lanes() > 1 => {
                let at = self.address_where(gate, at, dtype.size() * lanes as usize);
                return self.masked_load(op, gate, &at);
            }
            Some(gate) => self.address_if(gate, &at, dtype.size() * lanes as usize),
        };
        self.load_plain(dtype, lanes, &at, alignment(op.memory()))
    }

    /// The address if the gate is on, else that of zeros.
    fn address_if(&mut self, gate: &UOp, at: &str, bytes: usize) -> String {
        self.zero_bytes = self.zero_bytes.max(bytes);
        let gate = self.value(gate);
        self.emit(format_args!("select i1 {gate}, ptr {at}, ptr @zeros"))
    }

    /// The same for a gate of lanes, as far as it says something of all of them. A processor loads no lane that is off,
    /// but where the address is nobody's it takes some hundred cycles to find out.
    fn address_where(&mut self, gate: &UOp, at: String, bytes: usize) -> String {
        match gate.conjuncts().into_iter().find(|g| g.op() == Op::Splat) {
            Some(all) => self.address_if(all.src(0), &at, bytes),
            None => at,
        }
    }

    fn prefetch(&mut self, op: &UOp) {
        let (n, locality) = prefetch(op);
        let at = self.address(op, true);
        let of = memory_type(op.memory().dtype(), 1);
        let there = self.emit(format_args!("getelementptr {of}, ptr {at}, i64 {n}"));
        let args = [format!("ptr {there}")]
            .into_iter()
            .chain([0, locality, 1].map(|i| format!("i32 {i}")));
        self.call("prefetch", &["ptr"], "void", &args.collect::<Vec<_>>());
    }

    fn masked_load(&mut self, op: &UOp, gate: &UOp, at: &str) -> String {
        let (dtype, lanes) = (op.dtype(), op.lanes());
        let of = memory_type(dtype, lanes);
        let args = [
            format!("ptr {at}"),
            format!("i32 {}", dtype.size()),
            format!("{} {}", type_of(DType::Bool, lanes), self.value(gate)),
            format!("{of} zeroinitializer"),
        ];
        let value = self.call("masked.load", &[&of.to_string(), "ptr"], &of.to_string(), &args);
        self.unpacked(dtype, lanes, value)
    }

    fn store(&mut self, op: &UOp) {
        let (dtype, lanes) = (op.memory().dtype(), op.src(2).lanes());
        let mut value = self.value(op.src(2));
        let of = memory_type(dtype, lanes);
        if dtype == DType::Bool {
            value = self.emit(format_args!("zext {} {value} to {of}", type_of(dtype, lanes)));
        }
        let gate = op.gate();
        let at = self.address(op, gate.is_some());
        let streamed = op.memory().arg().slot().is_some_and(|slot| self.streamed[slot]);
        let how = match streamed && gate.is_none() && lanes as usize * dtype.size() == LINE {
            true => "64, !nontemporal !0".to_string(),
            false => alignment(op.memory()).to_string(),
        };
        let plain = format!("store {of} {value}, ptr {at}, align {how}");
        match gate {
            None => self.line(&plain),
            Some(gate) if gate.lanes() > 1 => {
                let args = [
                    format!("{of} {value}"),
                    format!("ptr {at}"),
                    format!("i32 {}", dtype.size()),
                    format!("{} {}", type_of(DType::Bool, lanes), self.value(gate)),
                ];
                self.call("masked.store", &[&of.to_string(), "ptr"], "void", &args);
            }
            Some(gate) => self.guarded(gate, &plain),
        }
    }

    /// A line that runs only if the gate is on.
    fn guarded(&mut self, gate: &UOp, line: &str) {
        let (gate, n) = (self.value(gate), self.label());
        self.line(format_args!("br i1 {gate}, label %do{n}, label %skip{n}"));
        self.begin(format!("do{n}"));
        self.line(line);
        self.line(format_args!("br label %skip{n}"));
        self.begin(format!("skip{n}"));
    }
}

/// Vectors in buffers are aligned as their elements are; registers hold whole vectors.
fn alignment(memory: &UOp) -> usize {
    memory.dtype().size() * memory.lanes() as usize
}
