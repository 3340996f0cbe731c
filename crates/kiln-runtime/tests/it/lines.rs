//! Machine code that tells of which lines of its source it is.

use crate::cpu::{c, config, program, square_plus};
use crate::memory::TempDir;
use kiln_ir::DType;
use kiln_ir::observe::MachineCode;
use kiln_ir::program::Program;
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, CpuBackend, Rung};
use kiln_runtime::{Backend, Loaded, Origin};

fn kernel(source: &str) -> Program {
    let mut program = program(source, 2, 1);
    program.vars = vec![DType::F32];
    program
}

fn code(loaded: &Loaded) -> MachineCode {
    loaded.kernel.disassemble().expect("LLVM tells")
}

#[test]
fn instructions_are_of_the_lines_of_their_source() {
    let source = square_plus(Rung::Llvm);
    let device = cpu::open(&config(), Some(Rung::Llvm)).unwrap();
    let plain = code(&device.load(&kernel(&source)).unwrap());
    let told = code(&device.load_with_lines(&kernel(&source)).unwrap());
    assert_eq!((plain.text.as_str(), plain.lines.len()), (told.text.as_str(), 0));
    assert_eq!(told.text.lines().count(), told.lines.len());
    let lines: Vec<&str> = source.lines().collect();
    let of = |operation: &str| {
        let all = told.text.lines().zip(&told.lines);
        let at =
            |line: &Option<u32>| line.is_some_and(|n| lines[n as usize - 1].contains(operation));
        let found: Vec<&str> = all.filter(|(_, line)| at(line)).map(|(text, _)| text).collect();
        found.join("\n")
    };
    for (operation, instruction) in [("fmul", "mul"), ("fadd", "add"), ("ret void", "ret")] {
        assert!(of(operation).contains(instruction), "{operation}: {}", of(operation));
    }
}

fn origins(device: &CpuBackend, program: &Program) -> [Origin; 2] {
    [device.load(program), device.load_with_lines(program)].map(|loaded| loaded.unwrap().origin)
}

#[test]
fn code_with_lines_is_kept_apart() {
    let dir = TempDir::new("lines");
    let config = CpuConfig { cache: Some(dir.0.clone()), ..config() };
    let program = kernel(&square_plus(Rung::Llvm));
    for wanted in [Origin::Compiled, Origin::Disk] {
        let device = cpu::open(&config, Some(Rung::Llvm)).unwrap();
        let plain = device.load(&program).unwrap();
        let told = device.load_with_lines(&program).unwrap();
        assert_eq!([plain.origin, told.origin], [wanted; 2]);
        assert!(code(&plain).lines.is_empty() && !code(&told).lines.is_empty());
        assert_eq!(origins(&device, &program), [Origin::Memory; 2]);
    }
}

/// kiln has no disassembler but LLVM's, so that a C compiler need not be asked twice.
#[test]
fn c_is_compiled_once() {
    let device = cpu::open(&config(), Some(Rung::C)).unwrap();
    let program = program(&c("", "a[0] = 42;"), 1, 1);
    let first = device.load_with_lines(&program).unwrap();
    assert_eq!(origins(&device, &program), [Origin::Memory; 2]);
    assert_eq!((first.origin, first.kernel.disassemble()), (Origin::Compiled, None));
}
