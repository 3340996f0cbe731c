//! Where the largest elements of windows lie, and elements put back there.

use super::Tensor;
use super::pool::least_around;
use super::pool_options::{Pool, PoolOptions};
use super::reduce::first_position;
use super::shape_args::{ShapeArg, new_shape};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::UOp;
use kiln_ir::arg::{Axes, ReduceOp, Shape};

/// Methods over so many axes.
macro_rules! indexed {
    ($($n:literal $axes:literal $from:literal $to:literal $max:ident $with:ident $back:ident $back_to:ident;)*) => {
        /// Positions of maxima.
        impl Tensor { $(
            #[doc = concat!("As [`", stringify!($max), "`](Tensor::", stringify!($max), "), and where in the `[", $axes, "]` elements of its plane the first")]
            /// largest lies, i32.
            ///
            /// ```
            #[doc = concat!("let (y, at) = kiln::Tensor::ones(", $from, ").", stringify!($with), "(2);")]
            #[doc = concat!("assert_eq!((y.shape(), at.shape()), (&", $to, "[..], &", $to, "[..]));")]
            /// assert_eq!(at.to_vec::<i32>()?[0], 0);
            /// # Ok::<(), kiln::Error>(())
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($max), "`](Tensor::", stringify!($max), ").")]
            #[must_use]
            #[track_caller]
            pub fn $with(&self, pool: impl Into<PoolOptions>) -> (Tensor, Tensor) {
                let _method = outermost(stringify!($with));
                let options = pool.into();
                let places = Tensor::or_broken(stringify!($with), places(self, &options, $n));
                (self.$max(options), places)
            }

            #[doc = concat!("Zeros, but for these elements at the places in their planes that [`", stringify!($with), "`](Tensor::", stringify!($with), ") gave.")]
            /// A plane is as long as a pooling with these windows needs at least.
            ///
            /// ```
            #[doc = concat!("let x = kiln::Tensor::ones(", $from, ");")]
            #[doc = concat!("let (y, at) = x.", stringify!($with), "(2);")]
            #[doc = concat!("assert_eq!(y.", stringify!($back), "(&at, 2).shape(), x.shape());")]
            /// ```
            ///
            /// # Errors
            /// Places of another shape; a place outside of the plane, when it is computed.
            #[must_use]
            #[track_caller]
            pub fn $back(&self, indices: &Tensor, pool: impl Into<PoolOptions>) -> Tensor {
                let _method = outermost(stringify!($back));
                let lengths = unpooled(self.shape(), &pool.into(), $n);
                let result = lengths.and_then(|lengths| put_back(self, indices, &lengths));
                Tensor::or_broken(stringify!($back), result)
            }

            #[doc = concat!("As [`", stringify!($back), "`](Tensor::", stringify!($back), "), into planes of these lengths, `[", $axes, "]`.")]
            ///
            /// ```
            #[doc = concat!("let x = kiln::Tensor::ones(", $from, ");")]
            #[doc = concat!("let (y, at) = x.", stringify!($with), "(2);")]
            #[doc = concat!("assert_eq!(y.", stringify!($back_to), "(&at, &x.shape()[1..]).shape(), x.shape());")]
            /// ```
            ///
            /// # Errors
            #[doc = concat!("As [`", stringify!($back), "`](Tensor::", stringify!($back), ").")]
            #[must_use]
            #[track_caller]
            pub fn $back_to(&self, indices: &Tensor, lengths: impl ShapeArg) -> Tensor {
                let _method = outermost(stringify!($back_to));
                let result = match new_shape(lengths) {
                    Ok(lengths) if lengths.len() == $n => put_back(self, indices, &lengths),
                    Ok(lengths) => refuse!("{lengths:?} are not the lengths of {} axes", $n),
                    Err(fault) => Err(fault),
                };
                Tensor::or_broken(stringify!($back_to), result)
            }
        )* }
    };
}

indexed! {
    1 "length" "[1, 4]" "[1, 2]" max_pool1d max_pool1d_with_indices max_unpool1d max_unpool1d_to;
    2 "height, width" "[1, 4, 4]" "[1, 2, 2]" max_pool2d max_pool2d_with_indices max_unpool2d max_unpool2d_to;
    3 "depth, height, width" "[1, 4, 4, 4]" "[1, 2, 2, 2]" max_pool3d max_pool3d_with_indices max_unpool3d max_unpool3d_to;
}

/// `x`, of which the `n` axes from `first` on are pairs of windows and positions, with all positions as the last axis.
pub(super) fn positions_last(x: &UOp, first: usize, n: usize) -> UOp {
    let counts = (0..n).map(|i| first + 2 * i);
    let order: Axes = (0..first).chain(counts).chain((0..n).map(|i| first + 2 * i + 1)).collect();
    let x = x.permute(order);
    let mut shape: Shape = x.shape()[..first + n].iter().copied().collect();
    shape.push(x.shape()[first + n..].iter().product());
    x.reshape(shape)
}

/// Where the first largest element of each window lies in its plane.
fn places(x: &Tensor, options: &PoolOptions, n: usize) -> Result<Tensor, Fault> {
    let node = x.value()?.detach();
    let pool = options.pool(node.shape(), n)?;
    let first = node.shape().len() - n;
    let windows = positions_last(&least_around(&node, &pool)?, first, n);
    let inside = first_position(&windows, first + n, ReduceOp::Max)?;
    let inside = Tensor::from_node(inside, x.device());
    Ok(in_plane(&inside, &pool, &node.shape()[first..]))
}

/// Positions inside of windows as positions in a plane of `lengths`.
fn in_plane(inside: &Tensor, pool: &Pool, lengths: &[usize]) -> Tensor {
    let first = inside.ndim() - lengths.len();
    let (mut left, mut stride) = (inside.clone(), 1i64);
    let mut place = inside.zeros_like();
    for (i, &n) in lengths.iter().enumerate().rev() {
        let w = pool.frame.windows[i];
        let mut shape = vec![1; inside.ndim()];
        shape[first + i] = inside.shape()[first + i];
        let starts = Tensor::arange_with(shape[first + i], inside.device()).reshape(&shape);
        let starts = starts.mul(w.stride as i64).sub(pool.frame.sides[i][0] as i64);
        let at = left.modulo(w.size as i64).mul(w.dilation as i64).add(starts);
        // a window of nothing but the least number has its first one in the padding: the first element comes after it
        let at = at.maximum(at.modulo(w.dilation as i64)).clamp_max(n as i64 - 1);
        place = place.add(at.mul(stride));
        left = left.floor_div(w.size as i64);
        stride *= n as i64;
    }
    place
}

/// The lengths of a plane of which windows make `shape`.
fn unpooled(shape: &[usize], options: &PoolOptions, n: usize) -> Result<Shape, Fault> {
    let frame = options.frame(n)?;
    let Some(first) = shape.len().checked_sub(n) else {
        return refuse!("wants at least {n} axes, not {shape:?}");
    };
    let length = |(i, &count): (usize, &usize)| {
        let w = frame.windows[i];
        let all = count.saturating_sub(1).saturating_mul(w.stride).saturating_add(w.size);
        all.saturating_sub(frame.sides[i][0] + frame.sides[i][1])
    };
    Ok(shape[first..].iter().enumerate().map(length).collect())
}

/// Zeros of `lengths`, but for the elements of `x` at their places.
fn put_back(x: &Tensor, indices: &Tensor, lengths: &[usize]) -> Result<Tensor, Fault> {
    Tensor::all_valid([x, indices])?;
    if x.shape() != indices.shape() || x.ndim() < lengths.len() {
        return refuse!("elements {:?} and places {:?} differ", x.shape(), indices.shape());
    }
    let (lead, plane) = x.shape().split_at(x.ndim() - lengths.len());
    let flat = |count: usize| [lead, &[count]].concat();
    let count = plane.iter().product();
    let zeros = Tensor::zeros_with(flat(lengths.iter().product()), (x.dtype(), x.device()));
    let filled = zeros.scatter(-1, &indices.reshape(flat(count)), x.reshape(flat(count)));
    Ok(filled.reshape([lead, lengths].concat()))
}
