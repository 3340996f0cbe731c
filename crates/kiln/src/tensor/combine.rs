//! Tensors joined and repeated.

use super::Tensor;
use super::broadcast::one_device;
use super::known::bounds;
use super::shape_args::{Int, ShapeArg, axis, holdable, new_shape};
use crate::error::{Caller, Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Axes, ReduceOp, Shape};
use kiln_ir::{DType, UOp};
use std::borrow::Borrow;

/// A list of references can be borrowed: `Tensor::cat(&[&a, &b], 0)`. Its items are then `&&Tensor`.
impl Borrow<Tensor> for &&Tensor {
    fn borrow(&self) -> &Tensor {
        self
    }
}

/// Tensors made into one; an iterator or a list of `Tensor` or `&Tensor`.
impl Tensor {
    /// Tensors one after the other along `axis`, in their common dtype.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let (a, b) = (Tensor::from([1, 2]), Tensor::from([3]));
    /// let t = Tensor::cat([&a, &b], 0);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 2, 3]);
    /// // the list may also be borrowed
    /// assert_eq!(Tensor::cat(&[&a, &b, &a], 0).shape(), [5]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No tensors, other lengths than along `axis` that differ, an axis that is not there, other devices.
    #[must_use]
    #[track_caller]
    pub fn cat<T: Borrow<Tensor>>(tensors: impl IntoIterator<Item = T>, axis: impl Int) -> Tensor {
        let tensors: Vec<Tensor> = tensors.into_iter().map(|t| t.borrow().clone()).collect();
        let result = concatenation(&tensors, axis);
        match tensors.first() {
            Some(first) => first.lift("cat", result),
            None => Tensor::or_broken("cat", refuse!("no tensors")),
        }
    }

    /// Tensors of one shape along a new axis at `axis`, in their common dtype.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::stack([&Tensor::from([1, 2]), &Tensor::from([3, 4])], 0);
    /// assert_eq!(t.shape(), [2, 2]);
    /// ```
    ///
    /// # Errors
    /// No tensors, shapes that differ, an axis past the end, other devices.
    #[must_use]
    #[track_caller]
    pub fn stack<T: Borrow<Tensor>>(
        tensors: impl IntoIterator<Item = T>,
        axis: impl Int,
    ) -> Tensor {
        let _method = outermost("stack");
        let mut rows = Vec::new();
        for t in tensors {
            rows.push(t.borrow().unsqueeze(axis));
        }
        Tensor::cat(rows, axis)
    }
}

/// The dtype that tensors meet in; literals give way to what is none.
fn common_dtype(tensors: &[Tensor]) -> DType {
    let strong = tensors.iter().filter(|t| !t.is_literal).map(Tensor::dtype).reduce(DType::promote);
    let beside = |dtype: DType, t: &Tensor| match t.goes_into(dtype) {
        true => dtype,
        false => dtype.promote(t.dtype()),
    };
    let first = || tensors.first().map_or(DType::F32, Tensor::dtype);
    tensors.iter().fold(strong.unwrap_or_else(first), beside)
}

fn concatenation(tensors: &[Tensor], along: impl Int) -> Result<UOp, Fault> {
    Tensor::all_valid(tensors)?;
    let Some(first) = tensors.first() else { return refuse!("no tensors") };
    let axis = axis(along, first.ndim())?;
    for t in tensors {
        one_device([first, t])?;
        let alike = |(i, (a, b)): (usize, (&usize, &usize))| i == axis || a == b;
        let same =
            t.ndim() == first.ndim() && first.shape().iter().zip(t.shape()).enumerate().all(alike);
        if !same {
            return refuse!("shapes differ, first {:?}, other {:?}", first.shape(), t.shape());
        }
    }
    let dtype = common_dtype(tensors);
    let parts: Vec<UOp> =
        tensors.iter().map(|t| Ok(t.value()?.cast(dtype))).collect::<Result<_, Fault>>()?;
    let mut whole = parts[0].shape().clone();
    whole[axis] = parts.iter().map(|p| p.shape()[axis]).fold(0, usize::saturating_add);
    holdable(whole)?;
    Ok(UOp::joined(&parts, axis))
}

/// One tensor made larger.
impl Tensor {
    /// The whole tensor as often along each axis as `counts` says; axes are added in front for more counts.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([1, 2]).repeat([2]).to_vec::<i32>()?, [1, 2, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fewer counts than axes.
    #[must_use]
    #[track_caller]
    pub fn repeat(&self, counts: impl ShapeArg) -> Tensor {
        let repeat = || -> Result<UOp, Fault> {
            let x = self.value()?;
            let counts = new_shape(counts)?;
            let Some(missing) = counts.len().checked_sub(x.shape().len()) else {
                return refuse!("{} counts for {} axes", counts.len(), x.shape().len());
            };
            let own: Shape =
                std::iter::repeat_n(1, missing).chain(x.shape().iter().copied()).collect();
            let ones: Shape = own.iter().flat_map(|&n| [1, n]).collect();
            let many: Shape = counts.iter().zip(&own).flat_map(|(&c, &n)| [c, n]).collect();
            let flat = counts.iter().zip(&own).map(|(c, n)| c.saturating_mul(*n)).collect();
            let flat = holdable(flat)?;
            Ok(x.reshape(ones).expand(many).reshape(flat))
        };
        self.lift("repeat", repeat())
    }
}

/// Classes.
impl Tensor {
    /// A new last axis of `classes` elements, 1 at the position that the integer says and 0 elsewhere, i32.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([2, 0]).one_hot(3).to_vec::<i32>()?, [0, 0, 1, 1, 0, 0]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Floats; an integer that is none of `0..classes`: at once if it is known, else when it is computed.
    #[must_use]
    #[track_caller]
    pub fn one_hot(&self, classes: usize) -> Tensor {
        let caller = Caller::of("one_hot");
        let hot = || {
            let labels = self.classified(classes, caller)?;
            Ok(hits(&labels, classes, self.ndim())?.cast(DType::I32))
        };
        self.lift("one_hot", hot())
    }

    /// The integers, which are an error where one is no class.
    fn classified(&self, classes: usize, caller: Caller) -> Result<UOp, Fault> {
        let labels = self.value()?;
        if !labels.dtype().is_int() {
            return refuse!("wants integers, not {}", labels.dtype());
        }
        match bounds(&labels, 0..classes as i64, self.device())? {
            Some(Ok(_)) => return Ok(labels),
            Some(Err(label)) => return refuse!("{label} is none of {classes} classes"),
            None => {}
        }
        let wide = labels.cast(counter(labels.dtype()));
        let below = wide.lt(&wide.const_like(classes as i64));
        let is_class = wide.lt(&wide.const_like(0)).not().and(&below);
        let all: Axes = (0..labels.shape().len()).collect();
        let text = format!("an integer is none of {classes} classes in {caller}");
        Ok(labels.checked(&is_class.not().reduce(ReduceOp::Add, all), &text))
    }
}

/// A new axis of `classes` elements at `axis`: true at the position that the integer says.
pub(super) fn hits(labels: &UOp, classes: usize, axis: usize) -> Result<UOp, Fault> {
    if !labels.dtype().is_int() {
        return refuse!("wants integers, not {}", labels.dtype());
    }
    let mut single = labels.shape().clone();
    single.insert(axis, 1);
    let mut shape = single.clone();
    shape[axis] = classes;
    let shape = holdable(shape)?;
    let class: Axes = std::iter::repeat_n(1, axis)
        .chain([classes])
        .chain(std::iter::repeat_n(1, single.len() - axis - 1))
        .collect();
    let counter = counter(labels.dtype());
    let numbers = UOp::iota(classes, counter).reshape(class).expand(shape.clone());
    Ok(labels.cast(counter).reshape(single).expand(shape).eq_(&numbers))
}

/// The dtype that labels are compared with classes in: their own, if it can count these, as no label wraps into a class.
fn counter(labels: DType) -> DType {
    let counter = labels.promote(DType::I32);
    if counter.is_float() { DType::U64 } else { counter }
}
