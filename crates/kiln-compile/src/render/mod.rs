//! Pass `render` of stage `render`: writes a linear program as text in the target's language. Renderers walk the list
//! once and spell what they find. They choose nothing that a pass could choose, and they know no devices.

mod c;
mod c_alu;
mod c_expr;
mod c_helpers;
mod cstyle;
mod facts;
mod groups;
mod llvm;
mod llvm_alu;
mod llvm_function;
mod llvm_mma;
mod llvm_registers;
mod llvm_text;
mod opencl;

use crate::target::{Language, Target};
use kiln_ir::program::Program;

/// The text of `program`. Empty for targets that execute the list itself.
pub fn render(program: &Program, target: &Target) -> String {
    match target.language {
        Language::Linear => String::new(),
        Language::C => c::render(program, target),
        Language::OpenCl => opencl::render(program, target),
        Language::Llvm => llvm::render(program, target),
    }
}
