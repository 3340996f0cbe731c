//! Inputs from a generator that `peers.py` has too: a hash of the position, as a float in -1..1 that every dtype of 24
//! bits or more holds exactly.

use kiln::{DType, Error, Tensor};

/// Mixes the bits of a position.
fn hash(seed: u32, at: u32) -> u32 {
    let mut x = at.wrapping_mul(0x9E37_79B9).wrapping_add(seed.wrapping_mul(0x85EB_CA6B));
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// One number in -1..1.
fn number(seed: u32, at: u32) -> f32 {
    (hash(seed, at) >> 8) as f32 / (1 << 23) as f32 - 1.0
}

/// Numbers in -1..1, in memory.
pub(crate) fn floats(seed: u32, shape: &[usize]) -> Result<Tensor, Error> {
    scaled(seed, shape, 1.0)
}

/// Numbers in `-scale..scale`, in memory.
pub(crate) fn scaled(seed: u32, shape: &[usize], scale: f32) -> Result<Tensor, Error> {
    let n = shape.iter().product::<usize>() as u32;
    let data: Vec<f32> = (0..n).map(|at| number(seed, at) * scale).collect();
    let tensor = Tensor::from_vec(data, shape);
    tensor.realize()?;
    Ok(tensor)
}

/// Numbers in -1..1 rounded to a dtype, in memory.
pub(crate) fn typed(seed: u32, shape: &[usize], dtype: DType) -> Result<Tensor, Error> {
    let tensor = floats(seed, shape)?.cast(dtype);
    tensor.realize()?;
    Ok(tensor)
}

/// Labels below `classes`, in memory.
pub(crate) fn labels(seed: u32, n: usize, classes: u32) -> Result<Tensor, Error> {
    let data: Vec<i64> = (0..n as u32).map(|at| i64::from(hash(seed, at) % classes)).collect();
    let tensor = Tensor::from_vec(data, [n]);
    tensor.realize()?;
    Ok(tensor)
}

/// How many elements of a result are compared.
const SAMPLES: u32 = 48;

/// What two results are compared by: the mean magnitude of all elements, and elements at places that depend on nothing
/// but how many there are.
pub(crate) fn samples(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    // by blocks, so that the sum is more exact than what is compared
    let block = |block: &[f64]| block.iter().map(|x| x.abs()).sum::<f64>();
    let magnitude = values.chunks(4096).map(block).sum::<f64>() / n as f64;
    let places = (0..SAMPLES).map(|i| hash(1, i) as usize % n);
    std::iter::once(magnitude).chain(places.map(|at| values[at])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `peers.py` checks itself against the same numbers when it starts.
    #[test]
    fn the_generator_is_the_one_that_peers_have() {
        assert_eq!([0, 1, 2].map(|at| hash(7, at)), HASHES);
        assert!((0..10_000).all(|at| (-1.0..1.0).contains(&number(3, at))));
    }

    const HASHES: [u32; 3] = [549895044, 1701095817, 806627162];
}
