//! C for GCC and Clang: types, literals, the kernel's signature and the entry that launches call.
//!
//! The text includes nothing and is compiled free-standing. Vectors are GCC's vector extension; a vector of bool is a
//! mask (each lane all ones or zero) as wide as what was compared, so that no conversion stands between a comparison
//! and a selection.

use super::cstyle::{Body, Expr, Level, is_negative};
use super::{definition_name, identifier, is_thread, scratch_layout, vars};
use crate::target::Target;
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, Op, UOp};

/// The whole source of a kernel.
pub(super) fn render(program: &Program, target: &Target) -> String {
    let body = Body::new(&program.ops, target);
    let signature = signature(program);
    let mut scratch = String::new();
    for (op, offset) in scratch_layout(&program.ops) {
        let (of, name) = (scalar_type(op.dtype()), definition_name(op));
        scratch.push_str(&format!("  {of}* {name} = ({of}*)(scratch+{offset});\n"));
    }
    let name = identifier(&program.name);
    let parameters: Vec<&str> = signature.iter().map(|(parameter, _)| parameter.as_str()).collect();
    let arguments: Vec<&str> = signature.iter().map(|(_, argument)| argument.as_str()).collect();
    format!(
        "{}void {name}({}) {{\n{scratch}{}}}\n\
         void kiln_entry(void* const* bufs, const long long* vars, char* scratch, long long lo, long long hi) {{\n  \
         {name}({});\n}}\n",
        body.helpers.text(),
        parameters.join(", "),
        body.text,
        arguments.join(", "),
    )
}

/// The kernel's parameters, each with the argument that the entry passes for it.
fn signature(program: &Program) -> Vec<(String, String)> {
    let mut signature = Vec::new();
    for (slot, param) in program.params.iter().enumerate() {
        let constant = if param.written { "" } else { "const " };
        let of = scalar_type(param.dtype);
        signature.push((format!("{constant}{of}* data{slot}"), format!("bufs[{slot}]")));
    }
    for op in vars(&program.ops) {
        let (of, name) = (scalar_type(op.dtype()), definition_name(op));
        let slot = op.arg().slot().expect("a var's slot");
        signature.push((format!("{of} {name}"), format!("*(const {of}*)&vars[{slot}]")));
    }
    let mut on_demand = |wanted: &dyn Fn(&UOp) -> bool, parameters: &[(&str, &str)]| {
        if program.ops.iter().any(wanted) {
            let pairs = parameters.iter().map(|(p, a)| (p.to_string(), a.to_string()));
            signature.extend(pairs);
        }
    };
    let is_scratch = |op: &UOp| op.op() == Op::Local && definition_name(op).starts_with("tmp");
    on_demand(&is_scratch, &[("char* scratch", "scratch")]);
    on_demand(&is_thread, &[("long long lo", "lo"), ("long long hi", "hi")]);
    signature
}

/// The C type of one element. bf16 has none: it is its bits.
pub(super) fn scalar_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "_Bool",
        DType::I8 => "signed char",
        DType::I16 => "short",
        DType::I32 => "int",
        DType::I64 | DType::Index => "long long",
        DType::U8 => "unsigned char",
        DType::U16 | DType::BF16 => "unsigned short",
        DType::U32 => "unsigned",
        DType::U64 => "unsigned long long",
        DType::F16 => "_Float16",
        DType::F32 => "float",
        DType::F64 => "double",
        DType::Void => "void",
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
        DType::BF16 => (kiln_ir::eval::to_bits(Const::Float(f), dtype)).to_string(),
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
