//! The lengths in the arguments of tensor graphs. Two graphs of one program may differ in nothing else.

use crate::arg::{Arg, PadAxis, Shape, SliceAxis, WindowArg};
use std::hash::{Hash, Hasher};

impl Arg {
    /// Calls `see` with each length: of shapes, paddings, and what windows slide over. What a slice has says
    /// [`SliceAxis::lengths`].
    pub fn lengths(&self, mut see: impl FnMut(usize)) {
        match self {
            Arg::Shape(shape) | Arg::Composite { shape, .. } => {
                shape.iter().copied().for_each(see);
            }
            Arg::Buffer { shape, .. } | Arg::Param { shape, .. } => {
                shape.iter().copied().for_each(see);
            }
            Arg::Pad(axes) => {
                axes.iter().flat_map(|p| [p.before, p.between, p.after]).for_each(see);
            }
            Arg::Window(window) => see(window.len),
            _ => {}
        }
    }

    /// This argument with other lengths, in the order of [`Arg::lengths`].
    pub fn with_lengths(&self, mut next: impl FnMut() -> usize) -> Arg {
        let mut shape = |old: &Shape| old.iter().map(|_| next()).collect::<Shape>();
        match self {
            Arg::Shape(old) => Arg::Shape(shape(old).into()),
            Arg::Composite { function, axes, shape: old } => {
                let (axes, shape) = (axes.clone(), shape(old).into());
                Arg::Composite { function, axes, shape }
            }
            Arg::Buffer { id, shape: old, device } => {
                Arg::Buffer { id: *id, shape: shape(old), device: device.clone() }
            }
            Arg::Param { slot, shape: old } => Arg::Param { slot: *slot, shape: shape(old) },
            Arg::Pad(axes) => {
                let mut pad =
                    |_: &PadAxis| PadAxis { before: next(), between: next(), after: next() };
                Arg::Pad(axes.iter().map(&mut pad).collect())
            }
            Arg::Window(window) => Arg::Window(WindowArg { len: next(), ..*window }),
            other => other.clone(),
        }
    }

    /// Hashes everything but the lengths. The identity of a buffer is no part of it.
    pub fn hash_without_lengths(&self, h: &mut impl Hasher) {
        match self {
            Arg::Shape(shape) => shape.len().hash(h),
            Arg::Composite { function, axes, shape } => (function, axes, shape.len()).hash(h),
            Arg::Buffer { shape, .. } => shape.len().hash(h),
            Arg::Param { slot, shape } => (slot, shape.len()).hash(h),
            Arg::Pad(axes) => axes.len().hash(h),
            Arg::Window(w) => (w.axis, w.size, w.stride, w.dilation).hash(h),
            other => other.hash(h),
        }
    }
}

impl SliceAxis {
    /// Calls `see` with the number of elements, and with the start if the axis gives no choice of one.
    pub fn lengths(self, has_choice: bool, mut see: impl FnMut(usize)) {
        see(self.len);
        if !has_choice {
            see(self.start);
        }
    }

    /// This slice with other lengths.
    pub fn with_lengths(self, has_choice: bool, mut next: impl FnMut() -> usize) -> SliceAxis {
        let len = next();
        let start = if has_choice { self.start } else { next() };
        SliceAxis { start, len, ..self }
    }
}
