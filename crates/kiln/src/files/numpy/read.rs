//! Reading arrays: views of the file, whatever the order of bytes and of axes.

use super::header::{Header, MAGIC};
use crate::error::{Error, Fault, at_caller};
use crate::files::part::Part;
use crate::files::source::Source;
use crate::files::zip::Archive;
use crate::nn::StateDict;
use crate::{DType, Device, Tensor};
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, Shape, SliceAxis};
use std::path::Path;

/// The array of an `.npy` file, on the default device. It is a view of the file, which must not change meanwhile. Arrays
/// in either order of bytes and in Fortran's order of axes are the same values. bf16 is what NumPy names `V2`.
///
/// ```
/// use kiln::{Tensor, numpy};
/// let path = std::env::temp_dir().join(format!("kiln-numpy-{}.npy", std::process::id()));
/// numpy::save(&path, &Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]))?;
/// assert_eq!(numpy::load(&path)?.sum(0).to_vec::<f32>()?, [4.0, 6.0]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A file that is missing, cut short or no `.npy` file; a dtype that kiln does not have.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    load_on(path, &Device::default_device())
}

/// As [`load`], on a device.
///
/// ```
/// use kiln::{Device, numpy};
/// assert!(numpy::load_on("no/such/file", &Device::default_device()).is_err());
/// ```
///
/// # Errors
/// As [`load`].
#[track_caller]
pub fn load_on(path: impl AsRef<Path>, device: &Device) -> Result<Tensor, Error> {
    let source = Source::open(path.as_ref());
    at_caller("load", source.and_then(|source| array(&Part::whole(&source), device)))
}

/// The arrays of an `.npz` file by name, on the default device. Those that are stored are views of the file; those that are
/// packed are unpacked now.
///
/// ```
/// use kiln::{Tensor, numpy};
/// let path = std::env::temp_dir().join(format!("kiln-numpy-{}.npz", std::process::id()));
/// numpy::save_npz(&path, &[("x".to_owned(), Tensor::from([1, 2]))].into())?;
/// assert_eq!(numpy::load_npz(&path)?["x"].to_vec::<i32>()?, [1, 2]);
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A file that is missing, cut short or no zip archive; an entry that is no array, or as [`load`] refuses one.
#[track_caller]
pub fn load_npz(path: impl AsRef<Path>) -> Result<StateDict, Error> {
    load_npz_on(path, &Device::default_device())
}

/// As [`load_npz`], on a device.
///
/// ```
/// use kiln::{Device, numpy};
/// assert!(numpy::load_npz_on("no/such/file", &Device::default_device()).is_err());
/// ```
///
/// # Errors
/// As [`load_npz`].
#[track_caller]
pub fn load_npz_on(path: impl AsRef<Path>, device: &Device) -> Result<StateDict, Error> {
    at_caller("load_npz", arrays(path.as_ref(), device))
}

fn arrays(path: &Path, device: &Device) -> Result<StateDict, Fault> {
    let source = Source::open(path)?;
    let archive = Archive::open(&source)?;
    let array = |name: &str| {
        let short = name.strip_suffix(".npy").unwrap_or(name).to_owned();
        Ok((short, array(&archive.part(name)?, device)?))
    };
    archive.names().map(array).collect()
}

fn array(part: &Part<'_>, device: &Device) -> Result<Tensor, Fault> {
    let (header, start) = header(part)?;
    let node = node(part, &header, start, device)?;
    Ok(Tensor::from_node(node, device))
}

/// The header, and where the elements start.
fn header(part: &Part<'_>) -> Result<(Header, usize), Fault> {
    let start = part.bytes(0, part.len().min(12))?;
    let number = |at: usize, n: usize| match (start.get(at..at + n), n) {
        (Some(bytes), 2) => Some(u16::from_le_bytes([bytes[0], bytes[1]]).into()),
        (Some(bytes), _) => usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok(),
        (None, _) => None,
    };
    let place = match start.strip_prefix(MAGIC) {
        Some([1, ..]) => number(8, 2).map(|len| (10, len)),
        Some([2 | 3, ..]) => number(8, 4).map(|len| (12, len)),
        Some([version, ..]) => return Err(part.fault(format!("version {version} of the format"))),
        _ => return Err(part.fault("it is no .npy file")),
    };
    let (at, len) = place.ok_or_else(|| part.fault("it ends inside of its header"))?;
    let header = Header::parse(&part.bytes(at, len)?).map_err(|why| part.fault(why))?;
    Ok((header, at + len))
}

fn node(part: &Part<'_>, header: &Header, start: usize, device: &Device) -> Result<UOp, Fault> {
    let mut shape = header.shape.clone();
    if header.is_fortran {
        shape.reverse();
    }
    let elements = match header.is_big_endian && header.dtype.size() > 1 {
        true => swapped(part, header.dtype, &shape, start, device)?,
        false => part.elements(start, header.dtype, &shape, device)?,
    };
    Ok(match header.is_fortran {
        true => elements.permute((0..shape.len()).rev().collect::<Axes>()),
        false => elements,
    })
}

/// Elements whose bytes stand in the other order.
fn swapped(
    part: &Part<'_>,
    dtype: DType,
    shape: &[usize],
    start: usize,
    device: &Device,
) -> Result<UOp, Fault> {
    let size = dtype.size();
    let bytes: Vec<usize> = shape.iter().copied().chain([size]).collect();
    let bytes = part.elements(start, DType::U8, &bytes, device)?;
    let n = bytes.numel() / size;
    let backward = SliceAxis { start: size - 1, step: -1, len: size };
    let bytes = bytes.reshape(Shape::from_slice(&[n, size]));
    Ok(bytes
        .slice(&[SliceAxis::full(n), backward])
        .bitcast(dtype)
        .reshape(Shape::from_slice(shape)))
}
