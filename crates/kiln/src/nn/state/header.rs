//! The header that a safetensors file starts with: its length as eight bytes, and as much JSON.
//! (<https://github.com/huggingface/safetensors#format>)

use super::format::{Metadata, from_file};
use crate::error::Fault;
use crate::files::source::Source;
use crate::files::unique::{Names, Unique};
use crate::nn::StateDict;
use crate::{Device, Tensor};
use safetensors::tensor::{Metadata as Checked, TensorInfo};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use std::fmt::{self, Formatter};
use std::path::Path;

/// The longest header that is read or written, as other libraries have it.
pub(super) const MOST_HEADER: usize = 100_000_000;

/// The entry of the header that is no tensor.
pub(super) const METADATA: &str = "__metadata__";

/// What a header says. The ranges of the tensors follow each other without a gap, from the end of the header to the end
/// of the file.
pub(super) struct Header {
    pub(super) metadata: Metadata,
    /// Each with its range of bytes, counted from `start`.
    pub(super) tensors: Vec<(String, TensorInfo)>,
    /// Where the first tensor is.
    pub(super) start: usize,
}

impl Header {
    pub(super) fn read(source: &Source) -> Result<Header, Fault> {
        let length = source.bytes(0, 8)?.try_into().expect("eight bytes");
        let length = usize::try_from(u64::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MOST_HEADER {
            return Err(source.fault(format!("a header of {length} bytes is too long")));
        }
        let json = source.bytes(8, length)?;
        let parsed: Entries =
            serde_json::from_slice(&json).map_err(|e| source.fault(format!("header: {e}")))?;
        let header =
            Header { metadata: parsed.metadata, tensors: parsed.tensors, start: 8 + length };
        header.check(source.len()).map_err(|why| source.fault(format!("header: {why}")))?;
        Ok(header)
    }

    /// Fails unless every tensor has as many bytes as its shape wants, and all of them cover the file.
    fn check(&self, file: usize) -> Result<(), String> {
        let checked = Checked::new(None, self.tensors.clone()).map_err(|e| e.to_string())?;
        match checked.data_len() == file - self.start {
            true => Ok(()),
            false => Err(format!(
                "the tensors have {} bytes, the file has {}",
                checked.data_len(),
                file - self.start
            )),
        }
    }
}

/// What the JSON says, tensors by their ranges.
struct Entries {
    metadata: Metadata,
    tensors: Vec<(String, TensorInfo)>,
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Entries, D::Error> {
        from.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, to: &mut Formatter<'_>) -> fmt::Result {
        to.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let (mut entries, mut names) =
            (Entries { metadata: Metadata::new(), tensors: Vec::new() }, Names::default());
        while let Some(name) = map.next_key::<String>()? {
            names.add(&name)?;
            if name == METADATA {
                entries.metadata = map.next_value::<Unique<String>>()?.0.into_iter().collect();
            } else {
                entries.tensors.push((name, map.next_value()?));
            }
        }
        entries.tensors.sort_by_key(|(_, info)| info.data_offsets);
        Ok(entries)
    }
}

/// The tensors of one file.
pub(super) fn tensors_of(path: &Path, device: &Device) -> Result<StateDict, Fault> {
    let source = Source::open(path)?;
    let header = Header::read(&source)?;
    let view = |(name, info): (String, TensorInfo)| {
        let Some(dtype) = from_file(info.dtype) else {
            let why = format!("{name} is {:?}, a dtype that kiln does not have", info.dtype);
            return Err(source.fault(why));
        };
        let at = header.start + info.data_offsets.0;
        let tensor: Tensor = source.tensor(at, dtype, &info.shape, device)?;
        Ok((name, tensor))
    };
    header.tensors.into_iter().map(view).collect()
}
