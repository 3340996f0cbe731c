//! Measures the decomposed functions: `cargo run --release -p kiln-compile --example ulp -- STRIDE [OP]`.
//!
//! Prints the largest error of each over every STRIDE-th f32 (1: all of them); docs/numerics.md holds the figures. Then
//! prints f64 inputs and results as bits, for a check against a library of any precision.

#![allow(clippy::print_stdout, missing_docs, unreachable_pub)]

#[path = "../../tests/it/flat.rs"]
mod flat;
#[path = "../../tests/it/ulp.rs"]
mod ulp;

use kiln_ir::{DType, Op};
use ulp::{FUNCTIONS, program, worst_f32};

fn main() {
    let mut args = std::env::args().skip(1);
    let stride: u64 = args.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    let wanted = args.next();
    for (op, truth, _) in FUNCTIONS {
        if wanted.as_ref().is_none_or(|w| w == op.name() || w == "f64") {
            if wanted.as_deref() != Some("f64") {
                report_f32(op, truth, stride);
            }
            report_f64(op, stride);
        }
    }
}

fn report_f32(op: Op, truth: ulp::Truth, stride: u64) {
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get()) as u64;
    let span = (1u64 << 32) / threads;
    let part = |i: u64| {
        move || {
            let end = if i + 1 == threads { 1 << 32 } else { (i + 1) * span };
            let inputs = (i * span..end).step_by(stride as usize).map(|x| x as u32);
            worst_f32(&program(op, DType::F32), truth, inputs)
        }
    };
    let running: Vec<_> = (0..threads).map(|i| std::thread::spawn(part(i))).collect();
    let worst = running.into_iter().map(|t| t.join().expect("a measurement"));
    let (error, at) = worst.max_by(|a, b| a.0.total_cmp(&b.0)).expect("a thread");
    println!("f32 {op}: {error:.3} ulp at {:e} ({at:#x})", f32::from_bits(at));
}

/// Random bits from a multiplicative generator, and values of ordinary size.
fn report_f64(op: Op, stride: u64) {
    let count = (1u64 << 20) / stride.clamp(1, 1 << 12);
    let random = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(i | 1);
    let ordinary = |r: u64| ((r as f64 / u64::MAX as f64 - 0.5) * 80.0).to_bits();
    let inputs: Vec<u64> =
        (0..count).map(random).map(|r| if r & 1 == 0 { r } else { ordinary(r) }).collect();
    for (x, y) in inputs.iter().zip(program(op, DType::F64).run(&inputs)) {
        println!("f64 {op} {x:016x} {y:016x}");
    }
}
