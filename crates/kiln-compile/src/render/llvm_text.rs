//! Part of pass `render`: types and constants as LLVM writes them.

use kiln_ir::eval::to_bits;
use kiln_ir::{Const, DType};
use std::fmt::{self, Display, Formatter};

/// A constant.
pub(super) fn literal(value: Const, dtype: DType) -> String {
    match value {
        Const::Bool(b) => b.to_string(),
        Const::Int(i) => i.to_string(),
        Const::UInt(u) => u.to_string(),
        Const::Float(x) => match dtype {
            _ if dtype == DType::BF16 || dtype.is_fp8() => to_bits(value, dtype).to_string(),
            DType::F16 => format!("0xH{:04X}", to_bits(value, dtype)),
            // decimals must be exact, which small integers are; the rest is the bits of the f64
            _ if x.abs() < 1e6 && x.fract() == 0.0 => format!("{x:?}"),
            _ => format!("0x{:016X}", to_bits(value, DType::F64)),
        },
    }
}

/// The zero of a type.
pub(super) fn zero(dtype: DType, lanes: u16) -> String {
    all(lanes, dtype, &literal(Const::Int(0).cast(dtype), dtype))
}

/// The literal in all lanes.
pub(super) fn all(lanes: u16, dtype: DType, literal: &str) -> String {
    if lanes == 1 {
        return literal.to_string();
    }
    let element = format!("{} {literal}, ", type_of(dtype, 1));
    let elements = element.repeat(lanes as usize);
    ["<", elements.trim_end_matches(", "), ">"].concat()
}

/// A scalar's type, or that of a vector. It is written straight into the text: types are half of it.
#[derive(Clone, Copy)]
pub(super) struct Type {
    scalar: &'static str,
    lanes: u16,
}

impl Display for Type {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.lanes {
            1 => f.write_str(self.scalar),
            lanes => write!(f, "<{lanes} x {}>", self.scalar),
        }
    }
}

/// The type of a value.
pub(super) fn type_of(dtype: DType, lanes: u16) -> Type {
    let scalar = match dtype {
        DType::Bool => "i1",
        DType::I8 | DType::U8 => "i8",
        _ if dtype.is_fp8() => "i8",
        DType::I16 | DType::U16 | DType::BF16 => "i16",
        DType::I32 | DType::U32 => "i32",
        DType::I64 | DType::U64 | DType::Index => "i64",
        DType::F16 => "half",
        DType::F32 => "float",
        DType::F64 => "double",
        _ => "void",
    };
    Type { scalar, lanes }
}

/// The type of a value in memory.
pub(super) fn memory_type(dtype: DType, lanes: u16) -> Type {
    type_of(if dtype == DType::Bool { DType::U8 } else { dtype }, lanes)
}

/// The type in front of an argument.
pub(super) fn argument_type(argument: &str) -> &str {
    let end = match argument.find('>') {
        Some(end) if argument.starts_with('<') => end + 1,
        _ => argument.find(' ').expect("a type and a value"),
    };
    &argument[..end]
}

/// How a type is written in the name of an overloaded intrinsic.
pub(super) fn mangled(of: &str) -> String {
    let vector = of.trim_matches(['<', '>']).split_once(" x ");
    let scalar = |s: &str| match s {
        "half" => "f16".to_string(),
        "float" => "f32".to_string(),
        "double" => "f64".to_string(),
        "ptr" => "p0".to_string(),
        int => int.to_string(),
    };
    match vector {
        Some((lanes, s)) => format!("v{lanes}{}", scalar(s)),
        None => scalar(of),
    }
}
