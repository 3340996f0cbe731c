//! Part of pass `render`: the LLVM spelling of every operation on values. Scalars and vectors differ in their types
//! alone.

use super::facts::{cannot_wrap, shift_fits};
use super::llvm_function::Function;
use super::llvm_text::{Type, all, type_of, zero};
use kiln_ir::{DType, Op, UOp};
use std::fmt::{self, Display, Formatter};

/// Instructions of two operands, for floats, signed and unsigned integers and bool; empty where there is none.
const BINARY: &[(Op, [&str; 4])] = &[
    (Op::Add, ["fadd", "add", "add", "or"]),
    (Op::Sub, ["fsub", "sub", "sub", ""]),
    (Op::Mul, ["fmul", "mul", "mul", "and"]),
    (Op::Div, ["fdiv", "", "", ""]),
    (Op::TruncDiv, ["", "sdiv", "udiv", ""]),
    (Op::TruncMod, ["", "srem", "urem", ""]),
    (Op::Shl, ["", "shl", "shl", ""]),
    (Op::Shr, ["", "ashr", "lshr", ""]),
    (Op::And, ["", "and", "and", "and"]),
    (Op::Or, ["", "or", "or", "or"]),
    (Op::Xor, ["", "xor", "xor", "xor"]),
    (Op::Max, ["", "", "", "or"]),
    (Op::Min, ["", "", "", "and"]),
    (Op::CmpLt, ["fcmp olt", "icmp slt", "icmp ult", "icmp ult"]),
    (Op::CmpEq, ["fcmp oeq", "icmp eq", "icmp eq", "icmp eq"]),
    (Op::CmpNe, ["fcmp une", "icmp ne", "icmp ne", "icmp ne"]),
];

/// Emits `op` and returns its value.
pub(super) fn instruction(f: &mut Function<'_>, op: &UOp) -> String {
    match op.op() {
        Op::Splat => f.splat(op),
        Op::Stack => stack(f, op),
        Op::Lane => lane(f, op),
        Op::Cast => cast(f, op),
        Op::Bitcast => bitcast(f, op),
        Op::Where => select(f, op),
        Op::Neg | Op::Not => negate(f, op),
        Op::Sqrt | Op::Trunc | Op::MulAdd => intrinsic(f, op),
        Op::Dot => dot(f, op),
        Op::Max | Op::Min if op.dtype() != DType::Bool => extremum(f, op),
        Op::Shl | Op::Shr if !shift_fits(op) => shift(f, op),
        Op::And if op.dtype() == DType::Bool && op.lanes() > 1 => mask(f, op),
        _ => binary(f, op),
    }
}

fn stack(f: &mut Function<'_>, op: &UOp) -> String {
    if let Some(vectors) = picked_from(op) {
        return picked(f, op, vectors);
    }
    let (of, element) = (type_of(op.dtype(), op.lanes()), type_of(op.dtype(), 1));
    let mut vector = "poison".to_string();
    for (i, src) in op.srcs().iter().enumerate() {
        let scalar = f.value(src);
        vector = f.emit(format_args!("insertelement {of} {vector}, {element} {scalar}, i32 {i}"));
    }
    vector
}

/// The vectors that all scalars of a stack are lanes of: one, or two of the same size.
fn picked_from(stack: &UOp) -> Option<[&UOp; 2]> {
    if !stack.srcs().iter().all(|src| src.op() == Op::Lane) {
        return None;
    }
    let first = stack.srcs().first()?.src(0);
    let others = || stack.srcs().iter().map(|src| src.src(0)).filter(|v| *v != first);
    let second = others().next().unwrap_or(first);
    (second.lanes() == first.lanes() && others().all(|v| v == second)).then_some([first, second])
}

/// Lanes of one or two vectors, in one instruction.
fn picked(f: &mut Function<'_>, op: &UOp, [first, second]: [&UOp; 2]) -> String {
    let number = |src: &UOp| {
        let i = src.arg().lane().expect("a lane's number");
        format!("i32 {}", if src.src(0) == first { i } else { first.lanes() + i })
    };
    let numbers: Vec<String> = op.srcs().iter().map(number).collect();
    let of = type_of(first.dtype(), first.lanes());
    let from = typed(f, first);
    let and = if second == first { format!("{of} poison") } else { typed(f, second).to_string() };
    let (lanes, numbers) = (op.lanes(), numbers.join(", "));
    f.emit(format_args!("shufflevector {from}, {and}, <{lanes} x i32> <{numbers}>"))
}

fn lane(f: &mut Function<'_>, op: &UOp) -> String {
    let vector = typed(f, op.src(0));
    let i = op.arg().lane().expect("a lane's number");
    f.emit(format_args!("extractelement {vector}, i32 {i}"))
}

/// A source with its type in front.
struct Typed(Type, String);

impl Display for Typed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

fn typed(f: &mut Function<'_>, src: &UOp) -> Typed {
    Typed(type_of(src.dtype(), src.lanes()), f.value(src))
}

fn binary(f: &mut Function<'_>, op: &UOp) -> String {
    let operand = op.src(0).dtype();
    let column = match operand {
        DType::Bool => 3,
        d if d.is_float() => 0,
        d if d.is_signed() => 1,
        _ => 2,
    };
    let row = BINARY.iter().find(|row| row.0 == op.op());
    let name = row.map_or("", |row| row.1[column]);
    assert!(!name.is_empty(), "{} on {operand} is decomposed before rendering", op.op());
    let flag = if cannot_wrap(op) { " nsw" } else { "" };
    let (a, b) = (typed(f, op.src(0)), f.value(op.src(1)));
    f.emit(format_args!("{name}{flag} {a}, {b}"))
}

/// A mask that one scalar condition switches off is spelled as a choice. As an `and` of a splat, x86 code generation of
/// LLVM 15 to 22 (AVX-512) loses constant lanes of the other operand where a masked load and a comparison follow.
fn mask(f: &mut Function<'_>, op: &UOp) -> String {
    let (a, b) = (op.src(0), op.src(1));
    let (switch, lanes) = match (a.op(), b.op()) {
        (_, Op::Splat) => (b.src(0), a),
        (Op::Splat, _) => (a.src(0), b),
        _ => return binary(f, op),
    };
    let (switch, lanes, none) = (typed(f, switch), typed(f, lanes), zero(DType::Bool, op.lanes()));
    let of = type_of(DType::Bool, op.lanes());
    f.emit(format_args!("select {switch}, {lanes}, {of} {none}"))
}

fn negate(f: &mut Function<'_>, op: &UOp) -> String {
    let (dtype, lanes) = (op.dtype(), op.lanes());
    let (of, x) = (type_of(dtype, lanes), f.value(op.src(0)));
    match op.op() {
        Op::Neg if dtype.is_float() => f.emit(format_args!("fneg {of} {x}")),
        Op::Neg => f.emit(format_args!("sub {of} {}, {x}", zero(dtype, lanes))),
        _ => {
            let ones = if dtype == DType::Bool { "true" } else { "-1" };
            f.emit(format_args!("xor {of} {x}, {}", all(lanes, dtype, ones)))
        }
    }
}

fn select(f: &mut Function<'_>, op: &UOp) -> String {
    let (c, a, b) = (typed(f, op.src(0)), typed(f, op.src(1)), typed(f, op.src(2)));
    f.emit(format_args!("select {c}, {a}, {b}"))
}

fn intrinsic(f: &mut Function<'_>, op: &UOp) -> String {
    let name = if op.op() == Op::MulAdd { "fma" } else { op.op().name() };
    let of = type_of(op.dtype(), op.lanes()).to_string();
    let args: Vec<String> = op.srcs().iter().map(|s| typed(f, s).to_string()).collect();
    f.call(name, &[&of], &of, &args)
}

/// The target's instruction, which names its types itself.
fn dot(f: &mut Function<'_>, op: &UOp) -> String {
    let name = f.dot_intrinsic(op);
    let of = type_of(op.dtype(), op.lanes()).to_string();
    let args: Vec<String> = [2, 0, 1].map(|i| typed(f, op.src(i)).to_string()).to_vec();
    f.call(name, &[], &of, &args)
}

/// `max(a, b)` is `b` if `a < b` or `b` is NaN, else `a`; `min` looks at `b < a`. A NaN in `b` takes the place of `a` before
/// the two are compared, so that the comparison is one instruction of the machine. In a loop `a` is what all iterations
/// wait for.
fn extremum(f: &mut Function<'_>, op: &UOp) -> String {
    let dtype = op.dtype();
    let (of, a, b) = (type_of(dtype, op.lanes()), f.value(op.src(0)), f.value(op.src(1)));
    let bools = type_of(DType::Bool, op.lanes());
    let a = if dtype.is_float() && !is_number(op.src(1)) {
        let nan = f.emit(format_args!("fcmp uno {of} {b}, {b}"));
        f.emit(format_args!("select {bools} {nan}, {of} {b}, {of} {a}"))
    } else {
        a
    };
    let (x, y) = if op.op() == Op::Max { (&a, &b) } else { (&b, &a) };
    let less = match dtype {
        d if d.is_float() => "fcmp olt",
        d if d.is_signed() => "icmp slt",
        _ => "icmp ult",
    };
    let take_b = f.emit(format_args!("{less} {of} {x}, {y}"));
    f.emit(format_args!("select {bools} {take_b}, {of} {b}, {of} {a}"))
}

/// Whether the value is a constant that is not NaN.
fn is_number(x: &UOp) -> bool {
    let scalar = if x.op() == Op::Splat { x.src(0) } else { x };
    scalar.as_const().is_some_and(|c| !c.as_f64().is_nan())
}

/// A shift whose distance may be past the width, where LLVM's result is poison until something else is selected.
fn shift(f: &mut Function<'_>, op: &UOp) -> String {
    let (dtype, lanes) = (op.dtype(), op.lanes());
    let (of, x, n) = (type_of(dtype, lanes), f.value(op.src(0)), f.value(op.src(1)));
    let bits = dtype.bits();
    let bools = type_of(DType::Bool, lanes);
    let inside =
        f.emit(format_args!("icmp ult {of} {n}, {}", all(lanes, dtype, &bits.to_string())));
    if op.op() == Op::Shr && dtype.is_signed() {
        let longest = all(lanes, dtype, &(bits - 1).to_string());
        let n = f.emit(format_args!("select {bools} {inside}, {of} {n}, {of} {longest}"));
        return f.emit(format_args!("ashr {of} {x}, {n}"));
    }
    let name = if op.op() == Op::Shl { "shl" } else { "lshr" };
    let shifted = f.emit(format_args!("{name} {of} {x}, {n}"));
    f.emit(format_args!("select {bools} {inside}, {of} {shifted}, {of} {}", zero(dtype, lanes)))
}

fn cast(f: &mut Function<'_>, op: &UOp) -> String {
    let (from, to, lanes) = (op.src(0).dtype(), op.dtype(), op.lanes());
    let (x, of) = (typed(f, op.src(0)), type_of(to, lanes));
    let as_bits = |d: DType| d == DType::BF16 || d.is_fp8();
    assert!(!as_bits(from) && !as_bits(to), "bf16 and fp8 are decomposed into their bits");
    if to == DType::Bool {
        let test = if from.is_float() { "fcmp une" } else { "icmp ne" };
        return f.emit(format_args!("{test} {x}, {}", zero(from, lanes)));
    }
    if from.is_float() && to.is_int() {
        return saturating(f, op);
    }
    // half precision is reached through f64, rounding to f64 first where that is inexact
    if from.is_int() && to == DType::F16 {
        let wide = type_of(DType::F64, lanes);
        let x = f.emit(format_args!("{} {x} to {wide}", conversion(from, DType::F64)));
        return f.emit(format_args!("fptrunc {wide} {x} to {of}"));
    }
    let name = conversion(from, to);
    f.emit(format_args!("{name} {x} to {of}"))
}

/// Numbers that the type does not have become its nearest, NaN becomes 0. Half precision goes through f32, which holds all
/// of it: for processors that convert f16 themselves, LLVM 15 to 22 make NaN the least i16.
fn saturating(f: &mut Function<'_>, op: &UOp) -> String {
    let (from, to, lanes) = (op.src(0).dtype(), op.dtype(), op.lanes());
    let wide = type_of(if from == DType::F16 { DType::F32 } else { from }, lanes).to_string();
    let (of, mut x) = (type_of(to, lanes).to_string(), typed(f, op.src(0)).to_string());
    if from == DType::F16 {
        x = format!("{wide} {}", f.emit(format_args!("fpext {x} to {wide}")));
    }
    let name = if to.is_signed() { "fptosi.sat" } else { "fptoui.sat" };
    f.call(name, &[&of, &wide], &of, &[x])
}

/// The instruction between two types; `bitcast` where LLVM sees no difference.
fn conversion(from: DType, to: DType) -> &'static str {
    let bits = |d: DType| if d == DType::Bool { 1 } else { d.bits() };
    match (from.is_float(), to.is_float()) {
        (true, true) if bits(from) < bits(to) => "fpext",
        (true, true) => "fptrunc",
        (false, true) if from.is_signed() => "sitofp",
        (false, true) => "uitofp",
        _ if bits(from) > bits(to) => "trunc",
        _ if bits(from) == bits(to) => "bitcast",
        _ if from.is_signed() => "sext",
        _ => "zext",
    }
}

fn bitcast(f: &mut Function<'_>, op: &UOp) -> String {
    let (from, to, lanes) = (op.src(0).dtype(), op.dtype(), op.lanes());
    let mut x = typed(f, op.src(0)).to_string();
    let bytes = type_of(DType::U8, lanes);
    if from == DType::Bool {
        x = format!("{bytes} {}", f.emit(format_args!("zext {x} to {bytes}")));
    }
    if to == DType::Bool {
        let byte = f.emit(format_args!("bitcast {x} to {bytes}"));
        return f.emit(format_args!("icmp ne {bytes} {byte}, {}", zero(DType::U8, lanes)));
    }
    f.emit(format_args!("bitcast {x} to {}", type_of(to, lanes)))
}
