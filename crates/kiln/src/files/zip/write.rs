//! New archives: entries are stored, and all sizes have 64 bits.

use super::directory::{END_MARK, END64_MARK, ENTRY_MARK, LOCAL_MARK, LOCATOR_MARK, SIZES64};
use crate::engine::Failure;
use crate::error::Fault;
use flate2::Crc;
use std::io::{Seek, SeekFrom, Write};

/// The version of the format that has 64-bit sizes.
const VERSION: u16 = 45;

/// 1980-01-01, the first day that there is: the same tensors are the same bytes.
const DATE: u16 = 0x21;

/// Names are UTF-8.
const UTF8: u16 = 1 << 11;

/// Where the checksum of an entry is, counted from its header.
const CRC_AT: u64 = 14;

/// An archive that is being written.
pub(crate) struct Writer<W> {
    to: W,
    at: u64,
    directory: Vec<u8>,
    entries: u64,
}

impl<W: Write + Seek> Writer<W> {
    pub(crate) fn new(to: W) -> Writer<W> {
        Writer { to, at: 0, directory: Vec::new(), entries: 0 }
    }

    /// Adds an entry of `len` bytes, which `fill` passes on in parts.
    pub(crate) fn entry(
        &mut self,
        name: &str,
        len: u64,
        fill: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let name_len = u16::try_from(name.len());
        let name_len = name_len.map_err(|_| Fault::New("a name is too long".to_owned()))?;
        let start = self.at;
        let extra = [SIZES64.to_le_bytes(), 16u16.to_le_bytes()].concat();
        let extra = [&extra[..], &len.to_le_bytes(), &len.to_le_bytes()].concat();
        let header = [&LOCAL_MARK.to_le_bytes(), &fields(0, name_len, extra.len())[..]].concat();
        self.write(&[&header, name.as_bytes(), &extra].concat())?;
        let mut crc = Crc::new();
        fill(&mut |part| {
            crc.update(part);
            self.write(part)
        })?;
        self.patch(start + CRC_AT, crc.sum())?;
        self.list(name, len, start, crc.sum());
        Ok(())
    }

    /// Writes the directory.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let (start, directory) = (self.at, std::mem::take(&mut self.directory));
        self.write(&directory)?;
        let (end, len, n) = (self.at, directory.len() as u64, self.entries);
        let version = VERSION.to_le_bytes();
        let mut all = END64_MARK.to_le_bytes().to_vec();
        all.extend(44u64.to_le_bytes());
        all.extend([version, version, [0; 2], [0; 2], [0; 2], [0; 2]].concat());
        all.extend([n, n, len, start].map(u64::to_le_bytes).concat());
        all.extend(LOCATOR_MARK.to_le_bytes());
        all.extend([&[0; 4], &end.to_le_bytes()[..], &1u32.to_le_bytes()].concat());
        all.extend(END_MARK.to_le_bytes());
        // numbers of disks, of entries, and sizes: all are where 64 bits are
        all.extend([&[0; 4][..], &[0xff; 12], &[0; 2]].concat());
        self.write(&all)?;
        self.to.flush().map_err(|e| e.to_string())
    }

    /// Adds an entry to the directory.
    fn list(&mut self, name: &str, len: u64, start: u64, crc: u32) {
        let extra = [SIZES64.to_le_bytes(), 24u16.to_le_bytes()].concat();
        let sizes = [len, len, start].map(u64::to_le_bytes).concat();
        let fields = fields(crc, name.len() as u16, extra.len() + sizes.len());
        self.directory.extend(ENTRY_MARK.to_le_bytes());
        self.directory.extend(VERSION.to_le_bytes());
        self.directory.extend(fields);
        // no comment, the first disk, no attributes, and the place of the header
        self.directory.extend([&[0; 10][..], &[0xff; 4]].concat());
        self.directory.extend([name.as_bytes(), &extra, &sizes].concat());
        self.entries += 1;
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.at += bytes.len() as u64;
        self.to.write_all(bytes).map_err(|e| e.to_string())
    }

    fn patch(&mut self, at: u64, crc: u32) -> Result<(), Fault> {
        let mut patch = || {
            self.to.seek(SeekFrom::Start(at))?;
            self.to.write_all(&crc.to_le_bytes())?;
            self.to.seek(SeekFrom::Start(self.at))
        };
        patch().map(drop).map_err(|e| Fault::Failed(e.to_string()))
    }
}

/// What the two headers of an entry have in common: version, flags, method, time, checksum, sizes, lengths.
fn fields(crc: u32, name: u16, extra: usize) -> Vec<u8> {
    let mut all = [VERSION, UTF8, 0, 0, DATE].map(u16::to_le_bytes).concat();
    all.extend([crc, u32::MAX, u32::MAX].map(u32::to_le_bytes).concat());
    all.extend([name, extra as u16].map(u16::to_le_bytes).concat());
    all
}
