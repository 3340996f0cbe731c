//! Weights in files: the safetensors format, which other libraries read and write.

mod save;
mod whole;

pub use save::{save, save_with};

use super::StateDict;
use crate::engine::{self, Failure};
use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Text that a file carries beside its tensors.
pub type Metadata = BTreeMap<String, String>;

/// The tensors of a safetensors file, on the default device.
///
/// ```
/// assert!(kiln::nn::state::load("no/such/file").is_err());
/// ```
///
/// # Errors
/// A file that is missing, cut short or no safetensors file; a dtype that kiln does not have.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<StateDict, Error> {
    load_on(path, &Device::default_device())
}

/// As [`load`], on a device.
///
/// ```
/// use kiln::{Device, nn::state};
/// assert!(state::load_on("no/such/file", &Device::default_device()).is_err());
/// ```
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn load_on(path: impl AsRef<Path>, device: &Device) -> Result<StateDict, Error> {
    let path = path.as_ref();
    at_caller("load", read(path).and_then(|bytes| parse(path, &bytes, device)))
}

/// The metadata of a safetensors file.
///
/// ```
/// assert!(kiln::nn::state::metadata("no/such/file").is_err());
/// ```
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn metadata(path: impl AsRef<Path>) -> Result<Metadata, Error> {
    let path = path.as_ref();
    let found = read(path).and_then(|bytes| match SafeTensors::read_metadata(&bytes) {
        Ok((_, header)) => Ok(header.metadata().clone().unwrap_or_default().into_iter().collect()),
        Err(e) => Err(failure(path, e)),
    });
    at_caller("metadata", found)
}

/// A failure of the file system.
fn failed(path: &Path, why: impl std::fmt::Display) -> Failure {
    format!("{}: {why}", path.display())
}

/// A file that makes no sense.
fn failure(path: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::New(format!("{}: {why}", path.display()))
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|e| failure(path, e))
}

fn parse(path: &Path, bytes: &[u8], device: &Device) -> Result<StateDict, Fault> {
    let file = SafeTensors::deserialize(bytes).map_err(|e| failure(path, e))?;
    let mut state = StateDict::new();
    for (name, view) in file.iter() {
        let Some(dtype) = from_file(view.dtype()) else {
            return refuse!("{}: {name} is {:?}, which kiln has not", path.display(), view.dtype());
        };
        let shape = view.shape().into();
        let leaf = match dtype {
            // a bool is 0 or 1 to every kernel, whatever the file says
            DType::Bool => {
                let bools: Vec<u8> = view.data().iter().map(|&b| u8::from(b != 0)).collect();
                engine::upload(&bools, dtype, shape, device)?
            }
            _ => engine::upload(view.data(), dtype, shape, device)?,
        };
        state.insert(name.to_owned(), Tensor::from_node(leaf, device));
    }
    Ok(state)
}

macro_rules! dtypes {
    ($($ours:ident $theirs:ident),*) => {
        fn in_file(dtype: DType) -> Dtype {
            match dtype {
                $(DType::$ours => Dtype::$theirs,)*
                other => unreachable!("no tensor is {other}"),
            }
        }

        fn from_file(dtype: Dtype) -> Option<DType> {
            match dtype {
                $(Dtype::$theirs => Some(DType::$ours),)*
                _ => None,
            }
        }
    };
}
dtypes!(Bool BOOL, I8 I8, I16 I16, I32 I32, I64 I64, U8 U8, U16 U16, U32 U32, U64 U64, F16 F16,
    BF16 BF16, F32 F32, F64 F64);
