//! Machine code in records, against the lines of the text that it was compiled from.

use crate::observed::training_step;
use kiln::record::{Kernel, Record};
use kiln::{DType, Tensor};
use kiln_ir::observe::{self, Event, MachineCode, Observer};
use kiln_ir::program::Program;
use kiln_runtime::Backend;
use kiln_runtime::cpu::{self, Rung, config::CpuConfig};
use std::sync::{Arc, Mutex};

/// Keeps the kernels that are compiled.
#[derive(Default)]
struct Kernels(Mutex<Vec<(Program, MachineCode)>>);

impl Observer for Kernels {
    fn see(&self, event: &Event<'_>) {
        if let Event::Compiled(kernel) = event {
            let code = (kernel.disassemble)().expect("LLVM tells");
            self.0.lock().expect("no panic").push((kernel.program.clone(), code));
        }
    }
}

/// Runs `f` under `VIZ_CODE` on `CPU:LLVM`.
fn under_lines<R>(f: impl FnOnce() -> R) -> R {
    kiln::with([("VIZ_CODE", "1"), ("DEV", "CPU:LLVM")], f).expect("settings")
}

/// Small and large kernels, with calls, masks, and more values than registers.
fn many_kinds() {
    assert!(training_step(11).expect("computes").is_finite());
    let x = Tensor::rand([171, 173]);
    let product = x.matmul(&x.permute([1, 0])).softmax(-1).sin();
    kiln::realize(&[product, x.sort(-1, false).0, x.cumsum(0), x.cast(DType::BF16).exp()])
        .expect("computes");
}

#[test]
fn lines_do_not_change_instructions() {
    let kernels = Arc::new(Kernels::default());
    observe::with(Some(kernels.clone()), || under_lines(many_kinds));
    let config = CpuConfig { cache: None, ..CpuConfig::from_env() };
    let device = cpu::open(&config, Some(Rung::Llvm)).expect("there is an LLVM");
    let kernels = kernels.0.lock().expect("no panic");
    let (mut instructions, mut with_line) = (0, 0);
    for (program, code) in &*kernels {
        let plain = device.load(program).expect("compiles").kernel.disassemble();
        let plain = plain.expect("LLVM tells");
        assert_eq!((&plain.text, plain.lines.len()), (&code.text, 0), "{}", program.source);
        assert_eq!(code.text.lines().count(), code.lines.len());
        let most = program.source.lines().count();
        assert!(code.lines.iter().flatten().all(|line| (1..=most).contains(&(*line as usize))));
        instructions += code.lines.len();
        with_line += code.lines.iter().flatten().count();
    }
    assert!(
        kernels.len() > 10 && 10 * with_line > 7 * instructions,
        "{with_line} of {instructions}"
    );
}

fn recorded(program: impl FnOnce()) -> Record {
    let path = std::env::temp_dir().join(format!("kiln-lines-{}", std::process::id()));
    kiln::record(&path, program).expect("a file can be written");
    let record = Record::open(&path).expect("a record");
    std::fs::remove_file(&path).expect("it is there");
    record
}

/// The instructions of the lines that contain an operation.
fn of<'a>(kernel: &'a Kernel, operation: &str) -> Vec<&'a str> {
    let source: Vec<&str> = kernel.source.lines().collect();
    let is_of = |line: u32| source[line as usize - 1].contains(operation);
    let all = kernel.code.as_ref().expect("it is recorded").lines().zip(&kernel.lines);
    all.filter(|(_, line)| line.is_some_and(is_of)).map(|(text, _)| text).collect()
}

/// Also of a kernel that was compiled before, without lines.
#[test]
fn a_record_has_the_lines_of_instructions() {
    let program = || {
        let x = Tensor::from([1.5f32; 311]);
        let y = ((&x + 0.375) / &x).to_vec::<f32>().expect("computes");
        assert_eq!(y, [1.25; 311]);
    };
    kiln::with([("DEV", "CPU:LLVM")], program).expect("settings");
    let record = under_lines(|| recorded(program));
    let kernel = record.kernels.iter().find(|kernel| kernel.source.contains("fdiv"));
    let kernel = kernel.expect("it was compiled");
    for (operation, instruction) in [("fadd", "add"), ("fdiv", "div")] {
        let found = of(kernel, operation);
        assert!(found.iter().any(|text| text.contains(instruction)), "{operation}: {found:?}");
    }
    let without = kiln::with([("DEV", "CPU:LLVM")], || recorded(program)).expect("settings");
    assert!(without.kernels.iter().all(|kernel| kernel.code.is_none() && kernel.lines.is_empty()));
}
