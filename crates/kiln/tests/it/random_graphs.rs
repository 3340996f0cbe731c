//! Random programs give the same bits on every device.
//!
//! A seed makes a program: inputs of every dtype and steps over the whole interface. Devices may reorder float sums, so the
//! generator follows which values are short dyadic numbers and sums only those; then every order gives the same bits.
//! `KILN_FUZZ=n` runs `n` times as many programs, `KILN_SEED=s` runs one: see `fuzz`.

mod data;
mod grid;
mod moves;
mod program;
mod steps;
mod sums;

use crate::fuzz::seeds;
use data::bits;
use kiln::{Device, Tensor};
use program::Program;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The values of a program's outputs as bits, computed all at once.
fn run(seed: u64, steps: usize, device: &Device) -> Result<(Program, Vec<Vec<u64>>), String> {
    let program = Program::new(seed, steps, device);
    let outputs: Vec<Tensor> = program.outputs().map(|(_, t)| t.clone()).collect();
    let compute = || kiln::realize(&outputs).and_then(|()| outputs.iter().map(bits).collect());
    // a compiler that panics is one more finding
    let computed: Result<_, String> = match catch_unwind(AssertUnwindSafe(compute)) {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    };
    match computed {
        Ok(computed) => Ok((program, computed)),
        Err(error) => {
            Err(format!("{device} seed {seed} steps {steps}: {error}\n{}", program.text(None)))
        }
    }
}

/// What differs between two devices, if something does.
fn difference(seed: u64, steps: usize, [a, b]: [&Device; 2]) -> Option<String> {
    let ((program, left), (_, right)) = match (run(seed, steps, a), run(seed, steps, b)) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(error), _) | (_, Err(error)) => return Some(error),
    };
    let names = program.outputs().map(|(i, _)| i);
    for (output, (left, right)) in names.zip(left.iter().zip(&right)) {
        if let Some(at) = left.iter().zip(right).position(|(l, r)| l != r) {
            let (l, r) = (left[at], right[at]);
            let what = format!("element {at} is {l:#x} on {a} and {r:#x} on {b}");
            let text = program.text(Some(output));
            return Some(format!("seed {seed} steps {steps}: v{output} {what}\n{text}"));
        }
    }
    None
}

/// The failure of the shortest beginning of the program that fails.
fn shrunk(seed: u64, devices: [&Device; 2]) -> Option<String> {
    let whole = difference(seed, program::STEPS, devices)?;
    let shorter = (1..program::STEPS).find_map(|steps| difference(seed, steps, devices));
    Some(shorter.unwrap_or(whole))
}

pub(crate) fn agree(a: &str, b: &str, n: u64) {
    let devices = [a, b].map(|name| Device::parse(name).expect("a device"));
    let fails = |seed: u64| shrunk(seed, [&devices[0], &devices[1]]);
    let failures: Vec<String> = seeds(n).into_iter().filter_map(fails).take(10).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn llvm_agrees_with_the_interpreter() {
    agree("CPU:LLVM", "INTERP", 1000);
}

/// Those that this machine can imitate, and that add products without rounding: the last bit of functions needs that.
#[test]
fn other_processors_agree_with_the_interpreter() {
    for cpu in ["haswell", "skylake-avx512"] {
        let device = format!("CPU:LLVM:x86_64,{cpu}");
        if Device::parse(&device).expect("a name").describe().is_ok() {
            agree(&device, "INTERP", 100);
        }
    }
}

#[test]
fn c_agrees_with_the_interpreter() {
    agree("CPU:C", "INTERP", 100);
}
