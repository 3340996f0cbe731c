//! Part of pass `render`: the walk that writes C-like text: loops, statements, and which values get a name. How types
//! and operations are spelled is the dialect's.
//!
//! A value is written in place, without a name, if that changes neither meaning nor cost: it is used once, inside the
//! same loop body, and, if it reads a register, no store to that register comes between.

use super::c_alu;
use super::c_expr::{Dialect, Expr, Level, literal};
use super::c_helpers::Helpers;
use super::facts::{definition_name, is_thread, prefetch};
use super::groups::{Grid, is_launched};
use crate::target::Target;
use kiln_ir::arg::Space;
use kiln_ir::{DType, Op, UOp};
use rustc_hash::FxHashMap;

/// Longer expressions get a name: nobody reads them, and nested ones would be copied again and again.
const LONGEST_IN_PLACE: usize = 100;

/// The body of a kernel under construction.
#[derive(Default)]
pub(super) struct Body {
    /// The lines so far.
    pub text: String,
    /// Vector types and functions that the lines use.
    pub helpers: Helpers,
    depth: usize,
    values: FxHashMap<UOp, Expr>,
    named: FxHashMap<&'static str, usize>,
    /// The ranges of groups and their items.
    grid: Grid,
}

impl Body {
    /// The body of `ops`.
    pub(super) fn new(ops: &[UOp], target: &Target, dialect: Dialect) -> Body {
        let helpers = Helpers::new(target.widened_bytes, dialect);
        let mut body = Body { depth: 1, helpers, ..Body::default() };
        body.grid = Grid::of(ops);
        for (op, in_place) in ops.iter().zip(used_in_place(ops)) {
            body.op(op, in_place);
        }
        body
    }

    fn op(&mut self, op: &UOp, in_place: bool) {
        match op.op() {
            Op::Const | Op::Param | Op::Var | Op::After => {}
            Op::Local => self.local(op),
            Op::Range => self.range(op),
            Op::If => {
                let condition = self.value(op.src(0)).text;
                self.open(&format!("if ({condition}) {{"));
            }
            Op::End | Op::EndIf => {
                self.depth -= 1;
                self.line("}");
            }
            Op::Barrier => self.line("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"),
            Op::Store => self.store(op),
            Op::Prefetch => self.prefetch(op),
            Op::Load => {
                let value = self.load(op);
                self.define(op, value, in_place);
            }
            _ => {
                let args: Vec<Expr> = op.srcs().iter().map(|s| self.value(s)).collect();
                let value = c_alu::expression(op, &args, &mut self.helpers);
                self.define(op, value, in_place);
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.depth += 1;
    }

    /// The expression for a source: written in place, a name, or what a definition is called.
    fn value(&mut self, src: &UOp) -> Expr {
        match src.op() {
            Op::Const => {
                literal(src.as_const().expect("a constant"), src.dtype(), self.helpers.dialect)
            }
            Op::Var | Op::Range => Expr::atom(definition_name(src)),
            // constants in all lanes need not be in the list
            Op::Splat if !self.values.contains_key(src) => {
                let scalar = self.value(src.src(0));
                c_alu::expression(src, &[scalar], &mut self.helpers)
            }
            _ => self.values.get(src).cloned().expect("sources come first"),
        }
    }

    /// Keeps a value as text, or gives it a name on a line of its own.
    fn define(&mut self, op: &UOp, value: Expr, in_place: bool) {
        let value = if in_place && value.text.len() <= LONGEST_IN_PLACE {
            value
        } else {
            let name = self.fresh(if op.op() == Op::Load { "val" } else { "alu" });
            let of = self.type_of(op, value.mask);
            self.line(&format!("{of} {name} = {};", value.text));
            Expr::atom(name).masked(value.mask)
        };
        self.values.insert(op.clone(), value);
    }

    fn fresh(&mut self, prefix: &'static str) -> String {
        let n = self.named.entry(prefix).or_default();
        *n += 1;
        format!("{prefix}{}", *n - 1)
    }

    fn type_of(&mut self, op: &UOp, mask: usize) -> String {
        match op.lanes() {
            1 => self.helpers.scalar_type(op.dtype()).to_string(),
            n if mask > 0 => self.helpers.mask(mask, n),
            n => self.helpers.vector(op.dtype(), n),
        }
    }

    /// Registers are variables; scratch has been given a name at the top.
    fn local(&mut self, op: &UOp) {
        let (space, _, len) = op.arg().memory().expect("a local");
        if space == Space::Register {
            let of = self.type_of(op, (op.dtype() == DType::Bool) as usize);
            let name = definition_name(op);
            let array = if len == 1 { String::new() } else { format!("[{len}]") };
            self.line(&format!("{of} {name}{array};"));
        }
    }

    fn range(&mut self, op: &UOp) {
        if is_launched(op) {
            let (of, name) = (self.helpers.scalar_type(op.dtype()), definition_name(op));
            let at = self.grid.coordinate(op);
            return self.line(&format!("const {of} {name} = ({of})({at});"));
        }
        let (name, of) = (definition_name(op), self.helpers.scalar_type(op.dtype()));
        let (from, to) = if is_thread(op) {
            ("lo".to_string(), "hi".to_string())
        } else {
            ("0".to_string(), self.value(op.src(0)).at(Level::Sum))
        };
        self.open(&format!("for ({of} {name} = {from}; {name} < {to}; {name}++) {{"));
    }

    /// The place that a load or a store of `lanes` lanes is about.
    fn place(&mut self, op: &UOp, lanes: u16) -> Expr {
        let memory = op.memory();
        let (name, index) = (definition_name(memory), self.value(op.src(1)));
        match memory.arg().memory() {
            Some((Space::Register, _, 1)) => Expr::atom(name),
            Some((Space::Register, ..)) => Expr::atom(format!("{name}[{}]", index.text)),
            _ if lanes == 1 => Expr::atom(format!("{name}[{}]", index.text)),
            _ => {
                let of = self.helpers.memory_vector(memory.dtype(), lanes);
                Expr::new(format!("*({of}*)({name}+{})", index.at(Level::Product)), Level::Unary)
            }
        }
    }

    /// The address of the element `beyond` after the first lane, as C lets pointers be that need not point into the memory:
    /// for functions that look at each lane's gate, and for what is only a hint.
    fn address(&mut self, op: &UOp, beyond: usize) -> String {
        let (memory, index) = (op.memory(), self.value(op.src(1)));
        let (of, integer) = (self.helpers.scalar_type(memory.dtype()), "__UINTPTR_TYPE__");
        let more = if beyond > 0 { format!("+{beyond}") } else { String::new() };
        let elements = format!("(({integer}){}{more})", index.at(Level::Unary));
        let (name, size) = (definition_name(memory), memory.dtype().size());
        format!("({of}*)(({integer}){name}+{elements}*{size})")
    }

    fn prefetch(&mut self, op: &UOp) {
        if self.helpers.dialect == Dialect::C {
            let (ahead, locality) = prefetch(op);
            let at = self.address(op, ahead);
            self.line(&format!("__builtin_prefetch({at}, 0, {locality});"));
        }
    }

    fn load(&mut self, op: &UOp) -> Expr {
        let (dtype, lanes) = (op.dtype(), op.lanes());
        let mask = if dtype == DType::Bool && lanes > 1 { 1 } else { 0 };
        let gate = op.gate();
        if let Some(gate) = gate.filter(|g| g.lanes() > 1) {
            let gate = self.value(gate);
            let gate = c_alu::resize_mask(&gate, dtype.size(), lanes, &mut self.helpers);
            let call = self.helpers.gated_load(dtype, lanes);
            return Expr::atom(format!("{call}({}, {})", self.address(op, 0), gate.text))
                .masked(mask);
        }
        let mut value = self.place(op, lanes);
        if mask > 0 && !op.is_in_registers() {
            let of = self.helpers.mask(1, lanes);
            value = Expr::new(format!("({of})({} != 0)", value.text), Level::Unary);
        }
        if let Some(gate) = gate {
            let gate = self.value(gate).text;
            let zero = c_alu::zero(op, &mut self.helpers);
            value = Expr::atom(format!("({gate} ? {} : {zero})", value.text));
        }
        value.masked(mask)
    }

    fn store(&mut self, op: &UOp) {
        let lanes = op.src(2).lanes();
        let mut value = self.value(op.src(2));
        if value.mask > 0 {
            value = c_alu::resize_mask(&value, 1, lanes, &mut self.helpers);
            if !op.is_in_registers() {
                value = Expr::new(format!("{}&1", value.at(Level::Unary)), Level::Loose);
            }
        }
        let gate = op.gate().cloned();
        if let Some(gate) = gate.as_ref().filter(|g| g.lanes() > 1) {
            let dtype = op.memory().dtype();
            let gate = self.value(gate);
            let gate = c_alu::resize_mask(&gate, dtype.size(), lanes, &mut self.helpers).text;
            let call = self.helpers.gated_store(dtype, lanes);
            let address = self.address(op, 0);
            return self.line(&format!("{call}({address}, {}, {gate});", value.text));
        }
        let place = self.place(op, lanes).text;
        let condition = match gate {
            Some(gate) => format!("if ({}) ", self.value(&gate).text),
            None => String::new(),
        };
        self.line(&format!("{condition}{place} = {};", value.text));
    }
}

/// For each op, whether its value is written where it is used.
fn used_in_place(ops: &[UOp]) -> Vec<bool> {
    let users = users(ops);
    let blocks = blocks(ops);
    let stores = register_stores(ops);
    let mut in_place = vec![false; ops.len()];
    // where the text of a value ends up: in the statement of its user, which may be written in place itself
    let mut end: Vec<usize> = (0..ops.len()).collect();
    for (i, op) in ops.iter().enumerate().rev() {
        in_place[i] = match users[i] {
            // all items compute it, also those whose user takes the other side of a condition
            _ if op.op() == Op::Shuffle => false,
            Users::None => false,
            Users::Many => is_cheap(op),
            Users::One(user) if blocks[user] != blocks[i] => is_cheap(op),
            Users::One(user) => {
                end[i] = end[user];
                op.op() != Op::Load
                    || (op.is_in_registers() && !overwritten(&stores, op, i, end[i]))
            }
        };
        if !in_place[i] {
            end[i] = i;
        }
    }
    in_place
}

/// A constant in all lanes is as good as a name for it.
fn is_cheap(op: &UOp) -> bool {
    op.op() == Op::Splat && op.src(0).op() == Op::Const
}

/// Whether the register that `load` reads is stored to between the positions `from` and `to`.
fn overwritten(stores: &FxHashMap<&UOp, Vec<usize>>, load: &UOp, from: usize, to: usize) -> bool {
    let Some(at) = stores.get(load.memory()) else { return false };
    at.get(at.partition_point(|&s| s <= from)).is_some_and(|&next| next < to)
}

fn register_stores(ops: &[UOp]) -> FxHashMap<&UOp, Vec<usize>> {
    let mut stores: FxHashMap<&UOp, Vec<usize>> = FxHashMap::default();
    for (i, op) in ops.iter().enumerate().filter(|(_, op)| op.op() == Op::Store) {
        if op.is_in_registers() {
            stores.entry(op.memory()).or_default().push(i);
        }
    }
    stores
}

#[derive(Clone, Copy)]
enum Users {
    None,
    One(usize),
    Many,
}

/// Who uses the value of each op. Where a node is listed twice, a user means the latest.
fn users(ops: &[UOp]) -> Vec<Users> {
    let mut at: FxHashMap<&UOp, usize> = FxHashMap::default();
    let mut users = vec![Users::None; ops.len()];
    for (i, op) in ops.iter().enumerate() {
        for src in op.srcs().iter().filter_map(|s| at.get(s)) {
            users[*src] = match users[*src] {
                Users::None => Users::One(i),
                Users::One(_) | Users::Many => Users::Many,
            };
        }
        at.insert(op, i);
    }
    users
}

/// The innermost loop or `If` that each op is in, by a number of its own.
fn blocks(ops: &[UOp]) -> Vec<usize> {
    let mut open = vec![0];
    let mut blocks = Vec::with_capacity(ops.len());
    for (i, op) in ops.iter().enumerate() {
        blocks.push(*open.last().expect("the kernel itself"));
        match op.op() {
            Op::Range | Op::If => open.push(i + 1),
            Op::End | Op::EndIf => drop(open.pop()),
            _ => {}
        }
    }
    blocks
}
