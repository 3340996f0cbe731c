//! Part of pass `render`: C for GCC and Clang: the kernel's signature, and the entry that launches call.
//!
//! The text includes nothing and is compiled free-standing. Vectors are GCC's vector extension. A vector of bool is a
//! mask, each lane all ones or zero, as wide as what was compared: so no conversion stands between a comparison and a
//! select.

use super::c_expr::Dialect;
use super::cstyle::Body;
use super::facts::{definition_name, identifier, is_thread, vars};
use crate::target::Target;
use kiln_ir::program::{Program, scratch_layout};
use kiln_ir::{Op, UOp};

/// The whole source of a kernel.
pub(super) fn render(program: &Program, target: &Target) -> String {
    let body = Body::new(&program.ops, target, Dialect::C);
    let signature = signature(program);
    let mut scratch = String::new();
    for (op, offset) in scratch_layout(&program.ops).0 {
        let (of, name) = (Dialect::C.scalar_type(op.dtype()), definition_name(op));
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
        let of = Dialect::C.scalar_type(param.dtype);
        signature.push((format!("{constant}{of}* data{slot}"), format!("bufs[{slot}]")));
    }
    for op in vars(&program.ops) {
        let (of, name) = (Dialect::C.scalar_type(op.dtype()), definition_name(op));
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
