//! Elements in order, and what is found by it.

use super::Tensor;
use super::order::{first_places, inside, places_of_draws};
use super::select::is_short;
use super::shape_args::{Int, axis};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, Shape};
use kiln_ir::{DType, UOp};

/// The positions along `axis` of the first `count` elements in order, i32.
fn order(x: &UOp, axis: usize, count: usize, descending: bool) -> UOp {
    let (rank, n) = (x.shape().len(), x.shape()[axis]);
    let mut front: Axes = (0..rank).collect();
    front.swap(axis, 0);
    let moved = x.detach().permute(front.clone());
    let mut shape = moved.shape().clone();
    shape[0] = count;
    if x.numel() == 0 || count == 0 {
        return UOp::constant(0, DType::I32).broadcast_to(&shape).permute(front);
    }
    let columns = moved.reshape(Shape::from_slice(&[n, x.numel() / n]));
    let places = first_places(&columns, count, descending, axis + 1 == rank);
    inside(&places, n).reshape(shape).permute(front)
}

/// Order along an axis. NaN is larger than anything.
impl Tensor {
    /// The elements along `axis` in order, and the positions that they come from, i32. Equal elements keep their order.
    ///
    /// ```
    /// let (values, positions) = kiln::Tensor::from([3, 1, 2]).sort(0, false);
    /// assert_eq!(values.to_vec::<i32>()?, [1, 2, 3]);
    /// assert_eq!(positions.to_vec::<i32>()?, [1, 2, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: impl Int, descending: bool) -> (Tensor, Tensor) {
        let _method = outermost("sort");
        self.ordered("sort", axis, descending)
    }

    #[track_caller]
    fn ordered(&self, op: &'static str, axis: impl Int, descending: bool) -> (Tensor, Tensor) {
        if self.ndim() == 0 && self.error().is_none() && [0, -1].contains(&axis.as_i64()) {
            // a scalar is in order along the axis that PyTorch gives it
            return (
                self.copy(),
                Tensor::lift_on(op, self.device(), Ok(UOp::constant(0, DType::I32))),
            );
        }
        let places = self.argsort(axis, descending);
        (self.gather(axis, &places), places)
    }

    #[track_caller]
    fn first_places(&self, op: &'static str, axis: usize, n: usize, descending: bool) -> Tensor {
        let x = self.value().map_err(Fault::from);
        self.lift(op, x.map(|x| order(&x, axis, n, descending)))
    }

    /// The positions of the elements along `axis` in order, i32. Equal elements keep their order.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 1, 2]).argsort(0, true).to_vec::<i32>()?, [0, 2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, along: impl Int, descending: bool) -> Tensor {
        let sort = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let axis = axis(along, x.shape().len())?;
            Ok(order(&x, axis, x.shape()[axis], descending))
        };
        self.lift("argsort", sort())
    }

    /// The `k` largest elements along `axis`, or smallest, the first ones first, and the positions that they come from, i32.
    ///
    /// ```
    /// let (values, positions) = kiln::Tensor::from([3, 1, 2]).topk(2, 0, true);
    /// assert_eq!(values.to_vec::<i32>()?, [3, 2]);
    /// assert_eq!(positions.to_vec::<i32>()?, [0, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there or shorter than `k`.
    #[must_use]
    #[track_caller]
    pub fn topk(&self, k: usize, axis: impl Int, largest: bool) -> (Tensor, Tensor) {
        let _method = outermost("topk");
        let places = match self.axis_length(axis) {
            Ok((axis, n)) if k <= n => self.first_places("topk", axis, k, largest),
            Ok((axis, n)) => Tensor::broken(
                Fault::New(format!("axis {axis} has {n} elements, not {k}")).at("topk"),
            ),
            Err(fault) => Tensor::broken(fault.at("topk")),
        };
        (self.gather(axis, &places), places)
    }

    /// The `k`-th smallest element along `axis`, counted from 1, and the position that it comes from, i32.
    ///
    /// ```
    /// let (value, position) = kiln::Tensor::from([3, 1, 2]).kthvalue(2, 0);
    /// assert_eq!((value.item::<i32>()?, position.item::<i32>()?), (2, 2));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there; a `k` of 0 or past its end.
    #[must_use]
    #[track_caller]
    pub fn kthvalue(&self, k: usize, axis: impl Int) -> (Tensor, Tensor) {
        let _method = outermost("kthvalue");
        let places = match self.axis_length(axis) {
            Ok((axis, n)) if (1..=n).contains(&k) && is_short(n, self.numel()) => {
                self.first_places("kthvalue", axis, k, false).piece(axis, k - 1, 1)
            }
            Ok((axis, n)) if (1..=n).contains(&k) => {
                let mut shape = self.shape().to_vec();
                shape[axis] = 1;
                let number = Tensor::full_with(shape, k as i32 - 1, self.device());
                self.places_in_order(axis, &number)
            }
            Ok((axis, n)) => Tensor::broken(
                Fault::New(format!("axis {axis} has {n} elements and no number {k}"))
                    .at("kthvalue"),
            ),
            Err(fault) => Tensor::broken(fault.at("kthvalue")),
        };
        (self.gather(axis, &places).squeeze(axis.as_i64()), places.squeeze(axis.as_i64()))
    }

    /// The middle element along an axis in order, of an even number the lower one; NaN if one is. `..` is of all elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3, 1, 2, 9]).median(..).item::<i32>()?, 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Several axes, one that is not there or is empty.
    #[must_use]
    #[track_caller]
    pub fn median(&self, axis: impl super::shape_args::AxesArg) -> Tensor {
        let _method = outermost("median");
        match self.one_axis(axis) {
            Ok((t, axis, n)) => {
                let number = t.numbers_or_nan(axis, n, &[(n - 1) / 2]);
                t.at_in_order(axis, &number).squeeze(axis)
            }
            Err(fault) => Tensor::broken(fault.at("median")),
        }
    }

    /// What a share `q`, from 0 to 1, of the elements along an axis is below, interpolated between neighbours; NaN if one is.
    /// `..` is of all elements.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([3.0, 1.0, 2.0, 4.0]).quantile(0.5, ..).item::<f64>()?, 2.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Integers; a share that is none; several axes, one that is not there or is empty.
    #[must_use]
    #[track_caller]
    pub fn quantile(&self, q: f64, axis: impl super::shape_args::AxesArg) -> Tensor {
        let _method = outermost("quantile");
        if !self.dtype().is_float() || !(0.0..=1.0).contains(&q) {
            let why = format!("wants floats and a share from 0 to 1, not {} and {q}", self.dtype());
            return self.refused("quantile", why.into());
        }
        match self.one_axis(axis) {
            Ok((t, axis, n)) => {
                let place = q * (n - 1) as f64;
                let (low, high) = (place.floor() as usize, place.ceil() as usize);
                let both = t.at_in_order(axis, &t.numbers_or_nan(axis, n, &[low, high]));
                let [below, above] = [0, 1].map(|i| both.section(axis, i, 1, 1));
                below.lerp(above, place - low as f64).squeeze(axis)
            }
            Err(fault) => Tensor::broken(fault.at("quantile")),
        }
    }

    /// The positions of numbers from 0 to 1 in their order.
    #[track_caller]
    pub(super) fn order_of_draws(&self) -> Tensor {
        let draws = self.value().map_err(Fault::from);
        self.lift("randperm", draws.map(|x| places_of_draws(&x.detach())))
    }

    /// These or, of all elements, one axis of them; which axis and its length, which is not 0.
    pub(super) fn one_axis(
        &self,
        arg: impl super::shape_args::AxesArg,
    ) -> Result<(Tensor, usize, usize), Fault> {
        let flat = arg.numbers().is_none();
        let t = if flat { self.flatten() } else { self.clone() };
        let (axis, n) = t.axis_length(super::shape_args::only_axis(arg, t.ndim())?)?;
        match n {
            0 => refuse!("axis {axis} of {:?} is empty", self.shape()),
            _ => Ok((t, axis, n)),
        }
    }

    /// In order along one axis, or all elements; the axis and its length.
    #[track_caller]
    pub(super) fn in_order(
        &self,
        arg: impl super::shape_args::AxesArg,
    ) -> Result<(Tensor, usize, usize), Fault> {
        let (t, axis, n) = self.one_axis(arg)?;
        Ok((t.ordered("sort", axis, false).0, axis, n))
    }
}
