//! Part of pass `render`: OpenCL C 1.2. A buffer is passed as a block and the byte at which it starts, a launch-time scalar
//! as 8 bytes.

use super::c_expr::Dialect;
use super::cstyle::Body;
use super::facts::{definition_name, vars};
use crate::target::{Groups, Strategy, Target};
use kiln_ir::program::{Program, scratch_layout};
use kiln_ir::{DType, Op};

/// No contraction: a product that is added is rounded unless the program says otherwise.
const HEAD: &str = "#pragma OPENCL FP_CONTRACT OFF\n";
const DOUBLE: &str = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
const SHUFFLE: &str = "#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable\n";

/// The whole source of a kernel, which is called `kiln_entry` for all.
pub(super) fn render(program: &Program, target: &Target) -> String {
    let body = Body::new(&program.ops, target, Dialect::OpenCl);
    let dialect = Dialect::OpenCl;
    let (mut parameters, mut lines) = (Vec::new(), String::new());
    for (slot, param) in program.params.iter().enumerate() {
        let constant = if param.written { "" } else { "const " };
        let of = format!("__global {constant}{}*", dialect.memory_type(param.dtype));
        parameters.push(format!("__global {constant}uchar* block{slot}, long start{slot}"));
        lines.push_str(&format!("  {of} data{slot} = ({of})(block{slot} + start{slot});\n"));
    }
    for op in vars(&program.ops) {
        let (of, name) = (dialect.scalar_type(op.dtype()), definition_name(op));
        let slot = op.arg().slot().expect("a var's slot");
        let value = match op.dtype() {
            DType::F32 => format!("as_float((int)raw{slot})"),
            DType::F64 => format!("as_double(raw{slot})"),
            _ => format!("({of})raw{slot}"),
        };
        lines.push_str(&format!("  const {of} {name} = {value};\n"));
    }
    parameters.extend((0..program.vars.len()).map(|slot| format!("long raw{slot}")));
    for (op, _) in scratch_layout(&program.ops).0 {
        let (_, _, len) = op.arg().memory().expect("a memory");
        let (of, name) = (dialect.memory_type(op.dtype()), definition_name(op));
        lines.push_str(&format!("  __local {of} {name}[{}];\n", len * op.lanes() as usize));
    }
    let items: usize = program.local.iter().product();
    let doubles = program.ops.iter().any(|op| op.dtype() == DType::F64);
    let shuffle = subgroups(program, target);
    format!(
        "{HEAD}{}{}{}__kernel __attribute__((reqd_work_group_size({items}, 1, 1))){}\n\
         void kiln_entry({}) {{\n{lines}{}}}\n",
        if shuffle.is_some() { SHUFFLE } else { "" },
        if doubles || body.helpers.text().contains("double") { DOUBLE } else { "" },
        body.helpers.text(),
        shuffle.unwrap_or_default(),
        parameters.join(", "),
        body.text,
    )
}

/// The attribute of a kernel whose items exchange values: the size of a subgroup.
fn subgroups(program: &Program, target: &Target) -> Option<String> {
    let Strategy::Groups(Groups { subgroup, .. }) = target.strategy else { return None };
    let shuffles = program.ops.iter().any(|op| op.op() == Op::Shuffle);
    shuffles.then(|| format!(" __attribute__((intel_reqd_sub_group_size({subgroup})))"))
}
