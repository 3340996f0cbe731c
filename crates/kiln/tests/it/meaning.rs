//! What programs mean: every statement of docs/semantics.md, and programs with which lazy frameworks are known to go
//! wrong. The values are those of running every line at once. Kernel counts, bytes and memory are tests of their own.
//!
//! Many of the programs are those of tinygrad's tests of `assign`, `setitem` and schedules, with the value that these
//! call intended. Not here, because kiln does not have what they are about: symbolic variables (slices whose ends are
//! variables, one variable with two values), functions that are captured and replayed, tensors sharded over devices. A
//! constant that was expanded stays an error as a target: its elements are one.

mod values;
mod views;
mod targets;
mod order;
mod writes;
mod loops;
mod place;
mod sharing;
mod computing;
mod slopes;
mod indices;
mod files;

use kiln::{DType, Device, Tensor, measure, realize};

/// 0.0, 1.0, .. in memory.
fn iota(n: usize) -> Tensor {
    Tensor::from((0..n).map(|i| i as f32).collect::<Vec<f32>>())
}

/// `value`, `n` times, in memory.
fn filled(n: usize, value: f32) -> Tensor {
    Tensor::from(vec![value; n])
}

/// A device that is not the default one.
fn elsewhere() -> Device {
    let other = if Device::default_device().name() == "INTERP" { "CPU" } else { "INTERP" };
    Device::parse(other).expect("a device")
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.cast(DType::F32).to_vec().expect("computes")
}

fn ints(t: &Tensor) -> Vec<i32> {
    t.cast(DType::I32).to_vec().expect("computes")
}

fn item(t: &Tensor) -> f32 {
    t.cast(DType::F32).item().expect("computes")
}

fn why<T>(result: Result<T, kiln::Error>) -> String {
    match result {
        Ok(_) => panic!("no error"),
        Err(error) => error.to_string(),
    }
}

/// The kernels that computing all of `tensors` takes.
fn kernels<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> u64 {
    let (done, n) = measure(|| realize(tensors));
    done.expect("computes");
    n.kernels
}
