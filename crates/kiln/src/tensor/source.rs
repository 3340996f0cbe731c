//! What new tensors are made from: Rust data with a shape, a dtype, a device.

use super::Tensor;
use crate::Device;
use crate::element::Element;
use crate::error::{Error, Fault};
use kiln_ir::DType;
use kiln_ir::arg::Shape;

/// The dtype and device of a new tensor: a [`DType`], a [`Device`] or its name, or both as a pair.
#[derive(Clone, Debug, Default)]
pub struct Options {
    dtype: Option<DType>,
    device: Option<Device>,
    error: Option<Error>,
}

impl Options {
    /// The dtype (or `default`) and the device.
    pub(crate) fn resolve(self, default: DType) -> Result<(DType, Device), Fault> {
        match self.error {
            Some(error) => Err(error.into()),
            None => Ok((
                self.dtype.unwrap_or(default),
                self.device.unwrap_or_else(Device::default_device),
            )),
        }
    }

    /// These options, with the dtype and device of `t` where none are given.
    pub(super) fn or_like(self, t: &Tensor) -> Options {
        Options {
            dtype: self.dtype.or(Some(t.dtype())),
            device: self.device.or(Some(t.device().clone())),
            error: t.error().or(self.error),
        }
    }
}

impl From<()> for Options {
    fn from((): ()) -> Options {
        Options::default()
    }
}
impl From<DType> for Options {
    fn from(dtype: DType) -> Options {
        Options { dtype: Some(dtype), ..Options::default() }
    }
}
impl From<Device> for Options {
    fn from(device: Device) -> Options {
        Options { device: Some(device), ..Options::default() }
    }
}
impl From<&Device> for Options {
    fn from(device: &Device) -> Options {
        device.clone().into()
    }
}
impl From<&str> for Options {
    #[track_caller]
    fn from(name: &str) -> Options {
        match Device::parse(name) {
            Ok(device) => device.into(),
            Err(error) => Options { error: Some(error), ..Options::default() },
        }
    }
}
impl<D: Into<Options>> From<(DType, D)> for Options {
    #[track_caller]
    fn from((dtype, device): (DType, D)) -> Options {
        Options { dtype: Some(dtype), ..device.into() }
    }
}

/// Rust data that has a shape: a number, an array of arrays of them (to five levels), a slice or a `Vec`.
pub trait Nested {
    /// The type of the numbers.
    type Item: Element;
    #[doc(hidden)]
    fn shape(&self) -> Shape;
    #[doc(hidden)]
    fn flatten_into(&self, out: &mut Vec<Self::Item>);
}

macro_rules! nested_scalars {
    ($($t:ty),*) => { $(
        impl Nested for $t {
            type Item = $t;
            fn shape(&self) -> Shape { Shape::new() }
            fn flatten_into(&self, out: &mut Vec<$t>) { out.push(*self) }
        }
    )* };
}
nested_scalars!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, half::f16, half::bf16);

impl<T: Nested, const N: usize> Nested for [T; N] {
    type Item = T::Item;
    fn shape(&self) -> Shape {
        let inner = self.first().map(T::shape).unwrap_or_default();
        std::iter::once(N).chain(inner).collect()
    }
    fn flatten_into(&self, out: &mut Vec<T::Item>) {
        self.iter().for_each(|x| x.flatten_into(out));
    }
}
impl<T: Element> Nested for Vec<T> {
    type Item = T;
    fn shape(&self) -> Shape {
        Shape::from_slice(&[self.len()])
    }
    fn flatten_into(&self, out: &mut Vec<T>) {
        out.extend_from_slice(self);
    }
}
impl<T: Element> Nested for &[T] {
    type Item = T;
    fn shape(&self) -> Shape {
        Shape::from_slice(&[self.len()])
    }
    fn flatten_into(&self, out: &mut Vec<T>) {
        out.extend_from_slice(self);
    }
}
