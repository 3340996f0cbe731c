//! A file for reading: its parts are leaves, without a copy.

use super::device::open;
use super::{Failure, leaf};
use crate::device::Device;
use kiln_ir::arg::Shape;
use kiln_ir::{DType, UOp};
use kiln_runtime::{Buffer, disk};
use std::path::Path;

/// A file that is mapped as a whole. Memory is taken for what is read of it, and as long as it is in use.
pub(crate) struct Mapped(Buffer);

impl Mapped {
    pub(crate) fn open(path: &Path) -> Result<Mapped, Failure> {
        disk::open(path).map(Mapped).map_err(|e| e.to_string())
    }

    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies out the bytes from `at` on.
    pub(crate) fn read(&self, at: usize, to: &mut [u8]) -> Result<(), Failure> {
        self.0.view(at, to.len()).and_then(|part| part.read(to)).map_err(|e| e.to_string())
    }

    /// The elements from byte `at` on. Unaligned elements are read as bytes, and then bitcast. A bool is 0 or 1 to
    /// every kernel, whatever the file says.
    pub(crate) fn elements(
        &self,
        at: usize,
        dtype: DType,
        shape: Shape,
        device: &Device,
    ) -> Result<UOp, Failure> {
        let bytes = leaf::bytes_of(dtype, &shape)?;
        let part = self.0.view(at, bytes).map_err(|e| e.to_string())?;
        let home = home(&part, device)?;
        let as_bytes = |shape| leaf::new(part.clone(), DType::U8, shape, &home);
        let elements = match dtype {
            DType::Bool => as_bytes(shape).cast(dtype),
            _ if at.is_multiple_of(dtype.size()) || bytes == 0 => {
                leaf::new(part.clone(), dtype, shape, &home)
            }
            _ => as_bytes(Shape::from_slice(&[bytes])).bitcast(dtype).reshape(shape),
        };
        let placed = || elements.on_device(home.shared_name()).on_device(device.shared_name());
        Ok(if home == *device { elements.clone() } else { placed() })
    }
}

/// Where mapped memory is for a device: there, if it reaches it; else the values are copied from the host when they are
/// needed.
fn home(mapped: &Buffer, device: &Device) -> Result<Device, Failure> {
    let reaches = || open(device).map(|opened| opened.backend.reaches(mapped));
    let there = device.members().is_none() && reaches()?;
    Ok(if there { device.clone() } else { Device::exact("CPU") })
}
