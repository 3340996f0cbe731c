//! Writes: each makes a new version of the storage, through the view. Nothing is computed.

use super::broadcast::broadcast_shapes;
use super::compute::bound_pending;
use super::view::View;
use super::{Indices, Tensor};
use crate::element::{Operand, Value};
use crate::error::{Caller, Error, Fault, at_caller, refuse};
use crate::origin::{maker, name, name_after};
use kiln_ir::UOp;

/// Writes.
impl Tensor {
    /// Writes `value`, broadcast and cast, to the elements at `index`. An invalid write leaves the data as it is and
    /// makes later reads return the error.
    ///
    /// Where index tensors or lists name an element more than once, the last value counts. A mask takes one value for all
    /// that it picks, or one for each; then it is computed now.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// t.set(s![.., 1], 9);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 9, 3, 9]);
    /// t.set(s![[1, 0, 1], 0], Tensor::from([5, 6, 7]));
    /// t.set(s![t.gt(7)], 0);
    /// assert_eq!(t.to_vec::<i32>()?, [6, 0, 7, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is not there, as [`get`](Tensor::get) has them; a value that does not fit (float into integer, shape,
    /// device); elements that the view repeats. Where a position that is still to be computed turns out not to be
    /// there, nothing is written for it, and computing fails.
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
        let value = value.into_value();
        let written = match index.is_advanced() {
            true => self.write_picked(&index, value, Caller::of("set")),
            false => match Tensor::all_valid([self]).and_then(|()| index.view(&self.view)) {
                // no closure: in one the caller's line would be lost
                Ok(view) => Tensor { view, ..self.clone() }.write("set", value),
                Err(fault) => Err(fault),
            },
        };
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
    #[track_caller]
    pub(super) fn write(&self, op: &'static str, value: Value) -> Result<(), Fault> {
        if self.storage.is_broken() {
            return Tensor::all_valid([self]);
        }
        let (value, derived) = self.for_writing(&value, self.shape())?;
        refuse_repeated(&self.view)?;
        if let Some(whole) = self.view.inverse(&value) {
            name(&whole, op);
            self.storage.make_writable()?;
            // if the old value cannot be had, that shows in the new one if that needs it
            let _ = bound_pending(&self.storage);
            self.storage.overwrite(whole, derived);
            return Ok(());
        }
        Tensor::all_valid([self])?;
        match self.numel() {
            0 => Ok(()),
            _ => self.change(op, derived, |old| self.view.written(old, &value)),
        }
    }

    /// `value` as a write through this handle has it, and whether it makes the storage wait for gradients of others. None
    /// goes through a handle that is detached.
    pub(super) fn for_writing(&self, value: &Value, shape: &[usize]) -> Result<(UOp, bool), Fault> {
        let node = self.fitting(value, shape)?;
        Ok(match value {
            Value::Scalar(..) => (node, false),
            Value::Tensor(_) if !self.detached => {
                let derived = self.storage.derives_from(&node);
                (node, derived)
            }
            Value::Tensor(_) if self.storage.is_end() => (node, false),
            Value::Tensor(_) => (node.detach(), false),
        })
    }

    /// Replaces the storage's version by the one that `new` makes of it, and of something that it is `derived` from.
    #[track_caller]
    pub(super) fn change(
        &self,
        op: &'static str,
        derived: bool,
        new: impl FnOnce(&UOp) -> UOp,
    ) -> Result<(), Fault> {
        self.storage.make_writable()?;
        bound_pending(&self.storage)?;
        let maker = maker(op);
        Ok(self.storage.update(derived, |old| {
            let new = new(old);
            name_after(&new, maker);
            new
        })?)
    }

    /// `value` in this tensor's dtype, broadcast to `shape`. It reads before the write, whatever it aliases.
    pub(super) fn fitting(&self, value: &Value, shape: &[usize]) -> Result<UOp, Fault> {
        let node = self.typed(value)?;
        match broadcast_shapes(shape, node.shape()) {
            Ok(common) if common.as_slice() == shape => Ok(node.broadcast_to(shape)),
            _ => refuse!("value does not fit, target {shape:?}, value {:?}", node.shape()),
        }
    }

    /// `value` in this tensor's dtype, if no kind of number is lost, and on its device. What goes to a file may be on any
    /// device: it is computed and copied there now.
    pub(super) fn typed(&self, value: &Value) -> Result<UOp, Fault> {
        let dtype = self.dtype();
        let Value::Tensor(t) = value else { return Ok(value.node(dtype)?) };
        Tensor::all_valid([t])?;
        let t = &t.literal_on(self.device());
        if dtype.promote(t.dtype()) != dtype && !t.goes_into(dtype) {
            return refuse!("{} does not go into {dtype} without a cast", t.dtype());
        }
        match t.device() == self.device() {
            true => Ok(t.value()?.cast(dtype)),
            false if self.device().file().is_some() => {
                let here = t.to(self.device());
                Ok(Value::Tensor(here).node(dtype)?)
            }
            false => refuse!("target is on {}, value on {}", self.device(), t.device()),
        }
    }
}

/// What a view repeats has no one value.
pub(super) fn refuse_repeated(view: &View) -> Result<(), Fault> {
    match view.repeats() {
        true => {
            refuse!("elements of the target repeat, as an axis of {:?} is expanded", view.shape())
        }
        false => Ok(()),
    }
}
