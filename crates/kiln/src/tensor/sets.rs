//! Tensors as sets of values: what is in them, and what differs from its neighbour.

use super::Tensor;
use super::search::FEW;
use super::shape_args::Int;
use crate::origin::outermost;
use crate::s;

/// Sets of values.
impl Tensor {
    /// Whether each element is one of `values`, of any shape. NaN is not.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 2, 3]).isin(&Tensor::from([3, 1]));
    /// assert_eq!(t.to_vec::<bool>()?, [true, false, true]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Other devices.
    #[must_use]
    #[track_caller]
    pub fn isin(&self, values: &Tensor) -> Tensor {
        let _method = outermost("isin");
        if values.numel() == 0 && values.error().is_none() {
            return self.ne(self).ne(self.ne(self));
        }
        let dtype = self.dtype().promote(values.dtype());
        let (own, values) = (self.cast(dtype), values.flatten().cast(dtype));
        if values.numel() <= FEW {
            return own.unsqueeze(-1).eq(values).any(-1);
        }
        let (values, last) = (values.sort(0, false).0, values.numel() - 1);
        let place = values.searchsorted(&own.flatten(), false).minimum(last);
        values.index_select(0, &place).reshape(self.shape()).eq(own)
    }

    /// The elements in row-major order, but for those that are equal to the one before.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 1, 2, 2, 1]).unique_consecutive();
    /// assert_eq!(t.to_vec::<i32>()?, [1, 2, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A failing device or compiler: it is computed now.
    #[must_use]
    #[track_caller]
    pub fn unique_consecutive(&self) -> Tensor {
        let _method = outermost("unique_consecutive");
        let t = self.flatten();
        if t.numel() < 2 {
            return t.copy();
        }
        let differs = t.get(s![1..]).ne(t.get(s![..-1]));
        t.masked_select(&Tensor::cat([&Tensor::full_with([1], true, t.device()), &differs], 0))
    }

    /// Every choice of `n` elements of one axis, in order, each a row.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([1, 2, 3]).combinations(2);
    /// assert_eq!(t.to_vec::<i32>()?, [1, 2, 1, 3, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// More or less than one axis; more choices than 2^24.
    #[must_use]
    #[track_caller]
    pub fn combinations(&self, n: usize) -> Tensor {
        let _method = outermost("combinations");
        if self.ndim() != 1 || choices(self.numel(), n).is_none() {
            let why =
                format!("wants one axis with at most 2^24 choices, not {n} of {:?}", self.shape());
            return self.refused("combinations", why.into());
        }
        let places = places(self.numel(), n);
        let rows = places.len().checked_div(n).unwrap_or(0);
        let index = Tensor::from_vec_on(places, [rows * n], self.device());
        self.index_select(0, &index).reshape([rows, n])
    }

    /// The middle of the numbers that are not NaN along an axis, of two the smaller one; NaN where there are none. `..` is of
    /// all elements.
    ///
    /// ```
    /// use kiln::Tensor;
    /// assert_eq!(Tensor::from([3.0, f64::NAN, 1.0, 2.0]).nanmedian(0).item::<f64>()?, 2.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`median`](Tensor::median).
    #[must_use]
    #[track_caller]
    pub fn nanmedian(&self, axis: impl super::AxesArg) -> Tensor {
        let _method = outermost("nanmedian");
        match self.one_axis(axis) {
            Ok((t, axis, _)) => {
                let last = t.count_of_numbers(axis) - 1;
                t.at_in_order(axis, &last.maximum(0).floor_div(2)).squeeze(axis)
            }
            Err(fault) => self.refused("nanmedian", fault),
        }
    }

    /// As [`quantile`](Tensor::quantile), of the numbers that are not NaN; NaN where there are none.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let t = Tensor::from([3.0, f64::NAN, 1.0, 2.0]);
    /// assert_eq!(t.nanquantile(0.25, 0).item::<f64>()?, 1.5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`quantile`](Tensor::quantile).
    #[must_use]
    #[track_caller]
    pub fn nanquantile(&self, q: f64, axis: impl super::AxesArg) -> Tensor {
        let _method = outermost("nanquantile");
        if !self.dtype().is_float() || !(0.0..=1.0).contains(&q) {
            let why = format!("wants floats and a share from 0 to 1, not {} and {q}", self.dtype());
            return self.refused("nanquantile", why.into());
        }
        match self.one_axis(axis) {
            Ok((t, axis, _)) => {
                let last = (t.count_of_numbers(axis) - 1).maximum(0);
                let place = last.double() * q;
                let both = Tensor::cat([place.floor(), place.ceil()], axis).int();
                let both = t.at_in_order(axis, &both);
                let [below, above] = [0, 1].map(|i| both.section(axis, i, 1, 1));
                let share = (&place - place.floor()).cast(self.dtype());
                below.lerp(above, share).squeeze(axis)
            }
            Err(fault) => self.refused("nanquantile", fault),
        }
    }

    /// How many elements along an axis, which stays, are not NaN.
    #[track_caller]
    fn count_of_numbers(&self, axis: impl Int) -> Tensor {
        self.eq(self).sum_keepdim(axis.as_i64())
    }
}

/// How many choices of `k` there are among `n`, if not too many.
fn choices(n: usize, k: usize) -> Option<usize> {
    let few = |count: &usize| *count <= 1 << 24;
    let count = (0..k).try_fold(1usize, |count, i| {
        Some(count.checked_mul(n.saturating_sub(i))? / (i + 1)).filter(few)
    })?;
    Some(count).filter(|count| few(&count.saturating_mul(k)))
}

/// The positions of all choices, one after the other.
fn places(n: usize, k: usize) -> Vec<i32> {
    let mut all = Vec::new();
    if k == 0 || k > n {
        return all;
    }
    let mut chosen: Vec<usize> = (0..k).collect();
    loop {
        all.extend(chosen.iter().map(|&i| i as i32));
        // the last that can move on, does; those after it follow it
        let Some(at) = (0..k).rev().find(|&i| chosen[i] < n - k + i) else { return all };
        chosen[at] += 1;
        (at + 1..k).for_each(|i| chosen[i] = chosen[i - 1] + 1);
    }
}
