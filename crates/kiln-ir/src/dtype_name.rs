//! Types by their names, as programs, files and other libraries write them.

use crate::DType;
use std::fmt;
use std::str::FromStr;

/// A text that names no type of elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownDType(String);

impl fmt::Display for UnknownDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} names no dtype, such as \"f32\" or \"int64\"", self.0)
    }
}

impl std::error::Error for UnknownDType {}

/// A type by its name, or by the name that NumPy, PyTorch and tinygrad have for it.
impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<DType, UnknownDType> {
        let own = || DType::STORAGE.into_iter().find(|d| d.name() == name);
        own().or_else(|| elsewhere(name)).ok_or_else(|| UnknownDType(name.to_owned()))
    }
}

/// The names of other libraries.
fn elsewhere(name: &str) -> Option<DType> {
    Some(match name {
        "int8" | "char" => DType::I8,
        "int16" | "short" => DType::I16,
        "int32" | "int" => DType::I32,
        "int64" | "long" => DType::I64,
        "uint8" | "uchar" => DType::U8,
        "uint16" | "ushort" => DType::U16,
        "uint32" | "uint" => DType::U32,
        "uint64" | "ulong" => DType::U64,
        "float16" | "half" => DType::F16,
        "bfloat16" => DType::BF16,
        "float32" | "float" => DType::F32,
        "float64" | "double" => DType::F64,
        _ => return None,
    })
}

/// A type is its name in files.
#[cfg(feature = "serde")]
impl serde::Serialize for DType {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for DType {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<DType, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}
