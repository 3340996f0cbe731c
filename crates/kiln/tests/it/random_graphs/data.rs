//! Input data, and results as bits.

use crate::fuzz::Rng;
use kiln::{DType, Device, Element, Tensor};

/// A small multiple of 1/8, now and then a value that arithmetic treats specially.
fn float(rng: &mut Rng) -> f64 {
    match rng.below(24) {
        0 => rng.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
        1 | 2 => rng.pick(&[0.0, -0.0]),
        _ => (rng.below(65) as f64 - 32.0) / 8.0,
    }
}

/// Mostly small, now and then anything.
fn int(rng: &mut Rng) -> i64 {
    match rng.below(12) {
        0 => rng.pick(&[i64::MIN, i64::MAX, i32::MIN as i64, i32::MAX as i64, 128, -128, 127, 255]),
        1 => rng.next() as i64,
        _ => rng.below(17) as i64 - 6,
    }
}

fn make<T: Element>(shape: &[usize], device: &Device, mut element: impl FnMut() -> T) -> Tensor {
    let data = (0..shape.iter().product()).map(|_| element()).collect();
    Tensor::from_vec_on(data, shape, device)
}

/// A tensor of random data. Which data depends on the generator, the shape and the dtype, not on the device.
pub(super) fn input(rng: &mut Rng, shape: &[usize], dtype: DType, device: &Device) -> Tensor {
    match dtype {
        DType::Bool => make(shape, device, || rng.one_in(2)),
        DType::I8 => make(shape, device, || int(rng) as i8),
        DType::I16 => make(shape, device, || int(rng) as i16),
        DType::I32 => make(shape, device, || int(rng) as i32),
        DType::I64 => make(shape, device, || int(rng)),
        DType::U8 => make(shape, device, || int(rng) as u8),
        DType::U16 => make(shape, device, || int(rng) as u16),
        DType::U32 => make(shape, device, || int(rng) as u32),
        DType::U64 => make(shape, device, || int(rng) as u64),
        DType::F16 => make(shape, device, || half::f16::from_f64(float(rng))),
        DType::BF16 => make(shape, device, || half::bf16::from_f64(float(rng))),
        DType::F32 => make(shape, device, || float(rng) as f32),
        DType::F64 => make(shape, device, || float(rng)),
        other => unreachable!("no test has {other}"),
    }
}

/// The elements' bits, where every NaN is the same.
pub(super) fn bits(t: &Tensor) -> Result<Vec<u64>, kiln::Error> {
    fn all<T: Element>(t: &Tensor, f: impl Fn(T) -> u64) -> Result<Vec<u64>, kiln::Error> {
        Ok(t.to_vec::<T>()?.into_iter().map(f).collect())
    }
    const NAN: u64 = 0x7ff8_dead;
    match t.dtype() {
        DType::Bool => all(t, |x: bool| x as u64),
        DType::I8 => all(t, |x: i8| x as u64),
        DType::I16 => all(t, |x: i16| x as u64),
        DType::I32 => all(t, |x: i32| x as u64),
        DType::I64 => all(t, |x: i64| x as u64),
        DType::U8 => all(t, |x: u8| x as u64),
        DType::U16 => all(t, |x: u16| x as u64),
        DType::U32 => all(t, |x: u32| x as u64),
        DType::U64 => all(t, |x: u64| x),
        DType::F16 => all(t, |x: half::f16| if x.is_nan() { NAN } else { x.to_bits() as u64 }),
        DType::BF16 => all(t, |x: half::bf16| if x.is_nan() { NAN } else { x.to_bits() as u64 }),
        DType::F32 => all(t, |x: f32| if x.is_nan() { NAN } else { x.to_bits() as u64 }),
        DType::F64 => all(t, |x: f64| if x.is_nan() { NAN } else { x.to_bits() }),
        other => unreachable!("no test has {other}"),
    }
}
