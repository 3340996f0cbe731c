//! Parts of a tensor along an axis. All are views.

use super::Tensor;
use super::shape_args::{Int, LengthArg, Lengths, ShapeArg, axis, new_shape};
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use kiln_ir::arg::{Shape, SliceAxis};
use kiln_ir::uop::Number;

/// How [`Tensor::split`] cuts an axis: into pieces of one length, or of the lengths in an array, slice or `Vec`.
pub trait SplitArg {
    #[doc(hidden)]
    fn pieces(&self) -> Pieces;
}

/// Lengths of pieces.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub enum Pieces {
    Of(i64),
    Sizes(Lengths),
}

impl<T: Int> SplitArg for T {
    fn pieces(&self) -> Pieces {
        Pieces::Of(self.as_i64())
    }
}
impl<T: Int> SplitArg for [T] {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}
impl<T: Int, const N: usize> SplitArg for [T; N] {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}
impl<T: Int> SplitArg for Vec<T> {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}
impl<T: Int> SplitArg for &[T] {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}
impl<T: Int> SplitArg for &Vec<T> {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}
impl<T: Int, const N: usize> SplitArg for &[T; N] {
    fn pieces(&self) -> Pieces {
        Pieces::Sizes(self.lengths())
    }
}

impl Pieces {
    /// The length of each piece of `n` elements.
    fn of(self, n: usize) -> Result<Shape, Fault> {
        match self {
            Pieces::Of(size) if size < 1 => refuse!("pieces of {size} elements"),
            Pieces::Of(size) => Ok(equal(n, usize::try_from(size).unwrap_or(usize::MAX))),
            Pieces::Sizes(sizes) => {
                let sizes = new_shape(sizes.as_slice())?;
                match sizes.iter().fold(0usize, |a, &b| a.saturating_add(b)) == n {
                    true => Ok(sizes),
                    false => refuse!("sizes {sizes:?} do not add up to {n}"),
                }
            }
        }
    }
}

/// The lengths of pieces of `size` elements, the last one shorter where it must be.
fn equal(n: usize, size: usize) -> Shape {
    (0..n.max(1)).step_by(size.min(n.max(1))).map(|start| size.min(n - start)).collect()
}

/// Lengths of `n` pieces that differ by one at most, the longer ones first.
fn nearly_equal(len: usize, n: usize) -> Shape {
    (0..n).map(|i| len / n + usize::from(i < len % n)).collect()
}

/// Start and length of the pieces between positions of an axis. Negative positions count from its end. A piece that
/// would end before its start is empty.
fn between(len: usize, cuts: &[i64]) -> Vec<(usize, usize)> {
    let from_end = |at: i64| if at < 0 { at.saturating_add(len as i64) } else { at };
    let place = |&at: &i64| from_end(at).clamp(0, len as i64) as usize;
    let ends = cuts.iter().map(place).chain([len]);
    let starts = std::iter::once(0).chain(cuts.iter().map(place));
    starts.zip(ends).map(|(start, end)| (start, end.saturating_sub(start))).collect()
}

/// Parts along an axis.
impl Tensor {
    /// Views along `axis`: of `pieces` elements each, the last one shorter where it must be, or of the lengths that an array
    /// says. What is wrong is carried by a single tensor.
    ///
    /// ```
    /// let parts = kiln::Tensor::arange(5).split([2, 3], 0);
    /// assert_eq!(parts[1].to_vec::<i32>()?, [2, 3, 4]);
    /// assert_eq!(kiln::Tensor::arange(5).split(2, 0).len(), 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Sizes that do not add up to the length, pieces of nothing, an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn split(&self, pieces: impl SplitArg, axis: impl Int) -> Vec<Tensor> {
        let pieces = pieces.pieces();
        self.parts("split", axis, |n| pieces.of(n))
    }

    /// At most `n` views of equal length along `axis`, the last one shorter where it must be. What is wrong is carried
    /// by a single tensor.
    ///
    /// ```
    /// let parts = kiln::Tensor::arange(5).chunk(2, 0);
    /// assert_eq!(parts[0].to_vec::<i32>()?, [0, 1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No parts, an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn chunk(&self, n: usize, axis: impl Int) -> Vec<Tensor> {
        self.parts("chunk", axis, |len| match n {
            0 => refuse!("into no parts"),
            _ => Ok(equal(len, len.div_ceil(n).max(1))),
        })
    }

    /// `n` views along `axis` whose lengths differ by one at most, the longer ones first. What is wrong is carried by a
    /// single tensor.
    ///
    /// ```
    /// let parts = kiln::Tensor::arange(5).tensor_split(3, 0);
    /// assert_eq!(parts[2].to_vec::<i32>()?, [4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// No parts, an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn tensor_split(&self, n: usize, axis: impl Int) -> Vec<Tensor> {
        self.parts("tensor_split", axis, |len| match n {
            0 => refuse!("into no parts"),
            _ => Ok(nearly_equal(len, n)),
        })
    }

    /// Views along `axis`, cut before each of the positions. Negative positions count from the end. An error is carried by
    /// a single tensor.
    ///
    /// ```
    /// let parts = kiln::Tensor::arange(5).tensor_split_at([1, 3], 0);
    /// assert_eq!(parts[1].to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn tensor_split_at(&self, cuts: impl ShapeArg, axis: impl Int) -> Vec<Tensor> {
        let cuts = cuts.lengths();
        let _method = outermost("tensor_split_at");
        match self.axis_length(axis) {
            Ok((axis, len)) => {
                let parts = between(len, &cuts).into_iter();
                parts.map(|(start, len)| self.piece(axis, start, len)).collect()
            }
            Err(fault) => vec![Tensor::broken(fault.at("tensor_split_at"))],
        }
    }

    /// A view of each position along `axis`, without that axis. What is wrong is carried by a single tensor.
    ///
    /// ```
    /// let rows = kiln::Tensor::from([[1, 2], [3, 4]]).unbind(0);
    /// assert_eq!(rows[1].to_vec::<i32>()?, [3, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn unbind(&self, axis: impl Int) -> Vec<Tensor> {
        let _method = outermost("unbind");
        match self.axis_length(axis) {
            Ok((axis, n)) => (0..n).map(|i| self.section(axis, i, 1, 1).squeeze(axis)).collect(),
            Err(fault) => vec![Tensor::broken(fault.at("unbind"))],
        }
    }

    /// `len` positions of `axis`, from `start` on, which counts from the end where it is negative.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::arange(5).narrow(0, 1, 3).to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Positions or an axis that are not there.
    #[must_use]
    #[track_caller]
    pub fn narrow(&self, axis: impl Int, start: impl LengthArg, len: impl LengthArg) -> Tensor {
        let (start, len) = (start.length(), len.length());
        self.alias("narrow", |v| {
            start.check()?;
            len.check()?;
            let axis = super::shape_args::axis(axis, v.shape().len())?;
            let n = v.shape()[axis];
            let from = start.value();
            let from = if from < 0 { from.saturating_add(n as i64) } else { from };
            let inside = |&(s, len): &(usize, usize)| s <= n && len <= n - s;
            let sizes = usize::try_from(from).ok().zip(usize::try_from(len.value()).ok());
            let Some((from, kept)) = sizes.filter(inside) else {
                return refuse!(
                    "{len} elements from {start} on are not in axis {axis} of length {n}"
                );
            };
            let mut slices: Vec<_> = v.shape().iter().map(|&n| SliceAxis::full(n)).collect();
            slices[axis] =
                SliceAxis { start: if kept == 0 { 0 } else { from }, step: 1, len: kept };
            let start = start.linear().filter(|_| start.value() >= 0);
            let numbers = [(Number::Start(axis), start), (Number::Length(axis), len.linear())];
            let named = numbers.into_iter().filter_map(|(number, from)| Some((number, from?)));
            Ok(v.named_slice(slices.into(), &named.collect()))
        })
    }

    /// The position `index` of `axis`, without that axis; it counts from the end where it is negative.
    ///
    /// ```
    /// assert_eq!(kiln::Tensor::from([[1, 2], [3, 4]]).select(1, -1).to_vec::<i32>()?, [2, 4]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A position or an axis that is not there.
    #[must_use]
    #[track_caller]
    pub fn select(&self, axis: impl Int, index: impl Int) -> Tensor {
        let _method = outermost("select");
        match self.axis_length(axis) {
            Ok((axis, n)) => {
                let at = index.as_i64();
                let from = if at < 0 { at.saturating_add(n as i64) } else { at };
                if from < 0 || from >= n as i64 {
                    let why = format!("index {at} is out of range for axis {axis} of length {n}");
                    return self.refused("select", why.into());
                }
                self.section(axis, from as usize, 1, 1).squeeze(axis)
            }
            Err(fault) => Tensor::broken(fault.at("select")),
        }
    }

    /// The number of an axis and its length.
    pub(super) fn axis_length(&self, along: impl Int) -> Result<(usize, usize), Fault> {
        Tensor::all_valid([self])?;
        let axis = axis(along, self.ndim())?;
        Ok((axis, self.shape()[axis]))
    }

    #[track_caller]
    fn parts(
        &self,
        op: &'static str,
        along: impl Int,
        sizes: impl FnOnce(usize) -> Result<Shape, Fault>,
    ) -> Vec<Tensor> {
        let _method = outermost(op);
        let cut = self.axis_length(along).and_then(|(axis, n)| Ok((axis, sizes(n)?)));
        match cut {
            Ok((axis, sizes)) => self.sections(&sizes, axis),
            Err(fault) => vec![Tensor::broken(fault.at(op))],
        }
    }

    fn sections(&self, sizes: &[usize], axis: usize) -> Vec<Tensor> {
        let starts = sizes.iter().scan(0, |end, n| {
            *end += n;
            Some(*end - n)
        });
        starts.zip(sizes).map(|(start, &len)| self.piece(axis, start, len)).collect()
    }

    /// `len` elements of `axis` from `start` on; an empty piece starts nowhere.
    pub(super) fn piece(&self, axis: usize, start: usize, len: usize) -> Tensor {
        self.section(axis, if len == 0 { 0 } else { start }, 1, len)
    }
}
