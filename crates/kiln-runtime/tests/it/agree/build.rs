//! Linear programs written by hand: a list that grows, and memory with interesting contents.

use kiln_ir::arg::{RangeKind, Space};
use kiln_ir::program::{ParamInfo, Program};
use kiln_ir::uop::Srcs;
use kiln_ir::{Arg, Const, DType, Op, UOp};

/// A program and what its buffers hold before it runs.
pub(super) struct Kernel {
    pub(super) program: Program,
    pub(super) data: Vec<Vec<u8>>,
}

/// A program under construction.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) ops: Vec<UOp>,
    params: Vec<ParamInfo>,
    data: Vec<Vec<u8>>,
    vars: Vec<DType>,
    scratch_bytes: usize,
    threads: usize,
    locals: u32,
    axes: u32,
}

pub(super) fn node(op: Op, srcs: &[&UOp], arg: Arg) -> UOp {
    UOp::new(op, DType::Void, 1, srcs.iter().map(|s| (*s).clone()).collect::<Srcs>(), arg)
}

pub(super) fn int(value: i64) -> UOp {
    UOp::constant(value, DType::I32)
}

impl Builder {
    pub(super) fn new() -> Builder {
        Builder { threads: 1, ..Builder::default() }
    }

    /// Appends an op, and what it needs that is not in the list yet.
    pub(super) fn add(&mut self, op: UOp) -> UOp {
        let is_value =
            |s: &&UOp| s.op().is_elementwise() || matches!(s.op(), Op::Splat | Op::Stack);
        op.srcs().iter().filter(is_value).for_each(|s| drop(self.add(s.clone())));
        if op.op() != Op::Const && !self.ops.contains(&op) {
            self.ops.push(op.clone());
        }
        op
    }

    /// A buffer with these contents.
    pub(super) fn buffer(&mut self, dtype: DType, data: Vec<u8>, written: bool) -> UOp {
        let (slot, len) = (self.params.len(), data.len() / dtype.size());
        self.params.push(ParamInfo { dtype, len, written, read: true, streamed: false });
        self.data.push(data);
        self.add(UOp::param(slot, dtype, [len].as_slice()))
    }

    pub(super) fn output(&mut self, dtype: DType, len: usize) -> UOp {
        self.buffer(dtype, vec![0; len * dtype.size()], true)
    }

    pub(super) fn var(&mut self, dtype: DType) -> UOp {
        let slot = self.vars.len();
        self.vars.push(dtype);
        let (min, max) = dtype.int_bounds();
        self.add(UOp::var(slot, dtype, min, max))
    }

    pub(super) fn register(&mut self, len: usize, dtype: DType, lanes: u16) -> UOp {
        self.locals += 1;
        self.add(UOp::local(Space::Register, self.locals, len, dtype, lanes))
    }

    pub(super) fn scratch(&mut self, len: usize, dtype: DType) -> UOp {
        self.locals += 1;
        self.scratch_bytes = self.scratch_bytes.next_multiple_of(64) + len * dtype.size();
        self.add(UOp::local(Space::Scratch, self.locals, len, dtype, 1))
    }

    pub(super) fn open(&mut self, kind: RangeKind, bound: &UOp) -> UOp {
        if kind == RangeKind::Thread {
            self.threads = bound.as_int().unwrap() as usize;
        }
        self.axes += 1;
        let arg = Arg::Range { axis: self.axes - 1, kind };
        let srcs: Srcs = [bound.clone()].into_iter().collect();
        self.add(UOp::new(Op::Range, bound.dtype(), 1, srcs, arg))
    }

    pub(super) fn close(&mut self, opened: &UOp) {
        let op = if opened.op() == Op::If { Op::EndIf } else { Op::End };
        self.add(node(op, &[opened], Arg::None));
    }

    pub(super) fn load(&mut self, memory: &UOp, index: &UOp, lanes: u16) -> UOp {
        self.add(UOp::load_lanes(memory, index, None, lanes))
    }

    pub(super) fn store(&mut self, memory: &UOp, index: &UOp, value: &UOp) {
        self.add(UOp::store(memory, index, value, None));
    }

    pub(super) fn finish(self, name: &str) -> Kernel {
        let program = Program {
            name: name.into(),
            ops: self.ops,
            source: String::new(),
            params: self.params,
            vars: self.vars,
            threads: UOp::index(self.threads as i64),
            global: vec![],
            local: vec![],
            scratch_bytes: self.scratch_bytes,
            flops: 0,
            bytes: 0,
            accessed: 0,
        };
        Kernel { program, data: self.data }
    }
}

/// Numbers that look random and are the same everywhere.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n
    }

    /// A value of `dtype`: a corner, a small number or any bits.
    pub(super) fn value(&mut self, dtype: DType) -> Const {
        let corners = corners(dtype);
        match self.below(3) {
            0 => corners[self.below(corners.len())],
            1 => Const::Int(self.below(200) as i64 - 100).cast(dtype),
            _ if dtype == DType::Bool => Const::Bool(self.below(2) == 0),
            _ => kiln_ir::eval::from_bits(self.bits(), dtype),
        }
    }

    /// `n` of them as memory.
    pub(super) fn memory(&mut self, dtype: DType, n: usize) -> Vec<u8> {
        (0..n).flat_map(|_| to_bytes(self.value(dtype), dtype)).collect()
    }
}

pub(super) fn to_bytes(value: Const, dtype: DType) -> Vec<u8> {
    kiln_ir::eval::to_bits(value, dtype).to_le_bytes()[..dtype.size()].to_vec()
}

fn corners(dtype: DType) -> Vec<Const> {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -2.5,
        1e-40,
        127.5,
        128.0,
        -128.5,
        255.9,
        256.0,
        65504.0,
        65520.0,
        2147483648.0,
        -2147483649.0,
        4294967296.0,
        9.3e18,
        -9.3e18,
        1.9e19,
        3.5e38,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    if dtype.is_float() {
        return floats.into_iter().map(|f| Const::Float(f).cast(dtype)).collect();
    }
    let (lo, hi) = dtype.int_bounds();
    [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, -1, -2, lo, lo.wrapping_add(1), hi, hi - 1]
        .into_iter()
        .map(|i| Const::Int(i).cast(dtype))
        .collect()
}
