//! Indices and arguments as `testdata/golden/compact.py` writes them, and what takes them.

use super::data::{Array, tensor};
use super::list;
use kiln::{Device, Index, Indices, Tensor};
use serde_json::Value;

/// An argument of a method.
#[derive(Clone)]
pub(super) enum Given {
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tensor(Tensor),
}

impl Given {
    pub(super) fn new(value: &Value, device: &Device) -> Given {
        match value {
            Value::Bool(b) => Given::Bool(*b),
            Value::String(text) => Given::Text(text.clone()),
            Value::Array(_) => Given::Tensor(tensor(&Array::compact(value), device)),
            value => match value.as_i64() {
                Some(int) => Given::Int(int),
                None => Given::Float(value.as_f64().expect("a number")),
            },
        }
    }
}

/// `$body` with what may be written in place of `$given`, under its name.
macro_rules! operand {
    ($given:ident => $body:expr) => {
        match $given {
            Given::Bool(b) => operand!(@let $given = *b; $body),
            Given::Int(int) => operand!(@let $given = *int; $body),
            Given::Float(float) => operand!(@let $given = *float; $body),
            Given::Tensor(t) => operand!(@let $given = t; $body),
            Given::Text(text) => panic!("{text} is no operand"),
        }
    };
    (@let $given:ident = $value:expr; $body:expr) => {{
        let $given = $value;
        $body
    }};
}

pub(super) fn set(x: &Tensor, at: Indices, value: &Given) {
    operand!(value => x.set(at, value));
}

pub(super) fn assign(x: &Tensor, value: &Given) {
    operand!(value => x.assign(value));
}

pub(super) fn in_place(op: &str, x: &Tensor, value: &Given) {
    let mut x = x.clone();
    operand!(value => match op {
        "add_assign" => x += value,
        "mul_assign" => x *= value,
        _ => panic!("no op {op}"),
    });
}

/// The method `op`, if it takes operands, indices or masks.
pub(super) fn method(op: &str, x: &Tensor, args: &[Given]) -> Option<Tensor> {
    Some(match (op, args) {
        ("add", [value]) => operand!(value => x + value),
        ("sub", [value]) => operand!(value => x - value),
        ("mul", [value]) => operand!(value => x * value),
        ("masked_fill", [Given::Tensor(mask), value]) => {
            operand!(value => x.masked_fill(mask, value))
        }
        _ => return None,
    })
}

pub(super) fn indices(at: &Value, device: &Device) -> Indices {
    Indices::new(list(at).iter().map(|i| index(i, device)).collect::<Vec<Index>>())
}

fn index(value: &Value, device: &Device) -> Index {
    match value {
        Value::String(text) if text == "..." => Index::Ellipsis,
        Value::String(text) if text == "new" => Index::NewAxis,
        Value::String(text) => slice(text),
        Value::Array(items) if items.first().is_some_and(Value::is_string) => {
            Index::Tensor(tensor(&Array::compact(value), device))
        }
        Value::Array(_) => Index::Tensor(nested(value, device)),
        value => Index::At(value.as_i64().expect("a position")),
    }
}

/// `start:stop:step`, of which any may be missing.
fn slice(text: &str) -> Index {
    let mut ends = text.split(':').map(|end| end.parse().ok());
    let (start, stop) = (ends.next().flatten(), ends.next().flatten());
    Index::Slice { start, stop, step: ends.next().flatten().unwrap_or(1) }
}

/// A list of positions, or of lists of them.
fn nested(value: &Value, device: &Device) -> Tensor {
    match list(value) {
        [first, ..] if first.is_array() => {
            let rows: Vec<Tensor> = list(value).iter().map(|row| nested(row, device)).collect();
            Tensor::stack(&rows, 0)
        }
        numbers => {
            let numbers: Vec<i64> = numbers.iter().filter_map(Value::as_i64).collect();
            let shape = [numbers.len()];
            Tensor::from_vec_on(numbers, shape, device)
        }
    }
}
