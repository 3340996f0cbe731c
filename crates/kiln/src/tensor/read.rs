//! Computing: the methods that return data, and so can fail.

use super::Tensor;
use crate::element::{Element, decode};
use crate::engine;
use crate::error::{Error, Fault, at_caller};

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
pub fn realize<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> Result<(), Error> {
    let storages: Vec<_> = tensors.into_iter().map(|t| t.storage().clone()).collect();
    engine::realize(&storages)
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
            1 => Ok(self.read_as::<T>()?[0]),
            n => Err(Fault::New(format!("wants one element, not {n} of shape {:?}", self.shape()))),
        });
        at_caller("item", one)
    }

    fn read_as<T: Element>(&self) -> Result<Vec<T>, Fault> {
        let value = self.value()?;
        if self.dtype() != T::DTYPE {
            let (from, to) = (self.dtype(), T::DTYPE);
            return Err(Fault::New(format!("elements are {from}, not {to}: cast them first")));
        }
        Ok(decode(&engine::read(&value, self.device())?))
    }
}
