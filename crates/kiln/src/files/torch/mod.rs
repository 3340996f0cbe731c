//! What `torch.save` writes: a zip archive with a pickle and the storages that its tensors are views of, or, before
//! PyTorch 1.6, pickles and storages one after the other, or, before 0.1.10, a tar archive.
//!
//! A pickle is a program. The machine here has values and lists of them, and no way to call anything: of the functions
//! that pickles name it knows those that make tensors, as descriptions, and refuses all others by name.

/// Nested values as tensors with names.
mod flatten;
/// The form before zip archives.
mod legacy;
/// The functions and types that a file of tensors names.
mod objects;
/// The machine that pickles are written for.
mod pickle;
/// Bytes of a pickle, as they are needed.
mod stream;
/// Tensors out of storages.
mod strided;
/// The form before that.
mod tar;
/// What pickles make.
mod values;

use super::source::Source;
use super::zip::Archive;
use crate::Device;
use crate::error::{Error, Fault, at_caller};
use crate::nn::StateDict;
use flatten::flatten;
use objects::Objects;
use std::path::Path;
use stream::Stream;
use strided::named;

/// The tensors of a file that `torch.save` wrote, on the default device: a `state_dict`, or any nesting of dictionaries and
/// lists, whose keys are joined by dots (`optimizer.state.0.exp_avg`). What is no tensor is left out. A file of one tensor
/// has it under the name `""`.
///
/// Nothing in the file is run. Tensors are views of the file, which must not change meanwhile; none wants a gradient.
///
/// ```
/// assert!(kiln::nn::state::torch_load("no/such/file").is_err());
/// ```
///
/// # Errors
/// A file that is missing, damaged or not PyTorch's; one that needs a function or type besides those of tensors,
/// parameters, ordered dictionaries, dtypes and scalars, such as a whole module; a dtype that kiln does not have.
#[track_caller]
pub fn torch_load(path: impl AsRef<Path>) -> Result<StateDict, Error> {
    torch_load_on(path, &Device::default_device())
}

/// As [`torch_load`], on a device.
///
/// ```
/// use kiln::{Device, nn::state};
/// assert!(state::torch_load_on("no/such/file", &Device::default_device()).is_err());
/// ```
///
/// # Errors
/// As [`torch_load`].
#[track_caller]
pub fn torch_load_on(path: impl AsRef<Path>, device: &Device) -> Result<StateDict, Error> {
    at_caller("torch_load", tensors(path.as_ref(), device))
}

fn tensors(path: &Path, device: &Device) -> Result<StateDict, Fault> {
    let source = Source::open(path)?;
    match source.len() >= 4 && source.bytes(0, 4)? == b"PK\x03\x04" {
        true => archived(&source, device),
        false if tar::is_tar(&source)? => tar::tensors(&source, device),
        false => legacy::tensors(&source, device),
    }
}

/// The pickle's name in the folder that all of the archive is in.
const PICKLE: &str = "/data.pkl";

fn archived(source: &Source, device: &Device) -> Result<StateDict, Fault> {
    let archive = Archive::open(source)?;
    let folder =
        |name: &str| name.strip_suffix(PICKLE).filter(|f| !f.contains('/')).map(str::to_owned);
    let folder = archive.names().find_map(folder);
    let folder =
        folder.ok_or_else(|| source.fault("the archive has no data.pkl: not PyTorch's"))?;
    let order = format!("{folder}/byteorder");
    if archive.names().any(|name| name == order) {
        let part = archive.part(&order)?;
        if part.bytes(0, part.len().min(6))? != b"little" {
            return Err(source.fault("its bytes are not in little-endian order"));
        }
    }
    let pickle = archive.part(&format!("{folder}{PICKLE}"))?;
    let mut objects = Objects::default();
    let loaded = pickle::run(&mut Stream::new(&pickle), &mut objects);
    let loaded = loaded.map_err(|why| pickle.fault(why))?;
    let specs = flatten(&loaded, pickle.len()).map_err(|why| pickle.fault(why))?;
    named(&specs, &objects, device, |key| archive.part(&format!("{folder}/data/{key}")))
}
