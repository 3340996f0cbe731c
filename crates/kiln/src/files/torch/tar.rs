//! The form of PyTorch 0.1.9 and before: a tar archive of `storages`, `tensors`, which are views of them, and a `pickle` that
//! names tensors by numbers.

use super::flatten::flatten;
use super::objects::{Objects, Spec, Stored, storage_dtype};
use super::pickle::run;
use super::stream::Stream;
use super::strided::named;
use super::values::{Loaded, Value, int, tuple};
use crate::error::Fault;
use crate::files::part::Part;
use crate::files::source::Source;
use crate::nn::StateDict;
use crate::{DType, Device};
use std::collections::HashMap;

/// Members start at multiples of this, each after a header of as many bytes.
const BLOCK: usize = 512;

/// More axes are taken for damage.
const MOST_AXES: usize = 64;

/// Whether a file starts with the header of a member (POSIX.1-1988, `ustar`).
pub(super) fn is_tar(source: &Source) -> Result<bool, Fault> {
    Ok(source.len() >= BLOCK && source.bytes(257, 5)? == b"ustar")
}

pub(super) fn tensors(source: &Source, device: &Device) -> Result<StateDict, Fault> {
    let member = |name: &str| -> Result<(usize, Part<'_>), Fault> {
        let (at, len) = find(source, name)?;
        Ok((at, Part::stored(source, name, at, len)))
    };
    let (start, part) = member("storages")?;
    let storages = storages(&mut Stream::new(&part)).map_err(|why| part.fault(why))?;
    let (_, part) = member("tensors")?;
    let mut objects =
        described(&mut Stream::new(&part), &storages).map_err(|why| part.fault(why))?;
    let (_, part) = member("pickle")?;
    let specs = run(&mut Stream::new(&part), &mut objects)
        .and_then(|loaded| flatten(&loaded, part.len()))
        .map_err(|why| part.fault(why))?;
    named(&specs, &objects, device, |key| match key.parse().ok().and_then(|n| storages.get(&n)) {
        Some(place) => Ok(Part::stored(source, key, start + place.at, place.len)),
        None => Err(source.fault(format!("it has no storage {key}"))),
    })
}

/// Where the bytes of a member are.
fn find(source: &Source, name: &str) -> Result<(usize, usize), Fault> {
    let mut at = 0;
    while at + BLOCK <= source.len() {
        let header = source.bytes(at, BLOCK)?;
        let len = octal(&header[124..136]).filter(|&len| len <= source.len() - at - BLOCK);
        let len = len.ok_or_else(|| source.fault("a member of the archive has no size"))?;
        let end = header[..100].iter().position(|&b| b == 0).unwrap_or(100);
        let is_file = matches!(header[156], b'0' | 0);
        if is_file && header[..end].strip_prefix(b"./").unwrap_or(&header[..end]) == name.as_bytes()
        {
            return Ok((at + BLOCK, len));
        }
        at += BLOCK + len.next_multiple_of(BLOCK);
    }
    Err(source.fault(format!("the archive has no {name}: not PyTorch's")))
}

/// A number in octal digits; one that is too large for them is in binary, after a byte of 0x80.
fn octal(field: &[u8]) -> Option<usize> {
    if field[0] == 0x80 {
        return usize::try_from(u64::from_be_bytes(field[4..].try_into().ok()?)).ok();
    }
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches([' ', '\0']);
    if digits.is_empty() { Some(0) } else { usize::from_str_radix(digits, 8).ok() }
}

/// Where a storage is in its member, and the type of its elements.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    len: usize,
    dtype: DType,
}

/// The next pickle, and what its tuple has.
fn next<const N: usize>(stream: &mut Stream<'_>) -> Result<(Loaded, [usize; N]), String> {
    let loaded = run(stream, &mut Objects::default())?;
    let ids = <[usize; N]>::try_from(tuple(&loaded.values, loaded.root)?);
    let ids = ids.map_err(|_| format!("a description has not {N} values"))?;
    Ok((loaded, ids))
}

fn count(stream: &mut Stream<'_>) -> Result<usize, String> {
    let loaded = run(stream, &mut Objects::default())?;
    int(&loaded.values, loaded.root)
}

/// The storages by their numbers: each a pickle `(number, device, type)`, a count and elements; at the end a pickle of those
/// that are parts of others.
fn storages(stream: &mut Stream<'_>) -> Result<HashMap<i128, Place>, String> {
    let mut places = HashMap::new();
    for _ in 0..count(stream)? {
        let (loaded, [key, _, of]) = next(stream)?;
        let dtype = storage_dtype(&loaded.values, of)?;
        let count = usize::try_from(u64::from_le_bytes(stream.array()?)).ok();
        let len =
            count.and_then(|n| n.checked_mul(dtype.size())).ok_or("a storage is too large")?;
        places.insert(int(&loaded.values, key)?, Place { at: stream.at(), len, dtype });
        stream.skip(len)?;
    }
    let Loaded { values, root } = run(stream, &mut Objects::default())?;
    for &view in tuple(&values, root)? {
        let (key, place) = part_of_one(&values, view, &places)?;
        places.insert(key, place);
    }
    Ok(places)
}

/// A storage that is elements of another one: `(number, number of that, first, count)`.
fn part_of_one(
    values: &[Value],
    view: usize,
    places: &HashMap<i128, Place>,
) -> Result<(i128, Place), String> {
    let &[key, whole, first, count] = tuple(values, view)? else {
        return Err("a part of a storage is not described by four values".to_owned());
    };
    let whole = *places.get(&int(values, whole)?).ok_or("a part of a storage that is not there")?;
    let (first, count): (usize, usize) = (int(values, first)?, int(values, count)?);
    let (size, all) = (whole.dtype.size(), whole.len / whole.dtype.size());
    match first.checked_add(count) {
        Some(end) if end <= all => {
            let place = Place { at: whole.at + first * size, len: count * size, ..whole };
            Ok((int(values, key)?, place))
        }
        _ => Err("a part of a storage is outside of it".to_owned()),
    }
}

/// The tensors by their numbers: each a pickle `(number, storage, type)`, and then the number of axes, their lengths, their
/// strides and the first element in integers of 64 bits.
fn described(stream: &mut Stream<'_>, storages: &HashMap<i128, Place>) -> Result<Objects, String> {
    let mut objects = Objects::default();
    for number in 0..count(stream)? {
        let (loaded, [key, storage, _]) = next(stream)?;
        let (key, storage): (i128, i128) =
            (int(&loaded.values, key)?, int(&loaded.values, storage)?);
        let place = storages.get(&storage).ok_or("a tensor without a storage")?;
        objects.storages.push(Stored { key: storage.to_string(), dtype: place.dtype });
        let axes = i32::from_le_bytes(stream.array()?);
        let axes = usize::try_from(axes).ok().filter(|&n| n <= MOST_AXES);
        let axes = axes.ok_or("a tensor of an absurd number of axes")?;
        stream.skip(4)?;
        let mut numbers = |n: usize| (0..n).map(|_| size(stream)).collect::<Result<_, _>>();
        let (shape, strides) = (numbers(axes)?, numbers(axes)?);
        let offset = size(stream)?;
        let spec = Spec { storage: number, dtype: place.dtype, offset, shape, strides };
        objects.tensors.push(spec);
        objects.by_key.insert(key.to_string(), Value::Tensor(number));
    }
    Ok(objects)
}

fn size(stream: &mut Stream<'_>) -> Result<usize, String> {
    usize::try_from(u64::from_le_bytes(stream.array()?)).map_err(|e| e.to_string())
}
