//! Compiled kernels agree with INTERP, bit for bit: every operation on every dtype, scalar and vector, memory in all
//! its forms, and random programs. Only the payload of NaNs is free.

mod build;
mod kernels;
mod memory;
mod operations;
mod random;

use crate::cpu::config;
use build::Kernel;
use kiln_compile::render::render;
use kiln_compile::target::{Language, Machine, Target};
use kiln_ir::DType;
use kiln_ir::program::Program;
use kiln_runtime::cpu::{self, Rung};
use kiln_runtime::{Backend, Buffer, interp};
use std::cell::Cell;

fn target(language: Language) -> Target {
    let here = Machine::with(std::env::consts::ARCH, Vec::new());
    Target { language, widened_bytes: here.widened_bytes, ..Target::interp() }
}

/// Runs the kernel on every device and compares all memory afterwards.
fn check(kernel: &Kernel, vars: &[i64]) {
    let expected = interpreted(&kernel.program, &kernel.data, vars);
    for (rung, language) in [(Rung::C, Language::C), (Rung::Llvm, Language::Llvm)] {
        let mut program = kernel.program.clone();
        program.source = render(&program, &target(language));
        let found = compiled(&program, rung, &kernel.data, vars);
        for (slot, param) in program.params.iter().enumerate() {
            compare(&program, language, slot, param.dtype, &expected[slot], &found[slot]);
        }
    }
}

fn interpreted(program: &Program, data: &[Vec<u8>], vars: &[i64]) -> Vec<Vec<u8>> {
    let mut data = data.to_vec();
    let cells: Vec<&[Cell<u8>]> =
        data.iter_mut().map(|d| Cell::from_mut(d.as_mut_slice()).as_slice_of_cells()).collect();
    interp::run(program, &cells, vars).unwrap();
    data
}

fn compiled(program: &Program, rung: Rung, data: &[Vec<u8>], vars: &[i64]) -> Vec<Vec<u8>> {
    let device = cpu::open(&config(), Some(rung)).unwrap();
    let buffers: Vec<Buffer> = data.iter().map(|d| device.alloc(d.len()).unwrap()).collect();
    for (buffer, bytes) in buffers.iter().zip(data) {
        buffer.write(bytes).unwrap();
    }
    let loaded = device.load(program).unwrap_or_else(|e| panic!("{e}\n{}", program.source));
    loaded.kernel.launch(&buffers, vars).unwrap();
    buffers.iter().map(|buffer| buffer.to_vec::<u8>().unwrap()).collect()
}

fn compare(p: &Program, language: Language, slot: usize, dtype: DType, want: &[u8], got: &[u8]) {
    let size = dtype.size();
    for (i, (w, g)) in want.chunks(size).zip(got.chunks(size)).enumerate() {
        if w != g && !(is_nan(dtype, w) && is_nan(dtype, g)) {
            let list: Vec<String> = p.ops.iter().map(|op| format!("{op:?}")).collect();
            panic!(
                "{}: {language:?} differs from INTERP in element {i} of param {slot} ({dtype}): {g:x?}, not {w:x?}\n{}\n{}",
                p.name,
                list.join("\n"),
                p.source
            );
        }
    }
}

fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    let bits = bytes.iter().rev().fold(0u64, |bits, b| bits << 8 | *b as u64);
    matches!(kiln_ir::eval::from_bits(bits, dtype), kiln_ir::Const::Float(f) if f.is_nan())
}
