//! Writing arrays, row-major and little-endian.

use super::header::{MAGIC, descr};
use crate::Tensor;
use crate::engine::Failure;
use crate::error::{Error, Fault, at_caller};
use crate::files::whole;
use crate::files::zip::Writer;
use crate::nn::StateDict;
use crate::tensor::compute;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Elements start at a multiple of this.
const ALIGN: usize = 64;

/// Writes an `.npy` file. It appears whole or not at all. bf16 is written as `V2`, and
/// [`F8E4M3`](crate::DType::F8E4M3) as `V1`, as the package `ml_dtypes` does.
///
/// ```
/// use kiln::{Tensor, numpy};
/// let path = std::env::temp_dir().join(format!("kiln-save-{}.npy", std::process::id()));
/// numpy::save(&path, &Tensor::arange(3))?;
/// assert_eq!(numpy::load(&path)?.to_vec::<i32>()?, [0, 1, 2]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that the tensor carries; another dtype of eight bits; a failing device; a file that cannot be written.
#[track_caller]
pub fn save(path: impl AsRef<Path>, t: &Tensor) -> Result<(), Error> {
    t.realize()?;
    let path = path.as_ref();
    let written = whole::write(path, |file| {
        let mut to = BufWriter::new(file);
        array(t, &mut |part| to.write_all(part).map_err(|e| e.to_string()))?;
        to.flush().map_err(|e| Fault::Failed(e.to_string()))
    });
    at_caller("save", written)
}

/// Writes an `.npz` file: a zip archive of arrays by name, not packed.
///
/// ```
/// use kiln::{Tensor, numpy};
/// let path = std::env::temp_dir().join(format!("kiln-save-{}.npz", std::process::id()));
/// numpy::save_npz(&path, &[("y".to_owned(), Tensor::arange(3))].into())?;
/// assert_eq!(numpy::load_npz(&path)?["y"].to_vec::<i32>()?, [0, 1, 2]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`save`].
#[track_caller]
pub fn save_npz(path: impl AsRef<Path>, arrays: &StateDict) -> Result<(), Error> {
    crate::realize(arrays.values())?;
    let path = path.as_ref();
    let written = whole::write(path, |file| {
        let mut archive = Writer::new(BufWriter::new(file));
        for (name, t) in arrays {
            let len = header(t)?.len() + t.numel() * t.dtype().size();
            archive.entry(&format!("{name}.npy"), len as u64, |write| array(t, write))?;
        }
        archive.finish().map_err(Fault::Failed)
    });
    at_caller("save_npz", written)
}

/// Passes on the bytes of an `.npy` file.
fn array(t: &Tensor, write: &mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Fault> {
    write(&header(t)?).map_err(Fault::Failed)?;
    compute::read_parts(&t.detach().value()?, t.device(), write)
}

/// What stands before the elements: version 2 where the shape is too long for version 1.
fn header(t: &Tensor) -> Result<Vec<u8>, Fault> {
    let shape: String = t.shape().iter().map(|n| format!("{n}, ")).collect();
    let descr = descr(t.dtype());
    let descr = descr.ok_or_else(|| Fault::New(format!("NumPy reads no {}", t.dtype())))?;
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let filled = |start: usize| (start + text.len() + 1).next_multiple_of(ALIGN) - start;
    let start = match u16::try_from(filled(MAGIC.len() + 4)) {
        Ok(len) => [MAGIC, &[1, 0], &len.to_le_bytes()].concat(),
        Err(_) => {
            let len = filled(MAGIC.len() + 6) as u32;
            [MAGIC, &[2, 0], &len.to_le_bytes()].concat()
        }
    };
    let blanks = " ".repeat(filled(start.len()) - text.len() - 1);
    Ok([&start, text.as_bytes(), blanks.as_bytes(), b"\n"].concat())
}
