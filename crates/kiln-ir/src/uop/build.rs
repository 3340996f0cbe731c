//! Constructors: the vocabulary that graphs are written in. Each canonicalizes what costs nothing to canonicalize:
//! constants to the right, views that change nothing away, neighbouring views of one kind together.

use super::{Srcs, UOp};
use crate::arg::{
    Arg, Axes, Derivative, PadAxis, RangeKind, ReduceOp, Shape, SliceAxis, Space, WindowArg,
};
use crate::dtype::{Const, DType};
use crate::op::Op;
use smallvec::{SmallVec, smallvec};
use std::sync::{Arc, OnceLock};

/// 0 and 1 of each dtype. Nearly every graph has them, so they are made once and never freed.
static COMMON: [[OnceLock<UOp>; 2]; DType::COUNT] =
    [const { [const { OnceLock::new() }; 2] }; DType::COUNT];

/// Which of the common constants a value is. -0.0 is none.
fn common(value: Const) -> Option<usize> {
    const ONE: u64 = 1f64.to_bits();
    match value.key() {
        (0..=3, 0) => Some(0),
        (0..=2, 1) | (3, ONE) => Some(1),
        _ => None,
    }
}

/// Leaves.
impl UOp {
    /// The constant `value`, converted to `dtype`.
    pub fn constant(value: impl Into<Const>, dtype: DType) -> UOp {
        let value = value.into().cast(dtype);
        let new = || UOp::new(Op::Const, dtype, 1, Srcs::new(), Arg::Const(value));
        match common(value) {
            Some(which) => COMMON[dtype as usize][which].get_or_init(new).clone(),
            None => new(),
        }
    }

    /// An index constant.
    pub fn index(value: i64) -> UOp {
        UOp::constant(value, DType::Index)
    }

    /// `true` or `false`.
    pub fn bool(value: bool) -> UOp {
        UOp::constant(value, DType::Bool)
    }

    /// A constant of this node's dtype and lanes.
    pub fn const_like(&self, value: impl Into<Const>) -> UOp {
        UOp::constant(value, self.dtype()).splat(self.lanes())
    }

    /// The numbers `0..n` along one axis.
    pub fn iota(n: usize, dtype: DType) -> UOp {
        UOp::new(Op::Iota, dtype, 1, Srcs::new(), Arg::Shape(Arc::new(smallvec![n])))
    }

    /// Materialised data.
    pub fn buffer(id: u64, dtype: DType, shape: Shape, device: Arc<str>) -> UOp {
        UOp::new(Op::Buffer, dtype, 1, Srcs::new(), Arg::Buffer { id, shape, device })
    }

    /// A numbered argument.
    pub fn param(slot: usize, dtype: DType, shape: impl Into<Shape>) -> UOp {
        UOp::new(Op::Param, dtype, 1, Srcs::new(), Arg::Param { slot, shape: shape.into() })
    }

    /// A launch-time scalar; the bounds matter for integers.
    pub fn var(slot: usize, dtype: DType, min: i64, max: i64) -> UOp {
        UOp::new(Op::Var, dtype, 1, Srcs::new(), Arg::Var { slot, min, max })
    }

    /// A loop variable from 0 to `size`. A range of one iteration is the constant 0.
    pub fn range(axis: u32, kind: RangeKind, size: usize) -> UOp {
        UOp::range_to(axis, kind, UOp::index(size as i64))
    }

    /// A loop variable from 0 to `bound`, an index.
    pub fn range_to(axis: u32, kind: RangeKind, bound: UOp) -> UOp {
        UOp::new(Op::Range, DType::Index, 1, smallvec![bound], Arg::Range { axis, kind })
    }

    /// Memory inside a kernel: `len` elements of `lanes` scalars each.
    pub fn local(space: Space, id: u32, len: usize, dtype: DType, lanes: u16) -> UOp {
        UOp::new(Op::Local, dtype, lanes, Srcs::new(), Arg::Memory { space, id, len })
    }
}

/// Arithmetic.
impl UOp {
    /// An elementwise op of one operand.
    pub fn unary(op: Op, x: &UOp) -> UOp {
        UOp::new(op, x.dtype(), x.lanes(), smallvec![x.clone()], Arg::None)
    }

    /// An elementwise op of two operands of one dtype; comparisons give bool, all others that dtype.
    pub fn binary(op: Op, a: &UOp, b: &UOp) -> UOp {
        let dtype = if op.is_comparison() { DType::Bool } else { a.dtype() };
        UOp::binary_typed(op, dtype, a.clone(), b.clone())
    }

    /// As [`UOp::binary`], with the result's dtype given. Where the op commutes, a constant goes right, and index
    /// arithmetic is ordered by structure, so that equal sums are equal nodes.
    pub fn binary_typed(op: Op, dtype: DType, a: UOp, b: UOp) -> UOp {
        let lanes = a.lanes().max(b.lanes());
        let (a, b) = (a.into_lanes(lanes), b.into_lanes(lanes));
        let swap = op.is_commutative() && order(&a) > order(&b);
        let srcs = if swap { smallvec![b, a] } else { smallvec![a, b] };
        UOp::new(op, dtype, lanes, srcs, Arg::None)
    }

    /// Whether two commuting operands stand in the order that [`UOp::binary`] gives them.
    pub(crate) fn is_in_order(&self) -> bool {
        order(self.src(0)) <= order(self.src(1))
    }

    /// An elementwise op of three operands; the dtype is the last operand's.
    pub fn ternary(op: Op, a: &UOp, b: &UOp, c: &UOp) -> UOp {
        let lanes = a.lanes().max(b.lanes()).max(c.lanes());
        let srcs = smallvec![a.splat(lanes), b.splat(lanes), c.splat(lanes)];
        UOp::new(op, c.dtype(), lanes, srcs, Arg::None)
    }

    /// `self * b + c`, rounded once where machines do that.
    pub fn mul_add(&self, b: &UOp, c: &UOp) -> UOp {
        UOp::ternary(Op::MulAdd, self, b, c)
    }

    /// `c` plus the products of the parts of `x` and `y`, which are u32 made of these types.
    pub fn dot(parts: [DType; 2], x: &UOp, y: &UOp, c: &UOp) -> UOp {
        let lanes = x.lanes().max(y.lanes()).max(c.lanes());
        let srcs = smallvec![x.splat(lanes), y.splat(lanes), c.splat(lanes)];
        UOp::new(Op::Dot, c.dtype(), lanes, srcs, Arg::Parts(parts))
    }

    /// `c` plus the product of the matrices `x` and `y` of u32 that are made of these types; `shape` is rows, depth,
    /// columns.
    pub fn mma(parts: [DType; 2], shape: [u16; 3], x: &UOp, y: &UOp, c: &UOp) -> UOp {
        let srcs = smallvec![x.clone(), y.clone(), c.clone()];
        UOp::new(Op::Mma, c.dtype(), c.lanes(), srcs, Arg::Mma { parts, shape })
    }

    /// `self ? a : b`.
    pub fn where_(&self, a: &UOp, b: &UOp) -> UOp {
        UOp::ternary(Op::Where, self, a, b)
    }

    /// The value converted to `dtype`; itself where it has that dtype.
    pub fn cast(&self, dtype: DType) -> UOp {
        match self.as_const() {
            _ if self.dtype() == dtype => self.clone(),
            Some(c) => UOp::constant(c, dtype),
            None => UOp::new(Op::Cast, dtype, self.lanes(), smallvec![self.clone()], Arg::None),
        }
    }

    /// The same bits read as `dtype`; between sizes the last axis grows or shrinks.
    pub fn bitcast(&self, dtype: DType) -> UOp {
        if self.dtype() == dtype {
            return self.clone();
        }
        UOp::new(Op::Bitcast, dtype, self.lanes(), smallvec![self.clone()], Arg::None)
    }

    /// `a < b`.
    pub fn lt(&self, b: &UOp) -> UOp {
        UOp::binary(Op::CmpLt, self, b)
    }

    /// `a == b`.
    pub fn eq_(&self, b: &UOp) -> UOp {
        UOp::binary(Op::CmpEq, self, b)
    }

    /// `a != b`.
    pub fn ne_(&self, b: &UOp) -> UOp {
        UOp::binary(Op::CmpNe, self, b)
    }

    /// Logical or bitwise not; of a constant bool, the other constant.
    pub fn not(&self) -> UOp {
        match self.as_const() {
            Some(Const::Bool(b)) => UOp::bool(!b),
            _ => UOp::unary(Op::Not, self),
        }
    }

    /// Both conditions, where `true` and `false` are known to be neutral and dominant.
    pub fn and(&self, b: &UOp) -> UOp {
        match (self.as_const(), b.as_const()) {
            (Some(Const::Bool(true)), _) | (_, Some(Const::Bool(false))) => b.clone(),
            (_, Some(Const::Bool(true))) | (Some(Const::Bool(false)), _) => self.clone(),
            _ if self == b => self.clone(),
            _ => UOp::binary(Op::And, self, b),
        }
    }

    /// The larger.
    pub fn maximum(&self, b: &UOp) -> UOp {
        UOp::binary(Op::Max, self, b)
    }

    /// The smaller.
    pub fn minimum(&self, b: &UOp) -> UOp {
        UOp::binary(Op::Min, self, b)
    }

    /// The integer quotient rounded down.
    pub fn floordiv(&self, b: &UOp) -> UOp {
        UOp::binary(Op::FloorDiv, self, b)
    }

    /// The remainder with the divisor's sign.
    pub fn floormod(&self, b: &UOp) -> UOp {
        UOp::binary(Op::FloorMod, self, b)
    }

    /// The sum of index terms; of none, 0.
    pub fn sum_of(terms: impl IntoIterator<Item = UOp>) -> UOp {
        terms.into_iter().reduce(|a, b| a + b).unwrap_or_else(|| UOp::index(0))
    }
}

/// The order of commuting operands: constants last; in index arithmetic, where an order costs nothing and makes sums
/// comparable, ranges by axis and then everything else by content. Floats and other tensors keep the program's
/// order: content includes buffer ids there, and a cache key must not.
fn order(x: &UOp) -> (u8, u32, u128) {
    let inner = if x.op() == Op::Splat { x.src(0) } else { x };
    match (inner.op(), inner.arg()) {
        (Op::Const, _) => (3, 0, 0),
        _ if x.dtype() != DType::Index => (0, 0, 0),
        // a sum stands before the term that is added to it
        (Op::Add, _) => (0, 0, inner.hash()),
        (Op::Range, Arg::Range { axis, .. }) => (1, *axis, 0),
        // `range * stride` sorts with its range, outer loops first, as a person writes an offset
        (Op::Mul, _) if inner.src(0).op() == Op::Range => {
            (1, inner.src(0).arg().range().expect("range").0, 1)
        }
        _ => (2, 0, inner.hash()),
    }
}

/// Views. Arguments are checked by the caller.
impl UOp {
    /// The same elements under another shape of as many elements.
    pub fn reshape(&self, shape: impl Into<Shape>) -> UOp {
        let shape = shape.into();
        let base = if self.op() == Op::Reshape { self.src(0) } else { self };
        if let Some(same) = [self, base].into_iter().find(|x| *x.shape() == shape) {
            return same.clone();
        }
        UOp::new(Op::Reshape, self.dtype(), 1, smallvec![base.clone()], Arg::Shape(Arc::new(shape)))
    }

    /// Axis `i` of the result is axis `axes[i]`.
    pub fn permute(&self, axes: impl Into<Axes>) -> UOp {
        let axes = axes.into();
        if let (Op::Permute, Arg::Axes(inner)) = (self.op(), self.arg()) {
            let axes: Axes = axes.iter().map(|&a| inner[a]).collect();
            return self.src(0).permute(axes);
        }
        if axes.iter().enumerate().all(|(i, &a)| i == a) {
            return self.clone();
        }
        UOp::new(Op::Permute, self.dtype(), 1, smallvec![self.clone()], Arg::Axes(axes))
    }

    /// Axes of length 1 repeated to `shape`, which has the same rank.
    pub fn expand(&self, shape: impl Into<Shape>) -> UOp {
        let shape = shape.into();
        if *self.shape() == shape {
            return self.clone();
        }
        let base = if self.op() == Op::Expand { self.src(0) } else { self };
        UOp::new(Op::Expand, self.dtype(), 1, smallvec![base.clone()], Arg::Shape(Arc::new(shape)))
    }

    /// Leading axes of length 1 added, then expanded: broadcasting to `shape`.
    pub fn broadcast_to(&self, shape: &[usize]) -> UOp {
        if shape.len() == self.shape().len() {
            return self.expand(Shape::from_slice(shape));
        }
        let mut padded = Shape::from_elem(1, shape.len() - self.shape().len());
        padded.extend_from_slice(self.shape());
        self.reshape(padded).expand(Shape::from_slice(shape))
    }

    /// Zeros around and between elements.
    pub fn pad(&self, pads: &[PadAxis]) -> UOp {
        if pads.iter().all(|p| p.is_empty()) {
            return self.clone();
        }
        UOp::new(Op::Pad, self.dtype(), 1, smallvec![self.clone()], Arg::Pad(pads.into()))
    }

    /// Windows that slide along an axis.
    pub fn window(&self, w: WindowArg) -> UOp {
        UOp::new(Op::Window, self.dtype(), 1, smallvec![self.clone()], Arg::Window(w))
    }

    /// The elements of windows, back at their places in the original axis.
    pub fn unwindow(&self, w: WindowArg) -> UOp {
        UOp::new(Op::Unwindow, self.dtype(), 1, smallvec![self.clone()], Arg::Window(w))
    }

    /// Some elements of each axis.
    pub fn slice(&self, slices: &[SliceAxis]) -> UOp {
        if let (Op::Slice, Arg::Slice(inner), [whole]) = (self.op(), self.arg(), self.srcs()) {
            let both: SmallVec<[SliceAxis; 2]> =
                inner.iter().zip(slices).map(compose_slices).collect();
            let new = whole.slice(&both);
            new.keep_named(self, slices);
            return new;
        }
        if slices.iter().zip(self.shape()).all(|(s, &n)| *s == SliceAxis::full(n)) {
            return self.clone();
        }
        UOp::new(Op::Slice, self.dtype(), 1, smallvec![self.clone()], Arg::Slice(slices.into()))
    }

    /// As many elements of each axis as `slices` say, from `starts` on: an index for each axis, known at launch.
    pub fn slice_from(&self, slices: &[SliceAxis], starts: impl IntoIterator<Item = UOp>) -> UOp {
        let slices = slices.iter().map(|s| SliceAxis { start: 0, ..*s }).collect();
        let srcs = std::iter::once(self.clone()).chain(starts).collect();
        UOp::new(Op::Slice, self.dtype(), 1, srcs, Arg::Slice(slices))
    }

    /// This view (a movement op or a bitcast), of `x` instead of its source.
    pub fn viewed(&self, x: &UOp) -> UOp {
        let new = match (self.op(), self.arg()) {
            (Op::Reshape, Arg::Shape(s)) => x.reshape(Shape::from_slice(s)),
            (Op::Permute, Arg::Axes(a)) => x.permute(a.clone()),
            (Op::Expand, Arg::Shape(s)) => x.expand(Shape::from_slice(s)),
            (Op::Slice, Arg::Slice(s)) => match &self.srcs()[1..] {
                [] => {
                    let new = x.slice(s);
                    if new.op() == Op::Slice && new != *x {
                        new.name_slice(x, &self.named());
                    }
                    return new;
                }
                starts => x.slice_from(s, starts.iter().cloned()),
            },
            (Op::Pad, Arg::Pad(p)) => x.pad(p),
            (Op::Window, Arg::Window(w)) => x.window(*w),
            (Op::Unwindow, Arg::Window(w)) => x.unwindow(*w),
            (Op::Bitcast, _) => x.bitcast(self.dtype()),
            (op, _) => unreachable!("{op} is no view"),
        };
        if new != *x {
            new.copy_named(self);
        }
        new
    }
}

fn compose_slices((inner, outer): (&SliceAxis, &SliceAxis)) -> SliceAxis {
    let start = inner.start as isize + outer.start as isize * inner.step;
    // an empty slice may start anywhere; keep its start inside
    let start = if outer.len == 0 { 0 } else { start as usize };
    let step = if outer.len <= 1 { 1 } else { inner.step * outer.step };
    SliceAxis { start, step, len: outer.len }
}

/// Reductions, notes, versions.
impl UOp {
    /// Tensor form: combines along `axes` (ascending) and drops them.
    pub fn reduce(&self, op: ReduceOp, axes: impl Into<Axes>) -> UOp {
        let axes = axes.into();
        if axes.is_empty() {
            return self.clone();
        }
        UOp::new(Op::Reduce, self.dtype(), 1, smallvec![self.clone()], Arg::Reduce { op, axes })
    }

    /// Kernel form: combines over `ranges`.
    pub fn reduce_ranges(&self, op: ReduceOp, ranges: impl IntoIterator<Item = UOp>) -> UOp {
        let mut srcs: Srcs = smallvec![self.clone()];
        srcs.extend(ranges);
        if srcs.len() == 1 {
            return self.clone();
        }
        UOp::new(
            Op::Reduce,
            self.dtype(),
            self.lanes(),
            srcs,
            Arg::Reduce { op, axes: Axes::new() },
        )
    }

    /// The same, going on from what has been combined so far.
    pub fn reduce_ranges_from(
        &self,
        op: ReduceOp,
        ranges: impl IntoIterator<Item = UOp>,
        initial: &UOp,
    ) -> UOp {
        self.reduce_ranges(op, ranges.into_iter().chain([initial.clone()]))
    }

    /// What a `Reduce` in kernel form goes on from, if not from nothing: what follows its ranges.
    pub fn initial(&self) -> Option<&UOp> {
        let [.., range, last] = self.srcs() else { return None };
        let has = self.op() == Op::Reduce && range.op() == Op::Range && last.op() != Op::Range;
        has.then_some(last)
    }

    /// Wants memory of its own.
    pub fn contiguous(&self) -> UOp {
        UOp::unary(Op::Contiguous, self)
    }

    /// No gradient passes.
    pub fn detach(&self) -> UOp {
        UOp::unary(Op::Detach, self)
    }

    /// The value on this device.
    pub fn on_device(&self, device: Arc<str>) -> UOp {
        UOp::new(Op::Copy, self.dtype(), 1, smallvec![self.clone()], Arg::Device(device))
    }

    /// A read of a storage, which wants a gradient; whether the gradient ends there.
    pub fn mark(&self, storage: u64, ends: bool) -> UOp {
        let arg = Arg::Mark { storage, ends };
        UOp::new(Op::Mark, self.dtype(), 1, smallvec![self.clone()], arg)
    }

    /// The row-major position of every element of a tensor of this shape. A view of these says where a view's elements
    /// are.
    pub fn positions(shape: impl Into<Shape>) -> UOp {
        let shape = shape.into();
        let n: usize = shape.iter().product();
        let dtype = if n <= i32::MAX as usize { DType::I32 } else { DType::I64 };
        UOp::iota(n, dtype).reshape(shape)
    }

    /// The version of `self` that has the elements of `value` at the positions `at`.
    pub fn update(&self, value: &UOp, at: &UOp) -> UOp {
        self.update_with(None, value, at)
    }

    /// The version of `self` in which the elements of `value` are combined with what is at the positions `at`.
    pub fn update_with(&self, op: Option<ReduceOp>, value: &UOp, at: &UOp) -> UOp {
        let srcs = smallvec![self.clone(), value.clone(), at.clone()];
        let arg = op.map_or(Arg::None, |op| Arg::Reduce { op, axes: Axes::new() });
        UOp::new(Op::Update, self.dtype(), 1, srcs, arg)
    }

    /// The elements of `self` at the positions `at`.
    pub fn gather(&self, at: &UOp) -> UOp {
        UOp::new(Op::Gather, self.dtype(), 1, smallvec![self.clone(), at.clone()], Arg::None)
    }

    /// `self` with a gradient of its own: that of each input is the expression beside it, in which `seed` stands for the
    /// gradient of `self`.
    pub fn with_vjp(&self, seed: &UOp, inputs: impl IntoIterator<Item = (UOp, UOp)>) -> UOp {
        let pairs = inputs.into_iter().flat_map(|(x, dx)| [x, dx]);
        let srcs: Srcs = [self.clone(), seed.clone()].into_iter().chain(pairs).collect();
        UOp::new(Op::Vjp, self.dtype(), 1, srcs, Arg::None)
    }

    /// `self`, a function of `inputs` with this derivative.
    pub fn with_derivative(&self, of: Derivative, inputs: impl IntoIterator<Item = UOp>) -> UOp {
        let srcs: Srcs = [self.clone()].into_iter().chain(inputs).collect();
        UOp::new(Op::Vjp, self.dtype(), 1, srcs, Arg::Derivative(of))
    }

    /// The value of `self` as a node of its own, whose users wait for the values `others`.
    pub fn remat(&self, others: impl IntoIterator<Item = UOp>) -> UOp {
        let srcs: Srcs = [self.clone()].into_iter().chain(others).collect();
        UOp::new(Op::Remat, self.dtype(), 1, srcs, Arg::None)
    }

    /// `self`, ordered after `effects`.
    pub fn after(&self, effects: impl IntoIterator<Item = UOp>) -> UOp {
        let mut srcs: Srcs = smallvec![self.clone()];
        srcs.extend(effects);
        if srcs.len() == 1 {
            return self.clone();
        }
        UOp::new(Op::After, self.dtype(), self.lanes(), srcs, self.arg().memory_arg())
    }

    /// `self`, unless `wrong`: then computing it is an error that says `text`.
    pub fn checked(&self, wrong: &UOp, text: &str) -> UOp {
        let srcs = smallvec![self.clone(), wrong.clone()];
        UOp::new(Op::After, self.dtype(), 1, srcs, Arg::Check(text.into()))
    }
}

impl Arg {
    /// `After` of memory carries what memory it is, so that users need not look through it.
    fn memory_arg(&self) -> Arg {
        match self {
            Arg::Memory { .. } => self.clone(),
            _ => Arg::None,
        }
    }
}

/// Memory and control.
impl UOp {
    /// One element of `memory` (of as many lanes as the memory's elements have).
    pub fn load(memory: &UOp, index: &UOp) -> UOp {
        UOp::load_lanes(memory, index, None, memory.lanes())
    }

    /// `lanes` consecutive elements from `index` on, or zeros where `gate` is false.
    pub fn load_lanes(memory: &UOp, index: &UOp, gate: Option<&UOp>, lanes: u16) -> UOp {
        let mut srcs: Srcs = smallvec![memory.clone(), index.clone()];
        srcs.extend(gate.filter(|g| g.as_const() != Some(Const::Bool(true))).cloned());
        UOp::new(Op::Load, memory.dtype(), lanes, srcs, Arg::None)
    }

    /// Writes `value` to `memory` from `index` on, where `gate` is true.
    pub fn store(memory: &UOp, index: &UOp, value: &UOp, gate: Option<&UOp>) -> UOp {
        let mut srcs: Srcs = smallvec![memory.clone(), index.clone(), value.clone()];
        srcs.extend(gate.filter(|g| g.as_const() != Some(Const::Bool(true))).cloned());
        UOp::new(Op::Store, DType::Void, 1, srcs, Arg::None)
    }

    /// Closes `ranges` after the effect `self`.
    pub fn end(&self, ranges: impl IntoIterator<Item = UOp>) -> UOp {
        let mut srcs: Srcs = smallvec![self.clone()];
        srcs.extend(ranges);
        if srcs.len() == 1 {
            return self.clone();
        }
        UOp::new(Op::End, DType::Void, 1, srcs, Arg::None)
    }

    /// The root that holds `roots` together.
    pub fn sink(roots: impl IntoIterator<Item = UOp>) -> UOp {
        UOp::new(Op::Sink, DType::Void, 1, roots.into_iter().collect(), Arg::None)
    }

    /// The root of a named kernel.
    pub fn kernel(effects: impl IntoIterator<Item = UOp>, name: &str) -> UOp {
        let arg = Arg::Kernel { name: name.into() };
        UOp::new(Op::Sink, DType::Void, 1, effects.into_iter().collect(), arg)
    }

    /// The predicate of a load or a store: without it, every iteration accesses memory.
    pub fn gate(&self) -> Option<&UOp> {
        self.srcs().get(self.gate_source())
    }

    /// The conditions that a predicate is the "and" of.
    pub fn conjuncts(&self) -> Vec<UOp> {
        let (mut parts, mut stack) = (Vec::new(), vec![self.clone()]);
        while let Some(part) = stack.pop() {
            match (part.op(), part.arg()) {
                (Op::And | Op::Mul, Arg::None) => stack.extend(part.srcs().iter().cloned()),
                _ => parts.push(part),
            }
        }
        parts
    }

    /// Which source of a load or a store is its predicate, if it has one.
    pub fn gate_source(&self) -> usize {
        match self.op() {
            Op::Load => 2,
            Op::Store => 3,
            op => panic!("{op} has no predicate"),
        }
    }

    /// The memory that a load, a store or an `After` is about: a `Param` or a `Local`.
    pub fn memory(&self) -> &UOp {
        let mut node = self;
        while matches!(node.op(), Op::After | Op::Load | Op::Store | Op::Prefetch) {
            node = node.src(0);
        }
        node
    }

    /// A hint that the element `ahead` after `index` will be read.
    pub fn prefetch(memory: &UOp, index: &UOp, ahead: usize) -> UOp {
        let srcs = Srcs::from([memory.clone(), index.clone()].as_slice());
        UOp::new(Op::Prefetch, DType::Void, 1, srcs, Arg::Prefetch(ahead))
    }

    /// Whether that memory is registers, whose elements have no neighbours.
    pub fn is_in_registers(&self) -> bool {
        self.memory().arg().memory().is_some_and(|(space, ..)| space == Space::Register)
    }
}

/// Vectors.
impl UOp {
    /// The scalar in each of `lanes` lanes; a vector of that width is itself.
    pub fn splat(&self, lanes: u16) -> UOp {
        if self.lanes() == lanes {
            return self.clone();
        }
        debug_assert_eq!(self.lanes(), 1, "only scalars splat");
        UOp::new(Op::Splat, self.dtype(), lanes, smallvec![self.clone()], Arg::None)
    }

    fn into_lanes(self, lanes: u16) -> UOp {
        if self.lanes() == lanes { self } else { self.splat(lanes) }
    }

    /// A vector from scalars; equal ones are a splat.
    pub fn stack(lanes: Srcs) -> UOp {
        let n = lanes.len() as u16;
        if lanes.iter().all(|l| *l == lanes[0]) {
            return lanes[0].splat(n);
        }
        UOp::new(Op::Stack, lanes[0].dtype(), n, lanes, Arg::None)
    }

    /// Lane `i`.
    pub fn lane(&self, i: u16) -> UOp {
        match self.op() {
            _ if self.lanes() == 1 => self.clone(),
            Op::Splat => self.src(0).clone(),
            Op::Stack => self.src(i as usize).clone(),
            _ => UOp::new(Op::Lane, self.dtype(), 1, smallvec![self.clone()], Arg::Lane(i)),
        }
    }

    /// The value that another item of the subgroup has: its number differs from the own one in the bits of `mask`.
    pub fn shuffle(&self, mask: u16) -> UOp {
        let arg = Arg::Mask(mask);
        UOp::new(Op::Shuffle, self.dtype(), self.lanes(), smallvec![self.clone()], arg)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => { $(
        impl std::ops::$trait<&UOp> for &UOp {
            type Output = UOp;
            fn $method(self, b: &UOp) -> UOp { UOp::binary(Op::$op, self, b) }
        }
        impl std::ops::$trait<UOp> for &UOp {
            type Output = UOp;
            fn $method(self, b: UOp) -> UOp { UOp::binary(Op::$op, self, &b) }
        }
        impl std::ops::$trait<&UOp> for UOp {
            type Output = UOp;
            fn $method(self, b: &UOp) -> UOp { UOp::binary(Op::$op, &self, b) }
        }
        impl std::ops::$trait<UOp> for UOp {
            type Output = UOp;
            fn $method(self, b: UOp) -> UOp { UOp::binary(Op::$op, &self, &b) }
        }
        impl std::ops::$trait<i64> for &UOp {
            type Output = UOp;
            fn $method(self, b: i64) -> UOp { UOp::binary(Op::$op, self, &self.const_like(b)) }
        }
        impl std::ops::$trait<i64> for UOp {
            type Output = UOp;
            fn $method(self, b: i64) -> UOp { UOp::binary(Op::$op, &self, &self.const_like(b)) }
        }
    )* };
}
// `/` and `%` are not here: a division says whether it is a float's or rounds down.
operators!(Add add Add, Sub sub Sub, Mul mul Mul, BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor);

impl std::ops::Neg for &UOp {
    type Output = UOp;
    fn neg(self) -> UOp {
        UOp::unary(Op::Neg, self)
    }
}
