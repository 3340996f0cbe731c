//! Part of pass `render`: the C spelling of every operation on values, scalar and vector.

use super::c_expr::{Dialect, Expr, Level};
use super::c_helpers::{Helpers, mask_dtype, unsigned};
use super::facts::{cannot_wrap, shift_fits};
use kiln_ir::{DType, Op, UOp};

/// Infix operators: the text, how tightly the result holds together, and what its operands need at least.
const INFIX: &[(Op, &str, Level, (Level, Level))] = &[
    (Op::Add, "+", Level::Sum, (Level::Sum, Level::Product)),
    (Op::Sub, "-", Level::Sum, (Level::Sum, Level::Product)),
    (Op::Mul, "*", Level::Product, (Level::Product, Level::Unary)),
    (Op::Div, "/", Level::Product, (Level::Product, Level::Unary)),
    (Op::TruncDiv, "/", Level::Product, (Level::Product, Level::Unary)),
    (Op::TruncMod, "%", Level::Product, (Level::Product, Level::Unary)),
    (Op::Shl, "<<", Level::Loose, (Level::Unary, Level::Unary)),
    (Op::Shr, ">>", Level::Loose, (Level::Unary, Level::Unary)),
    (Op::And, "&", Level::Loose, (Level::Unary, Level::Unary)),
    (Op::Or, "|", Level::Loose, (Level::Unary, Level::Unary)),
    (Op::Xor, "^", Level::Loose, (Level::Unary, Level::Unary)),
    (Op::CmpLt, "<", Level::Loose, (Level::Sum, Level::Sum)),
    (Op::CmpEq, "==", Level::Loose, (Level::Sum, Level::Sum)),
    (Op::CmpNe, "!=", Level::Loose, (Level::Sum, Level::Sum)),
];

/// The expression for `op` of `args`.
pub(super) fn expression(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    match op.op() {
        Op::Stack | Op::Splat | Op::Lane => pick(op, args, helpers),
        Op::Shuffle => shuffle(op, &args[0]),
        _ if op.lanes() == 1 => scalar(op, args, helpers),
        Op::Cast => vector_cast(op, &args[0], helpers),
        Op::Bitcast => bitcast(op, args, helpers),
        _ if op.dtype() == DType::Bool => mask(op, args, helpers),
        _ => vector(op, args, helpers),
    }
}

/// The value of another item: OpenCL's extension `cl_khr_subgroup_shuffle`.
fn shuffle(op: &UOp, value: &Expr) -> Expr {
    let mask = op.arg().mask().expect("a mask");
    Expr::atom(format!("sub_group_shuffle_xor({}, {mask}u)", value.text))
}

/// The zero of a value's type.
pub(super) fn zero(op: &UOp, helpers: &mut Helpers) -> String {
    match (op.lanes(), op.dtype()) {
        (1, _) => "0".to_string(),
        (n, DType::Bool) => format!("({}){{0}}", helpers.mask(1, n)),
        (n, dtype) => format!("({}){{0}}", helpers.vector(dtype, n)),
    }
}

/// A mask with `bytes` per lane. All ones and zero survive sign extension and truncation.
pub(super) fn resize_mask(mask: &Expr, bytes: usize, lanes: u16, helpers: &mut Helpers) -> Expr {
    if mask.mask == bytes {
        return mask.clone();
    }
    let of = helpers.mask(bytes, lanes);
    Expr::atom(format!("__builtin_convertvector({}, {of})", mask.text)).masked(bytes)
}

fn scalar(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    let dtype = op.dtype();
    match (op.op(), dtype) {
        (Op::Cast, _) => scalar_cast(op, &args[0], helpers),
        (Op::Bitcast, _) => bitcast(op, args, helpers),
        (Op::Where, _) => {
            Expr::atom(format!("({} ? {} : {})", args[0].text, args[1].text, args[2].text))
        }
        (Op::Not, DType::Bool) => prefix("!", &args[0]),
        (Op::Add | Op::Max, DType::Bool) => infix(Op::Or, args),
        (Op::Mul | Op::Min, DType::Bool) => infix(Op::And, args),
        (Op::Neg | Op::Add | Op::Sub | Op::Mul, DType::I32 | DType::I64)
            if helpers.dialect == Dialect::OpenCl && (op.op() == Op::Neg || !cannot_wrap(op)) =>
        {
            wrapping(op, args, helpers)
        }
        (Op::Neg, _) => narrowed(op, prefix("-", &args[0]), helpers),
        (Op::Sub, _) if from_zero(op) => call(&helpers.zero_minus(dtype, 1), &args[1..]),
        (Op::Not, _) => narrowed(op, prefix("~", &args[0]), helpers),
        (Op::Max | Op::Min, _) => call(&helpers.extremum(op.op() == Op::Max, op.dtype(), 1), args),
        (Op::Shl | Op::Shr, _) if !shift_fits(op) => {
            call(&helpers.shift(op.op() == Op::Shl, dtype, 1), args)
        }
        (Op::Sqrt | Op::Trunc | Op::MulAdd, _) => call(&builtin(op, helpers), args),
        _ => narrowed(op, infix(op.op(), args), helpers),
    }
}

/// Whether a float is taken from 0.0, which has a spelling of its own.
fn from_zero(op: &UOp) -> bool {
    op.dtype().is_float() && op.src(0).uniform().is_const(0)
}

fn builtin(op: &UOp, helpers: &Helpers) -> String {
    let name = match op.op() {
        Op::Sqrt => "sqrt",
        Op::Trunc => "trunc",
        _ => "fma",
    };
    helpers.dialect.builtin(name, op.dtype())
}

fn call(function: &str, args: &[Expr]) -> Expr {
    let args: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
    Expr::atom(format!("{function}({})", args.join(", ")))
}

/// A negation holds together as loosely as a sum, or `a - -b` would become `a--b`.
fn prefix(symbol: &str, x: &Expr) -> Expr {
    let level = if symbol == "-" { Level::Sum } else { Level::Unary };
    Expr::new(format!("{symbol}{}", x.at(Level::Atom)), level)
}

fn infix(op: Op, args: &[Expr]) -> Expr {
    let Some((_, symbol, level, (left, right))) = INFIX.iter().find(|row| row.0 == op) else {
        unreachable!("{op} is decomposed before rendering");
    };
    Expr::new(format!("{}{symbol}{}", args[0].at(*left), args[1].at(*right)), *level)
}

/// Signed arithmetic as unsigned, which wraps. Signed overflow has no meaning in OpenCL C; C compilers are asked for one by
/// `-fwrapv`.
fn wrapping(op: &UOp, args: &[Expr], helpers: &Helpers) -> Expr {
    let of = helpers.scalar_type(unsigned(op.dtype()));
    let args: Vec<Expr> = args.iter().map(|x| convert(of, x)).collect();
    let value = if op.op() == Op::Neg { prefix("-", &args[0]) } else { infix(op.op(), &args) };
    convert(helpers.scalar_type(op.dtype()), &value)
}

/// C computes narrow integers as int: what may have left the narrow type is brought back.
fn narrowed(op: &UOp, value: Expr, helpers: &Helpers) -> Expr {
    let wraps = matches!(op.op(), Op::Neg | Op::Not | Op::Add | Op::Sub | Op::Mul | Op::Shl);
    if wraps && op.dtype().is_int() && op.dtype().size() < 4 {
        return convert(helpers.scalar_type(op.dtype()), &value);
    }
    value
}

fn convert(of: &str, x: &Expr) -> Expr {
    Expr::new(format!("({of}){}", x.at(Level::Unary)), Level::Unary)
}

fn scalar_cast(op: &UOp, x: &Expr, helpers: &mut Helpers) -> Expr {
    let (from, to) = (op.src(0).dtype(), op.dtype());
    match (from, to) {
        (DType::BF16, _) | (_, DType::BF16) => unreachable!("bf16 is decomposed into its bits"),
        _ if from.is_fp8() || to.is_fp8() => unreachable!("fp8 is decomposed into its bits"),
        _ if helpers.dialect == Dialect::OpenCl && [from, to].contains(&DType::F16) => {
            half_cast(op, x, helpers)
        }
        _ if from.is_float() && to.is_int() => {
            call(&helpers.saturate(from, to), std::slice::from_ref(x))
        }
        // half precision is reached through f64, rounding to f64 first where that is inexact
        _ if from.is_int() && to == DType::F16 => convert("_Float16", &convert("double", x)),
        _ => convert(helpers.scalar_type(to), x),
    }
}

/// A cast to or from half precision, in a language without arithmetic on it. Half precision is widened to f32, exactly;
/// another type is narrowed from its own width, so that it is rounded once.
fn half_cast(op: &UOp, x: &Expr, helpers: &mut Helpers) -> Expr {
    let (from, to) = (op.src(0).dtype(), op.dtype());
    if to == DType::F16 {
        // an integer is a double before, as in C
        let wide = if from.is_float() { from } else { DType::F64 };
        let x = if from.is_float() { x.clone() } else { convert("double", x) };
        return call(&helpers.half_from(wide), &[x]);
    }
    let float = call(&helpers.half_to_float(), std::slice::from_ref(x));
    match to {
        DType::Bool => Expr::new(format!("{} != 0", float.text), Level::Loose),
        _ if to.is_int() => call(&helpers.saturate(DType::F32, to), &[float]),
        _ => convert(helpers.scalar_type(to), &float),
    }
}

/// The mask of the lanes that are not zero, where a lane has `bytes`.
fn is_not_zero(vector: &str, bytes: usize, lanes: u16, helpers: &mut Helpers) -> Expr {
    let test = Expr::new(format!("{vector} != 0"), Level::Loose);
    convert(&helpers.mask(bytes, lanes), &test).masked(bytes)
}

/// A vector of f16 as one of wider floats.
fn widened(x: &Expr, to: DType, lanes: u16, helpers: &mut Helpers) -> Expr {
    if helpers.widens_at_once(to, lanes) {
        let of = helpers.vector(to, lanes);
        return Expr::atom(format!("__builtin_convertvector({}, {of})", x.text));
    }
    let lane = format!("({})a[i]", helpers.scalar_type(to));
    call(&helpers.lanewise("from_f16", (to, lanes), &[DType::F16], &lane), std::slice::from_ref(x))
}

fn vector_cast(op: &UOp, x: &Expr, helpers: &mut Helpers) -> Expr {
    let (from, to, lanes) = (op.src(0).dtype(), op.dtype(), op.lanes());
    match (from, to) {
        (DType::BF16, _) | (_, DType::BF16) => unreachable!("bf16 is decomposed into its bits"),
        _ if from.is_fp8() || to.is_fp8() => unreachable!("fp8 is decomposed into its bits"),
        (DType::Bool, _) => {
            let x = resize_mask(x, to.size(), lanes, helpers);
            let of = helpers.vector(to, lanes);
            let ones = format!("{}&1", x.at(Level::Unary));
            Expr::atom(format!("__builtin_convertvector({ones}, {of})"))
        }
        (DType::F16, DType::Bool) => {
            let wide = widened(x, DType::F32, lanes, helpers);
            is_not_zero(&wide.text, 4, lanes, helpers)
        }
        (DType::F16, DType::F32 | DType::F64) => widened(x, to, lanes, helpers),
        (_, DType::Bool) => is_not_zero(&x.at(Level::Sum), from.size(), lanes, helpers),
        _ if from.is_float() && to.is_int() => {
            let lane = format!("{}(a[i])", helpers.saturate(from, to));
            call(
                &helpers.lanewise(&format!("from_{from}"), (to, lanes), &[from], &lane),
                std::slice::from_ref(x),
            )
        }
        _ if from.is_int() && to == DType::F16 => {
            let (wide, of) = (helpers.vector(DType::F64, lanes), helpers.vector(to, lanes));
            let wide = format!("__builtin_convertvector({}, {wide})", x.text);
            Expr::atom(format!("__builtin_convertvector({wide}, {of})"))
        }
        _ => {
            let of = helpers.vector(to, lanes);
            Expr::atom(format!("__builtin_convertvector({}, {of})", x.text))
        }
    }
}

/// The same bits, through a union, in which a bool is a byte. OpenCL has functions for it.
fn bitcast(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    if helpers.dialect == Dialect::OpenCl {
        let bits = |d: DType| helpers.dialect.memory_type(d);
        let (from, to) = (bits(op.src(0).dtype()), bits(op.dtype()));
        // unsigned types have names of one word
        let word = |name: &str| name.replace("unsigned ", "u");
        let x = format!("as_{}(({from}){})", word(to), args[0].at(Level::Unary));
        return match op.dtype() {
            DType::Bool => Expr::new(format!("{x} != 0"), Level::Loose),
            _ => Expr::atom(x),
        };
    }
    let lanes = op.lanes();
    let in_union = |d: DType| match d {
        DType::Bool if lanes > 1 => DType::I8,
        DType::Bool => DType::U8,
        other => other,
    };
    let mut text = args[0].text.clone();
    if args[0].mask > 0 {
        let bytes = resize_mask(&args[0], 1, lanes, helpers);
        text = format!("{}&1", bytes.at(Level::Unary));
    }
    let from = helpers.type_of(in_union(op.src(0).dtype()), lanes);
    let to = helpers.type_of(in_union(op.dtype()), lanes);
    let read = format!("((union {{ {from} from; {to} to; }}){{{text}}}).to");
    match (op.dtype(), lanes) {
        (DType::Bool, 1) => Expr::new(format!("{read} != 0"), Level::Loose),
        (DType::Bool, _) => is_not_zero(&read, 1, lanes, helpers),
        _ => Expr::atom(read),
    }
}

fn vector(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    let (dtype, lanes) = (op.dtype(), op.lanes());
    match op.op() {
        Op::Neg => prefix("-", &args[0]),
        Op::Sub if from_zero(op) => call(&helpers.zero_minus(dtype, lanes), &args[1..]),
        Op::Not => prefix("~", &args[0]),
        Op::Where => {
            let gate = resize_mask(&args[0], dtype.size(), lanes, helpers);
            call(&helpers.select(dtype, lanes), &[gate, args[1].clone(), args[2].clone()])
        }
        Op::Max | Op::Min => call(&helpers.extremum(op.op() == Op::Max, dtype, lanes), args),
        Op::Shl | Op::Shr if !shift_fits(op) => {
            call(&helpers.shift(op.op() == Op::Shl, dtype, lanes), args)
        }
        Op::Sqrt | Op::Trunc | Op::MulAdd => {
            let inputs = ["a[i]", "b[i]", "c[i]"];
            let lane = format!("{}({})", builtin(op, helpers), inputs[..args.len()].join(", "));
            let dtypes = [dtype; 3];
            let name = op.op().name();
            call(&helpers.lanewise(name, (dtype, lanes), &dtypes[..args.len()], &lane), args)
        }
        _ => infix(op.op(), args),
    }
}

/// Operations that give masks: on other vectors they compare, on masks they are bitwise.
fn mask(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    let (operand, lanes) = (op.src(0).dtype(), op.lanes());
    if op.op().is_comparison() && operand != DType::Bool {
        let of = helpers.mask(operand.size(), lanes);
        return convert(&of, &infix(op.op(), args)).masked(operand.size());
    }
    let bytes = args[0].mask;
    let args: Vec<Expr> = args.iter().map(|a| resize_mask(a, bytes, lanes, helpers)).collect();
    let value = match op.op() {
        Op::Not => prefix("~", &args[0]),
        Op::Add | Op::Or | Op::Max => infix(Op::Or, &args),
        Op::Mul | Op::And | Op::Min => infix(Op::And, &args),
        Op::Xor | Op::CmpNe => infix(Op::Xor, &args),
        Op::CmpEq => prefix("~", &infix(Op::Xor, &args)),
        Op::CmpLt => infix(Op::And, &[prefix("~", &args[0]), args[1].clone()]),
        Op::Where => call(&helpers.select(mask_dtype(bytes), lanes), &args),
        other => unreachable!("{other} gives no mask"),
    };
    value.masked(bytes)
}

/// Building vectors and taking them apart. A mask's lane is all ones or zero, a bool is one or zero.
fn pick(op: &UOp, args: &[Expr], helpers: &mut Helpers) -> Expr {
    let (dtype, lanes) = (op.dtype(), op.lanes());
    if op.op() == Op::Lane {
        let i = op.arg().lane().expect("a lane's number");
        let lane = format!("{}[{i}]", args[0].at(Level::Atom));
        let is_mask = args[0].mask > 0;
        return if is_mask {
            Expr::new(format!("{lane} != 0"), Level::Loose)
        } else {
            Expr::atom(lane)
        };
    }
    if lanes == 1 {
        return args[0].clone();
    }
    let is_mask = dtype == DType::Bool;
    let element = if is_mask { DType::I8 } else { dtype };
    let scalar = |x: &Expr| if is_mask { prefix("-", x) } else { x.clone() };
    let scalars: Vec<Expr> = args.iter().map(scalar).collect();
    let value = if op.op() == Op::Splat {
        call(&helpers.splat(element, lanes), &scalars)
    } else {
        let texts: Vec<&str> = scalars.iter().map(|s| s.text.as_str()).collect();
        Expr::atom(format!("({}){{{}}}", helpers.vector(element, lanes), texts.join(", ")))
    };
    if is_mask { value.masked(1) } else { value }
}
