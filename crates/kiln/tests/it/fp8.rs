//! Floats of eight bits, against PyTorch: conversions on every device, arithmetic in f32, promotion.

use kiln::{DType, Device, Tensor, s};
use serde_json::Value;

fn golden() -> Value {
    let text = include_str!("../../../../testdata/golden/fp8.json");
    serde_json::from_str(text).expect("JSON")
}

fn bytes_of(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("text").as_bytes();
    let digits = |pair: &[u8]| std::str::from_utf8(pair).expect("ASCII").to_owned();
    hex.chunks(2).map(|pair| u8::from_str_radix(&digits(pair), 16).expect("a byte")).collect()
}

fn floats_of(hex: &Value) -> Vec<f32> {
    let bytes = bytes_of(hex);
    bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().expect("four"))).collect()
}

fn devices() -> impl Iterator<Item = Device> {
    let works = |device: &Device| device.describe().is_ok();
    let named = |name| Device::parse(name).expect("a name");
    ["CPU:LLVM", "CPU:C", "INTERP"].into_iter().map(named).filter(works)
}

fn bits(t: &Tensor) -> Vec<u8> {
    t.bitcast(DType::U8).to_vec().expect("computes")
}

fn values(t: &Tensor) -> Vec<f32> {
    t.cast(DType::F32).to_vec().expect("computes")
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn every_byte_is_the_number_that_it_is_in_pytorch() {
    let golden = golden();
    let every = Tensor::arange(256).cast(DType::U8).realize().unwrap().clone();
    for (device, dtype) in devices().flat_map(|d| DType::FP8.map(|dtype| (d.clone(), dtype))) {
        let wanted = floats_of(&golden[dtype.name()]["decoded"]);
        let found = values(&every.to(&device).bitcast(dtype));
        for (byte, (a, b)) in found.into_iter().zip(wanted).enumerate() {
            assert!(same(a, b), "{dtype} {byte:#x} on {device}: {a}, not {b}");
        }
    }
}

#[test]
fn floats_are_rounded_as_pytorch_rounds() {
    let golden = golden();
    let inputs = floats_of(&golden["inputs"]);
    for (device, dtype) in devices().flat_map(|d| DType::FP8.map(|dtype| (d.clone(), dtype))) {
        let wanted = bytes_of(&golden[dtype.name()]["encoded"]);
        let x = Tensor::from(&inputs).to(&device);
        for (kind, found) in
            [("f32", bits(&x.cast(dtype))), ("f64", bits(&x.cast(DType::F64).cast(dtype)))]
        {
            let pairs = inputs.iter().zip(found.iter().zip(&wanted));
            for (x, (a, b)) in pairs {
                assert_eq!(a, b, "{kind} {x} as {dtype} on {device}");
            }
        }
    }
}

#[test]
fn constants_are_rounded_as_tensors_are() {
    let golden = golden();
    for dtype in DType::FP8 {
        let wanted = bytes_of(&golden[dtype.name()]["encoded"]);
        for (x, byte) in floats_of(&golden["inputs"]).into_iter().zip(wanted).step_by(37) {
            assert_eq!(bits(&Tensor::full_with([1], x, dtype)), [byte], "{x} as {dtype}");
        }
    }
}

#[test]
fn a_number_is_rounded_once() {
    // an f64 and an i32 just above the middle of 16 and 18, where f32 sees the middle
    let t = Tensor::from([17.0 + 2f64.powi(-40), 17.0]).cast(DType::F8E4M3);
    assert_eq!(values(&t), [18.0, 16.0]);
    let t = Tensor::from([(17 << 8) + 1, 17 << 8]).cast(DType::F8E5M2);
    assert_eq!(values(&t), [4096.0, 4096.0]);
    assert_eq!(values(&Tensor::from([true, false]).cast(DType::F8E4M3FNUZ)), [1.0, 0.0]);
    assert_eq!(values(&Tensor::from([1000i64, -3]).cast(DType::F8E4M3)), [448.0, -3.0]);
    let back = Tensor::from([448.0f32, -0.5, f32::NAN]).cast(DType::F8E4M3);
    assert_eq!(back.cast(DType::I32).to_vec::<i32>().unwrap(), [448, 0, 0]);
    assert_eq!(back.cast(DType::Bool).to_vec::<bool>().unwrap(), [true, true, true]);
}

/// Arithmetic is that of f32, with the result rounded.
#[test]
fn arithmetic_is_f32_and_a_rounding() {
    let every = Tensor::arange(256).cast(DType::U8).realize().unwrap().clone();
    for (device, dtype) in devices().flat_map(|d| DType::FP8.map(|dtype| (d.clone(), dtype))) {
        let a = every.to(&device).bitcast(dtype);
        let b = a.flip(0) * 1.0;
        let [x, y] = [&a, &b].map(|t| t.cast(DType::F32));
        type Binary = fn(&Tensor, &Tensor) -> Tensor;
        let all: [(&str, Binary); 8] = [
            ("add", |a, b| a + b),
            ("mul", |a, b| a * b),
            ("div", |a, b| a / b),
            ("max", |a, b| a.maximum(b)),
            ("neg", |a, _| -a),
            ("sqrt", |a, _| a.sqrt()),
            ("twice", |a, b| (a + b) * b),
            ("where", |a, b| a.lt(b).where_(a, b)),
        ];
        for (name, op) in all {
            let result = op(&a, &b);
            assert_eq!(result.dtype(), dtype, "{name}");
            let rounded = |t: Tensor| values(&t.cast(dtype));
            let wanted = match name {
                "twice" => {
                    let sum = Tensor::from(rounded(&x + &y)).to(&device);
                    rounded(sum * &y)
                }
                _ => rounded(op(&x, &y)),
            };
            for (i, (a, b)) in values(&result).into_iter().zip(wanted).enumerate() {
                assert!(same(a, b), "{name} of {dtype} at {i} on {device}: {a}, not {b}");
            }
        }
    }
}

#[test]
fn sums_are_accumulated_in_f32() {
    let t = Tensor::full_with([100], 1.0, DType::F8E4M3).contiguous();
    assert_eq!(values(&t.sum(..)), [104.0 - 8.0]);
    let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).cast(DType::F8E4M3);
    assert_eq!(values(&a.matmul(&a)), [7.0, 10.0, 15.0, 22.0]);
    assert_eq!(values(&a.mean(..)), [2.5]);
}

#[test]
fn promotion_goes_up() {
    for dtype in DType::FP8 {
        let t = Tensor::ones_with([2], dtype);
        for (other, wanted) in [
            (DType::Bool, dtype),
            (DType::I64, dtype),
            (DType::F16, DType::F16),
            (DType::BF16, DType::BF16),
            (DType::F32, DType::F32),
            (DType::F64, DType::F64),
        ] {
            assert_eq!((&t + Tensor::ones_with([2], other)).dtype(), wanted, "{dtype} + {other}");
        }
        assert_eq!((&t * 2.0).dtype(), dtype);
    }
    let [a, b] = [DType::F8E4M3, DType::F8E5M2].map(|dtype| Tensor::ones_with([1], dtype));
    assert_eq!(values(&(a + &b)), [2.0]);
    assert_eq!(Tensor::ones_with([1], DType::F8E4M3).maximum(&b).dtype(), DType::F16);
}

#[test]
fn they_are_dtypes_like_others() {
    let t = Tensor::zeros_with([2, 2], DType::F8E5M2);
    t.set(s![0, 1], 0.3);
    t.set(s![1], Tensor::from([100.0f32, 7.0]).cast(DType::F8E5M2));
    assert_eq!(values(&t), [0.0, 0.3125, 96.0, 7.0]);
    assert_eq!(t.to_string(), "[[ 0.      0.3125]\n [96.      7.    ]]");
    assert_eq!(DType::F8E5M2.size(), 1);
    let a = Tensor::randn_with([64], DType::F8E4M3);
    assert_eq!((a.dtype(), a.isfinite().all(..).item::<bool>().unwrap()), (DType::F8E4M3, true));
    let u = Tensor::rand_with([1000], DType::F8E4M3FNUZ).cast(DType::F32);
    assert!(u.ge(0.0).all(..).item::<bool>().unwrap() && u.lt(1.0).all(..).item().unwrap());
    let w = Tensor::from([1.0f32, -2.0]);
    w.set_requires_grad(true);
    let loss = w.cast(DType::F8E4M3).cast(DType::F32).square().sum(..);
    loss.backward().unwrap();
    assert_eq!(w.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, -4.0]);
}
