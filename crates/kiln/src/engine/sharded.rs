//! What a value on several devices is made of.

use crate::device::Device;
use kiln_ir::UOp;
use std::sync::Arc;

/// A value on several devices: by device, its part.
#[derive(Clone, Debug)]
pub(super) struct Sharded {
    pub(super) parts: Vec<UOp>,
    /// None if each part is the whole value.
    pub(super) split: Option<Split>,
}

/// How a value is split.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Split {
    pub(super) axis: usize,
    /// Where each part starts, and where the last one ends.
    pub(super) bounds: Arc<[usize]>,
}

impl Split {
    /// Parts of `n` elements along an axis that are as long as each other, or one longer.
    pub(super) fn even(axis: usize, n: usize, parts: usize) -> Split {
        Split { axis, bounds: (0..=parts).map(|i| i * n / parts).collect() }
    }

    /// The length of a part.
    pub(super) fn len(&self, part: usize) -> usize {
        self.bounds[part + 1] - self.bounds[part]
    }

    pub(super) fn along(&self, axis: usize) -> Split {
        Split { axis, bounds: self.bounds.clone() }
    }

    /// One part of a whole value.
    pub(super) fn part(&self, whole: &UOp, part: usize) -> UOp {
        whole.part(self.axis, self.bounds[part], self.len(part))
    }
}

/// A value of one device on another.
pub(super) fn moved(x: &UOp, from: &Device, to: &Device) -> UOp {
    match from == to {
        true => x.clone(),
        false => x.on_device(from.shared_name()).on_device(to.shared_name()),
    }
}

/// The whole value on one device.
pub(super) fn gathered(value: &Sharded, devices: &[Device], to: &Device) -> UOp {
    let own = devices.iter().position(|device| device == to);
    let Some(split) = &value.split else {
        let from = own.unwrap_or(0);
        return moved(&value.parts[from], &devices[from], to);
    };
    let parts = value.parts.iter().zip(devices).map(|(part, from)| moved(part, from, to));
    let parts: Vec<UOp> = parts.filter(|part| part.numel() > 0).collect();
    match parts.is_empty() {
        true => moved(&value.parts[0], &devices[0], to),
        false => UOp::joined(&parts, split.axis),
    }
}
