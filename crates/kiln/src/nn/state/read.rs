//! The tensors of one safetensors file, as views of it.

use super::format::from_file;
use super::header::Header;
use crate::error::Fault;
use crate::files::source::Source;
use crate::nn::StateDict;
use crate::{Device, Tensor};
use safetensors::tensor::TensorInfo;
use std::path::Path;

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
