//! Numbers that look random and follow from a name, so that kiln and PyTorch have the same weights and inputs without a
//! file. `testdata/golden/models.py` makes them too.

use kiln::nn::{Module, StateDict};
use kiln::{Error, Tensor};

/// Whole numbers below 2^24.
fn whole(name: &str, n: usize) -> impl Iterator<Item = u32> {
    let seed =
        name.bytes().fold(0x811C_9DC5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    (0..n as u32).map(move |i| {
        let mut x = i.wrapping_mul(0x9E37_79B9).wrapping_add(seed);
        x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
        x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
        (x ^ (x >> 16)) >> 8
    })
}

/// `n` numbers from -1 to 1.
///
/// ```
/// assert!(kiln_models::formula::numbers("x", 100).all(|x| (-1.0..1.0).contains(&x)));
/// ```
pub fn numbers(name: &str, n: usize) -> impl Iterator<Item = f64> {
    whole(name, n).map(|x| f64::from(x) / f64::from(1 << 23) - 1.0)
}

/// f32 numbers from `-scale` to `scale`.
///
/// ```
/// assert_eq!(kiln_models::formula::floats("x", &[2, 3], 1.5).shape(), [2, 3]);
/// ```
pub fn floats(name: &str, shape: &[usize], scale: f64) -> Tensor {
    let n = shape.iter().product();
    Tensor::from_vec(numbers(name, n).map(|u| (scale * u) as f32).collect(), shape)
}

/// i64 numbers from 0 to `below`.
///
/// ```
/// let x = kiln_models::formula::integers("x", &[9], 4).to_vec::<i64>()?;
/// assert!(x.iter().all(|x| (0..4).contains(x)));
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn integers(name: &str, shape: &[usize], below: usize) -> Tensor {
    let scaled = |x: u32| ((u64::from(x) * below as u64) >> 24) as i64;
    Tensor::from_vec(whole(name, shape.iter().product()).map(scaled).collect(), shape)
}

/// Gives each float of a module numbers that follow from its name: weights by how many products they are part of, what has
/// one axis near 0 or 1.
///
/// ```
/// let layer = kiln::nn::Linear::new(3, 4);
/// kiln_models::formula::fill(&layer)?;
/// assert!(layer.weight.to_vec::<f32>()?.iter().all(|w| w.abs() <= 1.0));
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// Those of [`Module::load_state_dict`].
pub fn fill(module: &(impl Module + ?Sized)) -> Result<(), Error> {
    let floats = |(_, t): &(String, Tensor)| t.dtype().is_float();
    let state: StateDict = module
        .state_dict()
        .into_iter()
        .filter(floats)
        .map(|(name, tensor)| {
            let values = filled(&name, &tensor);
            (name, values)
        })
        .collect();
    module.load_state_dict(&state, false)?;
    kiln::realize(module.state_dict().values())
}

fn filled(name: &str, tensor: &Tensor) -> Tensor {
    let shape = tensor.shape();
    let products: usize = shape[1..].iter().product();
    let (center, scale) = match name {
        _ if shape.len() > 1 => (0.0, (3.0 / products as f64).sqrt()),
        _ if name.ends_with("weight") || name.ends_with("var") => (1.0, 0.25),
        _ => (0.0, 0.1),
    };
    let values = numbers(name, tensor.numel()).map(|u| (center + scale * u) as f32);
    Tensor::from_vec(values.collect(), shape)
}
