//! Writing: a header that says where each tensor is, then their elements.

use super::format::{Metadata, failed, in_file};
use super::header::{METADATA, MOST_HEADER};
use crate::Tensor;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::files::whole;
use crate::nn::StateDict;
use crate::tensor::compute;
use kiln_runtime::disk::check_size;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;

/// Headers are filled up to a multiple of this, so that elements are where their type wants them.
const ALIGN: usize = 8;

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
    at_caller("save", write(path.as_ref(), state, metadata))
}

fn write(path: &Path, state: &StateDict, metadata: &Metadata) -> Result<(), Fault> {
    // the widest first: each is at a multiple of its elements' size then
    let mut tensors: Vec<(&String, &Tensor)> = state.iter().collect();
    tensors.sort_by_key(|(_, t)| std::cmp::Reverse(t.dtype().size()));
    let (header, bytes) = header(&tensors, metadata)?;
    check_size(path, (header.len() + bytes) as u64).map_err(|e| Fault::Failed(e.to_string()))?;
    whole::write(path, |file| {
        let mut write = |part: &[u8]| file.write_all(part).map_err(|e| failed(path, e));
        write(&header).map_err(Fault::Failed)?;
        tensors.iter().try_for_each(|(_, t)| {
            compute::read_parts(&t.detach().value()?, t.device(), &mut write)
        })
    })
}

/// The length of the header and the header; and how many bytes follow it.
fn header(tensors: &[(&String, &Tensor)], metadata: &Metadata) -> Result<(Vec<u8>, usize), Fault> {
    let (mut entries, mut end) = (Map::new(), 0);
    if !metadata.is_empty() {
        entries.insert(METADATA.to_owned(), json!(metadata));
    }
    for (name, t) in tensors {
        let start = end;
        end += t.numel() * t.dtype().size();
        let dtype = in_file(t.dtype()).to_string();
        let entry = json!({"dtype": dtype, "shape": t.shape(), "data_offsets": [start, end]});
        entries.insert(name.to_string(), entry);
    }
    if tensors.iter().any(|(name, _)| *name == METADATA) {
        return refuse!("a tensor cannot be named {METADATA}: that is where the metadata is");
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(ALIGN), b' ');
    if text.len() > MOST_HEADER {
        return refuse!("a header of {} bytes, where readers take {MOST_HEADER}", text.len());
    }
    Ok(([(text.len() as u64).to_le_bytes().to_vec(), text].concat(), end))
}
