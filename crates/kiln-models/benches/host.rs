//! Times of a call of a model, in parts: its graph, the rest until the result is there, and the end of the graph. `DEV=NULL`
//! launches nothing: there all of it is kiln's own work. Prints medians of 200 calls in ms.
//! Run with `cargo bench -p kiln-models --bench host`, or with `-- mobilenet token` for some. `token` is one of GPT-2 with 124
//! million weights, after as many as there were calls: its cache grows.
#![allow(clippy::print_stdout)]

use kiln::nn::Module;
use kiln::{DType, Error, Tensor, no_grad};
use kiln_models::cases::{Case, NAMES, Size};
use kiln_models::{Gpt2, Gpt2Config};
use std::time::{Duration, Instant};

const CALLS: usize = 200;
/// Calls before, in which everything is compiled.
const FIRST: usize = 10;

fn main() -> Result<(), Error> {
    let named: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let is_asked = |name: &str| named.is_empty() || named.iter().any(|n| n == name);
    for name in NAMES.iter().filter(|name| is_asked(name)) {
        let case = Case::of(name, Size::Real, DType::F32)?.expect("a name");
        kiln::realize(&case.module().parameters())?;
        let inputs = case.inputs(1);
        kiln::realize(&inputs)?;
        measure(name, || case.output(&inputs))?;
    }
    if is_asked("token") {
        let model = Gpt2::new(&Gpt2Config::small());
        kiln::realize(&model.parameters())?;
        let mut cache = model.cache(1);
        measure("token", || model.next(&Tensor::from([[7i64]]), &mut cache).argmax(-1))?;
    }
    Ok(())
}

fn measure(name: &str, mut call: impl FnMut() -> Tensor) -> Result<(), Error> {
    let mut parts: [Vec<Duration>; 3] = Default::default();
    for _ in 0..FIRST + CALLS {
        let took = no_grad(|| parts_of(&mut call))?;
        parts.iter_mut().zip(took).for_each(|(all, took)| all.push(took));
    }
    let [graph, result, end] = parts.map(|all| median(&all[FIRST..]));
    println!("{name}: graph {graph:.3}, result {result:.3}, end {end:.3}");
    Ok(())
}

fn parts_of(call: &mut impl FnMut() -> Tensor) -> Result<[Duration; 3], Error> {
    let start = Instant::now();
    let y = call();
    let graph = start.elapsed();
    y.realize()?;
    let result = start.elapsed();
    drop(y);
    Ok([graph, result - graph, start.elapsed() - result])
}

/// In milliseconds.
fn median(all: &[Duration]) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2].as_secs_f64() * 1e3
}
