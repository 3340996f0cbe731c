//! ResNet-18 on images of 224 x 224: training steps at batch 8 with SGD, inference at batches 1 and 8. Prints times, by the
//! clock and of all processors, and memory; bench/resnet.py prints the same of PyTorch.
//! `cargo bench -p kiln --bench resnet`, `-- 20` for 20 steps.
#![allow(clippy::print_stdout)]

mod model;

use kiln::nn::{Module, train};
use kiln::optim::SGD;
use kiln::{Counts, Error, Tensor, measure};
use model::{ResNet, images, labels};
use std::time::Instant;

const CLASSES: usize = 1000;

fn main() -> Result<(), Error> {
    let steps = std::env::args().filter_map(|n| n.parse().ok()).next().unwrap_or(8);
    let model = ResNet::new(64, CLASSES).filled();
    let optimizer = SGD::new(model.parameters(), 0.01).momentum(0.9).weight_decay(5e-4);
    let (x, y) = (images(8, 224), labels(8, CLASSES));
    println!("resident before the first step: {} MB", resident_mb("VmRSS:"));
    for step in 0..steps {
        report(&format!("step {step}"), || training_step(&model, &optimizer, &x, &y))?;
    }
    println!("most ever resident, after training: {} MB", resident_mb("VmHWM:"));
    for batch in [1, 8] {
        let x = images(batch, 224);
        for _ in 0..steps {
            report(&format!("inference, batch {batch}"), || {
                model.forward(&x).to_vec::<f32>().map(|logits| logits[0])
            })?;
        }
    }
    Ok(())
}

fn training_step(model: &ResNet, optimizer: &SGD, x: &Tensor, y: &Tensor) -> Result<f32, Error> {
    train(|| {
        let loss = model.forward(x).cross_entropy(y);
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        loss.item::<f32>()
    })
}

fn report(what: &str, f: impl FnOnce() -> Result<f32, Error>) -> Result<(), Error> {
    let (start, busy) = (Instant::now(), processor_ms());
    let (value, n): (_, Counts) = measure(f);
    let ms = |ns: u64| ns as f64 / 1e6;
    println!(
        "{what}: {:.4}, {:.1} ms, of processors {}, kernels {:.1}, compile {:.1}, schedule {:.1}; {} kernels, {} compiled, \
         {:.2} GB, {:.1} GFLOP, peak {} MB",
        value?,
        start.elapsed().as_secs_f64() * 1e3,
        processor_ms() - busy,
        ms(n.kernel_ns),
        ms(n.compile_ns),
        ms(n.schedule_ns),
        n.kernels,
        n.compiled,
        n.bytes as f64 / 1e9,
        n.flops as f64 / 1e9,
        n.peak_memory / 1_000_000,
    );
    Ok(())
}

/// Memory of this process, on Linux: what it has now (`VmRSS:`), or the most that it ever had (`VmHWM:`).
fn resident_mb(which: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix(which));
    let kb = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kb.unwrap_or_default() / 1000
}

/// What all threads took so far, on Linux, in ticks of 10 ms.
fn processor_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks * 10
}
