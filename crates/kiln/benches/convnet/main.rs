//! The bench model: a training step of an MNIST-sized convnet, batch 128. Prints what the first step, a step on a
//! schedule-cache hit and the kernels cost. Run with `cargo bench -p kiln --bench convnet`.
#![allow(clippy::print_stdout)]

mod model;

use kiln::nn::{Module, train};
use kiln::optim::Adam;
use kiln::{Counts, Error, Tensor, measure};
use model::Convnet;
use std::time::Instant;
fn main() -> Result<(), Error> {
    let (x, y) = (Tensor::randn([128, 1, 28, 28]), Tensor::randint(0, 10, [128]));
    kiln::realize([&x, &y])?;
    let model = Convnet::new();
    let optimizer = Adam::new(model.parameters(), 1e-3);
    kiln::realize(&model.parameters())?;
    for step in 0..std::env::args().filter_map(|n| n.parse().ok()).next().unwrap_or(8) {
        let start = Instant::now();
        let (loss, n) = measure(|| training_step(&model, &optimizer, &x, &y));
        report(step, loss?, start.elapsed().as_secs_f64(), n);
    }
    Ok(())
}

fn training_step(model: &Convnet, optimizer: &Adam, x: &Tensor, y: &Tensor) -> Result<f32, Error> {
    train(|| {
        let loss = model.forward(x).cross_entropy(y);
        optimizer.zero_grad();
        loss.backward()?;
        optimizer.step()?;
        loss.item::<f32>()
    })
}

fn report(step: usize, loss: f32, seconds: f64, n: Counts) {
    let (kernels, compile) = (n.kernel_ns as f64 / 1e6, n.compile_ns as f64 / 1e6);
    let (schedule, text) = (n.schedule_ns as f64 / 1e6, n.lower_ns as f64 / 1e6);
    let rest = seconds * 1e3 - kernels - compile - schedule;
    println!(
        "step {step}: loss {loss:.4}, {:.2} ms = schedule {schedule:.2} + lower and compile {compile:.2} (lower and render \
         {text:.2} of both threads) + kernels {kernels:.2} + the rest {rest:.2}; {} kernels, {} compiled, {} from disk, peak {} MB",
        seconds * 1e3,
        n.kernels,
        n.compiled,
        n.loaded,
        n.peak_memory / 1_000_000,
    );
}
