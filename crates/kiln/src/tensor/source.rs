//! What new tensors are made from: Rust data with a shape, a dtype, a device.

use super::Tensor;
use crate::Device;
use crate::element::Element;
use crate::error::Fault;
use kiln_ir::DType;
use kiln_ir::arg::Shape;

/// The dtype and device of a new tensor: a [`DType`], a [`Device`] or its name, or both as a pair.
#[derive(Clone, Debug, Default)]
pub struct Options {
    dtype: Option<DType>,
    device: Option<Device>,
    fault: Option<Fault>,
}

impl Options {
    /// The dtype (or `default`) and the device.
    pub(crate) fn resolve(self, default: DType) -> Result<(DType, Device), Fault> {
        match self.fault {
            Some(fault) => Err(fault),
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
            fault: t.error().map(Fault::from).or(self.fault),
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
    fn from(name: &str) -> Options {
        match Device::named(name) {
            Ok(device) => device.into(),
            Err(fault) => Options { fault: Some(fault), ..Options::default() },
        }
    }
}
impl<D: Into<Options>> From<(DType, D)> for Options {
    fn from((dtype, device): (DType, D)) -> Options {
        Options { dtype: Some(dtype), ..device.into() }
    }
}

/// Rust data that has a shape: a number, or arrays, slices and `Vec`s of them, nested.
pub trait Nested {
    /// The type of the numbers.
    type Item: Element;
    /// Whether it is written in the program: arrays are, and what is collected at run time is not.
    #[doc(hidden)]
    const IS_ARRAY: bool = false;
    /// The shape; `None` where rows differ.
    #[doc(hidden)]
    fn shape(&self) -> Option<Shape>;
    /// Shows the numbers in order, as many at once as lie side by side.
    #[doc(hidden)]
    fn each_run(&self, see: &mut dyn FnMut(&[Self::Item]));

    /// The shape that these have in common.
    #[doc(hidden)]
    fn shape_of_rows(rows: &[Self]) -> Option<Shape>
    where
        Self: Sized,
    {
        let inner = rows.first().map_or(Some(Shape::new()), Self::shape)?;
        let alike = rows.iter().all(|row| row.shape().as_ref() == Some(&inner));
        alike.then_some(inner)
    }
    /// Shows the numbers of all of these.
    #[doc(hidden)]
    fn each_run_of(rows: &[Self], see: &mut dyn FnMut(&[Self::Item]))
    where
        Self: Sized,
    {
        rows.iter().for_each(|row| row.each_run(see));
    }
}

macro_rules! nested_scalars {
    ($($t:ty),*) => { $(
        impl Nested for $t {
            type Item = $t;
            fn shape(&self) -> Option<Shape> { Some(Shape::new()) }
            fn each_run(&self, see: &mut dyn FnMut(&[$t])) { see(std::slice::from_ref(self)) }
            fn shape_of_rows(_: &[$t]) -> Option<Shape> { Some(Shape::new()) }
            fn each_run_of(rows: &[$t], see: &mut dyn FnMut(&[$t])) { see(rows) }
        }
    )* };
}
nested_scalars!(bool, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64, half::f16, half::bf16);

macro_rules! nested_rows {
    ($([$($generics:tt)*] $t:ty = $is_array:literal;)*) => { $(
        impl<$($generics)*> Nested for $t {
            type Item = N::Item;
            const IS_ARRAY: bool = $is_array;
            fn shape(&self) -> Option<Shape> {
                let inner = N::shape_of_rows(self)?;
                Some(std::iter::once(self.len()).chain(inner).collect())
            }
            fn each_run(&self, see: &mut dyn FnMut(&[N::Item])) { N::each_run_of(self, see) }
        }
    )* };
}
nested_rows! {
    [N: Nested, const LEN: usize] [N; LEN] = true;
    [N: Nested] Vec<N> = false;
    [N: Nested] [N] = false;
}

impl<N: Nested + ?Sized> Nested for &N {
    type Item = N::Item;
    const IS_ARRAY: bool = N::IS_ARRAY;
    fn shape(&self) -> Option<Shape> {
        (**self).shape()
    }
    fn each_run(&self, see: &mut dyn FnMut(&[N::Item])) {
        (**self).each_run(see);
    }
}
