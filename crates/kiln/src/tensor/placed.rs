//! Copies that differ at places: along an axis, at row-major positions, where a mask is true.

use super::shape_args::Int;
use super::{Indices, Tensor};
use crate::element::Operand;
use crate::origin::outermost;
use crate::s;

/// Copies with something else at some places. The tensor itself stays as it is.
impl Tensor {
    /// This with `value` at position `at` of an axis, which `value` does not have.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::zeros([2, 2]).select_scatter([1.0f32, 2.0], 1, 0);
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 0.0, 2.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`select`](Tensor::select), and as [`set`](Tensor::set).
    #[must_use]
    #[track_caller]
    pub fn select_scatter(&self, value: impl Operand, axis: impl Int, at: impl Int) -> Tensor {
        let _method = outermost("select_scatter");
        let t = self.copy();
        let place = t.select(axis, at);
        t.with_error_of(&place.assign(value))
    }

    /// This with `value` at the positions `from..to` of an axis, `step` apart.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::zeros([4]).slice_scatter([1.0f32, 2.0], 0, 0, 4, 2);
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 0.0, 2.0, 0.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there, a step of 0, and as [`set`](Tensor::set).
    #[must_use]
    #[track_caller]
    pub fn slice_scatter(
        &self,
        value: impl Operand,
        axis: impl Int,
        from: impl Int,
        to: impl Int,
        step: usize,
    ) -> Tensor {
        let _method = outermost("slice_scatter");
        let t = self.copy();
        let place = t
            .movedim(axis.as_i64(), 0)
            .get(s![from.as_i64()..to.as_i64(); step as i64])
            .movedim(0, axis.as_i64());
        t.with_error_of(&place.assign(value))
    }

    /// This with the sections of `value` at the positions along an axis that `index`, of one axis, holds. Of equal positions
    /// the last counts.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::zeros([3]).index_copy(0, &Tensor::from([2, 0]), [1.0f32, 2.0]);
    /// assert_eq!(t.to_vec::<f32>()?, [2.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index of more or less axes, that is no integer, is out of range or on another device; a value that does not fit.
    #[must_use]
    #[track_caller]
    pub fn index_copy(&self, axis: impl Int, index: &Tensor, value: impl Operand) -> Tensor {
        let _method = outermost("index_copy");
        let t = self.copy();
        let value = t.operand(value);
        let rows = if value.ndim() > 0 { value.movedim(axis.as_i64(), 0) } else { value };
        t.movedim(axis.as_i64(), 0).set(s![index.clone()], rows);
        t
    }

    /// This with `value` in all elements at the positions along an axis that `index`, of one axis, holds.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::zeros([3]).index_fill(0, &Tensor::from([2, 0]), 7);
    /// assert_eq!(t.to_vec::<f32>()?, [7.0, 0.0, 7.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`index_copy`](Tensor::index_copy).
    #[must_use]
    #[track_caller]
    pub fn index_fill(&self, axis: impl Int, index: &Tensor, value: impl Operand) -> Tensor {
        let _method = outermost("index_fill");
        let t = self.copy();
        t.movedim(axis.as_i64(), 0).set(s![index.clone()], value);
        t
    }

    /// This with `value` at `index`: what [`set`](Tensor::set) writes, in a copy.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::zeros([3]).index_put(s![[0, 2]], [1.0f32, 2.0]);
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`set`](Tensor::set).
    #[must_use]
    #[track_caller]
    pub fn index_put(&self, index: Indices, value: impl Operand) -> Tensor {
        let _method = outermost("index_put");
        let t = self.copy();
        t.set(index, value);
        t
    }

    /// This with the elements of `value` at row-major positions. Of equal positions the last counts.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::zeros([2, 2]).put(&Tensor::from([3, 0]), [1.0f32, 2.0]);
    /// assert_eq!(t.to_vec::<f32>()?, [2.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An index that is no integer, is out of range or on another device; a value that does not fit its shape.
    #[must_use]
    #[track_caller]
    pub fn put(&self, index: &Tensor, value: impl Operand) -> Tensor {
        let _method = outermost("put");
        let t = self.copy();
        t.flatten().set(s![index.clone()], value);
        t
    }

    /// This with the elements of `source`, one after the other, where `mask`, broadcast, is true. The others are not used.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let mask = Tensor::from([true, false, true]);
    /// let t = Tensor::zeros([3]).masked_scatter(&mask, &Tensor::from([1.0f32, 2.0, 3.0]));
    /// assert_eq!(t.to_vec::<f32>()?, [1.0, 0.0, 2.0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A mask that is not bool or does not fit; a source with too few elements; other devices.
    #[must_use]
    #[track_caller]
    pub fn masked_scatter(&self, mask: &Tensor, source: &Tensor) -> Tensor {
        let _method = outermost("masked_scatter");
        let mask = mask.expand(self.shape());
        let place = mask.flatten().int().cumsum(0) - 1;
        let place = mask.flatten().where_(place, 0).reshape(self.shape());
        if source.numel() == 0 && source.error().is_none() {
            return self.copy();
        }
        mask.where_(source.take(&place), self)
    }

    /// As [`gather`](Tensor::gather), where this and `index` are broadcast to each other along the other axes.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.take_along_dim(&Tensor::from([[1]]), 1).to_vec::<i32>()?, [2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not broadcast, and as [`gather`](Tensor::gather).
    #[must_use]
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor, axis: impl Int) -> Tensor {
        let _method = outermost("take_along_dim");
        if self.ndim() != index.ndim() {
            let why =
                format!("shapes do not broadcast, {:?} and {:?}", self.shape(), index.shape());
            return self.refused("take_along_dim", why.into());
        }
        let Ok(at) = super::shape_args::axis(axis, self.ndim()) else {
            return self.gather(axis, index);
        };
        let (mut own, mut others) = (self.shape().to_vec(), index.shape().to_vec());
        for i in (0..own.len()).filter(|&i| i != at) {
            let longer = if own[i] == 1 { others[i] } else { own[i] };
            (own[i], others[i]) = (longer, longer);
        }
        self.expand(own).gather(axis, &index.expand(others))
    }

    /// This, unless `written` carries an error.
    fn with_error_of(self, written: &Tensor) -> Tensor {
        written.error().map_or(self, Tensor::broken)
    }

    /// A value as a tensor.
    #[track_caller]
    fn operand(&self, value: impl Operand) -> Tensor {
        match value.into_value() {
            crate::element::Value::Tensor(t) => t,
            crate::element::Value::Scalar(c, _) => {
                Tensor::full_with((), c.as_f64(), (self.dtype(), self.device()))
            }
        }
    }
}
