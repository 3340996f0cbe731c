//! The form that `torch.save` had before PyTorch 1.6, and has with `_use_new_zipfile_serialization=False`: five pickles (a
//! mark, a version, facts about the machine, the value, the names of the storages), then each storage with its length.

use super::flatten::flatten;
use super::objects::Objects;
use super::pickle::run;
use super::stream::Stream;
use super::strided::named;
use super::values::{Loaded, Value, text, tuple};
use crate::Device;
use crate::error::Fault;
use crate::files::part::Part;
use crate::files::source::Source;
use crate::nn::StateDict;
use std::collections::HashMap;

/// The mark that files start with.
const MAGIC: i128 = 0x1950_a86a_20f9_469c_fc6c;

/// The version of the form.
const VERSION: i128 = 1001;

pub(super) fn tensors(source: &Source, device: &Device) -> Result<StateDict, Fault> {
    let whole = Part::whole(source);
    let (mut objects, mut stream) = (Objects::default(), Stream::new(&whole));
    let read = check(&mut stream).and_then(|()| {
        let start = stream.at();
        let loaded = run(&mut stream, &mut objects)?;
        let specs = flatten(&loaded, stream.at() - start)?;
        Ok((specs, storages(&mut stream, &objects)?))
    });
    let (specs, places) = read.map_err(|why: String| source.fault(why))?;
    named(&specs, &objects, device, |key| match places.get(key) {
        Some(&(at, len)) => Ok(Part::stored(source, key, at, len)),
        None => Err(source.fault(format!("it has no storage {key}"))),
    })
}

/// Reads the first three pickles.
fn check(stream: &mut Stream<'_>) -> Result<(), String> {
    let mut next = || {
        let Loaded { values, root } = run(stream, &mut Objects::default())?;
        Ok(values.into_iter().nth(root).expect("a value"))
    };
    let no_file = |_: String| "it is no file of PyTorch".to_owned();
    match (next().map_err(no_file)?, next().map_err(no_file)?) {
        (Value::Int(MAGIC), Value::Int(VERSION)) => next().map(drop),
        (Value::Int(MAGIC), version) => Err(format!("version {version:?} of the format")),
        _ => Err("it is no file of PyTorch".to_owned()),
    }
}

/// Where each storage is, and how many bytes it has.
fn storages(
    stream: &mut Stream<'_>,
    objects: &Objects,
) -> Result<HashMap<String, (usize, usize)>, String> {
    let sizes: HashMap<&str, usize> =
        objects.storages.iter().map(|s| (s.key.as_str(), s.dtype.size())).collect();
    let Loaded { values, root } = run(stream, &mut Objects::default())?;
    let mut places = HashMap::new();
    for &key in tuple(&values, root)? {
        let key = text(&values, key)?;
        let count = usize::try_from(u64::from_le_bytes(stream.array()?)).ok();
        let size = sizes.get(key).ok_or_else(|| format!("storage {key} belongs to no tensor"))?;
        let len = count.and_then(|n| n.checked_mul(*size)).ok_or("a storage is too large")?;
        places.insert(key.to_owned(), (stream.at(), len));
        stream.skip(len)?;
    }
    Ok(places)
}
