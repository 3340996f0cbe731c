//! New tensors: from Rust data, filled.

use super::compute;
use super::shape_args::{ShapeArg, named_shape, new_shape};
use super::source::{Nested, Options};
use super::{Tensor, file};
use crate::Device;
use crate::defaults::{OrFloat, default_float};
use crate::element::{Element, Operand, Value};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::dtype::Const;
use kiln_ir::{DType, UOp};
use kiln_runtime::plain::bytes;

/// `Tensor::from` of a number, or of nested arrays, slices and `Vec`s: the dtype is that of the numbers. Rows of
/// different lengths are an error.
///
/// An array of `f64`, such as the literal `[1.0, 2.0]`, takes the dtype of a float tensor beside it in an operation, or of
/// the target of a write. Alone it is F64, and so are results computed from it.
///
/// ```
/// let t = kiln::Tensor::from([[1u8, 2, 3], [4, 5, 6]]);
/// assert_eq!((t.shape(), t.dtype()), (&[2, 3][..], kiln::DType::U8));
/// ```
impl<N: Nested> From<N> for Tensor {
    #[track_caller]
    fn from(data: N) -> Tensor {
        let Some(shape) = data.shape() else {
            let ragged = Fault::New("rows differ in length".to_owned());
            return Tensor::broken(ragged.at("from"));
        };
        // each number is copied once
        let write = |mut to: &mut [u8]| {
            data.each_run(&mut |run| {
                let (start, rest) = std::mem::take(&mut to).split_at_mut(size_of_val(run));
                start.copy_from_slice(bytes(run));
                to = rest;
            });
            Ok(())
        };
        let device = Device::default_device();
        let t = uploaded(compute::upload_with(N::Item::DTYPE, shape, &device, write), &device);
        Tensor { is_literal: N::IS_ARRAY && t.dtype() == DType::F64, ..t }
    }
}

#[track_caller]
fn uploaded(leaf: Result<UOp, Fault>, device: &Device) -> Tensor {
    match leaf {
        Ok(leaf) => Tensor::from_node(leaf, device),
        Err(fault) => Tensor::broken(fault.at("upload")),
    }
}

/// A constant in every element.
pub(crate) fn filled(value: impl Into<Const>, dtype: DType, shape: &[usize]) -> UOp {
    UOp::constant(value, dtype).broadcast_to(shape)
}

/// From data.
impl Tensor {
    /// A tensor of `shape` that holds `data` in row-major order.
    ///
    /// # Errors
    /// As many elements as the shape has must be there.
    ///
    /// ```
    /// let t = kiln::Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2]);
    /// assert_eq!(t.shape(), [2, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl ShapeArg) -> Tensor {
        Tensor::from_vec_on(data, shape, &Device::default_device())
    }

    /// As [`from_vec`](Tensor::from_vec), on `device`.
    ///
    /// ```
    /// let t = kiln::Tensor::from_vec_on(vec![1u8, 2], [2], &kiln::Device::default_device());
    /// assert_eq!(t.numel(), 2);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn from_vec_on<T: Element>(data: Vec<T>, shape: impl ShapeArg, device: &Device) -> Tensor {
        let checked = named_shape(shape).and_then(|new| match new.0.iter().product::<usize>() {
            n if n == data.len() => Ok(new),
            _ => refuse!("{} elements do not fill shape {:?}", data.len(), new.0),
        });
        match checked {
            Ok((shape, named)) => {
                let leaf = compute::upload(&data, T::DTYPE, shape, device);
                leaf.iter().for_each(|leaf| leaf.name_numbers(&named));
                uploaded(leaf, device)
            }
            Err(fault) => Tensor::broken(fault.at("from_vec")),
        }
    }
}

/// A new tensor of the node that `make` builds from the shape, dtype and device.
#[track_caller]
pub(super) fn create(
    op: &'static str,
    shape: impl ShapeArg,
    options: impl Into<Options>,
    default: DType,
    make: impl FnOnce(&[usize], DType) -> UOp,
) -> Tensor {
    let parts = named_shape(shape).and_then(|new| Ok((new, options.into().resolve(default)?)));
    match parts {
        Ok(((shape, named), (dtype, device))) => {
            let node = make(&shape, dtype);
            node.name_numbers(&named);
            Tensor::lift_on(op, &device, Ok(node))
        }
        Err(fault) => Tensor::broken(fault.at(op)),
    }
}

/// Filled with one value.
impl Tensor {
    /// Zeros, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::zeros([2]).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros(shape: impl ShapeArg) -> Tensor {
        Tensor::zeros_with(shape, ())
    }

    /// Zeros of a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::zeros_with([2], DType::I8).dtype(), DType::I8);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        create("zeros", shape, options, default_float(), |shape, dtype| filled(0, dtype, shape))
    }

    /// Zeros with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 4]).zeros_like().to_vec::<i32>()?, [0, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros_like(&self) -> Tensor {
        Tensor::zeros_with(self.shape(), Options::default().or_like(self))
    }

    /// Zeros with this tensor's shape, and its dtype and device where `options` name none.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::from([3, 4]).zeros_like_with(DType::F32).to_vec::<f32>()?, [0.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn zeros_like_with(&self, options: impl Into<Options>) -> Tensor {
        Tensor::zeros_with(self.shape(), options.into().or_like(self))
    }

    /// Ones, f32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::ones([2]).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones(shape: impl ShapeArg) -> Tensor {
        Tensor::ones_with(shape, ())
    }

    /// Ones of a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::ones_with([2], (DType::U8, "cpu")).to_vec::<u8>()?, [1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        create("ones", shape, options, default_float(), |shape, dtype| filled(1, dtype, shape))
    }

    /// Ones with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 4]).ones_like().to_vec::<i32>()?, [1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones_like(&self) -> Tensor {
        Tensor::ones_with(self.shape(), Options::default().or_like(self))
    }

    /// Ones with this tensor's shape, and its dtype and device where `options` name none.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::from([3, 4]).ones_like_with(DType::F32).to_vec::<f32>()?, [1.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn ones_like_with(&self, options: impl Into<Options>) -> Tensor {
        Tensor::ones_with(self.shape(), options.into().or_like(self))
    }

    /// `value` everywhere: f32, i32 or bool by its kind, or a scalar tensor's own dtype.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::full([2], 7).to_vec::<i32>()?, [7, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full(shape: impl ShapeArg, value: impl Operand) -> Tensor {
        Tensor::full_with(shape, value, ())
    }

    /// `value` everywhere, cast to a dtype, on a device.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::full_with([2], 7, DType::F64).to_vec::<f64>()?, [7.0, 7.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full_with(
        shape: impl ShapeArg,
        value: impl Operand,
        options: impl Into<Options>,
    ) -> Tensor {
        let _method = outermost("full");
        match value.into_value() {
            Value::Scalar(c, weak) => {
                let default = DType::Bool.beside(weak);
                create("full", shape, options, default, |shape, dtype| filled(c, dtype, shape))
            }
            Value::Tensor(t) => {
                let t = match options.into().or_like(&t).resolve(t.dtype()) {
                    Ok((dtype, _)) => t.cast(dtype),
                    Err(fault) => Tensor::broken(fault.at("full")),
                };
                t.expand(shape).copy()
            }
        }
    }

    /// `value` everywhere, with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3u8, 4]).full_like(9).to_vec::<u8>()?, [9, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full_like(&self, value: impl Operand) -> Tensor {
        Tensor::full_with(self.shape(), value, Options::default().or_like(self))
    }

    /// `value` everywhere, with this tensor's shape, and its dtype and device where `options` name none.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::from([3, 4]).full_like_with(9, DType::F32).to_vec::<f32>()?, [9.0, 9.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn full_like_with(&self, value: impl Operand, options: impl Into<Options>) -> Tensor {
        Tensor::full_with(self.shape(), value, options.into().or_like(self))
    }

    /// Storage that is going to be written, f32. What is not written is 0.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::empty([2, 2]).shape(), [2, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn empty(shape: impl ShapeArg) -> Tensor {
        Tensor::empty_with(shape, ())
    }

    /// Storage that is going to be written, of a dtype, on a device. What is not written is 0. On a device `disk:PATH` it is
    /// the beginning of that file, mapped; views of it may start at any byte. What is written to it reaches the file when
    /// something is computed from it, in [`sync`](crate::sync), or when its last handle goes. Where there is no file yet,
    /// the first write makes one, of zeros; reading is an error until then.
    ///
    /// ```
    /// use kiln::{DType, Tensor};
    /// assert_eq!(Tensor::empty_with([2], DType::I32).dtype(), DType::I32);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn empty_with(shape: impl ShapeArg, options: impl Into<Options>) -> Tensor {
        let parts =
            new_shape(shape).and_then(|s| Ok((s, options.into().resolve(default_float())?)));
        let (shape, (dtype, device)) = match parts {
            Ok(parts) => parts,
            Err(fault) => return Tensor::broken(fault.at("empty")),
        };
        match device.file() {
            None => Tensor::lift_on("empty", &device, Ok(filled(0, dtype, &shape))),
            Some(path) => file::open(path, dtype, shape, &device),
        }
    }

    /// Storage that is going to be written, with this tensor's shape, dtype and device.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 4]).empty_like().dtype(), kiln::DType::I32);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn empty_like(&self) -> Tensor {
        Tensor::empty_with(self.shape(), Options::default().or_like(self))
    }
}
