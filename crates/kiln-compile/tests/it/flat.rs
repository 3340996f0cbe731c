//! Runs a decomposed scalar expression over many inputs, fast: one loop per op over a block of values.
//!
//! Values are kept as bits in u64, whatever their type. Only what decompositions are made of is here.

use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp, eval};

type Loop = fn(&[&[u64]], &mut [u64]);

/// An expression over one variable as a list of loops over registers.
pub(crate) struct Flat {
    steps: Vec<(Loop, Vec<usize>)>,
    constants: Vec<Option<u64>>,
}

impl Flat {
    /// The program of `root`, in which every `Var` is the input.
    pub(crate) fn new(root: &UOp) -> Flat {
        let order = toposort(root);
        let at = |x: &UOp| order.iter().position(|y| y == x).expect("sources come first");
        let steps = order.iter().map(|n| (pick(n), n.srcs().iter().map(at).collect())).collect();
        let bits = |n: &UOp| n.as_const().map(|c| eval::to_bits(c, n.dtype()));
        Flat { steps, constants: order.iter().map(bits).collect() }
    }

    /// The results for a block of inputs.
    pub(crate) fn run(&self, input: &[u64]) -> Vec<u64> {
        let mut registers: Vec<Vec<u64>> = Vec::with_capacity(self.steps.len());
        for ((step, srcs), constant) in self.steps.iter().zip(&self.constants) {
            let mut out = match constant {
                Some(bits) => vec![*bits; input.len()],
                None if srcs.is_empty() => input.to_vec(),
                None => vec![0; input.len()],
            };
            let operands: Vec<&[u64]> = srcs.iter().map(|&s| registers[s].as_slice()).collect();
            step(&operands, &mut out);
            registers.push(out);
        }
        registers.pop().expect("a root")
    }
}

trait Bits: Copy {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! bits {
    (ints $($t:ty as $u:ty),*; floats $($f:ty as $w:ty),*) => {
        $(impl Bits for $t {
            fn of(bits: u64) -> $t { bits as $t }
            fn bits(self) -> u64 { self as $u as u64 }
        })*
        $(impl Bits for $f {
            fn of(bits: u64) -> $f { <$f>::from_bits(bits as $w) }
            fn bits(self) -> u64 { self.to_bits() as u64 }
        })*
    };
}
bits!(ints i32 as u32, i64 as u64, u16 as u16, u32 as u32, u64 as u64; floats f32 as u32, f64 as u64);

impl Bits for bool {
    fn of(bits: u64) -> bool {
        bits != 0
    }
    fn bits(self) -> u64 {
        self as u64
    }
}

macro_rules! unary {
    ($a:ident : $t:ty => $e:expr) => {
        |s, out| {
            out.iter_mut().zip(s[0]).for_each(|(o, &a)| {
                let $a = <$t>::of(a);
                *o = Bits::bits($e);
            })
        }
    };
}

macro_rules! binary {
    ($a:ident, $b:ident : $t:ty => $e:expr) => {
        |s, out| {
            out.iter_mut().zip(s[0].iter().zip(s[1])).for_each(|(o, (&a, &b))| {
                let ($a, $b) = (<$t>::of(a), <$t>::of(b));
                *o = Bits::bits($e);
            })
        }
    };
}

macro_rules! ternary {
    ($a:ident, $b:ident, $c:ident : $t:ty => $e:expr) => {
        |s, out| {
            out.iter_mut().zip(s[0].iter().zip(s[1]).zip(s[2])).for_each(|(o, ((&a, &b), &c))| {
                let ($a, $b, $c) = (<$t>::of(a), <$t>::of(b), <$t>::of(c));
                *o = Bits::bits($e);
            })
        }
    };
}

fn pick(node: &UOp) -> Loop {
    let from = node.srcs().first().map_or(DType::Void, UOp::dtype);
    match (node.op(), from) {
        (Op::Const | Op::Var, _) => |_, _| (),
        (Op::Where, _) => |s, out| {
            for (i, o) in out.iter_mut().enumerate() {
                *o = if s[0][i] != 0 { s[1][i] } else { s[2][i] };
            }
        },
        (Op::Bitcast, _) => unary!(a: u64 => a),
        (Op::Cast, _) => cast(from, node.dtype()),
        (Op::MulAdd, DType::F32) => ternary!(a, b, c: f32 => a.mul_add(b, c)),
        (Op::MulAdd, DType::F64) => ternary!(a, b, c: f64 => a.mul_add(b, c)),
        (op, DType::F32) => float32(op),
        (op, DType::F64) => float64(op),
        (op, DType::I32) => int32(op),
        (op, DType::I64) => int64(op),
        (op, DType::U32) => uint32(op),
        (op, DType::U64) => uint64(op),
        (Op::Or, DType::Bool) => binary!(a, b: bool => a | b),
        (Op::And, DType::Bool) => binary!(a, b: bool => a & b),
        (Op::Not, DType::Bool) => unary!(a: bool => !a),
        (op, dtype) => panic!("{op} of {dtype}"),
    }
}

fn cast(from: DType, to: DType) -> Loop {
    use DType::*;
    match (from, to) {
        (Bool, _) | (U32, U64) | (U16, U32) => unary!(a: u64 => a),
        (U32, U16) => unary!(a: u32 => a as u16),
        (F32, F64) => unary!(a: f32 => a as f64),
        (F64, F32) => unary!(a: f64 => a as f32),
        (U64, F64) => unary!(a: u64 => a as f64),
        _ => panic!("cast from {from} to {to}"),
    }
}

macro_rules! floats {
    ($name:ident $t:ty) => {
        fn $name(op: Op) -> Loop {
            match op {
                Op::Neg => unary!(a: $t => -a),
                Op::Trunc => unary!(a: $t => a.trunc()),
                Op::Add => binary!(a, b: $t => a + b),
                Op::Sub => binary!(a, b: $t => a - b),
                Op::Mul => binary!(a, b: $t => a * b),
                Op::Div => binary!(a, b: $t => a / b),
                Op::Max => binary!(a, b: $t => if a < b || b.is_nan() { b } else { a }),
                Op::Min => binary!(a, b: $t => if b < a || b.is_nan() { b } else { a }),
                Op::CmpLt => binary!(a, b: $t => a < b),
                Op::CmpEq => binary!(a, b: $t => a == b),
                Op::CmpNe => binary!(a, b: $t => a != b),
                _ => panic!("{op} of floats"),
            }
        }
    };
}
floats!(float32 f32);
floats!(float64 f64);

macro_rules! integers {
    ($name:ident $t:ty) => {
        fn $name(op: Op) -> Loop {
            match op {
                Op::Add => binary!(a, b: $t => a.wrapping_add(b)),
                Op::Sub => binary!(a, b: $t => a.wrapping_sub(b)),
                Op::Mul => binary!(a, b: $t => a.wrapping_mul(b)),
                Op::Shl => binary!(a, b: $t => a.wrapping_shl(b as u32)),
                Op::Shr => binary!(a, b: $t => a.wrapping_shr(b as u32)),
                Op::And => binary!(a, b: $t => a & b),
                Op::Or => binary!(a, b: $t => a | b),
                Op::Xor => binary!(a, b: $t => a ^ b),
                Op::CmpLt => binary!(a, b: $t => a < b),
                Op::CmpEq => binary!(a, b: $t => a == b),
                Op::CmpNe => binary!(a, b: $t => a != b),
                _ => panic!("{op} of integers"),
            }
        }
    };
}
integers!(int32 i32);
integers!(int64 i64);
integers!(uint32 u32);
integers!(uint64 u64);
