//! A part of a file: where it is stored, or what it was unpacked to.

use super::source::{Source, byte_len};
use crate::error::Fault;
use crate::tensor::compute::upload;
use crate::{DType, Device};
use kiln_ir::UOp;
use std::fmt::Display;

/// Some bytes of a file.
pub(crate) struct Part<'a> {
    source: &'a Source,
    /// What errors call it.
    name: String,
    content: Content,
}

enum Content {
    /// They are the file's own, from this byte on, as many.
    Stored(usize, usize),
    /// They were packed.
    Unpacked(Vec<u8>),
}

impl<'a> Part<'a> {
    /// All of a file.
    pub(crate) fn whole(source: &'a Source) -> Part<'a> {
        Part::stored(source, "", 0, source.len())
    }

    /// `len` bytes from `at` on, which the file has.
    pub(crate) fn stored(source: &'a Source, name: &str, at: usize, len: usize) -> Part<'a> {
        Part { source, name: name.to_owned(), content: Content::Stored(at, len) }
    }

    pub(crate) fn unpacked(source: &'a Source, name: &str, bytes: Vec<u8>) -> Part<'a> {
        Part { source, name: name.to_owned(), content: Content::Unpacked(bytes) }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Stored(_, len) => *len,
            Content::Unpacked(bytes) => bytes.len(),
        }
    }

    /// An error about it.
    pub(crate) fn fault(&self, why: impl Display) -> Fault {
        match self.name.as_str() {
            "" => self.source.fault(why),
            name => self.source.fault(format!("{name}: {why}")),
        }
    }

    /// `len` bytes from `at` on.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Result<Vec<u8>, Fault> {
        self.check(at, len)?;
        match &self.content {
            Content::Stored(start, _) => self.source.bytes(start + at, len),
            Content::Unpacked(bytes) => Ok(bytes[at..at + len].to_vec()),
        }
    }

    /// The elements from byte `at` on, row-major.
    pub(crate) fn elements(
        &self,
        at: usize,
        dtype: DType,
        shape: &[usize],
        device: &Device,
    ) -> Result<UOp, Fault> {
        let len = byte_len(dtype, shape)
            .ok_or_else(|| self.fault(format!("{shape:?} {dtype} is too large")))?;
        self.check(at, len)?;
        match &self.content {
            Content::Stored(start, _) => self.source.elements(start + at, dtype, shape, device),
            Content::Unpacked(bytes) => {
                let bytes = &bytes[at..at + len];
                let bools = |b: &u8| u8::from(*b != 0);
                match dtype {
                    DType::Bool => {
                        let bools: Vec<u8> = bytes.iter().map(bools).collect();
                        upload(&bools, dtype, shape.into(), device)
                    }
                    _ => upload(bytes, dtype, shape.into(), device),
                }
            }
        }
    }

    fn check(&self, at: usize, len: usize) -> Result<(), Fault> {
        match at.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(self.fault(format!("it ends before {len} bytes from byte {at} on"))),
        }
    }
}
