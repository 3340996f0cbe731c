//! The hand-written kernels of `testdata`, lowered for machines with and without vectors.

use super::build::{Dice, Kernel};
use super::{check, target};
use kiln_compile::lower::lower;
use kiln_compile::target::{Language, Target};
use kiln_ir::text::parse;
use kiln_ir::{Op, UOp};

#[test]
fn kernels_of_testdata() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "uop")) {
        let kernel = parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        for vector_bytes in [0, 32] {
            let target =
                Target { vector_bytes, vector_registers: 16, groups: false, ..target(Language::C) };
            let program = lower(&kernel, &target);
            if !program.ops.iter().all(is_decomposed) {
                continue;
            }
            let mut dice = Dice(31);
            let params = program.params.iter();
            let data = params.map(|p| dice.memory(p.dtype, p.len)).collect();
            let vars: Vec<i64> = program.vars.iter().map(|_| 3).collect();
            check(&Kernel { program, data }, &vars);
        }
    }
}

fn is_decomposed(op: &UOp) -> bool {
    !op.op().is_transcendental() && !matches!(op.op(), Op::FloorDiv | Op::FloorMod)
}
