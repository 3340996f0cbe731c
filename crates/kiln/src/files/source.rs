//! A file for reading: bytes of it, and tensors that are views of it. Whoever asks for what the file does not have gets an
//! error with its name. Nothing that a file says makes more memory be taken than the file is long.

use crate::engine::Mapped;
use crate::error::Fault;
use crate::tensor::shape_args::holdable;
use crate::{DType, Device, Tensor};
use kiln_ir::UOp;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// An open file.
pub(crate) struct Source {
    path: PathBuf,
    mapped: Mapped,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Source, Fault> {
        let mapped = Mapped::open(path).map_err(Fault::New)?;
        Ok(Source { path: path.to_owned(), mapped })
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.mapped.len()
    }

    /// An error about this file.
    pub(crate) fn fault(&self, why: impl Display) -> Fault {
        Fault::New(format!("{}: {why}", self.path.display()))
    }

    /// The bytes from `at` on.
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Result<Vec<u8>, Fault> {
        self.check(at, len)?;
        let mut bytes = vec![0; len];
        self.mapped.read(at, &mut bytes).map_err(Fault::Failed)?;
        Ok(bytes)
    }

    /// The elements that lie from byte `at` on, row-major.
    pub(crate) fn elements(
        &self,
        at: usize,
        dtype: DType,
        shape: &[usize],
        device: &Device,
    ) -> Result<UOp, Fault> {
        let bytes = byte_len(dtype, shape);
        let bytes = bytes.ok_or_else(|| self.fault(format!("{shape:?} {dtype} is too large")))?;
        self.check(at, bytes)?;
        self.mapped.elements(at, dtype, shape.into(), device).map_err(Fault::Failed)
    }

    /// The same as a tensor.
    pub(crate) fn tensor(
        &self,
        at: usize,
        dtype: DType,
        shape: &[usize],
        device: &Device,
    ) -> Result<Tensor, Fault> {
        Ok(Tensor::from_node(self.elements(at, dtype, shape, device)?, device))
    }

    fn check(&self, at: usize, len: usize) -> Result<(), Fault> {
        match at.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(self.fault(format!("it ends before {len} bytes from byte {at} on"))),
        }
    }
}

/// How many bytes so many elements take. None if memory could not hold them, or could not if lengths of 0 were longer:
/// indices of such a tensor overflow, although it has no elements.
pub(in crate::files) fn byte_len(dtype: DType, shape: &[usize]) -> Option<usize> {
    let shape = holdable(shape.into()).ok()?;
    Some(shape.iter().product::<usize>() * dtype.size())
}
