//! Random networks agree with the interpreter: outputs, losses, gradients of all parameters and of the input, statistics.
//!
//! A seed makes a network: layers over images, sequences or rows, residuals among them, and a loss. The interpreter computes
//! it layer by layer in f64, so that nothing of one layer is in a kernel of another. What the default device computes, in f64
//! and in f32, may be off as far as the interpreter's own f32 is, a few times, counted in last bits: sums have other orders, and
//! some networks make much of a rounding. `KILN_FUZZ=n` runs `n` times as many networks, `KILN_SEED=s` runs one: see `fuzz`.

mod layer;
mod network;

use crate::fuzz::seeds;
use kiln::nn::{Module, train};
use kiln::{DType, Device, Error};
use network::Network;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Everything that a training step computes, by name.
type Values = Vec<(String, Vec<f64>)>;

/// What a network of a seed computes on a device: with each layer by itself, or all at once.
fn values(
    seed: u64,
    depth: usize,
    device: &Device,
    dtype: DType,
    by_layers: bool,
) -> Result<Values, Error> {
    let network = Network::new(seed, depth, device, dtype)?;
    let (output, loss) = train(|| network.run(by_layers))?;
    // programs often print a loss before its gradients are computed, which then start from less
    if seed.is_multiple_of(2) {
        loss.realize()?;
    }
    loss.backward()?;
    let mut all = vec![("output".to_owned(), output), ("loss".to_owned(), loss)];
    all.extend(network.input.grad().map(|grad| ("input".to_owned(), grad)));
    for (name, tensor) in network.layers.state_dict() {
        let value = if tensor.requires_grad() { tensor.grad() } else { Some(tensor) };
        all.extend(value.filter(|t| t.dtype().is_float()).map(|t| (name, t)));
    }
    kiln::realize(all.iter().map(|(_, tensor)| tensor))?;
    all.into_iter().map(|(name, tensor)| Ok((name, tensor.cast(DType::F64).to_vec()?))).collect()
}

/// A compiler that panics is one more finding.
fn computed(
    seed: u64,
    depth: usize,
    device: &Device,
    dtype: DType,
    by_layers: bool,
) -> Result<Values, String> {
    let compute = || values(seed, depth, device, dtype, by_layers);
    match catch_unwind(AssertUnwindSafe(compute)) {
        Ok(values) => values.map_err(|error| format!("{device} in {dtype}: {error}")),
        Err(panic) => Err(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    }
}

/// How far each value is off, by the largest of its magnitude and a thousandth of the largest of all gradients: one that
/// vanishes is noise. A bias before a norm has such a gradient: its terms are those of the weight's, and cancel. So a bias is
/// compared with its weight, too.
fn off(right: &Values, found: &Values) -> Vec<f64> {
    let all = right[2..].iter().map(|(_, x)| largest(x)).fold(1e-30, f64::max);
    let apart = |(right, found): (&f64, &f64)| {
        let apart = (right - found).abs();
        if apart.is_nan() { f64::INFINITY } else { apart }
    };
    let scale = |name: &str| {
        let weight = name.replace("bias", "weight");
        let both = right.iter().filter(|(n, _)| *n == name || *n == weight);
        both.map(|(_, x)| largest(x)).fold(1e-3 * all, f64::max)
    };
    let one = |(name, right): &(String, Vec<f64>), found: &[f64]| {
        right.iter().zip(found).map(apart).fold(0.0, f64::max) / scale(name)
    };
    right.iter().zip(found).map(|(right, (_, found))| one(right, found)).collect()
}

fn largest(x: &[f64]) -> f64 {
    x.iter().fold(0.0, |a, b| a.max(b.abs()))
}

/// How much worse than the interpreter's roundings those of another order of sums may be, and how many are nothing.
const WORSE: f64 = 16.0;
const ROUNDINGS: f64 = 64.0;

/// What is wrong with a network, if something is.
fn failure(seed: u64, depth: usize) -> Option<String> {
    let text = || network::text(seed, depth);
    compared(seed, depth).err().map(|why| format!("seed {seed}, {depth} layers: {why}\n{}", text()))
}

fn compared(seed: u64, depth: usize) -> Result<(), String> {
    let (here, interp) = (Device::default_device(), Device::parse("INTERP").expect("a device"));
    let right = computed(seed, depth, &interp, DType::F64, true)?;
    let theirs = off(&right, &computed(seed, depth, &interp, DType::F32, true)?);
    // in units of the last bit
    let noise = theirs.iter().fold(ROUNDINGS, |a, b| a.max(*b / f64::from(f32::EPSILON)));
    for (dtype, epsilon) in [(DType::F64, f64::EPSILON), (DType::F32, f64::from(f32::EPSILON))] {
        let ours = off(&right, &computed(seed, depth, &here, dtype, false)?);
        for ((name, _), off) in right.iter().zip(ours) {
            if off > WORSE * noise * epsilon {
                let off = off / epsilon;
                return Err(format!(
                    "{name} in {dtype} is {off:.0} bits off, the interpreter {noise:.0}"
                ));
            }
        }
    }
    Ok(())
}

/// The failure of the shortest beginning of the network that fails.
fn shrunk(seed: u64) -> Option<String> {
    let whole = failure(seed, network::DEPTH)?;
    Some((0..network::DEPTH).find_map(|depth| failure(seed, depth)).unwrap_or(whole))
}

#[test]
fn random_networks_agree_with_the_interpreter() {
    let failures: Vec<String> = seeds(3).into_iter().filter_map(shrunk).take(10).collect();
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures.join("\n"));
}
