//! The beginning of a file: metadata, and where each tensor is. Counts are believed only as far as the file has bytes.

use super::kind::Kind;
use super::value::GgufValue;
use crate::DType;
use crate::error::Fault;
use crate::files::source::{Source, byte_len};
use std::collections::BTreeMap;

/// What a file starts with.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";

/// Tensors start at multiples of this, unless the metadata says otherwise.
pub(super) const ALIGN: usize = 32;
pub(super) const ALIGNMENT: &str = "general.alignment";

/// Deeper nested arrays are taken for damage; as are tensors with more axes, of which ggml has four.
const MOST_DEEP: usize = 8;
const MOST_AXES: u32 = 16;

/// What the beginning says.
pub(super) struct Header {
    pub(super) metadata: BTreeMap<String, GgufValue>,
    pub(super) tensors: Vec<Info>,
    /// Where the data starts.
    pub(super) data: usize,
}

/// Where a tensor is.
pub(super) struct Info {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) kind: Kind,
    /// Counted from the start of the data.
    pub(super) offset: usize,
}

impl Header {
    pub(super) fn read(source: &Source) -> Result<Header, Fault> {
        let mut reader = Reader { source, at: 0, chunk: Vec::new(), start: 0 };
        reader.header().map_err(|why| source.fault(why))
    }
}

/// How much is read at once.
const CHUNK: usize = 1 << 16;

struct Reader<'a> {
    source: &'a Source,
    at: usize,
    /// Bytes of the file from `start` on.
    chunk: Vec<u8>,
    start: usize,
}

impl Reader<'_> {
    fn header(&mut self) -> Result<Header, String> {
        if self.source.len() < 24 || self.take(4)? != MAGIC {
            return Err("it is no GGUF file".to_owned());
        }
        match self.u32()? {
            2 | 3 => {}
            version if version.swap_bytes() <= 3 => {
                return Err("its bytes are in big-endian order".to_owned());
            }
            version => return Err(format!("version {version} of the format")),
        }
        let (tensors, facts) = (self.u64()?, self.u64()?);
        let mut metadata = BTreeMap::new();
        for _ in 0..facts {
            let name = self.text()?;
            let code = self.u32()?;
            let value = self.value(code, 0)?;
            if metadata.contains_key(&name) {
                return Err(format!("the name {name:?} stands twice"));
            }
            metadata.insert(name, value);
        }
        let align = alignment(&metadata)?;
        let mut infos = Vec::new();
        for _ in 0..tensors {
            let info = self.info()?;
            if !info.offset.is_multiple_of(align) {
                return Err(format!("{} is at {}, no multiple of {align}", info.name, info.offset));
            }
            infos.push(info);
        }
        Ok(Header { metadata, tensors: infos, data: self.at.next_multiple_of(align) })
    }

    fn info(&mut self) -> Result<Info, String> {
        let name = self.text()?;
        let axes = self.u32()?;
        if axes > MOST_AXES {
            return Err(format!("{name} has {axes} axes"));
        }
        let mut shape = (0..axes).map(|_| self.size()).collect::<Result<Vec<usize>, String>>()?;
        // the file has the innermost axis first
        shape.reverse();
        let code = self.u32()?;
        let kind = Kind::of(code);
        let kind =
            kind.ok_or_else(|| format!("{name} is of type {code}, which kiln does not have"))?;
        let offset = self.size()?;
        let (elements, _) = kind.block();
        let row = shape.last().copied().unwrap_or(1);
        if byte_len(DType::F32, &shape).is_none() {
            return Err(format!("{name} {shape:?} is too large"));
        }
        if !row.is_multiple_of(elements) {
            return Err(format!("{name}: a row of {row} is no whole number of {kind:?} blocks"));
        }
        Ok(Info { name, shape, kind, offset })
    }

    fn value(&mut self, code: u32, depth: usize) -> Result<GgufValue, String> {
        use GgufValue::*;
        Ok(match code {
            0 => U8(self.array::<1>()?[0]),
            1 => I8(i8::from_le_bytes(self.array()?)),
            2 => U16(u16::from_le_bytes(self.array()?)),
            3 => I16(i16::from_le_bytes(self.array()?)),
            4 => U32(self.u32()?),
            5 => I32(i32::from_le_bytes(self.array()?)),
            6 => F32(f32::from_le_bytes(self.array()?)),
            7 => Bool(self.array::<1>()? != [0]),
            8 => Text(self.text()?),
            9 if depth == MOST_DEEP => {
                return Err("arrays of arrays are nested too deeply".to_owned());
            }
            9 => {
                let (code, n) = (self.u32()?, self.size()?);
                // each takes at least a byte
                if n > self.source.len() - self.at {
                    return Err("it ends before an array does".to_owned());
                }
                Array((0..n).map(|_| self.value(code, depth + 1)).collect::<Result<_, _>>()?)
            }
            10 => U64(self.u64()?),
            11 => I64(i64::from_le_bytes(self.array()?)),
            12 => F64(f64::from_le_bytes(self.array()?)),
            _ => return Err(format!("metadata of type {code}")),
        })
    }

    fn text(&mut self) -> Result<String, String> {
        let len = self.size()?;
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    fn size(&mut self) -> Result<usize, String> {
        usize::try_from(self.u64()?).map_err(|e| e.to_string())
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        Ok(self.take(N)?.try_into().expect("as many bytes"))
    }

    fn take(&mut self, n: usize) -> Result<&[u8], String> {
        if self.at - self.start + n.min(CHUNK) > self.chunk.len() || n > CHUNK {
            let left = self.source.len() - self.at;
            if n > left {
                return Err("it ends too early".to_owned());
            }
            let bytes = self.source.bytes(self.at, n.max(CHUNK).min(left));
            self.chunk = bytes.map_err(|_| "it cannot be read".to_owned())?;
            self.start = self.at;
        }
        let from = self.at - self.start;
        self.at += n;
        Ok(&self.chunk[from..from + n])
    }
}

/// What tensors start at multiples of.
fn alignment(metadata: &BTreeMap<String, GgufValue>) -> Result<usize, String> {
    let Some(value) = metadata.get(ALIGNMENT) else { return Ok(ALIGN) };
    let align = value.as_i64().and_then(|n| usize::try_from(n).ok());
    let sound = align.filter(|n| n.is_power_of_two() && *n <= 1 << 20);
    sound.ok_or_else(|| format!("an alignment of {value:?}"))
}
