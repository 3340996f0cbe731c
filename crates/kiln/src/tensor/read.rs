//! Computing: the methods that return data, and so can fail.

use super::Options;
use super::Tensor;
use super::compute;
use crate::Device;
use crate::element::Element;
use crate::engine::Few;
use crate::error::{Error, Fault, at_caller, refuse};
use kiln_ir::UOp;

/// Computes every tensor's storage, all in one go.
///
/// ```
/// use kiln::Tensor;
/// let (a, b) = (Tensor::ones([2]) + 1.0, Tensor::ones([3]) * 2.0);
/// kiln::realize([&a, &b])?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// An error that one of the tensors carries; a failing device or compiler.
#[track_caller]
pub fn realize<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), Error> {
    let storages: Few<_> = tensors.into_iter().map(|t| t.storage().clone()).collect();
    at_caller("realize", compute::realize(&storages))
}

/// Results.
impl Tensor {
    /// Computes the storage, so that later reads start from its data.
    ///
    /// ```
    /// let t = (kiln::Tensor::ones([2]) + 1.0).realize()?.clone();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries; a failing device or compiler.
    #[track_caller]
    pub fn realize(&self) -> Result<&Tensor, Error> {
        realize([self])?;
        Ok(self)
    }

    /// The elements in row-major order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).to_vec::<i32>()?, [1, 2, 3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error that the tensor carries, another dtype than `T`'s, a failing device or compiler.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        at_caller("to_vec", self.read_as::<T>())
    }

    /// The only element.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).sum(..).item::<i32>()?, 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_vec`](Tensor::to_vec), and a tensor of more or less than one element.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, Error> {
        let one = Tensor::all_valid([self]).and_then(|()| match self.numel() {
            1 => Ok(()),
            n => refuse!("wants one element, not {n} of shape {:?}", self.shape()),
        });
        at_caller("item", one)?;
        Ok(at_caller("item", self.read_as::<T>())?[0])
    }

    /// The same value on another device, named as [`zeros_with`](Tensor::zeros_with) takes it, or in another dtype. Here
    /// already, it is another handle to the same storage; else it is a value of its own, which is computed and copied
    /// when it is needed. Gradients go back through the copy. A file is read now, and so is what goes to a file.
    ///
    /// ```
    /// let x = kiln::Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    /// let y = x.to("CPU:1") * 3.0;
    /// assert_eq!((y.to_vec::<f32>()?, y.device().name()), (vec![3.0, 6.0], "CPU:1"));
    /// y.sum(..).backward()?;
    /// let grad = x.grad().expect("x wants one");
    /// assert_eq!(grad.device(), x.device());
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device that does not exist; when it is computed, one that has no room.
    #[must_use]
    #[track_caller]
    pub fn to(&self, device: impl Into<Options>) -> Tensor {
        let (dtype, device) = match device.into().or_like(self).resolve(self.dtype()) {
            Ok(resolved) => resolved,
            Err(fault) => return Tensor::broken(fault.at("to")),
        };
        let cast = if dtype == self.dtype() { self.clone() } else { self.cast(dtype) };
        if &device == self.device() {
            return cast;
        }
        match cast.moved(&device) {
            Ok(copy) => Tensor::from_node(copy, &device),
            Err(fault) => Tensor::broken(fault.at("to")),
        }
    }

    /// The value on another device.
    pub(super) fn moved(&self, device: &Device) -> Result<UOp, Fault> {
        let (value, own) = (self.value()?, self.device());
        if own.file().is_some() || device.file().is_some() {
            return compute::copied(&value, own, device);
        }
        compute::check(device)?;
        Ok(compute::placed(&value, own).on_device(device.shared_name()))
    }

    /// As [`to_vec`](Tensor::to_vec), for methods that say themselves whose line it was.
    pub(super) fn read_as<T: Element>(&self) -> Result<Vec<T>, Fault> {
        let value = self.value()?;
        if self.dtype() != T::DTYPE {
            let (from, to) = (self.dtype(), T::DTYPE);
            return refuse!("elements are {from}, not {to}: cast them first");
        }
        Ok(T::of_raw(compute::read(&value, self.device())?))
    }
}
