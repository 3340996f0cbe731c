//! Archives of files (<https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>), with 64-bit sizes, stored or
//! deflated.

/// The directory at the end.
mod directory;
/// New archives.
mod write;

pub(crate) use write::Writer;

use super::cursor::Cursor;
use super::part::Part;
use super::source::Source;
use crate::error::Fault;
use directory::Entry;
use flate2::Crc;
use flate2::read::DeflateDecoder;
use std::io::Read;

/// What a byte of deflated data can become at most (<https://zlib.net/zlib_tech.html>).
const MOST_GROWTH: usize = 1032;

/// An archive for reading. Its entries have different names and do not overlap.
pub(crate) struct Archive<'a> {
    source: &'a Source,
    entries: Vec<Entry>,
}

impl<'a> Archive<'a> {
    pub(crate) fn open(source: &'a Source) -> Result<Archive<'a>, Fault> {
        let mut entries = directory::read(source)?;
        directory::check(source, &entries)?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(source.fault(format!("{} is in the archive twice", pair[0].name)));
        }
        Ok(Archive { source, entries })
    }

    /// The names of all entries, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The entry of a name.
    pub(crate) fn part(&self, name: &str) -> Result<Part<'a>, Fault> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        match at {
            Ok(at) => self.content(&self.entries[at]),
            Err(_) => Err(self.source.fault(format!("there is no {name} in the archive"))),
        }
    }

    fn content(&self, entry: &Entry) -> Result<Part<'a>, Fault> {
        let fault = |why: &str| self.source.fault(format!("{}: {why}", entry.name));
        let at = self.start(entry).ok_or_else(|| fault("its header is damaged"))?;
        let fits = at.checked_add(entry.packed).is_some_and(|end| end <= self.source.len());
        match entry.method {
            _ if entry.is_encrypted => Err(fault("it is encrypted")),
            _ if !fits => Err(fault("the file ends before it does")),
            0 if entry.packed != entry.size => Err(fault("its two sizes differ")),
            0 => Ok(Part::stored(self.source, &entry.name, at, entry.size)),
            8 => {
                let packed = self.source.bytes(at, entry.packed)?;
                let bytes = inflated(&packed, entry).map_err(|why| fault(&why))?;
                Ok(Part::unpacked(self.source, &entry.name, bytes))
            }
            other => {
                Err(fault(&format!("it is packed by method {other}, which kiln does not have")))
            }
        }
    }

    /// Where the bytes of an entry start: after a header of its own.
    fn start(&self, entry: &Entry) -> Option<usize> {
        let header = self.source.bytes(entry.header, directory::LOCAL).ok()?;
        let mut cursor = Cursor(&header);
        (cursor.u32()? == directory::LOCAL_MARK).then_some(())?;
        cursor.take(22)?;
        let (name, extra) = (cursor.u16()?, cursor.u16()?);
        entry.header.checked_add(directory::LOCAL + usize::from(name) + usize::from(extra))
    }
}

/// What deflated bytes become.
fn inflated(packed: &[u8], entry: &Entry) -> Result<Vec<u8>, String> {
    if entry.size > packed.len().saturating_mul(MOST_GROWTH) {
        return Err(format!("{} bytes cannot become {}", packed.len(), entry.size));
    }
    let (mut bytes, mut crc) = (Vec::new(), Crc::new());
    let most = entry.size as u64 + 1;
    DeflateDecoder::new(packed).take(most).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    crc.update(&bytes);
    match bytes.len() == entry.size && crc.sum() == entry.crc {
        true => Ok(bytes),
        false => Err("its size or its checksum is wrong".to_owned()),
    }
}
