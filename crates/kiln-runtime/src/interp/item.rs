//! One work-item: its array of scalars, its place in the program, and what each step does to them.

use super::bits::{read, write};
use super::code::{Access, Code, Place, Places, Step};
use super::counts::Counter;
use super::error::{InterpBuffer, InterpError};
use super::races::{Races, Visitor};
use kiln_ir::eval::{bitcast, dot, eval, mma};
use kiln_ir::{Const, DType, Op};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};

/// What the items of a group share.
pub(super) struct Surroundings<'a> {
    /// The program.
    pub code: &'a Code,
    /// Arguments by slot.
    pub buffers: &'a [InterpBuffer<'a>],
    /// The group's scratch.
    pub scratch: &'a [Cell<u8>],
    /// Who has accessed what, if there is more than one item.
    pub races: Option<&'a RefCell<Races>>,
    /// What counts, if somebody asks.
    pub counter: Option<&'a RefCell<Counter>>,
}

impl Surroundings<'_> {
    /// Tells the counter, if there is one.
    pub(super) fn count(&self, what: impl FnOnce(&mut Counter)) {
        if let Some(counter) = self.counter {
            what(&mut counter.borrow_mut());
        }
    }
}

/// Why an item stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stop {
    /// It waits at the barrier that is this step.
    Barrier(usize),
    /// It waits for the value of another item, at this step.
    Shuffle(usize),
    /// It has run to the end.
    Finished,
}

/// One work-item.
pub(super) struct Item {
    file: Vec<Const>,
    coordinates: Vec<usize>,
    /// The next step.
    next: usize,
    /// Which item it is, and when.
    pub(super) visitor: Visitor,
}

impl Item {
    /// The item `local` of the work-group `group`, before its first step.
    pub(super) fn new(code: &Code, group: &[usize], local: &[usize], visitor: Visitor) -> Item {
        let coordinates = group.iter().chain(local).copied().collect();
        Item { file: code.file.clone(), coordinates, next: 0, visitor }
    }

    /// Runs up to the next barrier or the end.
    pub(super) fn run(&mut self, around: &Surroundings<'_>) -> Result<Stop, InterpError> {
        around.count(|counter| counter.goes_on(self.visitor.item));
        while let Some(step) = around.code.steps.get(self.next) {
            let here = self.next;
            self.next += 1;
            match step {
                Step::Nothing => {}
                Step::Alu { op, dtype, from, lanes, to, srcs } => {
                    self.alu(around, (*op, *dtype, *from), *lanes, *to, srcs)?;
                }
                Step::Dot { parts, dtype, lanes, to, srcs } => {
                    for lane in 0..*lanes {
                        let args = srcs.map(|src| self.file[src + lane]);
                        let sum = dot(*parts, *dtype, args);
                        self.file[to + lane] = sum.expect("two u32 and a number");
                    }
                }
                Step::Mma { parts, shape, dtype, to, srcs } => {
                    self.mma(*parts, *shape, *dtype, *to, *srcs)
                }
                Step::Pick { to, srcs } => {
                    for (lane, &src) in srcs.iter().enumerate() {
                        self.file[to + lane] = self.file[src];
                    }
                }
                Step::Load { access, to } => self.load(around, access, *to, here)?,
                Step::Store { access, value } => self.store(around, access, *value, here)?,
                Step::Coordinate { to, which } => {
                    self.file[*to] = Const::Int(self.coordinates[*which] as i64);
                }
                Step::Loop { .. } => self.enter(step, 0),
                Step::EndLoop { start } => {
                    self.next = start + 1;
                    self.go_on(&around.code.steps[*start]);
                }
                Step::If { condition, end } => {
                    if self.file[*condition] == Const::Bool(false) {
                        self.next = end + 1;
                    }
                }
                Step::Barrier => return Ok(Stop::Barrier(here)),
                Step::Shuffle { .. } => return Ok(Stop::Shuffle(here)),
            }
        }
        Ok(Stop::Finished)
    }

    /// The scalars at these places.
    pub(super) fn scalars(&self, from: usize, lanes: usize) -> Vec<Const> {
        self.file[from..from + lanes].to_vec()
    }

    /// Takes scalars from another item.
    pub(super) fn take(&mut self, scalars: &[Const], to: usize) {
        self.file[to..to + scalars.len()].copy_from_slice(scalars);
    }

    /// Begins the `nth` iteration of a loop, or leaves it.
    fn enter(&mut self, start: &Step, nth: i64) {
        let Step::Loop { to, bound, down, end } = *start else { return };
        let count = int(self.file[bound]);
        if nth < count {
            self.file[to] = Const::Int(if down { count - 1 - nth } else { nth });
        } else {
            self.next = end + 1;
        }
    }

    /// Begins the iteration after the one that is done, or leaves the loop.
    fn go_on(&mut self, start: &Step) {
        let Step::Loop { to, bound, down, .. } = *start else { return };
        let (i, count) = (int(self.file[to]), int(self.file[bound]));
        self.enter(start, if down { count - i } else { i + 1 });
    }

    fn mma(
        &mut self,
        parts: [DType; 2],
        shape: [u16; 3],
        dtype: DType,
        to: usize,
        [x, y, c]: [usize; 3],
    ) {
        let [rows, depth, columns] = shape.map(usize::from);
        for at in 0..rows * columns {
            let factors = [&self.file[x..x + rows * depth], &self.file[y..y + depth * columns]];
            let sum = mma(parts, shape, factors, at, self.file[c + at], dtype);
            self.file[to + at] = sum.expect("u32 and numbers");
        }
    }

    fn alu(
        &mut self,
        around: &Surroundings<'_>,
        (op, dtype, from): (Op, DType, DType),
        lanes: usize,
        to: usize,
        srcs: &Places,
    ) -> Result<(), InterpError> {
        around.count(|counter| counter.computes(op, dtype, lanes));
        for lane in 0..lanes {
            let args: SmallVec<[Const; 3]> = srcs.iter().map(|s| self.file[s + lane]).collect();
            let value = match op {
                Op::Bitcast => bitcast(args[0], from, dtype),
                _ => eval(op, dtype, &args),
            };
            self.file[to + lane] = value.ok_or_else(|| InterpError::Unsupported {
                kernel: around.code.kernel.clone(),
                at: self.next - 1,
                what: format!("{op} on {dtype}"),
            })?;
        }
        Ok(())
    }

    fn load(
        &mut self,
        around: &Surroundings<'_>,
        access: &Access,
        to: usize,
        at: usize,
    ) -> Result<(), InterpError> {
        let dtype = access.memory.dtype;
        around.count(|counter| counter.executes(at));
        for lane in 0..access.lanes {
            self.file[to + lane] = if self.gated_off(access, lane) {
                Const::Int(0).cast(dtype)
            } else {
                let i = self.position(access, lane);
                self.note(around, access, i, (Op::Load, at))?;
                let found = in_bounds(i, access).and_then(|i| match access.memory.place {
                    Place::Param(slot) => read(around.buffers[slot], dtype, i),
                    Place::Scratch(offset) => read(&around.scratch[offset..], dtype, i),
                    Place::Register(base) => Some(self.file[base + i]),
                });
                found.ok_or_else(|| out_of_bounds(around, access, Op::Load, at, i))?
            };
        }
        Ok(())
    }

    fn store(
        &mut self,
        around: &Surroundings<'_>,
        access: &Access,
        value: usize,
        at: usize,
    ) -> Result<(), InterpError> {
        let dtype = access.memory.dtype;
        around.count(|counter| counter.executes(at));
        for lane in 0..access.lanes {
            if self.gated_off(access, lane) {
                continue;
            }
            let (i, value) = (self.position(access, lane), self.file[value + lane]);
            self.note(around, access, i, (Op::Store, at))?;
            let done = in_bounds(i, access).and_then(|i| match access.memory.place {
                Place::Param(slot) => write(around.buffers[slot], dtype, i, value),
                Place::Scratch(offset) => write(&around.scratch[offset..], dtype, i, value),
                Place::Register(base) => {
                    self.file[base + i] = value;
                    Some(())
                }
            });
            done.ok_or_else(|| out_of_bounds(around, access, Op::Store, at, i))?;
        }
        Ok(())
    }

    /// Notes an access to element `i`.
    fn note(
        &self,
        around: &Surroundings<'_>,
        access: &Access,
        i: i128,
        (op, at): (Op, usize),
    ) -> Result<(), InterpError> {
        let Some(i) = in_bounds(i, access) else { return Ok(()) };
        around.count(|counter| counter.accesses(access, i, (op, at)));
        let Some(races) = around.races else { return Ok(()) };
        let (memory, shared) = match access.memory.place {
            Place::Param(slot) => (around.buffers[slot], true),
            Place::Scratch(offset) => (&around.scratch[offset..], false),
            Place::Register(_) => return Ok(()),
        };
        // in place, two arguments are one memory
        let address = memory.as_ptr() as usize + i * access.memory.dtype.size();
        match races.borrow_mut().access(address, self.visitor, op == Op::Store, shared) {
            false => Ok(()),
            true => Err(InterpError::Race {
                kernel: around.code.kernel.clone(),
                op,
                at,
                index: i as i64,
            }),
        }
    }

    fn gated_off(&self, access: &Access, lane: usize) -> bool {
        let gate = |(place, stride): (usize, usize)| self.file[place + stride * lane];
        access.gate.is_some_and(|g| gate(g) == Const::Bool(false))
    }

    /// The scalar that `lane` of an access is about, wherever it lies.
    fn position(&self, access: &Access, lane: usize) -> i128 {
        let index = int(self.file[access.index]) as i128;
        index * access.memory.width as i128 + lane as i128
    }
}

fn in_bounds(i: i128, access: &Access) -> Option<usize> {
    usize::try_from(i).ok().filter(|&i| i < access.memory.len)
}

fn int(value: Const) -> i64 {
    value.as_i128().expect("an integer").try_into().unwrap_or(i64::MAX)
}

fn out_of_bounds(
    around: &Surroundings<'_>,
    access: &Access,
    op: Op,
    at: usize,
    i: i128,
) -> InterpError {
    let memory = match access.memory.place {
        Place::Param(slot) => format!("param {slot}"),
        Place::Scratch(offset) => format!("the scratch at byte {offset}"),
        Place::Register(_) => "a register".to_string(),
    };
    let (kernel, len) = (around.code.kernel.clone(), access.memory.len);
    InterpError::OutOfBounds { kernel, op, at, memory, index: i as i64, len }
}
