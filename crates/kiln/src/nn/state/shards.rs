//! Tensors in several safetensors files, and the index with the file of each tensor.

use super::format::Metadata;
use super::header::{MOST_HEADER, tensors_of};
use crate::Device;
use crate::error::Fault;
use crate::files::source::Source;
use crate::files::unique::Unique;
use crate::nn::StateDict;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

/// What the index, `model.safetensors.index.json`, holds.
#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    metadata: Unique<Value>,
    /// The file of each tensor, in the folder of the index.
    weight_map: Unique<String>,
}

/// Whether a path is that of an index.
pub(super) fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// The tensors that an index names.
pub(super) fn load(path: &Path, device: &Device) -> Result<StateDict, Fault> {
    let (source, index) = read(path)?;
    let mut files: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, file) in &index.weight_map.0 {
        files.entry(file).or_default().insert(name);
    }
    let mut state = StateDict::new();
    for (file, names) in files {
        if !is_name(file) {
            return Err(source.fault(format!("{file:?} is not the name of a file beside it")));
        }
        let mut found = tensors_of(&path.with_file_name(file), device)?;
        for name in names {
            let missing = || source.fault(format!("{name:?} is not in {file}"));
            let (name, tensor) = found.remove_entry(name).ok_or_else(missing)?;
            state.insert(name, tensor);
        }
    }
    Ok(state)
}

/// What the index says beside where tensors are, as text.
pub(super) fn metadata(path: &Path) -> Result<Metadata, Fault> {
    let text = |value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let (_, index) = read(path)?;
    Ok(index.metadata.0.into_iter().map(|(name, value)| (name, text(value))).collect())
}

fn read(path: &Path) -> Result<(Source, Index), Fault> {
    let source = Source::open(path)?;
    if source.len() > MOST_HEADER {
        return Err(source.fault(format!("an index of {} bytes is too long", source.len())));
    }
    let json = source.bytes(0, source.len())?;
    let index = serde_json::from_slice(&json).map_err(|e| source.fault(e))?;
    Ok((source, index))
}

/// Whether it names a file of a folder, and no other place.
fn is_name(file: &str) -> bool {
    let mut parts = Path::new(file).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
}
