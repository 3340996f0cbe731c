//! Weights in files: the safetensors format, which other libraries read and write.

mod format;
mod save;
mod whole;

pub use format::Metadata;
pub use save::{save, save_with};

use super::StateDict;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::tensor::compute;
use crate::{DType, Device, Tensor};
use format::from_file;
use kiln_ir::UOp;
use safetensors::SafeTensorError;
use safetensors::tensor::Metadata as Header;
use std::fs::File;
use std::io::Read;
use std::path::Path;

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
    at_caller("load", Opened::new(path).and_then(|mut file| file.tensors(device)))
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
    let found = Opened::new(path).map(|file| file.header.metadata().clone().unwrap_or_default());
    at_caller("metadata", found.map(|texts| texts.into_iter().collect()))
}

/// A file that makes no sense.
fn failure(path: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::New(format!("{}: {why}", path.display()))
}

/// A safetensors file whose header has been read: what follows are the tensors, one after the other.
struct Opened<'a> {
    path: &'a Path,
    file: File,
    header: Header,
}

/// The longest header that is read, as other readers have it.
const MOST_HEADER: u64 = 100_000_000;

impl Opened<'_> {
    fn new(path: &Path) -> Result<Opened<'_>, Fault> {
        let mut file = File::open(path).map_err(|e| failure(path, e))?;
        let header = header(&mut file).map_err(|why| failure(path, why))?;
        Ok(Opened { path, file, header })
    }

    /// Each tensor goes from the file to its own memory: there is never more than one copy of anything.
    fn tensors(&mut self, device: &Device) -> Result<StateDict, Fault> {
        let mut state = StateDict::new();
        for name in self.header.offset_keys() {
            let leaf = self.next(&name, device)?;
            state.insert(name, Tensor::from_node(leaf, device));
        }
        Ok(state)
    }

    fn next(&mut self, name: &str, device: &Device) -> Result<UOp, Fault> {
        let (path, mut file) = (self.path, &self.file);
        let info = self.header.info(name).expect("a name of the header");
        let Some(dtype) = from_file(info.dtype) else {
            return refuse!(
                "{}: {name} is {:?}, a dtype that kiln does not have",
                path.display(),
                info.dtype
            );
        };
        let read = |to: &mut [u8]| {
            file.read_exact(to).map_err(|e| format!("{}: {e}", path.display()))?;
            if dtype == DType::Bool {
                // a bool is 0 or 1 to every kernel, whatever the file says
                to.iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
            Ok(())
        };
        compute::upload_with(dtype, info.shape.as_slice().into(), device, read)
    }
}

/// The header that a safetensors file starts with: its length, and as much JSON. It says how long the file is.
fn header(file: &mut File) -> Result<Header, String> {
    let text = |e: SafeTensorError| e.to_string();
    let whole = file.metadata().map_err(|e| e.to_string())?.len();
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(|_| text(SafeTensorError::HeaderTooSmall))?;
    let length = u64::from_le_bytes(length);
    if length > MOST_HEADER {
        return Err(text(SafeTensorError::HeaderTooLarge));
    }
    let mut json = Vec::new();
    file.take(length).read_to_end(&mut json).map_err(|e| e.to_string())?;
    if json.len() as u64 != length {
        return Err(text(SafeTensorError::InvalidHeaderLength));
    }
    let header: Header = serde_json::from_slice(&json).map_err(|e| format!("header: {e}"))?;
    match (8 + length).checked_add(header.data_len() as u64) == Some(whole) {
        true => Ok(header),
        false => Err(text(SafeTensorError::MetadataIncompleteBuffer)),
    }
}
