//! The directory of an archive: it is the last thing in the file, and names every entry.

use crate::error::Fault;
use crate::files::cursor::Cursor;
use crate::files::source::Source;

/// What starts the header of an entry, an entry of the directory, and the ends of the directory.
pub(super) const LOCAL_MARK: u32 = 0x0403_4b50;
pub(super) const ENTRY_MARK: u32 = 0x0201_4b50;
pub(super) const END_MARK: u32 = 0x0605_4b50;
pub(super) const END64_MARK: u32 = 0x0606_4b50;
pub(super) const LOCATOR_MARK: u32 = 0x0706_4b50;

/// Their sizes without names and other parts of varying length.
pub(super) const LOCAL: usize = 30;
const END: usize = 22;
const LOCATOR: usize = 20;
const END64: usize = 56;

/// The extra field that has 64-bit sizes.
pub(super) const SIZES64: u16 = 1;

/// The longest comment behind the directory.
const MOST_COMMENT: usize = u16::MAX as usize;

/// What the directory says of an entry.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) method: u16,
    pub(super) is_encrypted: bool,
    pub(super) crc: u32,
    /// Its size in the file, and unpacked.
    pub(super) packed: usize,
    pub(super) size: usize,
    /// Where its header is.
    pub(super) header: usize,
}

/// All entries.
pub(super) fn read(source: &Source) -> Result<Vec<Entry>, Fault> {
    let (at, len) = place(source)?;
    let bytes = source.bytes(at, len)?;
    let (mut cursor, mut entries) = (Cursor(&bytes), Vec::new());
    while !cursor.0.is_empty() {
        let damaged = || source.fault("the directory of the archive is damaged");
        entries.push(entry(&mut cursor).ok_or_else(damaged)?);
    }
    Ok(entries)
}

/// Fails if entries overlap: unpacking each would take more than the file justifies.
pub(super) fn check(source: &Source, entries: &[Entry]) -> Result<(), Fault> {
    let range = |e: &Entry| (e.header, e.header.saturating_add(LOCAL).saturating_add(e.packed));
    let mut ranges: Vec<(usize, usize)> = entries.iter().map(range).collect();
    ranges.sort_unstable();
    match ranges.windows(2).any(|pair| pair[1].0 < pair[0].1) {
        true => Err(source.fault("entries of the archive overlap")),
        false => Ok(()),
    }
}

/// Where the directory is, and how long.
fn place(source: &Source) -> Result<(usize, usize), Fault> {
    let tail = source.len().min(END + MOST_COMMENT + LOCATOR);
    let start = source.len() - tail;
    let bytes = source.bytes(start, tail)?;
    let mark = END_MARK.to_le_bytes();
    let last = bytes.len().checked_sub(END);
    let found = last.and_then(|last| (0..=last).rev().find(|&at| bytes[at..].starts_with(&mark)));
    let at = found.ok_or_else(|| source.fault("it is no zip archive"))?;
    let place = if has_locator(&bytes, at) {
        let record = end64(source, &bytes[at - LOCATOR..]);
        record.map(|(start, len)| (start as u64, len as u64))
    } else {
        let mut end = Cursor(&bytes[at + 12..]);
        end.u32().zip(end.u32()).map(|(len, start)| (start.into(), len.into()))
    };
    let place =
        place.and_then(|(at, len)| Some((usize::try_from(at).ok()?, usize::try_from(len).ok()?)));
    place.ok_or_else(|| source.fault("the end of the archive is damaged"))
}

fn has_locator(bytes: &[u8], end: usize) -> bool {
    let locator = end.checked_sub(LOCATOR).map(|at| &bytes[at..end]);
    locator.is_some_and(|bytes| bytes.starts_with(&LOCATOR_MARK.to_le_bytes()))
}

/// The same of a directory with 64-bit sizes: `locator` says where its end is.
fn end64(source: &Source, locator: &[u8]) -> Option<(usize, usize)> {
    let at = Cursor(&locator[8..]).size()?;
    let bytes = source.bytes(at, END64).ok()?;
    let mut cursor = Cursor(&bytes);
    (cursor.u32()? == END64_MARK).then_some(())?;
    cursor.take(36)?;
    let len = cursor.size()?;
    Some((cursor.size()?, len))
}

fn entry(cursor: &mut Cursor<'_>) -> Option<Entry> {
    (cursor.u32()? == ENTRY_MARK).then_some(())?;
    cursor.take(4)?;
    let (flags, method) = (cursor.u16()?, cursor.u16()?);
    cursor.take(4)?;
    let crc = cursor.u32()?;
    let (packed, size) = (cursor.u32()?, cursor.u32()?);
    let [name, extra, comment] = [cursor.u16()?, cursor.u16()?, cursor.u16()?];
    cursor.take(8)?;
    let header = cursor.u32()?;
    let name = String::from_utf8_lossy(cursor.take(name.into())?).into_owned();
    let mut wide = Wide(sizes64(cursor.take(extra.into())?));
    cursor.take(comment.into())?;
    // in this order, each only where it does not fit 32 bits
    let (size, packed) = (wide.size(size)?, wide.size(packed)?);
    let header = wide.size(header)?;
    Some(Entry { name, method, is_encrypted: flags & 1 != 0, crc, packed, size, header })
}

/// The 64-bit sizes of an entry that are still to be used.
struct Wide<'a>(Option<Cursor<'a>>);

impl Wide<'_> {
    fn size(&mut self, narrow: u32) -> Option<usize> {
        match &mut self.0 {
            Some(wide) if narrow == u32::MAX => wide.size(),
            _ => usize::try_from(narrow).ok(),
        }
    }
}

/// The extra field with 64-bit sizes, if there is one.
fn sizes64(extra: &[u8]) -> Option<Cursor<'_>> {
    let mut cursor = Cursor(extra);
    while let Some((kind, len)) = cursor.u16().zip(cursor.u16()) {
        let field = cursor.take(len.into())?;
        if kind == SIZES64 {
            return Some(Cursor(field));
        }
    }
    None
}
