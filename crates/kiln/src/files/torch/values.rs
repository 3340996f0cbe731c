//! The values that a pickle makes. They stand in one list and refer to each other by their places, so that a list may
//! contain itself.

use std::fmt;

/// The place of a value.
pub(super) type Id = usize;

/// A value.
#[derive(Clone)]
pub(super) enum Value {
    /// None, or something that no tensor depends on.
    Other,
    Int(i128),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// A function or a type, by its name.
    Global(String),
    /// A storage or a tensor, by its number among those of the file.
    Storage(usize),
    Tensor(usize),
}

/// What errors say of a value.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Other => f.write_str("another value"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Tuple(ids) => write!(f, "a tuple of {}", ids.len()),
            Value::List(ids) => write!(f, "a list of {}", ids.len()),
            Value::Dict(pairs) => write!(f, "a dictionary of {}", pairs.len()),
            Value::Global(name) => f.write_str(name),
            Value::Storage(_) => f.write_str("a storage"),
            Value::Tensor(_) => f.write_str("a tensor"),
        }
    }
}

/// What a pickle made, and which of the values it is.
pub(super) struct Loaded {
    pub(super) values: Vec<Value>,
    pub(super) root: Id,
}

/// A value as what it has to be; else what is wrong.
pub(super) fn int<N: TryFrom<i128>>(values: &[Value], id: Id) -> Result<N, String> {
    match values[id] {
        Value::Int(n) => N::try_from(n).map_err(|_| format!("the number {n} makes no sense here")),
        ref other => Err(format!("{other:?} where a number belongs")),
    }
}

pub(super) fn text(values: &[Value], id: Id) -> Result<&str, String> {
    match &values[id] {
        Value::Text(text) => Ok(text),
        other => Err(format!("{other:?} where text belongs")),
    }
}

pub(super) fn tuple(values: &[Value], id: Id) -> Result<&[Id], String> {
    match &values[id] {
        Value::Tuple(ids) | Value::List(ids) => Ok(ids),
        other => Err(format!("{other:?} where a tuple belongs")),
    }
}

/// Numbers of a tuple.
pub(super) fn ints(values: &[Value], id: Id) -> Result<Vec<usize>, String> {
    tuple(values, id)?.iter().map(|&n| int(values, n)).collect()
}
