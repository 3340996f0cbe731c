//! Patterns: the left sides of rules, built with the operators and method names of [`UOp`](crate::UOp).
//!
//! A pattern is a value, so it can be printed, checked and compiled. A literal matches a constant of any dtype that
//! has exactly that value (`-0.0` is not `0`); a variable that occurs twice matches one node twice. A vector whose
//! lanes all hold one constant counts as that constant. Where an op commutes and neither operand must be a constant,
//! both orders are tried: constructors only promise that constants stand on the right.

use crate::arg::Arg;
use crate::dtype::{Const, DType};
use crate::op::Op;
use std::fmt;

/// A set of ops, one bit each.
pub(crate) const ALL_OPS: u128 = u128::MAX;

/// A set of dtypes, one bit each.
pub(crate) const ALL_DTYPES: u32 = u32::MAX;

/// What a variable may stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Any node.
    Any,
    /// A constant of any dtype.
    Const,
    /// An integer (`Index` included, bool excluded).
    Int,
    /// Exact index arithmetic.
    Index,
    /// A float.
    Float,
    /// A bool.
    Bool,
    /// An integer or bool.
    NonFloat,
    /// A constant integer (`Index` included).
    IntConst,
    /// A constant index.
    IndexConst,
    /// A constant float.
    FloatConst,
    /// A loop variable.
    Range,
}

impl Kind {
    fn dtypes(self) -> u32 {
        let admits = |d: DType| match self {
            Kind::Any | Kind::Const | Kind::Range => true,
            Kind::Int | Kind::IntConst => d.is_int(),
            Kind::Index | Kind::IndexConst => d == DType::Index,
            Kind::Float | Kind::FloatConst => d.is_float(),
            Kind::Bool => d == DType::Bool,
            Kind::NonFloat => d.is_int() || d == DType::Bool,
        };
        let all = DType::STORAGE.into_iter().chain(DType::FP8).chain([DType::Index, DType::Void]);
        all.filter(|&d| admits(d)).fold(0, |set, d| set | dtype_bit(d))
    }

    fn value(self) -> Value {
        match self {
            Kind::Const | Kind::IntConst | Kind::IndexConst | Kind::FloatConst => Value::Constant,
            Kind::Any | Kind::Int | Kind::Index | Kind::Float => Value::Any,
            Kind::Bool | Kind::NonFloat | Kind::Range => Value::Any,
        }
    }
}

/// The bit of a dtype in a set.
pub(crate) const fn dtype_bit(dtype: DType) -> u32 {
    1 << dtype as u32
}

/// What a pattern says about the node's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    Any,
    /// Some constant.
    Constant,
    /// The integer or bool constant with this value, or the float that equals it bit for bit.
    Int(i64),
    /// Exactly this constant.
    Is(Const),
}

/// What a pattern says about the node's sources.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Sources {
    Any,
    /// These and no more.
    Exactly(Vec<Pat>),
    /// These, then any others.
    First(Vec<Pat>),
}

/// A pattern for a node and what is below it.
#[derive(Clone, PartialEq, Debug)]
pub struct Pat {
    pub(crate) ops: u128,
    pub(crate) dtypes: u32,
    pub(crate) value: Value,
    pub(crate) arg: Option<Arg>,
    pub(crate) var: Option<u8>,
    pub(crate) srcs: Sources,
}

/// Hands out the variables of one rule, in order.
#[derive(Default)]
pub struct Vars {
    names: Vec<&'static str>,
}

impl Vars {
    /// A new variable, matching any node.
    pub fn next(&mut self, name: &'static str) -> Pat {
        self.names.push(name);
        Pat { var: Some(self.names.len() as u8 - 1), ..Pat::any() }
    }

    /// The names so far; a variable's number is its place.
    pub fn names(&self) -> &[&'static str] {
        &self.names
    }
}

impl Pat {
    /// Matches every node.
    pub fn any() -> Pat {
        Pat {
            ops: ALL_OPS,
            dtypes: ALL_DTYPES,
            value: Value::Any,
            arg: None,
            var: None,
            srcs: Sources::Any,
        }
    }

    fn literal(value: Value) -> Pat {
        Pat { value, ops: Op::Const.bit() | Op::Splat.bit(), ..Pat::any() }
    }

    /// A node of this op with exactly these sources.
    pub fn op<S: Into<Pat>>(op: Op, srcs: impl IntoIterator<Item = S>) -> Pat {
        let srcs = srcs.into_iter().map(Into::into).collect();
        Pat { ops: op.bit(), srcs: Sources::Exactly(srcs), ..Pat::any() }
    }

    /// A node of this op that begins with these sources and may have more.
    pub fn leading<S: Into<Pat>>(op: Op, srcs: impl IntoIterator<Item = S>) -> Pat {
        let srcs = srcs.into_iter().map(Into::into).collect();
        Pat { ops: op.bit(), srcs: Sources::First(srcs), ..Pat::any() }
    }

    /// An elementwise op of one operand.
    pub fn unary(op: Op, x: impl Into<Pat>) -> Pat {
        Pat::op(op, [x.into()])
    }

    /// An elementwise op of two operands.
    pub fn binary(op: Op, a: impl Into<Pat>, b: impl Into<Pat>) -> Pat {
        Pat::op(op, [a.into(), b.into()])
    }

    /// An elementwise op of three operands.
    pub fn ternary(op: Op, a: impl Into<Pat>, b: impl Into<Pat>, c: impl Into<Pat>) -> Pat {
        Pat::op(op, [a.into(), b.into(), c.into()])
    }

    /// This variable for a node that `pat` matches: gives a name to something inside a left side, or to all of it.
    pub fn bind(&self, pat: impl Into<Pat>) -> Pat {
        let pat = pat.into();
        let dtypes = pat.dtypes & self.dtypes;
        Pat { var: self.var, ops: pat.ops & self.ops, dtypes, ..pat }
    }

    /// A node of one of these ops whose first source this is.
    pub fn first_of(&self, ops: &[Op]) -> Pat {
        Pat { srcs: Sources::First(vec![self.clone()]), ..Pat::any() }.on(ops)
    }

    /// The same pattern, for nodes of one of these ops only.
    pub fn on(&self, ops: &[Op]) -> Pat {
        let set = ops.iter().fold(0, |set, op| set | op.bit());
        Pat { ops: self.ops & set, ..self.clone() }
    }

    /// The same pattern, for nodes of this dtype only.
    pub fn of(&self, dtype: DType) -> Pat {
        Pat { dtypes: self.dtypes & dtype_bit(dtype), ..self.clone() }
    }

    /// The same pattern, for nodes that carry exactly this.
    pub fn arg(&self, arg: Arg) -> Pat {
        Pat { arg: Some(arg), ..self.clone() }
    }

    /// The same pattern, for nodes of this kind only.
    pub fn only(mut self, kind: Kind) -> Pat {
        self.dtypes &= kind.dtypes();
        if kind.value() == Value::Constant {
            self.value = Value::Constant;
            self.ops &= Op::Const.bit() | Op::Splat.bit();
        }
        if kind == Kind::Range {
            self.ops &= Op::Range.bit();
        }
        self
    }

    /// Whether only constants match.
    pub(crate) fn is_constant(&self) -> bool {
        self.value != Value::Any
    }

    /// What is known of the sources, in order.
    pub(crate) fn src_pats(&self) -> &[Pat] {
        match &self.srcs {
            Sources::Any => &[],
            Sources::Exactly(srcs) | Sources::First(srcs) => srcs,
        }
    }

    /// The op, if only one can match (a constant vector counts as `Const`).
    pub(crate) fn single_op(&self) -> Option<Op> {
        if self.is_constant() {
            return Some(Op::Const);
        }
        let mut ops = Op::ALL.iter().copied().filter(|op| self.ops & op.bit() != 0);
        ops.next().filter(|_| ops.next().is_none())
    }
}

/// The vocabulary of [`UOp`](crate::UOp).
impl Pat {
    /// `self ? a : b`.
    pub fn where_(&self, a: impl Into<Pat>, b: impl Into<Pat>) -> Pat {
        Pat::ternary(Op::Where, self, a, b)
    }

    /// A cast to this dtype.
    pub fn cast(&self, dtype: DType) -> Pat {
        self.cast_any().of(dtype)
    }

    /// A cast to any dtype.
    pub fn cast_any(&self) -> Pat {
        Pat::unary(Op::Cast, self)
    }

    /// The same bits read as any dtype.
    pub fn bitcast_any(&self) -> Pat {
        Pat::unary(Op::Bitcast, self)
    }

    /// `a < b`.
    pub fn lt(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::CmpLt, self, b)
    }

    /// `a == b`.
    pub fn eq_(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::CmpEq, self, b)
    }

    /// `a != b`.
    pub fn ne_(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::CmpNe, self, b)
    }

    /// Logical or bitwise not.
    pub fn not(&self) -> Pat {
        Pat::unary(Op::Not, self)
    }

    /// Both conditions.
    pub fn and(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::And, self, b)
    }

    /// The larger.
    pub fn maximum(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::Max, self, b)
    }

    /// The smaller.
    pub fn minimum(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::Min, self, b)
    }

    /// The integer quotient rounded down.
    pub fn floordiv(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::FloorDiv, self, b)
    }

    /// The remainder with the divisor's sign.
    pub fn floormod(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::FloorMod, self, b)
    }

    /// The IEEE quotient.
    pub fn div(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::Div, self, b)
    }

    /// `x * 2^y`.
    pub fn shl(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::Shl, self, b)
    }

    /// Shift right, filling with the sign.
    pub fn shr(&self, b: impl Into<Pat>) -> Pat {
        Pat::binary(Op::Shr, self, b)
    }
}

/// `condition ? a : b` where the condition may be a literal.
pub fn where_(condition: impl Into<Pat>, a: impl Into<Pat>, b: impl Into<Pat>) -> Pat {
    Pat::ternary(Op::Where, condition, a, b)
}

impl From<&Pat> for Pat {
    fn from(pat: &Pat) -> Pat {
        pat.clone()
    }
}
impl From<i32> for Pat {
    fn from(value: i32) -> Pat {
        Pat::literal(Value::Int(value.into()))
    }
}
impl From<i64> for Pat {
    fn from(value: i64) -> Pat {
        Pat::literal(Value::Int(value))
    }
}
impl From<bool> for Pat {
    fn from(value: bool) -> Pat {
        Pat::literal(Value::Is(Const::Bool(value)))
    }
}
impl From<f64> for Pat {
    fn from(value: f64) -> Pat {
        Pat::literal(Value::Is(Const::Float(value)))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident),*) => { $(
        impl<T: Into<Pat>> std::ops::$trait<T> for &Pat {
            type Output = Pat;
            fn $method(self, b: T) -> Pat { Pat::binary(Op::$op, self, b) }
        }
        impl<T: Into<Pat>> std::ops::$trait<T> for Pat {
            type Output = Pat;
            fn $method(self, b: T) -> Pat { Pat::binary(Op::$op, self, b) }
        }
    )* };
}
operators!(Add add Add, Sub sub Sub, Mul mul Mul, BitAnd bitand And, BitOr bitor Or, BitXor bitxor Xor);

impl std::ops::Neg for &Pat {
    type Output = Pat;
    fn neg(self) -> Pat {
        Pat::unary(Op::Neg, self)
    }
}
impl std::ops::Neg for Pat {
    type Output = Pat;
    fn neg(self) -> Pat {
        Pat::unary(Op::Neg, self)
    }
}
impl std::ops::Sub<&Pat> for i32 {
    type Output = Pat;
    fn sub(self, b: &Pat) -> Pat {
        Pat::binary(Op::Sub, self, b)
    }
}

impl fmt::Display for Pat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.single_op() {
            Some(op) if !self.is_constant() => op.name(),
            _ => "",
        };
        match (self.value, self.var) {
            (Value::Int(i), _) => return write!(f, "{i}"),
            (Value::Is(c), _) => return write!(f, "{c}"),
            (_, Some(var)) => write!(f, "${var}")?,
            (Value::Any | Value::Constant, None) if op.is_empty() => write!(f, "_")?,
            (Value::Any | Value::Constant, None) => {}
        }
        f.write_str(op)?;
        let srcs: Vec<String> = self.src_pats().iter().map(Pat::to_string).collect();
        if srcs.is_empty() { Ok(()) } else { write!(f, "({})", srcs.join(", ")) }
    }
}
