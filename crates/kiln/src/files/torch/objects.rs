//! What the functions and types that a file of tensors names stand for.

use super::values::{Id, Value, int, ints, text, tuple};
use crate::DType;
use std::collections::HashMap;

/// The storages and tensors of a file.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) storages: Vec<Stored>,
    pub(super) tensors: Vec<Spec>,
    /// What a pickle names by a text.
    pub(super) by_key: HashMap<String, Value>,
}

/// A storage.
pub(super) struct Stored {
    /// Its name in the file.
    pub(super) key: String,
    /// The type of its elements; of those without a type, bytes.
    pub(super) dtype: DType,
}

/// A tensor: elements of a storage.
#[derive(Clone)]
pub(super) struct Spec {
    pub(super) storage: usize,
    pub(super) dtype: DType,
    /// The first element, the lengths of the axes, and the distances between neighbours.
    pub(super) offset: usize,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<usize>,
}

/// Types of storages and of elements, by PyTorch's names.
const DTYPES: [(&str, &str, DType); 17] = [
    ("torch.BoolStorage", "torch.bool", DType::Bool),
    ("torch.CharStorage", "torch.int8", DType::I8),
    ("torch.ShortStorage", "torch.int16", DType::I16),
    ("torch.IntStorage", "torch.int32", DType::I32),
    ("torch.LongStorage", "torch.int64", DType::I64),
    ("torch.ByteStorage", "torch.uint8", DType::U8),
    ("", "torch.uint16", DType::U16),
    ("", "torch.uint32", DType::U32),
    ("", "torch.uint64", DType::U64),
    ("torch.HalfStorage", "torch.float16", DType::F16),
    ("torch.BFloat16Storage", "torch.bfloat16", DType::BF16),
    ("torch.FloatStorage", "torch.float32", DType::F32),
    ("torch.DoubleStorage", "torch.float64", DType::F64),
    ("", "torch.float8_e4m3fn", DType::F8E4M3),
    ("", "torch.float8_e5m2", DType::F8E5M2),
    ("", "torch.float8_e4m3fnuz", DType::F8E4M3FNUZ),
    ("", "torch.float8_e5m2fnuz", DType::F8E5M2FNUZ),
];

/// Storages without a type.
const UNTYPED: [&str; 2] = ["torch.storage.UntypedStorage", "torch.UntypedStorage"];

/// The functions and other types that are known: those below, and some whose results no tensor depends on.
const KNOWN: [&str; 16] = [
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "collections.OrderedDict",
    "torch.Size",
    "torch.device",
    "torch.strided",
    "torch.complex64",
    "torch.complex128",
    "numpy.dtype",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray.scalar",
    "_codecs.encode",
    "builtins.float",
];

/// Fails for what a file of tensors does not need.
pub(super) fn check_known(name: &str) -> Result<(), String> {
    let is_dtype = DTYPES.iter().any(|(storage, dtype, _)| name == *storage || name == *dtype);
    let is_tensor = name.strip_suffix("Tensor").is_some_and(|of| {
        DTYPES.iter().any(|(storage, _, _)| storage.strip_suffix("Storage") == Some(of))
    });
    match is_dtype || is_tensor || UNTYPED.contains(&name) || KNOWN.contains(&name) {
        true => Ok(()),
        false if name.starts_with("torch.") && name.ends_with("Storage") => {
            Err(format!("{name} has a dtype that kiln does not have"))
        }
        false => Err(format!(
            "it needs {name}, and only tensors, parameters, dictionaries and scalars are read"
        )),
    }
}

impl Objects {
    /// What is stored outside of the pickle and named in it: by a text, or a storage as `("storage", ..)`.
    pub(super) fn stored(&mut self, values: &[Value], id: Id) -> Result<Value, String> {
        match &values[id] {
            Value::Text(key) if !self.by_key.is_empty() => {
                let found = self.by_key.get(key).cloned();
                found.ok_or_else(|| format!("it has no tensor {key}"))
            }
            _ => self.storage(values, id),
        }
    }

    /// The storage that `("storage", type, key, device, length)` names.
    fn storage(&mut self, values: &[Value], id: Id) -> Result<Value, String> {
        let ids = tuple(values, id)?;
        let [kind, of, key, _, len, view @ ..] = ids else {
            return Err("a storage that is not described by five values".to_owned());
        };
        if text(values, *kind)? != "storage" {
            return Err("something that is stored and no storage".to_owned());
        }
        if view.iter().any(|&id| !matches!(values[id], Value::Other)) {
            return Err("a storage that is part of another one".to_owned());
        }
        int::<usize>(values, *len)?;
        let key = text(values, *key)?.to_owned();
        self.storages.push(Stored { key, dtype: storage_dtype(values, *of)? });
        Ok(Value::Storage(self.storages.len() - 1))
    }

    /// What a function makes of its arguments.
    pub(super) fn call(
        &mut self,
        values: &[Value],
        name: &str,
        args: &[Id],
    ) -> Result<Value, String> {
        match (name, args) {
            (
                "torch._utils._rebuild_tensor_v3",
                [storage, offset, shape, strides, _, _, of, ..],
            ) => {
                let dtype = element_dtype(values, *of)?;
                self.tensor(values, [*storage, *offset, *shape, *strides], Some(dtype))
            }
            (
                "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2",
                [storage, offset, shape, strides, ..],
            ) => self.tensor(values, [*storage, *offset, *shape, *strides], None),
            (
                "torch._utils._rebuild_parameter" | "torch._utils._rebuild_parameter_with_state",
                [data, ..],
            ) => Ok(values[*data].clone()),
            ("collections.OrderedDict", []) => Ok(Value::Dict(Vec::new())),
            ("collections.OrderedDict", [pairs]) => {
                let pair = |&id: &Id| match tuple(values, id)? {
                    [key, value] => Ok((*key, *value)),
                    _ => Err("a dictionary of what are no pairs".to_owned()),
                };
                Ok(Value::Dict(tuple(values, *pairs)?.iter().map(pair).collect::<Result<_, _>>()?))
            }
            _ if name.starts_with("torch._utils.") => {
                Err(format!("{name} of {} values", args.len()))
            }
            _ => Ok(Value::Other),
        }
    }

    fn tensor(
        &mut self,
        values: &[Value],
        [storage, offset, shape, strides]: [Id; 4],
        dtype: Option<DType>,
    ) -> Result<Value, String> {
        let Value::Storage(storage) = values[storage] else {
            return Err("a tensor without a storage".to_owned());
        };
        let (shape, strides) = (ints(values, shape)?, ints(values, strides)?);
        if shape.len() != strides.len() {
            return Err(format!("a tensor of {} axes with {} strides", shape.len(), strides.len()));
        }
        let dtype = dtype.unwrap_or(self.storages[storage].dtype);
        let offset = int(values, offset)?;
        self.tensors.push(Spec { storage, dtype, offset, shape, strides });
        Ok(Value::Tensor(self.tensors.len() - 1))
    }
}

pub(super) fn storage_dtype(values: &[Value], id: Id) -> Result<DType, String> {
    let Value::Global(name) = &values[id] else {
        return Err(format!("{:?} where the type of a storage belongs", values[id]));
    };
    let found = DTYPES.iter().find(|(storage, _, _)| name == storage).map(|of| of.2);
    let found = found.or(UNTYPED.contains(&name.as_str()).then_some(DType::U8));
    found.ok_or_else(|| format!("{name} is no type of a storage"))
}

fn element_dtype(values: &[Value], id: Id) -> Result<DType, String> {
    let Value::Global(name) = &values[id] else {
        return Err(format!("{:?} where a dtype belongs", values[id]));
    };
    let found = DTYPES.iter().find(|(_, dtype, _)| name == dtype).map(|of| of.2);
    found.ok_or_else(|| format!("{name} is no dtype that kiln has"))
}
