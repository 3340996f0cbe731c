//! Matrix units in LLVM IR: AMX by its explicit registers. Their numbers are operands of the intrinsics, which LLVM leaves
//! in their order and does not look into; so what is written here is what runs, with every release since 15.
//!
//! Accumulators have registers for good. Of the other matrices each has one from its load to its last product, or to the
//! end of the loop that this is in where the load is before the loop.

use super::llvm::Function;
use crate::target::{Mma, Target};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The bytes of a row in memory and in a register.
const ROW: usize = 64;
/// The rows of a register.
const ROWS: usize = 16;
/// The layout of all registers, as `ldtilecfg` takes it: a palette, then bytes of a row, then rows of each.
const CONFIGURATION: &str = "@matrices";

/// The registers of a program's matrices.
#[derive(Default)]
pub(super) struct Registers {
    /// Of values and, for the first element, of memories.
    numbers: FxHashMap<UOp, usize>,
}

impl Registers {
    /// Gives numbers. Lower has seen to it that there are enough.
    pub(super) fn of(ops: &[UOp], target: &Target) -> Registers {
        let products = || ops.iter().filter(|op| op.op() == Op::Mma);
        let mut numbers: FxHashMap<UOp, usize> = FxHashMap::default();
        let mut next = 0;
        for product in products() {
            let memory = product.src(2).memory();
            let (_, _, len) = memory.arg().memory().expect("accumulators are registers");
            if !numbers.contains_key(memory) {
                numbers.insert(memory.clone(), next);
                next += len;
            }
        }
        let last = last_uses(ops);
        let mut ended: FxHashMap<usize, Vec<&UOp>> = FxHashMap::default();
        last.iter().for_each(|(factor, &i)| ended.entry(i).or_default().push(factor));
        let most = target.mmas.iter().map(|unit| unit.registers).max().unwrap_or(0);
        // the one that has been free for longest: the unit is done with it
        let mut free: VecDeque<usize> = (next..most).collect();
        let mut registers = Registers { numbers };
        for (i, op) in ops.iter().enumerate() {
            if let Some(number) = registers.accumulator(op) {
                registers.numbers.insert(op.clone(), number);
            } else if last.contains_key(op) {
                let number = free.pop_front().expect("as many registers as lower counts");
                registers.numbers.insert(op.clone(), number);
            }
            if let Some(ended) = ended.get(&i) {
                let mut ended: Vec<usize> = ended.iter().map(|&f| registers.numbers[f]).collect();
                ended.sort_unstable();
                free.extend(ended);
            }
        }
        registers.with_starts(ops)
    }

    /// The accumulator that an access is about, or a product changes.
    fn accumulator(&self, op: &UOp) -> Option<usize> {
        match op.op() {
            Op::Mma => self.numbers.get(op.src(2)).copied(),
            Op::Load | Op::Store => {
                let first =
                    self.numbers.get(op.memory()).filter(|_| op.memory().op() == Op::Local)?;
                Some(first + op.src(1).as_int().expect("registers have constant indices") as usize)
            }
            _ => None,
        }
    }

    /// What an accumulator starts from is loaded into it.
    fn with_starts(mut self, ops: &[UOp]) -> Registers {
        for store in ops.iter().filter(|op| op.op() == Op::Store) {
            if let (Some(number), Op::Load) = (self.accumulator(store), store.src(2).op()) {
                self.numbers.insert(store.src(2).clone(), number);
            }
        }
        self
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn number(&self, op: &UOp) -> Option<usize> {
        self.numbers.get(op).copied()
    }
}

/// Where the value of each factor is needed for the last time: at a product, or at the end of the outermost loop around
/// the product that is not around its load.
fn last_uses(ops: &[UOp]) -> FxHashMap<UOp, usize> {
    let (mut open, mut end_of) = (Vec::new(), FxHashMap::default());
    let (mut depths, mut uses) = (FxHashMap::default(), Vec::new());
    for (i, op) in ops.iter().enumerate() {
        match op.op() {
            Op::Range => open.push(i),
            Op::End => _ = end_of.insert(open.pop().expect("an open loop"), i),
            Op::Load => _ = depths.insert(op, open.len()),
            Op::Mma => {
                let inside = |factor| open.get(depths[factor]).copied();
                uses.extend(op.srcs()[..2].iter().map(|factor| (factor, i, inside(factor))));
            }
            _ => {}
        }
    }
    let mut last: FxHashMap<UOp, usize> = FxHashMap::default();
    for (factor, i, inside) in uses {
        let until = inside.map_or(i, |start| end_of[&start]);
        let last = last.entry(factor.clone()).or_default();
        *last = until.max(*last);
    }
    last
}

/// What stands before the function.
pub(super) fn globals(f: &Function<'_>) -> String {
    if f.matrices.is_empty() {
        return String::new();
    }
    let mut bytes = [0u8; 64];
    bytes[0] = 1;
    for register in 0..8 {
        bytes[16 + 2 * register] = ROW as u8;
        bytes[48 + register] = ROWS as u8;
    }
    let text: String = bytes.iter().map(|b| format!("\\{b:02X}")).collect();
    format!("{CONFIGURATION} = private constant [64 x i8] c\"{text}\", align 64\n")
}

/// Before the first matrix.
pub(super) fn begin(f: &mut Function<'_>) {
    if !f.matrices.is_empty() {
        f.call("x86.ldtilecfg", &[], "void", &[format!("ptr {CONFIGURATION}")]);
    }
}

/// After the last one.
pub(super) fn end(f: &mut Function<'_>) {
    if !f.matrices.is_empty() {
        f.call("x86.tilerelease", &[], "void", &[]);
    }
}

/// Spells an op on matrices; false if it is none.
pub(super) fn spell(f: &mut Function<'_>, op: &UOp, units: &[Mma]) -> bool {
    let register = |n: usize| format!("i8 {n}");
    match (op.op(), f.matrices.number(op)) {
        (Op::Local, Some(_)) => {}
        (Op::Load, Some(_)) if f.matrices.number(op.memory()).is_some() => {}
        (Op::Load, Some(n)) => {
            let at = f.address(op, false);
            let args = [register(n), format!("ptr {at}"), format!("i64 {ROW}")];
            f.call("x86.tileloadd64", &[], "void", &args);
        }
        (Op::Mma, Some(n)) => {
            let factors =
                [0, 1].map(|i| f.matrices.number(op.src(i)).expect("a factor's register"));
            let fits = |unit: &&Mma| Some(unit.parts) == op.arg().parts();
            let unit = units.iter().find(fits).expect("the target has it");
            let args = [n, factors[0], factors[1]].map(register);
            f.call(unit.intrinsic, &[], "void", &args);
        }
        (Op::Store, Some(n)) => {
            // what is no constant is computed or loaded there
            if op.src(2).uniform().is_const(0) {
                f.call("x86.tilezero", &[], "void", &[register(n)]);
            }
        }
        (Op::Store, None) => {
            let Some(n) = f.matrices.number(op.src(2)) else { return false };
            let at = f.address(op, false);
            let args = [register(n), format!("ptr {at}"), format!("i64 {ROW}")];
            f.call("x86.tilestored64", &[], "void", &args);
        }
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;
    use kiln_ir::arg::{RangeKind, Space};

    #[test]
    fn what_was_loaded_before_a_loop_keeps_its_register_to_the_end_of_it() {
        let unit = Mma::of(|_| true)[0];
        let target = Target { mmas: vec![unit], ..Target::interp() };
        let range = |axis| UOp::range(axis, RangeKind::Reduce, 4);
        let (outer, inner) = (range(0), range(1));
        let scratch = UOp::local(Space::Scratch, 0, 4096, DType::U32, 1);
        let accumulators = UOp::local(Space::Register, 0, 2, unit.sum, unit.lanes());
        let load = |at: &UOp| UOp::load_lanes(&scratch, at, None, unit.lanes());
        let (x, y, z) =
            (load(&(&outer * 256)), load(&(&inner * 256)), load(&(&inner * 256 + 2048)));
        let add = |i: i64, x: &UOp, y: &UOp| {
            let sum = UOp::load(&accumulators, &UOp::index(i));
            let product = UOp::mma(unit.parts, unit.shape, x, y, &sum);
            let store = UOp::store(&accumulators, &UOp::index(i), &product, None);
            [sum, product, store]
        };
        let ([s0, p0, t0], [s1, p1, t1]) = (add(0, &x, &y), add(1, &z, &y));
        let ends = [t1.end([inner.clone()]), t0.end([outer.clone()])];
        let list = [&outer, &x, &inner, &y, &s0, &p0, &t0, &z, &s1, &p1, &t1, &ends[0], &ends[1]];
        let registers = Registers::of(&list.map(UOp::clone), &target);
        let mut numbers = [&x, &y, &z, &p0, &p1].map(|op| registers.number(op));
        assert!(numbers.iter().all(|n| n.is_some_and(|n| n < unit.registers)), "{numbers:?}");
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|w| w[0] != w[1]), "one is overwritten: {numbers:?}");
    }
}
