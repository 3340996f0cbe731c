//! Writes: each makes a new version of the storage, through the view. Nothing is computed.

use super::broadcast::broadcast_shapes;
use super::origin::name;
use super::{Indices, Tensor};
use crate::element::{Operand, Value};
use crate::error::{Error, Fault, at_caller, refuse};
use kiln_ir::UOp;

/// Writes.
impl Tensor {
    /// Writes `value`, broadcast and cast, to the elements at `index`. An invalid write leaves the data as it is and
    /// makes later reads return the error.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// t.set(s![.., 1], 9);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 9, 3, 9]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is not there, a value that does not fit (float into integer, shape, device), elements that the
    /// view repeats.
    #[track_caller]
    pub fn set(&self, index: Indices, value: impl Operand) {
        if let Err(error) = self.try_set(index, value) {
            self.storage.fail(error);
        }
    }

    /// As [`set`](Tensor::set), but an invalid write changes nothing and returns its error.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::from([1, 2]);
    /// assert!(t.try_set(s![7], 9).is_err());
    /// assert!(t.error().is_none());
    /// ```
    ///
    /// # Errors
    /// As [`set`](Tensor::set).
    #[track_caller]
    pub fn try_set(&self, index: Indices, value: impl Operand) -> Result<(), Error> {
        let written = Tensor::all_valid([self]).and_then(|()| {
            let target = Tensor { view: index.view(&self.view)?, ..self.clone() };
            target.write("set", value.into_value())
        });
        at_caller("set", written)
    }

    /// Writes `value`, broadcast and cast, to all elements, and returns this tensor. Of the whole storage this ends
    /// an error that an earlier write left.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1, 2]);
    /// assert_eq!(t.assign(7).to_vec::<i32>()?, [7, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A value that does not fit (float into integer, shape, device), elements that the view repeats.
    #[track_caller]
    pub fn assign(&self, value: impl Operand) -> Tensor {
        if let Err(error) = self.try_assign(value) {
            self.storage.fail(error);
        }
        self.clone()
    }

    /// As [`assign`](Tensor::assign), but an invalid write changes nothing and returns its error.
    ///
    /// ```
    /// let t = kiln::Tensor::from([1, 2]);
    /// assert!(t.try_assign(1.5f32).is_ok());
    /// assert!(t.try_assign(&kiln::Tensor::from(1.5f32)).is_err());
    /// ```
    ///
    /// # Errors
    /// As [`assign`](Tensor::assign).
    #[track_caller]
    pub fn try_assign(&self, value: impl Operand) -> Result<Tensor, Error> {
        at_caller("assign", self.write("assign", value.into_value()))?;
        Ok(self.clone())
    }

    /// Makes the version in which this view holds `value`.
    fn write(&self, op: &'static str, value: Value) -> Result<(), Fault> {
        if self.storage.is_broken() {
            return Tensor::all_valid([self]);
        }
        let value = self.fitting(&value)?;
        if self.view.repeats() {
            return refuse!(
                "elements of the target repeat, as an axis of {:?} is expanded",
                self.shape()
            );
        }
        if let Some(whole) = self.view.inverse(&value) {
            name(&whole, op);
            self.storage.overwrite(whole);
            return Ok(());
        }
        Tensor::all_valid([self])?;
        if self.numel() > 0 {
            self.storage.update(|old| {
                let new = self.view.written(old, &value);
                name(&new, op);
                new
            })?;
        }
        Ok(())
    }

    /// `value` in this tensor's dtype and shape. It reads before the write, whatever it aliases.
    fn fitting(&self, value: &Value) -> Result<UOp, Fault> {
        let dtype = self.dtype();
        if let Value::Tensor(t) = value {
            Tensor::all_valid([t])?;
            if t.device() != self.device() {
                return refuse!("target is on {}, value on {}", self.device(), t.device());
            }
            if dtype.promote(t.dtype()) != dtype {
                return refuse!("{} does not go into {dtype} without a cast", t.dtype());
            }
        }
        let node = value.node(dtype)?;
        match broadcast_shapes(self.shape(), node.shape()) {
            Ok(shape) if shape.as_slice() == self.shape() => Ok(node.broadcast_to(self.shape())),
            _ => refuse!("value does not fit, target {:?}, value {:?}", self.shape(), node.shape()),
        }
    }
}
