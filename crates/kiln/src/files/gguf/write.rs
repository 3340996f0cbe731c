//! Writing files of version 3.

use super::encode::GgufType;
use super::read::{ALIGN, ALIGNMENT, MAGIC};
use super::{Gguf, GgufValue};
use crate::Tensor;
use crate::error::{Error, Fault, at_caller};
use crate::files::whole;
use crate::tensor::compute;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a GGUF file. It appears whole or not at all. `encode` says how each tensor is written, by its name and itself;
/// quantized ones have rows of a multiple of 32.
///
/// ```
/// use kiln::{Tensor, nn::state::{Gguf, GgufType, gguf_load, gguf_save}};
/// let path = std::env::temp_dir().join(format!("kiln-gguf-save-{}.gguf", std::process::id()));
/// let mut model = Gguf::default();
/// model.tensors.insert("norm".to_owned(), Tensor::from([0.5f32, 2.0]));
/// gguf_save(&path, &model, |_, t| if t.ndim() == 1 { GgufType::F32 } else { GgufType::Q4_0 })?;
/// assert_eq!(gguf_load(&path)?.tensors["norm"].to_vec::<f32>()?, [0.5, 2.0]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that a tensor carries; one that is no float, or whose rows are no whole number of blocks; an array of values
/// of several types; a file that cannot be written.
#[track_caller]
pub fn gguf_save(
    path: impl AsRef<Path>,
    model: &Gguf,
    encode: impl Fn(&str, &Tensor) -> GgufType,
) -> Result<(), Error> {
    at_caller("gguf_save", write(path.as_ref(), model, &encode))
}

fn write(
    path: &Path,
    model: &Gguf,
    encode: &dyn Fn(&str, &Tensor) -> GgufType,
) -> Result<(), Fault> {
    let facts: Vec<_> = model.metadata.iter().filter(|(name, _)| *name != ALIGNMENT).collect();
    let (mut header, mut parts, mut end) = (MAGIC.to_vec(), Vec::new(), 0usize);
    header.extend(3u32.to_le_bytes());
    header.extend([model.tensors.len() as u64, facts.len() as u64].map(u64::to_le_bytes).concat());
    for (name, value) in facts {
        text(&mut header, name);
        header.extend(value.code().to_le_bytes());
        bytes(&mut header, value)?;
    }
    for (name, t) in &model.tensors {
        Tensor::error(t).map_or(Ok(()), |error| Err(Fault::from(error)))?;
        let kind = encode(name, t);
        let part = kind.encoded(name, t)?;
        info(&mut header, name, t, kind, end);
        end = (end + size(&part)).next_multiple_of(ALIGN);
        parts.push(part);
    }
    header.resize(header.len().next_multiple_of(ALIGN), 0);
    whole::write(path, |file| {
        let mut to = BufWriter::new(file);
        let mut write = |part: &[u8]| to.write_all(part).map_err(|e| e.to_string());
        write(&header).map_err(Fault::Failed)?;
        for part in &parts {
            compute::read_parts(&part.value()?, part.device(), &mut write)?;
            let rest = size(part).next_multiple_of(ALIGN) - size(part);
            write(&vec![0; rest]).map_err(Fault::Failed)?;
        }
        to.flush().map_err(|e| Fault::Failed(e.to_string()))
    })
}

fn size(part: &Tensor) -> usize {
    part.numel() * part.dtype().size()
}

/// Where a tensor is, with the innermost axis first.
fn info(to: &mut Vec<u8>, name: &str, t: &Tensor, kind: GgufType, offset: usize) {
    text(to, name);
    to.extend((t.ndim() as u32).to_le_bytes());
    t.shape().iter().rev().for_each(|&n| to.extend((n as u64).to_le_bytes()));
    to.extend((kind.kind() as u32).to_le_bytes());
    to.extend((offset as u64).to_le_bytes());
}

fn text(to: &mut Vec<u8>, text: &str) {
    to.extend((text.len() as u64).to_le_bytes());
    to.extend(text.as_bytes());
}

/// A value without its type.
fn bytes(to: &mut Vec<u8>, value: &GgufValue) -> Result<(), Fault> {
    use GgufValue::*;
    match value {
        U8(n) => to.push(*n),
        I8(n) => to.extend(n.to_le_bytes()),
        U16(n) => to.extend(n.to_le_bytes()),
        I16(n) => to.extend(n.to_le_bytes()),
        U32(n) => to.extend(n.to_le_bytes()),
        I32(n) => to.extend(n.to_le_bytes()),
        F32(x) => to.extend(x.to_le_bytes()),
        Bool(b) => to.push(u8::from(*b)),
        Text(of) => text(to, of),
        U64(n) => to.extend(n.to_le_bytes()),
        I64(n) => to.extend(n.to_le_bytes()),
        F64(x) => to.extend(x.to_le_bytes()),
        Array(values) => {
            // of no value the type is anything
            let code = values.first().map_or(0, GgufValue::code);
            if values.iter().any(|value| value.code() != code) {
                return Err(Fault::from("an array of values of several types"));
            }
            to.extend(code.to_le_bytes());
            to.extend((values.len() as u64).to_le_bytes());
            values.iter().try_for_each(|value| bytes(to, value))?;
        }
    }
    Ok(())
}
