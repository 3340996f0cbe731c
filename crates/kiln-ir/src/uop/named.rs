//! Numbers of nodes that the program made from a variable of its own: `n`, `2*n + 1`. They are no part of a node's
//! identity: a graph computes the same if nothing is known of them. A node stores the number of a list.

use super::{Mixer, UOp};
use crate::arg::SliceAxis;
use crate::op::Op;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A variable of a program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VariableId(u32);

/// A variable's name and the smallest and the largest of its values.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Variable {
    /// What the program calls it.
    pub name: Box<str>,
    /// Smallest value.
    pub min: i64,
    /// Largest value.
    pub max: i64,
}

/// `times * variable + plus`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Linear {
    /// What varies; none in a number that is known not to vary.
    pub variable: Option<VariableId>,
    /// The factor.
    pub times: i64,
    /// The rest.
    pub plus: i64,
}

/// Which number of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Number {
    /// The length of an axis of its shape.
    Length(usize),
    /// Of a slice, by axis.
    Start(usize),
    /// Of a padding, by axis: how many zeros stand before the elements.
    Before(usize),
    /// Of a padding, by axis: how many zeros stand after the elements.
    After(usize),
}

/// What is known of a node's numbers.
pub type Named = SmallVec<[(Number, Linear); 2]>;

#[derive(Default)]
struct Table {
    variables: Vec<Variable>,
    /// Every list that a node was given, by number, with the key of its variables.
    lists: Vec<(Named, Option<u64>)>,
    numbers: FxHashMap<Named, u16>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

fn read() -> RwLockReadGuard<'static, Option<Table>> {
    TABLE.read().unwrap_or_else(PoisonError::into_inner)
}

fn write() -> RwLockWriteGuard<'static, Option<Table>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

impl VariableId {
    /// The variable of this name and these bounds.
    pub fn of(variable: &Variable) -> VariableId {
        let mut table = write();
        let variables = &mut table.get_or_insert_default().variables;
        let known = variables.iter().position(|known| known == variable);
        let at = known.unwrap_or_else(|| {
            variables.push(variable.clone());
            variables.len() - 1
        });
        VariableId(at as u32)
    }

    /// Its name and bounds.
    pub fn variable(self) -> Variable {
        let table = read();
        let variables = table.as_ref().map(|table| &table.variables[self.0 as usize]);
        variables.expect("only a table gives an id").clone()
    }
}

impl Table {
    /// The number of a list; 0 if there are too many.
    fn number(&mut self, named: Named) -> u16 {
        if let Some(number) = self.numbers.get(&named) {
            return *number;
        }
        let Ok(number) = u16::try_from(self.lists.len() + 1) else { return 0 };
        let key = self.key(&named);
        self.lists.push((named.clone(), key));
        self.numbers.insert(named, number);
        number
    }

    /// A hash of a list that is the same in every process; none if nothing varies.
    fn key(&self, named: &Named) -> Option<u64> {
        let mut h = Mixer::default();
        let mut varies = false;
        for (number, Linear { variable, times, plus }) in named {
            let Some(VariableId(id)) = variable else { continue };
            (number, &self.variables[*id as usize], times, plus).hash(&mut h);
            varies = true;
        }
        varies.then(|| h.finish())
    }
}

impl UOp {
    /// What the program said of the node's numbers.
    pub fn named(&self) -> Named {
        let at = usize::from(self.0.named.load(Relaxed));
        let table = if at == 0 { return Named::new() } else { read() };
        table.as_ref().map(|table| table.lists[at - 1].0.clone()).unwrap_or_default()
    }

    /// A hash of that; none if nothing varies.
    pub fn named_key(&self) -> Option<u64> {
        let at = usize::from(self.0.named.load(Relaxed));
        if at == 0 { None } else { read().as_ref()?.lists[at - 1].1 }
    }

    /// Says what numbers of the node were made from. What was said before stands.
    pub fn name_numbers(&self, new: &[(Number, Linear)]) {
        if new.is_empty() || self.op() == Op::Param {
            return;
        }
        let mut named = self.named();
        for (number, linear) in new {
            if named.iter().all(|(known, _)| known != number) {
                named.push((*number, *linear));
            }
        }
        // of two threads that say something one may be forgotten
        let number = write().get_or_insert_default().number(named);
        self.0.named.store(number, Relaxed);
    }

    /// What was said of the lengths of `from`, which has this node's shape.
    pub fn name_lengths_of(&self, from: &UOp) {
        let mut named = from.named();
        named.retain(|(number, _)| matches!(number, Number::Length(_)));
        self.name_numbers(&named);
    }

    /// What was said of `from`, if this node is what `from` is of another source.
    pub(super) fn copy_named(&self, from: &UOp) {
        let named = from.named();
        if !named.is_empty() && self.op() == from.op() {
            self.name_numbers(&named);
        }
    }

    /// As [`name_numbers`](UOp::name_numbers), for the slice that was made of `x`. If that is a slice itself, the two are
    /// one now.
    pub fn name_slice(&self, x: &UOp, new: &[(Number, Linear)]) {
        let inner = if x.op() == Op::Slice { x.arg().slice() } else { None };
        let within = |(number, linear): &(Number, Linear)| match (number, inner) {
            (Number::Start(axis), Some(inner)) => (*number, linear.within(&inner[*axis])),
            _ => (*number, *linear),
        };
        let new: Named = new.iter().map(within).collect();
        self.name_numbers(&new);
    }

    /// This is a slice of `inner`, a slice. Its numbers follow from those of `inner`. If both end at one position, they
    /// will with every length of `inner`: the slice leaves out as many elements, or has as many, whichever number is smaller.
    /// Examples: `1..` of 20 elements, and the last 3 of them.
    pub(super) fn keep_named(&self, inner: &UOp, slices: &[SliceAxis]) {
        let named = inner.named();
        let (Some(first), false) = (inner.arg().slice(), named.is_empty()) else { return };
        let mut new = Named::new();
        for (axis, (slice, &n)) in slices.iter().zip(inner.shape()).enumerate() {
            let of = |wanted| named.iter().find(|(number, _)| *number == wanted).map(|(_, of)| *of);
            let (length, start) = (of(Number::Length(axis)), of(Number::Start(axis)));
            let fixed = Linear::fixed(first[axis].start as i64);
            let behind = |count: usize| length.map(|l| l.plus(count as i64 - n as i64));
            let is_last =
                slice.start > 0 && slice.start + 1 == n && (slice.step < 0 || slice.len == 1);
            let is_rest = slice.step == 1 && slice.start + slice.len == n && slice.len > 1;
            let is_whole = slice.len == n;
            let is_tail = is_rest && slice.start > slice.len && length.is_some();
            let len = behind(slice.len).filter(|_| is_rest && !is_tail || is_whole);
            new.extend(len.map(|len| (Number::Length(axis), len)));
            let step = first[axis].step as i64;
            let from = match is_last || is_tail {
                true => behind(slice.start)
                    .and_then(|last| last.times(step).and(start.unwrap_or(fixed))),
                false => start.map(|start| start.plus(step * slice.start as i64)),
            };
            new.extend(from.map(|from| (Number::Start(axis), from)));
        }
        if self.op() == Op::Slice {
            self.name_numbers(&new);
        }
    }

    /// This padding brings the elements of a slice back to their places. Its numbers follow from those of the slice.
    pub fn name_around(&self, slice: &UOp) {
        let named = slice.named();
        let (Some(slices), false) = (slice.arg().slice(), named.is_empty()) else { return };
        let mut new = Named::new();
        for (axis, (s, &n)) in slices.iter().zip(slice.src(0).shape()).enumerate() {
            let of = |wanted| named.iter().find(|(number, _)| *number == wanted).map(|(_, of)| *of);
            let start = of(Number::Start(axis)).unwrap_or(Linear::fixed(s.start as i64));
            let len = of(Number::Length(axis)).unwrap_or(Linear::fixed(s.len as i64));
            let Some(end) = start.and(len).filter(|_| s.step == 1) else { continue };
            new.push((Number::Before(axis), start));
            new.push((Number::After(axis), end.times(-1).plus(n as i64)));
        }
        new.retain(|(_, from)| from.variable.is_some());
        if self.op() == Op::Pad {
            self.name_numbers(&new);
        }
    }
}

impl Linear {
    /// A number that does not vary.
    pub fn fixed(n: i64) -> Linear {
        Linear { variable: None, times: 0, plus: n }
    }

    fn plus(self, n: i64) -> Linear {
        Linear { plus: self.plus.wrapping_add(n), ..self }
    }

    fn times(self, n: i64) -> Linear {
        let (times, plus) = (self.times.wrapping_mul(n), self.plus.wrapping_mul(n));
        Linear { times, plus, ..self }
    }

    /// The sum, if at most one variable is in it.
    fn and(self, other: Linear) -> Option<Linear> {
        let variable = match (self.variable, other.variable) {
            (a, b) if a == b => a,
            (a, None) => a,
            (None, b) => b,
            _ => return None,
        };
        let times = self.times.wrapping_add(other.times);
        let plus = self.plus.wrapping_add(other.plus);
        Some(Linear { variable: variable.filter(|_| times != 0), times, plus })
    }

    /// The start in memory of what starts here in a slice of it.
    fn within(self, inner: &SliceAxis) -> Linear {
        self.times(inner.step as i64).plus(inner.start as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arg::PadAxis;
    use crate::dtype::DType;

    #[test]
    fn names_of_numbers_go_through_slices() {
        let variable = Variable { name: "n".into(), min: 1, max: 9 };
        let id = VariableId::of(&variable);
        assert_eq!((VariableId::of(&variable), id.variable()), (id, variable));
        let n = |times, plus| Linear { variable: Some(id), times, plus };
        let slice = |start, len| SliceAxis { start, step: 1, len };
        let x = UOp::param(0, DType::F32, &[8, 8][..]);
        let rows = x.slice(&[slice(1, 5), slice(0, 8)]);
        rows.name_slice(&x, &[(Number::Length(0), n(1, 0))]);
        let part = rows.slice(&[slice(0, 5), slice(3, 1)]);
        assert_eq!(part.named()[..], [(Number::Length(0), n(1, 0))]);
        part.name_slice(&rows, &[(Number::Start(1), n(2, 1))]);
        assert_eq!(part.named()[1], (Number::Start(1), n(2, 1)));
        let end = rows.slice(&[slice(2, 3), slice(0, 8)]);
        assert_eq!(end.named()[..], [(Number::Length(0), n(1, -2))]);
        let last = rows.slice(&[slice(4, 1), slice(0, 8)]);
        assert_eq!(last.named()[..], [(Number::Start(0), n(1, 0))]);
        let back = rows.slice(&[SliceAxis { start: 4, step: -1, len: 5 }, slice(0, 8)]);
        assert_eq!(back.named()[..], [(Number::Length(0), n(1, 0)), (Number::Start(0), n(1, 0))]);
        let around = [PadAxis { before: 1, between: 0, after: 2 }, PadAxis::default()];
        let padded = rows.pad(&around);
        padded.name_around(&rows);
        assert_eq!(padded.named()[..], [(Number::After(0), n(-1, 7))]);
        let late = rows.slice(&[slice(2, 2), slice(0, 8)]);
        assert_eq!(late.named().len(), 0);
        late.name_slice(&rows, &[(Number::Start(0), n(1, 0))]);
        assert_eq!(late.named()[..], [(Number::Start(0), n(1, 1))]);
        let same = UOp::param(1, DType::F32, &[8, 8][..]);
        assert_eq!(part.viewed(&same).named(), part.named());
        assert!(part.named_key().is_some() && x.named_key().is_none());
        late.name_numbers(&[(Number::Length(1), Linear::fixed(8))]);
        assert_eq!(same.named().len(), 0);
    }
}
