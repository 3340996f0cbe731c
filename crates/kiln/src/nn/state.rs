//! Weights in files: the safetensors format, which other libraries read and write.

use super::StateDict;
use crate::engine;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Text that a file carries beside its tensors.
pub type Metadata = BTreeMap<String, String>;

/// Writes tensors to a safetensors file. The file appears whole or not at all; one that was there stays until then.
///
/// ```
/// use kiln::{Tensor, nn::state};
/// let path = std::env::temp_dir().join(format!("kiln-save-{}.safetensors", std::process::id()));
/// state::save(&path, &[("w".to_owned(), Tensor::from([1.0f32, 2.0]))].into())?;
/// assert_eq!(state::load(&path)?["w"].to_vec::<f32>()?, [1.0, 2.0]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that a tensor carries; a failing device; a file that cannot be written.
#[track_caller]
pub fn save(path: impl AsRef<Path>, state: &StateDict) -> Result<(), Error> {
    save_with(path, state, &Metadata::new())
}

/// As [`save`], with metadata.
///
/// ```
/// use kiln::nn::state;
/// let path = std::env::temp_dir().join(format!("kiln-meta-{}.safetensors", std::process::id()));
/// state::save_with(&path, &[].into(), &[("epoch".to_owned(), "3".to_owned())].into())?;
/// assert_eq!(state::metadata(&path)?["epoch"], "3");
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`save`].
#[track_caller]
pub fn save_with(
    path: impl AsRef<Path>,
    state: &StateDict,
    metadata: &Metadata,
) -> Result<(), Error> {
    crate::realize(state.values())?;
    let written = serialized(state, metadata).and_then(|bytes| {
        write_whole(path.as_ref(), &bytes).map_err(|e| failure(path.as_ref(), e))
    });
    at_caller("save", written)
}

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

fn serialized(state: &StateDict, metadata: &Metadata) -> Result<Vec<u8>, Fault> {
    let mut data = Vec::with_capacity(state.len());
    for tensor in state.values() {
        data.push(engine::read(&tensor.detach().value()?, tensor.device())?);
    }
    let mut views = Vec::with_capacity(state.len());
    for ((name, tensor), data) in state.iter().zip(&data) {
        let view = TensorView::new(in_file(tensor.dtype()), tensor.shape().to_vec(), data);
        views.push((name, view.map_err(|e| format!("{name}: {e}"))?));
    }
    let metadata: HashMap<_, _> = metadata.clone().into_iter().collect();
    let metadata = Some(metadata).filter(|m| !m.is_empty());
    safetensors::serialize(views, metadata).map_err(|e| e.to_string().into())
}

/// Writes beside the file and renames.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = beside(path)?;
    let written = File::create_new(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // the error that counts is the first one
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same folder that nobody else uses.
fn beside(path: &Path) -> std::io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(std::io::Error::other("is not the name of a file"));
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    Ok(path.with_file_name(hidden))
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
