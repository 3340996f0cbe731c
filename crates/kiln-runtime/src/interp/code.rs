//! The program with every source resolved to a slot, once, so that executing a step looks nothing up.
//!
//! Each work-item has one flat array of scalars: first the value of every node (one scalar per lane), then its register
//! memories.

use super::error::InterpError;
use kiln_ir::arg::{Arg, RangeKind, Space};
use kiln_ir::eval::from_bits;
use kiln_ir::program::{Program, scratch_layout};
use kiln_ir::{Const, DType, Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A resolved program.
pub(super) struct Code {
    /// For messages.
    pub kernel: String,
    /// One step per op.
    pub steps: Vec<Step>,
    /// What an item's file of scalars holds before it runs: constants, launch-time scalars, rubbish in registers.
    pub file: Vec<Const>,
    /// Bytes of scratch of a group.
    pub scratch_bytes: usize,
}

/// Positions in the file of scalars.
pub(super) type Places = SmallVec<[usize; 3]>;

/// One op.
pub(super) enum Step {
    /// Nothing to do: a definition, the end of an `If`.
    Nothing,
    /// Elementwise on `lanes` scalars. `from` is the dtype of the last source.
    Alu { op: Op, dtype: DType, from: DType, lanes: usize, to: usize, srcs: Places },
    /// `Dot` on `lanes` scalars.
    Dot { parts: [DType; 2], dtype: DType, lanes: usize, to: usize, srcs: [usize; 3] },
    /// `Mma` on matrices of `shape`.
    Mma { parts: [DType; 2], shape: [u16; 3], dtype: DType, to: usize, srcs: [usize; 3] },
    /// Collects scalars: `Stack`, `Splat`, `Lane`.
    Pick { to: usize, srcs: Vec<usize> },
    /// Memory to file.
    Load { access: Access, to: usize },
    /// File to memory.
    Store { access: Access, value: usize },
    /// A coordinate of the item: `which` counts global axes, then local ones.
    Coordinate { to: usize, which: usize },
    /// Counts from 0, or down to it; continues after the step `end` when done.
    Loop { to: usize, bound: usize, down: bool, end: usize },
    /// Next iteration of the loop at `start`.
    EndLoop { start: usize },
    /// Continues after the step `end` if the condition is false.
    If { condition: usize, end: usize },
    /// Waits for the group.
    Barrier,
    /// Waits for the group, and takes the scalars at `from` of the item whose number differs in the bits of `mask`.
    Shuffle { mask: usize, lanes: usize, from: usize, to: usize },
}

/// Where a load or store goes.
pub(super) struct Access {
    /// The memory.
    pub memory: Memory,
    /// Place of the index.
    pub index: usize,
    /// Place of the gate and the distance between the gates of neighbouring lanes (0 or 1).
    pub gate: Option<(usize, usize)>,
    /// Consecutive scalars.
    pub lanes: usize,
}

/// A memory that an item sees.
#[derive(Clone)]
pub(super) struct Memory {
    /// Which one.
    pub place: Place,
    /// Its element type.
    pub dtype: DType,
    /// Scalars per element.
    pub width: usize,
    /// Length in scalars.
    pub len: usize,
}

/// Where a memory lies.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// The buffer with this number.
    Param(usize),
    /// From this byte of scratch on.
    Scratch(usize),
    /// From this place of the file on.
    Register(usize),
}

impl Code {
    /// Resolves `program`, launched with `vars`.
    pub(super) fn new(program: &Program, vars: &[i64]) -> Result<Code, InterpError> {
        let code = Code {
            kernel: program.name.to_string(),
            steps: Vec::with_capacity(program.ops.len()),
            file: Vec::new(),
            scratch_bytes: program.scratch_bytes,
        };
        let mut resolver = Resolver {
            code,
            vars,
            values: FxHashMap::default(),
            memories: FxHashMap::default(),
            open: Vec::new(),
            work_axes: work_axes(&program.ops),
        };
        resolver.place_scratch(&program.ops);
        for op in &program.ops {
            let step = resolver.step(op)?;
            resolver.code.steps.push(step);
        }
        Ok(resolver.code)
    }
}

/// The axes of work-group ranges in the order of coordinates: global ones by axis, then local ones.
fn work_axes(ops: &[UOp]) -> Vec<(bool, u32)> {
    let axis = |op: &UOp| match op.arg() {
        Arg::Range { axis, kind: RangeKind::Global } => Some((false, *axis)),
        Arg::Range { axis, kind: RangeKind::Local } => Some((true, *axis)),
        _ => None,
    };
    let mut axes: Vec<(bool, u32)> = ops.iter().filter_map(axis).collect();
    axes.sort_unstable();
    axes
}

struct Resolver<'a> {
    code: Code,
    vars: &'a [i64],
    values: FxHashMap<UOp, usize>,
    memories: FxHashMap<UOp, Memory>,
    /// Positions of the loops and ifs that are open.
    open: Vec<usize>,
    work_axes: Vec<(bool, u32)>,
}

impl Resolver<'_> {
    fn place_scratch(&mut self, ops: &[UOp]) {
        let (places, bytes) = scratch_layout(ops);
        for (op, offset) in places {
            let (_, _, len) = op.arg().memory().expect("a memory");
            self.define(op, Place::Scratch(offset), len);
        }
        self.code.scratch_bytes = self.code.scratch_bytes.max(bytes);
    }

    fn define(&mut self, op: &UOp, place: Place, len: usize) {
        let width = op.lanes() as usize;
        let memory = Memory { place, dtype: op.dtype(), width, len: len * width };
        self.memories.insert(op.clone(), memory);
    }

    /// Room for `lanes` scalars that begin as `value`.
    fn allocate(&mut self, value: Const, lanes: usize) -> usize {
        let place = self.code.file.len();
        self.code.file.resize(place + lanes, value);
        place
    }

    /// A place for the value of `op`.
    fn result(&mut self, op: &UOp) -> usize {
        let place = self.allocate(rubbish(op.dtype()), op.lanes() as usize);
        self.values.insert(op.clone(), place);
        place
    }

    /// Where the value of a source is. Constants need not be in the list.
    fn value(&mut self, src: &UOp) -> Result<usize, InterpError> {
        if let Some(&place) = self.values.get(src) {
            return Ok(place);
        }
        let scalar = if src.op() == Op::Splat { src.src(0) } else { src };
        let Some(value) = scalar.as_const() else {
            return Err(self.unsupported(src));
        };
        let place = self.allocate(value, src.lanes() as usize);
        self.values.insert(src.clone(), place);
        Ok(place)
    }

    fn unsupported(&self, op: &UOp) -> InterpError {
        let (kernel, at) = (self.code.kernel.clone(), self.code.steps.len());
        InterpError::Unsupported { kernel, at, what: format!("{op:?}") }
    }

    fn step(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let here = self.code.steps.len();
        Ok(match op.op() {
            Op::Const => {
                self.value(op)?;
                Step::Nothing
            }
            Op::Param => {
                let slot = op.arg().slot().expect("a param's slot");
                self.define(op, Place::Param(slot), op.numel());
                Step::Nothing
            }
            Op::Local => self.local(op),
            Op::After | Op::Prefetch => Step::Nothing,
            Op::Var => self.var(op)?,
            Op::Range => self.range(op)?,
            Op::If => {
                self.open.push(here);
                Step::If { condition: self.value(op.src(0))?, end: here }
            }
            Op::End | Op::EndIf => self.close(op)?,
            Op::Barrier => Step::Barrier,
            Op::Shuffle => Step::Shuffle {
                mask: op.arg().mask().expect("a mask") as usize,
                lanes: op.lanes() as usize,
                from: self.value(op.src(0))?,
                to: self.result(op),
            },
            Op::Load => {
                let access = self.access(op, op.lanes(), op.gate())?;
                Step::Load { access, to: self.result(op) }
            }
            Op::Store => {
                let access = self.access(op, op.src(2).lanes(), op.gate())?;
                Step::Store { access, value: self.value(op.src(2))? }
            }
            Op::Stack | Op::Splat | Op::Lane => self.pick(op)?,
            Op::Dot => self.dot(op)?,
            Op::Mma => self.mma(op)?,
            o if o.is_elementwise() => self.alu(op)?,
            _ => return Err(self.unsupported(op)),
        })
    }

    fn alu(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let srcs = op.srcs().iter().map(|s| self.value(s)).collect::<Result<Places, _>>()?;
        Ok(Step::Alu {
            op: op.op(),
            dtype: op.dtype(),
            from: op.srcs().last().expect("an operand").dtype(),
            lanes: op.lanes() as usize,
            to: self.result(op),
            srcs,
        })
    }

    fn dot(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let srcs = [self.value(op.src(0))?, self.value(op.src(1))?, self.value(op.src(2))?];
        let parts = op.arg().parts().expect("a dot's parts");
        let lanes = op.lanes() as usize;
        Ok(Step::Dot { parts, dtype: op.dtype(), lanes, to: self.result(op), srcs })
    }

    fn mma(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let srcs = [self.value(op.src(0))?, self.value(op.src(1))?, self.value(op.src(2))?];
        let (parts, shape) = (op.arg().parts(), op.arg().mma());
        let (parts, shape) = (parts.expect("an mma's parts"), shape.expect("an mma's shape"));
        Ok(Step::Mma { parts, shape, dtype: op.dtype(), to: self.result(op), srcs })
    }

    fn pick(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let mut srcs = op.srcs().iter().map(|s| self.value(s)).collect::<Result<Vec<_>, _>>()?;
        match op.op() {
            Op::Lane => srcs[0] += op.arg().lane().expect("a lane's number") as usize,
            Op::Splat => srcs = vec![srcs[0]; op.lanes() as usize],
            _ => {}
        }
        Ok(Step::Pick { to: self.result(op), srcs })
    }

    fn local(&mut self, op: &UOp) -> Step {
        let (space, _, len) = op.arg().memory().expect("a local's memory");
        if space == Space::Register {
            let place = self.allocate(rubbish(op.dtype()), len * op.lanes() as usize);
            self.define(op, Place::Register(place), len);
        }
        Step::Nothing
    }

    fn var(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let slot = op.arg().slot().expect("a var's slot");
        let Some(&raw) = self.vars.get(slot) else {
            let kernel = self.code.kernel.clone();
            return Err(InterpError::Missing { kernel, what: "launch-time scalars" });
        };
        let place = self.allocate(from_bits(raw as u64, op.dtype()), 1);
        self.values.insert(op.clone(), place);
        Ok(Step::Nothing)
    }

    fn range(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let (axis, kind) = op.arg().range().expect("a range's axis");
        let here = self.code.steps.len();
        let bound = self.value(op.src(0))?;
        let to = self.result(op);
        Ok(match kind {
            RangeKind::Global | RangeKind::Local => {
                let key = (kind == RangeKind::Local, axis);
                let which = self.work_axes.iter().position(|&a| a == key).expect("collected");
                Step::Coordinate { to, which }
            }
            RangeKind::Thread | RangeKind::Loop | RangeKind::Reduce => {
                self.open.push(here);
                // parts of threads may run in any order: in this one, a part that needs an earlier one is seen
                let down = kind == RangeKind::Thread;
                Step::Loop { to, bound, down, end: here }
            }
            RangeKind::Upcast | RangeKind::Unroll | RangeKind::Vector | RangeKind::Matrix => {
                return Err(self.unsupported(op));
            }
        })
    }

    /// Ends the innermost open loop or `If`, and tells it where it ends.
    fn close(&mut self, op: &UOp) -> Result<Step, InterpError> {
        let here = self.code.steps.len();
        let start = self.open.pop().ok_or_else(|| self.unsupported(op))?;
        match (&mut self.code.steps[start], op.op()) {
            (Step::Loop { end, .. }, Op::End) => {
                *end = here;
                Ok(Step::EndLoop { start })
            }
            (Step::If { end, .. }, Op::EndIf) => {
                *end = here;
                Ok(Step::Nothing)
            }
            _ => Err(self.unsupported(op)),
        }
    }

    fn access(&mut self, op: &UOp, lanes: u16, gate: Option<&UOp>) -> Result<Access, InterpError> {
        let Some(memory) = self.memories.get(op.memory()).cloned() else {
            return Err(self.unsupported(op));
        };
        let gate = match gate {
            Some(gate) => Some((self.value(gate)?, (gate.lanes() > 1) as usize)),
            None => None,
        };
        Ok(Access { memory, index: self.value(op.src(1))?, gate, lanes: lanes as usize })
    }
}

/// What a place holds before it is written: conspicuous, so that a program that reads it is seen.
fn rubbish(dtype: DType) -> Const {
    if dtype.is_float() { Const::Float(f64::NAN) } else { Const::Int(0x5A).cast(dtype) }
}
