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

/// A language of C's family.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Dialect {
    /// C for GCC and Clang.
    #[default]
    C,
    /// OpenCL C 1.2.
    OpenCl,
}

impl Dialect {
    /// The type of one element. Where half precision has no arithmetic, it is its bits, as bf16 is everywhere.
    pub(super) fn scalar_type(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Dialect::C, _) => scalar_type(dtype),
            (_, DType::Bool) => "bool",
            (_, DType::I8) => "char",
            (_, DType::I64 | DType::Index) => "long",
            (_, DType::F16) => "ushort",
            (_, DType::U32) => "uint",
            (_, DType::U64) => "ulong",
            _ => scalar_type(dtype),
        }
    }

    /// The type of an element in memory: OpenCL has no memory of bool.
    pub(super) fn memory_type(self, dtype: DType) -> &'static str {
        match (self, dtype) {
            (Dialect::OpenCl, DType::Bool) => "uchar",
            _ => self.scalar_type(dtype),
        }
    }

    /// A function on floats that the language has.
    pub(super) fn builtin(self, name: &str, dtype: DType) -> String {
        match self {
            Dialect::C => format!("__builtin_{name}{}", if dtype == DType::F64 { "" } else { "f" }),
            Dialect::OpenCl => name.to_string(),
        }
    }
}

/// The C type of one element. bf16 and floats of eight bits have none: they are their bits.
fn scalar_type(dtype: DType) -> &'static str {
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
pub(super) fn literal(value: Const, dtype: DType, dialect: Dialect) -> Expr {
    let text = match value {
        Const::Bool(b) => (b as u8).to_string(),
        Const::Int(i) => integer(i, dtype, dialect),
        Const::UInt(u) => format!("{u}{}", suffix(dtype, dialect)),
        Const::Float(f) => float(f, dtype, dialect),
    };
    let level = match value {
        _ if text.starts_with('(') => Level::Unary,
        _ if is_negative(value) => Level::Loose,
        _ => Level::Atom,
    };
    Expr::new(text, level)
}

/// The smallest value of a type has no literal: its magnitude does not fit.
fn integer(i: i64, dtype: DType, dialect: Dialect) -> String {
    let s = suffix(dtype, dialect);
    let smallest = if dtype == DType::I32 { i32::MIN as i64 } else { i64::MIN };
    if i == smallest { format!("{}{s}-1", i + 1) } else { format!("{i}{s}") }
}

fn suffix(dtype: DType, dialect: Dialect) -> &'static str {
    match (dtype, dialect) {
        (DType::I64 | DType::Index, Dialect::C) => "ll",
        (DType::I64 | DType::Index, Dialect::OpenCl) => "l",
        (DType::U32, _) => "u",
        (DType::U64, Dialect::C) => "ull",
        (DType::U64, Dialect::OpenCl) => "ul",
        _ => "",
    }
}

/// Shortest decimals that read back as the same number; Rust and C agree on their form.
fn float(f: f64, dtype: DType, dialect: Dialect) -> String {
    let is_bits = dtype == DType::BF16 || dtype.is_fp8();
    let (nan, infinity) = match (dialect, dtype) {
        (Dialect::C, DType::F32) => ("__builtin_nanf(\"\")", "__builtin_inff()"),
        (Dialect::C, _) => ("__builtin_nan(\"\")", "__builtin_inf()"),
        (Dialect::OpenCl, DType::F32) => ("NAN", "INFINITY"),
        (Dialect::OpenCl, _) => ("(double)NAN", "(double)INFINITY"),
    };
    match dtype {
        _ if is_bits || dtype == DType::F16 && dialect == Dialect::OpenCl => {
            kiln_ir::eval::to_bits(Const::Float(f), dtype).to_string()
        }
        DType::F16 => format!("(_Float16){}", float(f, DType::F32, dialect)),
        _ if f.is_nan() => nan.to_string(),
        _ if f.is_infinite() => format!("{}{infinity}", minus(f)),
        DType::F32 => format!("{:?}f", f as f32),
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
