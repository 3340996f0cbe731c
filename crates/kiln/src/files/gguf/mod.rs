//! GGUF, the files of llama.cpp: metadata, and tensors whose elements may be quantized in blocks.
//! (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>)

/// What blocks stand for.
mod blocks;
/// Tables of levels.
mod codebooks;
/// Blocks out of tensors.
mod encode;
/// Types of elements.
mod kind;
/// What a file holds.
mod model;
/// The beginning of a file.
mod read;
/// Models in several files.
mod split;
/// Metadata.
mod value;
/// New files.
mod write;

pub use encode::GgufType;
pub use model::Gguf;
pub use value::GgufValue;
pub use write::gguf_save;

use super::source::Source;
use crate::error::{Error, Fault, at_caller};
use crate::nn::StateDict;
use crate::{DType, Device, Tensor};
use read::{Header, Info};
use split::Part;
use std::path::Path;

/// The metadata and the tensors of a GGUF file, on the default device. Tensors are views of the file, which must not
/// change meanwhile. Quantized ones are F32: what their blocks stand for is computed where it is used, and takes no
/// memory before.
///
/// Types: F32, F16, BF16, F64, I8 to I64; Q4_0, Q4_1, Q5_0, Q5_1, Q8_0; Q2_K to Q6_K; IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S,
/// IQ3_XXS, IQ3_S, IQ4_NL, IQ4_XS; MXFP4, NVFP4, Q1_0, TQ1_0, TQ2_0.
///
/// A model that is split into `name-00001-of-00003.gguf` and so on is read whole, from any of its files.
///
/// ```
/// use kiln::{Tensor, nn::state::{Gguf, GgufType, gguf_load, gguf_save}};
/// let path = std::env::temp_dir().join(format!("kiln-gguf-{}.gguf", std::process::id()));
/// let mut model = Gguf::default();
/// model.metadata.insert("general.name".to_owned(), "two".into());
/// model.tensors.insert("w".to_owned(), Tensor::ones([2, 64]) * 2.0);
/// gguf_save(&path, &model, |_, _| GgufType::Q8_0)?;
/// let loaded = gguf_load(&path)?;
/// assert_eq!(loaded.metadata["general.name"].as_str(), Some("two"));
/// assert_eq!(loaded.tensors["w"].sum(..).round().item::<f32>()?, 256.0);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A missing file, one cut short, or no GGUF file of version 2 or 3; a repeated name; a tensor outside of the file; a type
/// unknown to kiln; files that are not parts of one model.
#[track_caller]
pub fn gguf_load(path: impl AsRef<Path>) -> Result<Gguf, Error> {
    gguf_load_on(path, &Device::default_device())
}

/// As [`gguf_load`], on a device.
///
/// ```
/// use kiln::{Device, nn::state};
/// assert!(state::gguf_load_on("no/such/file", &Device::default_device()).is_err());
/// ```
///
/// # Errors
/// As [`gguf_load`].
#[track_caller]
pub fn gguf_load_on(path: impl AsRef<Path>, device: &Device) -> Result<Gguf, Error> {
    at_caller("gguf_load", load(path.as_ref(), device))
}

fn load(path: &Path, device: &Device) -> Result<Gguf, Fault> {
    let first = one(path, device)?;
    match Part::of(&first.metadata) {
        Some(part) => part.whole(path, &|path| one(path, device)),
        None => Ok(first),
    }
}

/// One file.
fn one(path: &Path, device: &Device) -> Result<Gguf, Fault> {
    let source = Source::open(path)?;
    let Header { metadata, tensors, data } = Header::read(&source)?;
    let mut state = StateDict::new();
    for info in tensors {
        let at = data.checked_add(info.offset).ok_or_else(|| source.fault("an absurd offset"))?;
        let tensor = elements(&source, at, &info, device)?;
        match tensor.error() {
            Some(error) => return Err(error.into()),
            None if state.contains_key(&info.name) => {
                return Err(source.fault(format!("two tensors are named {:?}", info.name)));
            }
            None => state.insert(info.name, tensor),
        };
    }
    Ok(Gguf { metadata, tensors: state })
}

/// The elements of a tensor whose bytes start at `at`.
fn elements(source: &Source, at: usize, info: &Info, device: &Device) -> Result<Tensor, Fault> {
    match info.kind.plain() {
        Some(dtype) => source.tensor(at, dtype, &info.shape, device),
        None if info.shape.contains(&0) => {
            Ok(Tensor::zeros_with(&info.shape, (DType::F32, device)))
        }
        None => {
            let (elements, bytes) = info.kind.block();
            let n = info.shape.iter().product::<usize>() / elements;
            let blocks = source.tensor(at, DType::U8, &[n, bytes], device)?;
            Ok(blocks::decoded(info.kind, &blocks).reshape(&info.shape))
        }
    }
}
