//! Part of pass `render`: allocates the registers of a matrix unit.
//!
//! An accumulator has its register for the whole kernel. Any other matrix has one from its load to its last product,
//! or, if the load is before a loop, to the end of that loop.

use crate::target::Target;
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

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

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn number(&self, op: &UOp) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Mma;
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
