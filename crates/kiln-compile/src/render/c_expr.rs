//! Part of pass `render`: C expressions, as text and precedence; names of types and the spelling of constants.

use kiln_ir::{Const, DType};

/// How tightly an expression holds together, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// Comparisons, shifts, bitwise operations: in parentheses wherever they are operands.
    Loose,
    /// Sums and differences.
    Sum,
    /// Products and quotients.
    Product,
    /// Prefix operators and casts.
    Unary,
    /// Names, calls, subscripts.
    Atom,
}

/// A piece of text that stands for a value.
#[derive(Clone, Debug)]
pub(super) struct Expr {
    /// The text.
    pub text: String,
    /// How tightly it holds together.
    pub level: Level,
    /// For vectors of bool, which are masks: bytes per lane.
    pub mask: usize,
}

impl Expr {
    /// An expression that is not a mask.
    pub(super) fn new(text: impl Into<String>, level: Level) -> Expr {
        Expr { text: text.into(), level, mask: 0 }
    }

    /// A name, call or subscript.
    pub(super) fn atom(text: impl Into<String>) -> Expr {
        Expr::new(text, Level::Atom)
    }

    /// The same text as a mask of `bytes` per lane.
    pub(super) fn masked(self, bytes: usize) -> Expr {
        Expr { mask: bytes, ..self }
    }

    /// The text as an operand that must hold together at least as tightly as `level`.
    pub(super) fn at(&self, level: Level) -> String {
        if self.level < level { format!("({})", self.text) } else { self.text.clone() }
    }
}

/// The C type of one element. bf16 and floats of eight bits have none: they are their bits.
pub(super) fn scalar_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "_Bool",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 | DType::Index => "long long",
        DType::U8 => "unsigned char",
        _ if dtype.is_fp8() => "unsigned char",
        DType::U16 | DType::BF16 => "unsigned short",
        DType::U32 => "unsigned",
        DType::U64 => "unsigned long long",
        DType::F16 => "_Float16",
        DType::F32 => "float",
        DType::F64 => "double",
        _ => "void",
    }
}

/// A constant, to the last bit.
pub(super) fn literal(value: Const, dtype: DType) -> Expr {
    let text = match value {
        Const::Bool(b) => (b as u8).to_string(),
        Const::Int(i) => integer(i, dtype),
        Const::UInt(u) => format!("{u}{}", suffix(dtype)),
        Const::Float(f) => float(f, dtype),
    };
    let level = match value {
        _ if text.starts_with('(') => Level::Unary,
        _ if is_negative(value) => Level::Loose,
        _ => Level::Atom,
    };
    Expr::new(text, level)
}

/// The smallest value of a type has no literal: its magnitude does not fit.
fn integer(i: i64, dtype: DType) -> String {
    let s = suffix(dtype);
    let smallest = if dtype == DType::I32 { i32::MIN as i64 } else { i64::MIN };
    if i == smallest { format!("{}{s}-1", i + 1) } else { format!("{i}{s}") }
}

fn suffix(dtype: DType) -> &'static str {
    match dtype {
        DType::I64 | DType::Index => "ll",
        DType::U32 => "u",
        DType::U64 => "ull",
        _ => "",
    }
}

/// Shortest decimals that read back as the same number; Rust and C agree on their form.
fn float(f: f64, dtype: DType) -> String {
    match dtype {
        _ if dtype == DType::BF16 || dtype.is_fp8() => {
            kiln_ir::eval::to_bits(Const::Float(f), dtype).to_string()
        }
        DType::F16 => format!("(_Float16){}", float(f, DType::F32)),
        DType::F32 if f.is_nan() => "__builtin_nanf(\"\")".to_string(),
        DType::F32 if f.is_infinite() => format!("{}__builtin_inff()", minus(f)),
        DType::F32 => format!("{:?}f", f as f32),
        _ if f.is_nan() => "__builtin_nan(\"\")".to_string(),
        _ if f.is_infinite() => format!("{}__builtin_inf()", minus(f)),
        _ => format!("{f:?}"),
    }
}

fn minus(f: f64) -> &'static str {
    if f < 0.0 { "-" } else { "" }
}

/// Whether the constant prints with a minus sign.
fn is_negative(value: Const) -> bool {
    match value {
        Const::Int(i) => i < 0,
        Const::Float(f) => f.is_sign_negative() && !f.is_nan(),
        Const::Bool(_) | Const::UInt(_) => false,
    }
}
