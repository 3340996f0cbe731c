//! Weights in files: the safetensors format, which other libraries read and write, and files of PyTorch and llama.cpp.

mod format;
mod header;
mod save;
mod shards;

pub use crate::files::gguf::{Gguf, GgufType, GgufValue, gguf_load, gguf_load_on, gguf_save};
pub use crate::files::torch::{torch_load, torch_load_on};
pub use format::Metadata;
pub use save::{save, save_with};

use super::StateDict;
use crate::Device;
use crate::error::{Error, at_caller};
use crate::files::source::Source;
use header::{Header, tensors_of};
use std::path::Path;

/// The tensors of a safetensors file, on the default device. They are views of the file: opening it reads the header, and
/// a tensor takes memory when something is computed from it. The file must not change meanwhile ([`save`] puts another
/// file in its place). `path` may also be the index of several files, `model.safetensors.index.json`.
///
/// ```
/// use kiln::{Tensor, nn::state};
/// let path = std::env::temp_dir().join(format!("kiln-load-{}.safetensors", std::process::id()));
/// state::save(&path, &[("w".to_owned(), Tensor::from([[1.0f32, 2.0]]))].into())?;
/// let loaded = state::load(&path)?;
/// assert_eq!((&loaded["w"] * 2.0).to_vec::<f32>()?, [2.0, 4.0]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A missing file, one cut short, or no safetensors file; ranges with overlaps or gaps; a repeated name; a dtype unknown to
/// kiln.
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
    at_caller(
        "load",
        match shards::is_index(path) {
            true => shards::load(path, device),
            false => tensors_of(path, device),
        },
    )
}

/// The metadata of a safetensors file, or of an index of several.
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
    at_caller(
        "metadata",
        match shards::is_index(path) {
            true => shards::metadata(path),
            false => Source::open(path).and_then(|file| Ok(Header::read(&file)?.metadata)),
        },
    )
}
