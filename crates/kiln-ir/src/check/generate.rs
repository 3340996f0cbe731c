//! Random graphs that match a left side.

use crate::arg::RangeKind;
use crate::dtype::{Const, DType};
use crate::op::{Group, Op};
use crate::pattern::{ALL_OPS, Pat, Sources, Value, dtype_bit};
use crate::uop::{Srcs, UOp};

/// A repeatable source of choices.
pub(super) struct Random(u64);

impl Random {
    /// The same choices for the same rule, so that a failure can be looked at again.
    pub(super) fn new(name: &str) -> Random {
        Random(name.bytes().fold(0x9e37_79b9, |h, b| h.wrapping_mul(0x100_0193) ^ b as u64))
    }

    /// The next of a splitmix64 sequence.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[(self.next() % of.len() as u64) as usize]
    }

    /// A number in `lo..=hi`, often an end.
    pub(super) fn between(&mut self, lo: i64, hi: i64) -> i64 {
        match self.next() % 6 {
            0 => lo,
            1 => hi,
            _ => (lo as i128 + (self.next() as i128) % (hi as i128 - lo as i128 + 1)) as i64,
        }
    }

    /// A value of an integer type or bool in `lo..=hi`, often a small one.
    pub(super) fn integer(&mut self, dtype: DType, lo: i64, hi: i64) -> Const {
        let small = self.between(lo.max(-9), hi.min(9).max(lo.max(-9)));
        let value = if self.one_in(2) { small.clamp(lo, hi) } else { self.between(lo, hi) };
        if dtype == DType::U64 && hi == i64::MAX && self.one_in(6) {
            return Const::UInt(u64::MAX - self.next() % 3);
        }
        Const::Int(value).cast(dtype)
    }

    /// A float: a special one, a simple one or any.
    pub(super) fn float(&mut self, dtype: DType) -> Const {
        const SIMPLE: [f64; 12] =
            [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -7.25, 0.1, 1e-40, f64::INFINITY, f64::NAN];
        let value = match self.next() % 4 {
            0 => f64::from_bits(self.next()),
            1 => self.between(-1000, 1000) as f64 / 7.0,
            _ => self.pick(&SIMPLE),
        };
        Const::Float(value).cast(dtype)
    }

    /// A constant as rules meet them.
    fn constant(&mut self, dtype: DType) -> UOp {
        const SMALL: [i64; 14] = [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, -1, -2, -3, -8];
        let (lo, hi) = dtype.int_bounds();
        let value = match self.next() % 8 {
            _ if dtype.is_float() => self.float(dtype),
            0 if dtype != DType::Index => self.integer(dtype, lo, hi),
            _ => Const::Int(self.pick(&SMALL)).cast(dtype),
        };
        UOp::constant(value, dtype)
    }
}

/// Whether the pattern describes scalars only, which can be evaluated.
pub(super) fn is_scalar(pat: &Pat) -> bool {
    let own = pat.arg.is_none()
        && (pat.is_constant() || pat.ops == Op::Range.bit() || !choices(pat).is_empty());
    own && pat.src_pats().iter().all(is_scalar)
}

/// The elementwise ops that the pattern admits.
fn choices(pat: &Pat) -> Vec<Op> {
    Op::ALL.iter().copied().filter(|op| op.is_elementwise() && pat.ops & op.bit() != 0).collect()
}

fn arity(op: Op) -> usize {
    match op.group() {
        Group::Unary | Group::Convert => 1,
        Group::Binary => 2,
        Group::Ternary => 3,
        group => unreachable!("{op} of {group:?} is not elementwise"),
    }
}

/// Dtypes that differ from place to place, by number; equal ones are joined.
#[derive(Default)]
struct Classes {
    parent: Vec<usize>,
    dtypes: Vec<u32>,
}

impl Classes {
    fn new_class(&mut self, dtypes: u32) -> usize {
        self.parent.push(self.parent.len());
        self.dtypes.push(dtypes);
        self.parent.len() - 1
    }

    fn find(&self, mut class: usize) -> usize {
        while self.parent[class] != class {
            class = self.parent[class];
        }
        class
    }

    fn restrict(&mut self, class: usize, dtypes: u32) {
        let class = self.find(class);
        self.dtypes[class] &= dtypes;
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.parent[b] = a;
        self.dtypes[a] &= self.dtypes[b];
    }
}

fn dtypes_where(admits: impl Fn(DType) -> bool) -> u32 {
    let all = DType::STORAGE.into_iter().chain([DType::Index]);
    all.filter(|&d| admits(d)).fold(0, |set, d| set | dtype_bit(d))
}

/// The operand types on which an op has a meaning.
fn operands(op: Op) -> u32 {
    match op {
        Op::Div | Op::Sqrt | Op::Trunc | Op::MulAdd => dtypes_where(DType::is_float),
        _ if op.is_transcendental() => dtypes_where(DType::is_float),
        Op::TruncDiv | Op::TruncMod | Op::Shl | Op::Shr => dtypes_where(DType::is_int),
        Op::And | Op::Or | Op::Xor | Op::Not => dtypes_where(|d| !d.is_float()),
        Op::Sub | Op::Neg | Op::FloorDiv | Op::FloorMod => dtypes_where(|d| d != DType::Bool),
        // what is left is defined on everything, or not elementwise
        _ => dtypes_where(|_| true),
    }
}

/// A pattern with one op for each node, and the class of each node's dtype.
struct Choice {
    class: usize,
    op: Option<Op>,
    var: Option<u8>,
    value: Value,
    srcs: Vec<Choice>,
}

/// Makes one graph.
pub(super) struct Generator<'a> {
    random: &'a mut Random,
    classes: Classes,
    /// Classes, then nodes, of variables.
    var_class: [Option<usize>; 16],
    var_node: [Option<UOp>; 16],
    /// Leaves to use again, so that terms cancel and bounds meet.
    leaves: Vec<UOp>,
    lanes: u16,
}

impl<'a> Generator<'a> {
    pub(super) fn new(random: &'a mut Random) -> Generator<'a> {
        let lanes = if random.one_in(8) { 4 } else { 1 };
        Generator {
            random,
            classes: Classes::default(),
            var_class: [None; 16],
            var_node: Default::default(),
            leaves: Vec::new(),
            lanes,
        }
    }

    /// A graph that `pat` describes; `None` where the choices made contradict one another.
    pub(super) fn instance(mut self, pat: &Pat) -> Option<UOp> {
        let choice = self.choose(pat);
        let mut dtypes = vec![None; self.classes.parent.len()];
        for (class, dtype) in dtypes.iter_mut().enumerate() {
            let set = self.classes.dtypes[class];
            let all = DType::STORAGE.into_iter().chain([DType::Index]);
            let admitted: Vec<DType> = all.filter(|&d| set & dtype_bit(d) != 0).collect();
            if self.classes.find(class) == class {
                *dtype = Some(*admitted.get(self.random.next() as usize % admitted.len().max(1))?);
            }
        }
        self.build(&choice, &dtypes)
    }

    /// Chooses an op for each node and joins the classes of what must have one dtype. Recursion here and below is as
    /// deep as a rule's left side.
    fn choose(&mut self, pat: &Pat) -> Choice {
        let known = pat.var.and_then(|v| self.var_class[v as usize]);
        let class = known.unwrap_or_else(|| self.classes.new_class(dtypes_where(|_| true)));
        self.classes.restrict(class, pat.dtypes & literal_dtypes(pat.value));
        if let Some(var) = pat.var {
            self.var_class[var as usize] = Some(class);
        }
        let op = if pat.ops == Op::Range.bit() {
            self.classes.restrict(class, dtype_bit(DType::Index));
            Some(Op::Range)
        } else if pat.is_constant() || pat.ops == ALL_OPS {
            None
        } else {
            let choices = choices(pat);
            let fits = |op: &Op| match &pat.srcs {
                Sources::Any => true,
                Sources::Exactly(srcs) => srcs.len() == arity(*op),
                Sources::First(srcs) => srcs.len() <= arity(*op),
            };
            let choices: Vec<Op> = choices.into_iter().filter(fits).collect();
            (known.is_none() && !choices.is_empty()).then(|| self.random.pick(&choices))
        };
        let srcs = match op {
            None | Some(Op::Range) => Vec::new(),
            Some(op) => self.sources(op, class, pat),
        };
        Choice { class, op, var: pat.var, value: pat.value, srcs }
    }

    fn sources(&mut self, op: Op, class: usize, pat: &Pat) -> Vec<Choice> {
        let any = Pat::any();
        let pats = pat.src_pats().iter().chain(std::iter::repeat(&any));
        let srcs: Vec<Choice> = pats.take(arity(op)).map(|src| self.choose(src)).collect();
        let mut operand = srcs.iter().map(|s| s.class);
        match op {
            Op::Cast | Op::Bitcast => {}
            Op::Where => {
                let condition = operand.next().expect("where has three sources");
                self.classes.restrict(condition, dtype_bit(DType::Bool));
                operand.for_each(|s| self.classes.join(class, s));
            }
            _ if op.is_comparison() => {
                self.classes.restrict(class, dtype_bit(DType::Bool));
                self.classes.join(srcs[0].class, srcs[1].class);
            }
            _ => {
                self.classes.restrict(class, operands(op));
                operand.for_each(|s| self.classes.join(class, s));
            }
        }
        srcs
    }

    fn build(&mut self, choice: &Choice, dtypes: &[Option<DType>]) -> Option<UOp> {
        if let Some(node) = choice.var.and_then(|v| self.var_node[v as usize].clone()) {
            return Some(node);
        }
        let dtype = dtypes[self.classes.find(choice.class)].expect("each class has a dtype");
        let node = match (choice.value, choice.op) {
            (Value::Int(i), _) => UOp::constant(i, dtype).splat(self.lanes),
            (Value::Is(c), _) => UOp::constant(c, dtype).splat(self.lanes),
            (Value::Constant, _) => self.random.constant(dtype).splat(self.lanes),
            (Value::Any, None) => self.term(dtype, 2).splat(self.lanes),
            (Value::Any, Some(Op::Range)) => self.range(),
            (Value::Any, Some(op)) => {
                let srcs: Option<Srcs> =
                    choice.srcs.iter().map(|s| self.build(s, dtypes)).collect();
                combine(op, dtype, &srcs?)?
            }
        };
        if let Some(var) = choice.var {
            self.var_node[var as usize] = Some(node.clone());
        }
        Some(node)
    }

    /// A small random expression of scalars, nested `depth` times at most.
    fn term(&mut self, dtype: DType, depth: u32) -> UOp {
        match self.random.next() % 8 {
            0 => self.random.constant(dtype),
            1..=3 if depth > 0 => self.compound(dtype, depth - 1),
            _ => self.leaf(dtype),
        }
    }

    fn compound(&mut self, dtype: DType, depth: u32) -> UOp {
        let a = self.term(dtype, depth);
        let c = self.random.constant(dtype);
        if dtype == DType::Bool {
            let of = self.random.pick(&[DType::Index, DType::I32, DType::F32]);
            return self.term(of, depth).lt(&self.random.constant(of));
        }
        if dtype.is_float() {
            let b = self.term(dtype, depth);
            let op = self.random.pick(&[Op::Add, Op::Mul, Op::Max, Op::Sub]);
            return UOp::binary(op, &a, &b);
        }
        match self.random.next() % 8 {
            0 => a.floordiv(&c),
            1 => a.floormod(&c),
            2 => UOp::binary(self.random.pick(&[Op::Max, Op::Min]), &a, &c),
            3 => a * c,
            4 => a + c,
            5 => -&a,
            _ => a * c + self.leaf(dtype),
        }
    }

    fn leaf(&mut self, dtype: DType) -> UOp {
        let known: Vec<usize> =
            (0..self.leaves.len()).filter(|&i| self.leaves[i].dtype() == dtype).collect();
        if !known.is_empty() && self.random.one_in(3) {
            return self.leaves[self.random.pick(&known)].clone();
        }
        if dtype == DType::Index && self.random.one_in(3) {
            return self.range();
        }
        let (lo, hi) = self.bounds(dtype);
        let leaf = UOp::var(self.leaves.len(), dtype, lo, hi);
        self.leaves.push(leaf.clone());
        leaf
    }

    fn range(&mut self) -> UOp {
        let size = self.random.pick(&[1, 2, 3, 4, 5, 8, 12, 16]);
        let range = UOp::range(self.leaves.len() as u32, RangeKind::Loop, size);
        self.leaves.push(range.clone());
        range
    }

    fn bounds(&mut self, dtype: DType) -> (i64, i64) {
        let (lo, hi) = dtype.int_bounds();
        if dtype.is_float()
            || dtype == DType::Bool
            || (dtype != DType::Index && self.random.one_in(2))
        {
            return (lo, hi);
        }
        let from = if self.random.one_in(2) { 0 } else { self.random.between(-20, 20) };
        let from = from.max(lo);
        (from, (from + self.random.between(0, 40)).min(hi))
    }
}

/// The dtypes that have a constant like this.
fn literal_dtypes(value: Value) -> u32 {
    match value {
        Value::Any | Value::Constant => dtypes_where(|_| true),
        Value::Int(i) => dtypes_where(|d| Const::Int(i).cast(d).as_f64() == i as f64),
        Value::Is(Const::Bool(_)) => dtype_bit(DType::Bool),
        Value::Is(Const::Int(_)) => dtypes_where(DType::is_signed),
        Value::Is(Const::UInt(_)) => dtypes_where(DType::is_unsigned),
        Value::Is(Const::Float(_)) => dtypes_where(DType::is_float),
    }
}

/// The node that a constructor makes of these.
fn combine(op: Op, dtype: DType, srcs: &[UOp]) -> Option<UOp> {
    Some(match (op, srcs) {
        (Op::Cast, [x]) => x.cast(dtype),
        (Op::Bitcast, [x]) if x.dtype().size() != dtype.size() => return None,
        (Op::Bitcast, [x]) => x.bitcast(dtype),
        (_, [x]) => UOp::unary(op, x),
        (_, [a, b]) => UOp::binary(op, a, b),
        (_, [a, b, c]) => UOp::ternary(op, a, b, c),
        _ => return None,
    })
}
