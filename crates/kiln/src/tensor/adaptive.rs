//! Pooling to given lengths: window `i` of `m` along an axis of `n` reaches from `floor(i n / m)` to `ceil((i + 1) n / m)`.

use super::Tensor;
use super::reduce::first_position;
use super::shape_args::Lengths;
use super::sizes::SizesArg;
use crate::Device;
use crate::defaults::OrFloat;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{ReduceOp, Shape};

/// Methods over so many axes.
macro_rules! adaptive {
    ($($n:literal $axes:literal $from:literal $to:literal $avg:ident $max:ident $with:ident;)*) => {
        /// Pooling to given lengths.
        impl Tensor { $(
            #[doc = concat!("`[.., ", $axes, "]` of these lengths: a number for all axes or one for each, -1 keeps a length. Each element is")]
            /// the mean of its part of the input; parts overlap where lengths do not divide each other.
            ///
            /// ```
            #[doc = concat!("let y = kiln::Tensor::ones(", $from, ").", stringify!($avg), "(3);")]
            #[doc = concat!("assert_eq!(y.shape(), ", $to, ");")]
            /// ```
            ///
            /// # Errors
            /// Fewer axes, an empty one, lengths for another number of axes.
            #[must_use]
            #[track_caller]
            pub fn $avg(&self, lengths: impl SizesArg) -> Tensor {
                let _method = outermost(stringify!($avg));
                Tensor::or_broken(stringify!($avg), means(self, &lengths.sizes(), $n))
            }

            #[doc = concat!("As [`", stringify!($avg), "`](Tensor::", stringify!($avg), "), but the largest of each part.")]
            ///
            /// ```
            #[doc = concat!("let y = kiln::Tensor::ones(", $from, ").", stringify!($max), "(3);")]
            #[doc = concat!("assert_eq!(y.shape(), ", $to, ");")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($avg), "`](Tensor::", stringify!($avg), ").")]
            #[must_use]
            #[track_caller]
            pub fn $max(&self, lengths: impl SizesArg) -> Tensor {
                let _method = outermost(stringify!($max));
                Tensor::or_broken(stringify!($max), maxima(self, &lengths.sizes(), $n))
            }

            #[doc = concat!("As [`", stringify!($max), "`](Tensor::", stringify!($max), "), and where in the `[", $axes, "]` elements of its plane the first")]
            /// largest lies, i32.
            ///
            /// ```
            #[doc = concat!("let (y, at) = kiln::Tensor::ones(", $from, ").", stringify!($with), "(3);")]
            #[doc = concat!("assert_eq!((y.shape(), at.shape()), (&", $to, "[..], &", $to, "[..]));")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($avg), "`](Tensor::", stringify!($avg), ").")]
            #[must_use]
            #[track_caller]
            pub fn $with(&self, lengths: impl SizesArg) -> (Tensor, Tensor) {
                let _method = outermost(stringify!($with));
                let lengths = lengths.sizes();
                let places = Tensor::or_broken(stringify!($with), places(self, &lengths, $n));
                (Tensor::or_broken(stringify!($with), maxima(self, &lengths, $n)), places)
            }
        )* }
    };
}

adaptive! {
    1 "length" "[2, 4]" "[2, 3]" adaptive_avg_pool1d adaptive_max_pool1d adaptive_max_pool1d_with_indices;
    2 "height, width" "[2, 4, 4]" "[2, 3, 3]" adaptive_avg_pool2d adaptive_max_pool2d adaptive_max_pool2d_with_indices;
    3 "depth, height, width" "[2, 4, 4, 4]" "[2, 3, 3, 3]" adaptive_avg_pool3d adaptive_max_pool3d adaptive_max_pool3d_with_indices;
}

/// The parts of an axis of `n` of which `m` elements are made.
#[derive(Clone, Copy)]
struct Parts {
    n: usize,
    m: usize,
}

impl Parts {
    /// As many as the longest part may have.
    fn most(self) -> usize {
        let (n, m) = (self.n, self.m.max(1));
        if n.is_multiple_of(m) { n / m } else { (n / m + 2).min(n) }
    }

    /// Where they start, and where they end.
    fn bounds(self, device: &Device) -> [Tensor; 2] {
        let (n, m) = (self.n as i64, self.m.max(1) as i64);
        let i = Tensor::arange_with(self.m, (kiln_ir::DType::I64, device));
        let start = i.mul(n).floor_div(m);
        [start, i.mul(n).add(n + m - 1).floor_div(m)]
    }

    /// The positions of each part's elements, `[m, most]`, and which of them belong to it.
    fn places(self, device: &Device) -> [Tensor; 2] {
        let [start, end] = self.bounds(device).map(|b| b.unsqueeze(1));
        let at = start.add(Tensor::arange_with(self.most(), device));
        let belongs = at.lt(&end);
        [at.clamp_max(self.n as i64 - 1), belongs]
    }
}

/// What is made of each of the last `n` axes.
fn parts(shape: &[usize], lengths: &Lengths, n: usize) -> Result<Vec<Parts>, Fault> {
    let Some(first) = shape.len().checked_sub(n) else {
        return refuse!("wants at least {n} axes, not {shape:?}");
    };
    if ![1, n].contains(&lengths.len()) || lengths.iter().any(|&m| m < -1 || m == 0) {
        return refuse!("{lengths:?} is neither a length nor one for each of {n} axes");
    }
    if shape[first..].contains(&0) {
        return refuse!("an axis of {shape:?} is empty");
    }
    let wanted = |i: usize| if lengths.len() == 1 { lengths[0] } else { lengths[i] };
    let length = |(i, &n): (usize, &usize)| Parts { n, m: usize::try_from(wanted(i)).unwrap_or(n) };
    Ok(shape[first..].iter().enumerate().map(length).collect())
}

/// `[.., n, ..]` as `[.., m, most, ..]`: `m` parts, each filled up to the length of the longest. The second tensor is true
/// at the elements of a part, and broadcasts to the first. Parts without overlap are a view.
fn gathered(x: &Tensor, axis: usize, parts: Parts) -> (Tensor, Option<Tensor>) {
    let (m, most) = (parts.m, parts.most());
    if parts.n.is_multiple_of(m.max(1)) {
        return (x.unflatten(axis, [m, most]), None);
    }
    let [at, belongs] = parts.places(x.device());
    let mut shape = vec![1; x.ndim() + 1];
    (shape[axis], shape[axis + 1]) = (m, most);
    let seen = x.index_select(axis, &at.flatten()).unflatten(axis, [m, most]);
    (seen, Some(belongs.reshape(shape)))
}

fn means(x: &Tensor, lengths: &Lengths, n: usize) -> Result<Tensor, Fault> {
    Tensor::all_valid([x])?;
    let dtype = x.dtype().or_float();
    let mut y = x.cast(dtype.accumulator());
    for (i, p) in parts(x.shape(), lengths, n)?.into_iter().enumerate().filter(|(_, p)| p.n != p.m)
    {
        let axis = x.ndim() - n + i;
        let (seen, belongs) = gathered(&y, axis, p);
        y = match belongs {
            None => seen.mean(axis + 1),
            Some(belongs) => {
                let count = belongs.cast(y.dtype()).sum(axis + 1);
                belongs.where_(&seen, 0).sum(axis + 1).div(&count)
            }
        };
    }
    Ok(y.cast(dtype))
}

fn maxima(x: &Tensor, lengths: &Lengths, n: usize) -> Result<Tensor, Fault> {
    Tensor::all_valid([x])?;
    let mut y = x.clone();
    for (i, p) in parts(x.shape(), lengths, n)?.into_iter().enumerate().filter(|(_, p)| p.n != p.m)
    {
        let axis = x.ndim() - n + i;
        y = separated(&y, axis, p).max(axis + 1);
    }
    Ok(y)
}

/// As [`gathered`], with what is less than anything where no element belongs.
fn separated(x: &Tensor, axis: usize, parts: Parts) -> Tensor {
    let (seen, belongs) = gathered(x, axis, parts);
    let least = ReduceOp::Max.identity(x.dtype()).as_f64();
    match belongs {
        Some(belongs) => belongs.where_(&seen, seen.full_like(least)),
        None => seen,
    }
}

fn places(x: &Tensor, lengths: &Lengths, n: usize) -> Result<Tensor, Fault> {
    Tensor::all_valid([x])?;
    let (all, first) = (parts(x.shape(), lengths, n)?, x.ndim() - n);
    let apart = |y: Tensor, i: usize| separated(&y, first + 2 * i, all[i]);
    let windows = (0..n).fold(x.detach(), apart);
    let windows = super::pool_indices::positions_last(&windows.value()?, first, n);
    let inside = first_position(&windows, first + n, ReduceOp::Max)?;
    let mut left = Tensor::from_node(inside, x.device());
    let (mut place, mut stride) = (left.zeros_like(), 1);
    for (i, p) in all.iter().enumerate().rev() {
        let mut shape = Shape::from_elem(1, first + n);
        shape[first + i] = p.m;
        let start = p.bounds(x.device())[0].cast(kiln_ir::DType::I32).reshape(&shape[..]);
        let at = left.modulo(p.most() as i64).add(start).clamp_max(p.n as i64 - 1);
        place = place.add(at.mul(stride));
        left = left.floor_div(p.most() as i64);
        stride *= p.n as i64;
    }
    Ok(place)
}
