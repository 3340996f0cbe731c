//! Random graphs keep their values, and random chains of views cancel.

use kiln_ir::eval::eval;
use kiln_ir::rules::{simplify, simplify_under};
use kiln_ir::text::expr;
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp};
use std::collections::HashMap;

use crate::rules::{div, i, r, rem, reshaped};

/// A repeatable source of choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn constant(&mut self) -> i64 {
        *[1, 2, 3, 4, 6, 8, 12, -1, -2, -3, -4, 5, 7]
            .get(self.below(13) as usize)
            .expect("in table")
    }

    /// An index expression over the ranges.
    fn index(&mut self, ranges: &[UOp], depth: u32) -> UOp {
        if depth == 0 || self.below(8) == 0 {
            return ranges[self.below(ranges.len() as u64) as usize].clone();
        }
        let x = self.index(ranges, depth - 1);
        match self.below(14) {
            0..3 => x + self.index(ranges, depth - 1),
            3 => x - self.index(ranges, depth - 1),
            4 => x + self.constant(),
            5 => x * self.constant(),
            6 | 7 => div(&x, self.constant()),
            8 | 9 => rem(&x, self.constant()),
            10 => self.rejoined(&x),
            11 => x.maximum(&(self.index(ranges, depth - 1) + self.constant())),
            12 => x.minimum(&(&x + self.constant() - self.index(ranges, depth - 1))),
            _ => {
                let condition = self.condition(ranges, depth - 1);
                condition.where_(&x, &self.index(ranges, depth - 1))
            }
        }
    }

    /// A quotient and a remainder that belong together.
    fn rejoined(&mut self, x: &UOp) -> UOp {
        let (c, d) = (self.constant().abs(), self.constant().abs());
        match self.below(3) {
            0 => div(x, c) * c + rem(x, c),
            1 => rem(&div(x, c), d) * c + rem(x, c),
            _ => x - div(x, c) * c,
        }
    }

    fn condition(&mut self, ranges: &[UOp], depth: u32) -> UOp {
        let a = self.index(ranges, depth);
        match self.below(8) {
            0..3 => a.lt(&i(self.constant())),
            3 => a.lt(&self.index(ranges, depth)),
            4 => a.eq_(&i(self.constant())),
            5 => self.condition(ranges, depth).not(),
            6 => a.lt(&i(self.constant())) | self.condition(ranges, depth),
            _ => UOp::binary(Op::And, &a.lt(&i(self.constant())), &self.condition(ranges, depth)),
        }
    }
}

/// The value of a scalar graph where the leaves have these values; `None` past i64.
fn value(root: &UOp, leaves: &[(UOp, Const)]) -> Option<Const> {
    let mut values: HashMap<usize, Option<Const>> = HashMap::new();
    for node in toposort(root) {
        let leaf = leaves.iter().find(|(leaf, _)| *leaf == node);
        let value = match (leaf, node.as_const()) {
            (Some((_, value)), _) => Some(*value),
            (_, Some(c)) => Some(c),
            _ => {
                let srcs: Option<Vec<Const>> =
                    node.srcs().iter().map(|s| values[&s.id()]).collect();
                srcs.and_then(|srcs| eval(node.op(), node.dtype(), &srcs))
            }
        };
        values.insert(node.id(), value);
    }
    values[&root.id()]
}

/// Every assignment of values to three ranges.
fn assignments(ranges: &[UOp]) -> Vec<Vec<(UOp, Const)>> {
    ranges.iter().fold(vec![vec![]], |all, range| {
        let with = |a: &Vec<_>, v| [a.clone(), vec![(range.clone(), Const::Int(v))]].concat();
        all.iter().flat_map(|a| (0..=range.max()).map(move |v| with(a, v))).collect()
    })
}

fn fuzz_count() -> u64 {
    let scale = std::env::var("KILN_FUZZ").ok().and_then(|n| n.parse::<u64>().ok());
    3000 * scale.unwrap_or(1)
}

#[test]
fn random_indices_keep_their_values() {
    let mut random = Random(1);
    for case in 0..fuzz_count() {
        let sizes: Vec<usize> = (0..3).map(|_| 1 + random.below(7) as usize).collect();
        let ranges: Vec<UOp> = sizes.iter().enumerate().map(|(a, &n)| r(a as u32, n)).collect();
        let depth = 2 + random.below(3) as u32;
        let node = random.index(&ranges, depth);
        let condition = random.condition(&ranges, 2);
        let normal = simplify(&node);
        let (simple_condition, under) = (simplify(&condition), simplify_under(&condition, &normal));
        assert_eq!(simplify(&normal), normal, "case {case} is not idempotent: {}", expr(&node));
        for leaves in assignments(&ranges) {
            let expected = value(&node, &leaves);
            let at: Vec<String> = leaves.iter().map(|(_, v)| v.to_string()).collect();
            let about = || format!("case {case} at {at:?} of {sizes:?}: {}", expr(&node));
            assert_eq!(value(&normal, &leaves), expected, "{} => {}", about(), expr(&normal));
            let holds = value(&condition, &leaves);
            let both = (expr(&condition), expr(&simple_condition));
            assert_eq!(value(&simple_condition, &leaves), holds, "{both:?} at {at:?} of {sizes:?}");
            if holds == Some(Const::Bool(true)) {
                let about = format!("{} under {}: {}", about(), both.0, expr(&under));
                assert_eq!(value(&under, &leaves), expected, "{about}");
            }
        }
    }
}

/// A random shape of `n` elements.
fn random_shape(random: &mut Random, mut n: usize) -> Vec<usize> {
    let mut shape = Vec::new();
    while n > 1 {
        let divisors: Vec<usize> = (2..=n).filter(|d| n.is_multiple_of(*d)).collect();
        shape.push(divisors[random.below(divisors.len() as u64) as usize]);
        n /= shape[shape.len() - 1];
    }
    shape
}

#[test]
fn random_reshapes_cancel() {
    let mut random = Random(2);
    for case in 0..fuzz_count() / 10 {
        let n = [24, 60, 64, 72, 210, 360][random.below(6) as usize];
        let first = random_shape(&mut random, n);
        let length = 1 + random.below(4) as usize;
        let mut shapes = vec![first.clone()];
        shapes.extend((0..length).map(|_| random_shape(&mut random, n)));
        shapes.push(first.clone());
        let slices: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
        let ranges: Vec<UOp> = first.iter().enumerate().map(|(a, &n)| r(a as u32, n)).collect();
        let normal: Vec<UOp> = reshaped(&slices).iter().map(simplify).collect();
        let text: Vec<String> = normal.iter().map(expr).collect();
        assert_eq!(normal, ranges, "case {case}: {shapes:?} gives {}", text.join(", "));
    }
}

const DTYPES: [DType; 8] =
    [DType::Bool, DType::I8, DType::I32, DType::U8, DType::U64, DType::I64, DType::F16, DType::F32];

const EDGES: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    0.5,
    100.0,
    127.0,
    -128.0,
    255.0,
    1e30,
    f64::INFINITY,
    f64::NAN,
    9.2e18,
];

impl Random {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn edge(&mut self, dtype: DType) -> Const {
        let value =
            if self.below(8) == 0 { Const::Int(i64::MIN) } else { Const::Float(self.pick(&EDGES)) };
        // through i64, so that negative numbers wrap instead of saturating
        let value = if dtype.is_unsigned() { value.cast(DType::I64) } else { value };
        value.cast(dtype)
    }

    /// An expression of this dtype over variables, each of them named by its dtype.
    fn typed(&mut self, dtype: DType, depth: u32) -> UOp {
        if depth == 0 || self.below(10) == 0 {
            return match self.below(3) {
                0 => UOp::constant(self.edge(dtype), dtype),
                _ => {
                    let (lo, hi) = dtype.int_bounds();
                    UOp::var(dtype as usize * 2 + self.below(2) as usize, dtype, lo, hi)
                }
            };
        }
        let ops = match dtype {
            DType::Bool => &[
                Op::And,
                Op::Or,
                Op::Xor,
                Op::Not,
                Op::CmpLt,
                Op::CmpEq,
                Op::CmpNe,
                Op::Where,
                Op::Add,
                Op::Mul,
                Op::Max,
                Op::Cast,
            ][..],
            d if d.is_float() => &[
                Op::Add,
                Op::Sub,
                Op::Mul,
                Op::Div,
                Op::Max,
                Op::Min,
                Op::Neg,
                Op::Where,
                Op::Cast,
                Op::Sqrt,
            ],
            _ => &[
                Op::Add,
                Op::Sub,
                Op::Mul,
                Op::FloorDiv,
                Op::FloorMod,
                Op::And,
                Op::Or,
                Op::Xor,
                Op::Shl,
                Op::Shr,
                Op::Max,
                Op::Min,
                Op::Neg,
                Op::Not,
                Op::Where,
                Op::Cast,
            ],
        };
        let op = self.pick(ops);
        match op {
            Op::Cast => {
                let from = self.pick(&DTYPES);
                self.typed(from, depth - 1).cast(dtype)
            }
            Op::Where => {
                let condition = self.typed(DType::Bool, depth - 1);
                condition.where_(&self.typed(dtype, depth - 1), &self.typed(dtype, depth - 1))
            }
            Op::Neg | Op::Not | Op::Sqrt => UOp::unary(op, &self.typed(dtype, depth - 1)),
            _ => {
                let of = if op.is_comparison() { self.pick(&DTYPES) } else { dtype };
                let a = self.typed(of, depth - 1);
                let b = match self.below(6) {
                    0 => a.clone(),
                    1 | 2 => UOp::constant(self.edge(of), of),
                    _ => self.typed(of, depth - 1),
                };
                UOp::binary(op, &a, &b)
            }
        }
    }
}

#[test]
fn random_scalars_keep_their_values() {
    let mut random = Random(3);
    for case in 0..fuzz_count() * 2 {
        let dtype = random.pick(&DTYPES);
        let depth = 1 + random.below(4) as u32;
        let node = random.typed(dtype, depth);
        let normal = simplify(&node);
        assert_eq!(simplify(&normal), normal, "case {case} is not idempotent: {}", expr(&node));
        let leaves: Vec<UOp> = toposort(&node).into_iter().filter(|n| n.op() == Op::Var).collect();
        for _ in 0..12 {
            let leaves: Vec<(UOp, Const)> =
                leaves.iter().map(|l| (l.clone(), random.edge(l.dtype()))).collect();
            let expected = value(&node, &leaves);
            let at: Vec<String> = leaves.iter().map(|(l, v)| format!("{}={v}", expr(l))).collect();
            let about = format!("case {case} at {at:?}: {dtype} {}", expr(&node));
            assert_eq!(value(&normal, &leaves), expected, "{about} => {}", expr(&normal));
        }
    }
}
