//! Arrays in JSON, as tensors and back.

use kiln::{DType, Device, Element, Error, Tensor};
use serde_json::Value;

/// A number of any dtype.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    pub(super) fn float(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(f) => f,
        }
    }

    fn int(self) -> i128 {
        match self {
            Number::Int(i) => i,
            Number::Float(f) => f as i128,
        }
    }

    fn new(value: &Value) -> Number {
        let int = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
        let text = || value.as_str().and_then(|text| text.parse().ok());
        let float = || value.as_f64().or_else(text).expect("a number");
        int.map_or_else(|| Number::Float(float()), Number::Int)
    }
}

/// An array as the file has it.
pub(super) struct Array {
    pub(super) dtype: DType,
    pub(super) shape: Vec<usize>,
    pub(super) data: Vec<Number>,
}

impl Array {
    /// An array of golden.json.
    pub(super) fn new(value: &Value) -> Array {
        Array::from_parts(&value["dtype"], &value["shape"], &value["data"])
    }

    /// An array of the other files: `[dtype, shape, data]`, or without data one that counts.
    pub(super) fn compact(value: &Value) -> Array {
        let array = Array::from_parts(&value[0], &value[1], &value[2]);
        if value[2].is_array() { array } else { array.counting() }
    }

    fn from_parts(dtype: &Value, shape: &Value, data: &Value) -> Array {
        let dtype = dtype.as_str().and_then(DType::parse).expect("a dtype");
        let length = |n: &Value| n.as_u64().expect("a length") as usize;
        let shape = shape.as_array().expect("a shape").iter().map(length).collect();
        let number = |v: &Value| match Number::new(v) {
            // floats as their own type rounds them
            n if dtype == DType::F32 => Number::Float(n.float() as f32 as f64),
            n if dtype == DType::F16 => Number::Float(half::f16::from_f64(n.float()).to_f64()),
            n if dtype == DType::BF16 => Number::Float(half::bf16::from_f64(n.float()).to_f64()),
            n if dtype.is_float() => Number::Float(n.float()),
            n => n,
        };
        let data = data.as_array().map(|items| items.iter().map(number).collect());
        Array { dtype, shape, data: data.unwrap_or_default() }
    }

    /// 0, 1, 2, ..; of bools every third is true.
    fn counting(self) -> Array {
        let number = |k: usize| match self.dtype {
            DType::Bool => Number::Int(k.is_multiple_of(3) as i128),
            dtype if dtype.is_float() => Number::Float(k as f64),
            _ => Number::Int(k as i128),
        };
        let numel = self.shape.iter().product();
        Array { data: (0..numel).map(number).collect(), ..self }
    }
}

/// The array on a device.
pub(super) fn tensor(a: &Array, device: &Device) -> Tensor {
    fn make<T: Element>(a: &Array, device: &Device, f: impl Fn(Number) -> T) -> Tensor {
        Tensor::from_vec_on(a.data.iter().map(|n| f(*n)).collect(), &a.shape, device)
    }
    match a.dtype {
        DType::Bool => make(a, device, |n| n.int() != 0),
        DType::I8 => make(a, device, |n| n.int() as i8),
        DType::I16 => make(a, device, |n| n.int() as i16),
        DType::I32 => make(a, device, |n| n.int() as i32),
        DType::I64 => make(a, device, |n| n.int() as i64),
        DType::U8 => make(a, device, |n| n.int() as u8),
        DType::U16 => make(a, device, |n| n.int() as u16),
        DType::U32 => make(a, device, |n| n.int() as u32),
        DType::U64 => make(a, device, |n| n.int() as u64),
        DType::F16 => make(a, device, |n| half::f16::from_f64(n.float())),
        DType::BF16 => make(a, device, |n| half::bf16::from_f64(n.float())),
        DType::F32 => make(a, device, |n| n.float() as f32),
        DType::F64 => make(a, device, Number::float),
        other => unreachable!("no test has {other}"),
    }
}

/// A tensor's elements.
pub(super) fn numbers(t: &Tensor) -> Result<Vec<Number>, Error> {
    fn all<T: Element>(t: &Tensor, f: impl Fn(T) -> Number) -> Result<Vec<Number>, Error> {
        Ok(t.to_vec::<T>()?.into_iter().map(f).collect())
    }
    match t.dtype() {
        DType::Bool => all(t, |x: bool| Number::Int(x as i128)),
        DType::I8 => all(t, |x: i8| Number::Int(x as i128)),
        DType::I16 => all(t, |x: i16| Number::Int(x as i128)),
        DType::I32 => all(t, |x: i32| Number::Int(x as i128)),
        DType::I64 => all(t, |x: i64| Number::Int(x as i128)),
        DType::U8 => all(t, |x: u8| Number::Int(x as i128)),
        DType::U16 => all(t, |x: u16| Number::Int(x as i128)),
        DType::U32 => all(t, |x: u32| Number::Int(x as i128)),
        DType::U64 => all(t, |x: u64| Number::Int(x as i128)),
        DType::F16 => all(t, |x: half::f16| Number::Float(x.to_f64())),
        DType::BF16 => all(t, |x: half::bf16| Number::Float(x.to_f64())),
        DType::F32 => all(t, |x: f32| Number::Float(x as f64)),
        DType::F64 => all(t, Number::Float),
        other => unreachable!("no test has {other}"),
    }
}
