//! Indices and arguments as `testdata/golden/compact.py` writes them, and what takes them.

use super::data::{Array, tensor};
use super::list;
use kiln::{DType, Device, Index, Indices, Length, Tensor};
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

/// Makes the tensors of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maker<'a> {
    pub(super) device: &'a Device,
    /// Whether what is made is still to be computed.
    pub(super) lazy: bool,
}

impl Maker<'_> {
    pub(super) fn tensor(self, value: &Value) -> Tensor {
        let t = tensor(&Array::compact(value), self.device);
        match (self.lazy, t.dtype()) {
            (false, _) => t,
            (true, DType::Bool) => t.logical_not().logical_not(),
            // the second operand has a place in memory, so nothing knows that it is 1
            (true, dtype) => &t * Tensor::from_vec_on(vec![1u8], (), self.device).cast(dtype),
        }
    }

    pub(super) fn given(self, value: &Value) -> Given {
        match value {
            Value::Bool(b) => Given::Bool(*b),
            Value::String(text) => Given::Text(text.clone()),
            Value::Array(_) => Given::Tensor(self.tensor(value)),
            value => match value.as_i64() {
                Some(int) => Given::Int(int),
                None => Given::Float(value.as_f64().expect("a number")),
            },
        }
    }

    pub(super) fn indices(self, at: &Value) -> Indices {
        Indices::new(list(at).iter().map(|i| self.index(i)).collect::<Vec<Index>>())
    }

    fn index(self, value: &Value) -> Index {
        match value {
            Value::String(text) if text == "..." => Index::Ellipsis,
            Value::String(text) if text == "new" => Index::NewAxis,
            Value::String(text) => slice(text),
            Value::Array(items) if items.first().is_some_and(Value::is_string) => {
                Index::Tensor(self.tensor(value))
            }
            Value::Array(items) => positions(items),
            value => Index::from(value.as_i64().expect("a position")),
        }
    }
}

/// `start:stop:step`, of which any may be missing.
fn slice(text: &str) -> Index {
    let mut ends = text.split(':').map(|end| end.parse::<i64>().ok());
    let (start, stop) = (ends.next().flatten(), ends.next().flatten());
    let (start, stop) = (start.map(Length::from), stop.map(Length::from));
    Index::Slice { start, stop, step: ends.next().flatten().unwrap_or(1) }
}

/// A list of positions, or of lists of them.
fn positions(items: &[Value]) -> Index {
    let row = |items: &[Value]| items.iter().filter_map(Value::as_i64).collect::<Vec<i64>>();
    match items.first().is_some_and(Value::is_array) {
        true => Index::from(items.iter().map(|i| row(list(i))).collect::<Vec<_>>()),
        false => Index::from(row(items)),
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
        ("masked_select", [Given::Tensor(mask)]) => x.masked_select(mask),
        ("nonzero", []) => x.nonzero(),
        ("take", [Given::Tensor(index)]) => x.take(index),
        ("gather", [Given::Int(axis), Given::Tensor(index)]) => x.gather(*axis, index),
        ("index_select", [Given::Int(axis), Given::Tensor(index)]) => x.index_select(*axis, index),
        ("scatter", [Given::Int(axis), Given::Tensor(index), source]) => {
            operand!(source => x.scatter(*axis, index, source))
        }
        (
            "scatter_reduce",
            [Given::Int(axis), Given::Tensor(index), source, Given::Text(how), Given::Bool(own)],
        ) => operand!(source => x.scatter_reduce(*axis, index, source, how.as_str(), *own)),
        _ => return None,
    })
}
