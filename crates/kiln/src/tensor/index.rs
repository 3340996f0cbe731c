//! Indices: what `s![..]` makes, and the view that it picks, as Python does. What tensors and lists pick is no view:
//! `advanced.rs`.

use super::Tensor;
use super::length::Length;
use super::list::{List, ListItem, Numbers, rows};
use super::shape_args::{Int, LengthArg};
use super::view::{Slices, View};
use crate::error::{Caller, Fault, refuse};
use kiln_ir::DType;
use kiln_ir::arg::{Shape, SliceAxis};
use kiln_ir::uop::{Linear, Named, Number};
use std::ops;

/// What picks elements of one axis, as `s![..]` takes it.
#[derive(Clone, Debug)]
pub enum Index {
    /// One position, which drops the axis; negative positions count from the end.
    At(Length),
    /// Every `step`-th position from `start` to before `stop`, clamped to what is there.
    Slice {
        /// The first position; the nearest end if missing.
        start: Option<Length>,
        /// The position to stop before; through the end if missing.
        stop: Option<Length>,
        /// The distance; negative goes backward.
        step: i64,
    },
    /// All axes that no other index takes.
    Ellipsis,
    /// A new axis of length 1.
    NewAxis,
    /// Positions that an integer tensor holds, or the elements where a bool tensor is true.
    Tensor(Tensor),
    /// As [`Tensor`](Index::Tensor), written down: nested arrays, slices and `Vec`s of integers or bools.
    List(List),
}

/// The indices of some axes, outermost first; made by [`s!`](crate::s).
#[derive(Clone, Debug)]
pub struct Indices(Vec<Index>);

impl Indices {
    /// The indices in order. [`s!`](crate::s) is the short form.
    ///
    /// ```
    /// let index = kiln::Indices::new([kiln::Index::from(0)]);
    /// assert_eq!(kiln::Tensor::zeros([2, 3]).get(index).shape(), [3]);
    /// ```
    pub fn new(indices: impl Into<Vec<Index>>) -> Indices {
        Indices(indices.into())
    }
}

/// Indices as Python writes them: positions, ranges (`a..b`, `..`, `a..;step`), `...`, `NewAxis`, tensors and lists.
///
/// `..` is all of one axis; `...` is all of the axes that nothing else takes. A step follows a semicolon, and with a
/// negative one the range runs backward: `4..1;-2` is 4, 2.
///
/// Integer tensors and lists (`[0, 2]`, `vec![1, -1]`, `[[0], [1]]`) pick by NumPy's rules: several are broadcast
/// together, and their common shape stands where they stand if they are neighbours, else in front; a position beside them
/// counts as one of them. A bool tensor or list picks, of as many axes as it has, the elements where it is true.
///
/// ```
/// use kiln::{Tensor, s};
/// let t = Tensor::arange(12).reshape([3, 4]);
/// assert_eq!(t.get(s![1, ..;2]).to_vec::<i32>()?, [4, 6]);
/// assert_eq!(t.get(s![..., -1]).to_vec::<i32>()?, [3, 7, 11]);
/// assert_eq!(t.get(s![NewAxis, 0]).shape(), [1, 4]);
/// assert_eq!(t.get(s![[2, 0], 1]).to_vec::<i32>()?, [9, 1]);
/// assert_eq!(t.get(s![t.gt(8)]).to_vec::<i32>()?, [9, 10, 11]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[macro_export]
macro_rules! s {
    // a range that goes backward is what a negative step wants
    (@one $index:expr) => {{
        #[allow(clippy::reversed_empty_ranges)]
        let index = $crate::Index::from($index);
        index
    }};
    (@next [$($done:expr,)*]) => { $crate::Indices::new([$($done),*]) };
    (@next [$($done:expr,)*] ,) => { $crate::Indices::new([$($done),*]) };
    (@next [$($done:expr,)*] ... , $($rest:tt)*) => {
        $crate::s!(@next [$($done,)* $crate::Index::Ellipsis,] $($rest)*)
    };
    (@next [$($done:expr,)*] NewAxis , $($rest:tt)*) => {
        $crate::s!(@next [$($done,)* $crate::Index::NewAxis,] $($rest)*)
    };
    (@next [$($done:expr,)*] $index:expr ; $step:expr , $($rest:tt)*) => {
        $crate::s!(@next [$($done,)* $crate::s!(@one $index).step_by($step),] $($rest)*)
    };
    (@next [$($done:expr,)*] $index:expr , $($rest:tt)*) => {
        $crate::s!(@next [$($done,)* $crate::s!(@one $index),] $($rest)*)
    };
    ($($index:tt)*) => { $crate::s!(@next [] $($index)* ,) };
}

impl Index {
    /// A slice with another step; anything else is itself.
    ///
    /// ```
    /// let every_other = kiln::Index::from(..).step_by(2);
    /// assert_eq!(kiln::Tensor::zeros([5]).get(kiln::Indices::new([every_other])).shape(), [3]);
    /// ```
    pub fn step_by(self, by: impl Int) -> Index {
        match self {
            Index::Slice { start, stop, .. } => Index::Slice { start, stop, step: by.as_i64() },
            other => other,
        }
    }

    /// How many axes of what is indexed it is about: a mask, as many as it has.
    pub(super) fn axes(&self) -> usize {
        match self {
            Index::Ellipsis | Index::NewAxis => 0,
            Index::Tensor(mask) if mask.dtype() == DType::Bool => mask.ndim(),
            Index::List(List { shape: Some(shape), numbers: Numbers::Mask(_) }) => shape.len(),
            Index::At(_) | Index::Slice { .. } | Index::Tensor(_) | Index::List(_) => 1,
        }
    }

    /// Whether it is a tensor or a list.
    fn is_advanced(&self) -> bool {
        matches!(self, Index::Tensor(_) | Index::List(_))
    }
}

fn slice(start: Option<Length>, stop: Option<Length>) -> Index {
    Index::Slice { start, stop, step: 1 }
}

/// The stop of a range that includes its end; after the last position there is none.
fn after(end: Length) -> Option<Length> {
    let stop: Length = end + 1;
    (stop.value() != 0).then_some(stop)
}

macro_rules! positions {
    ($($t:ty),*) => { $(
        impl From<$t> for Index {
            fn from(i: $t) -> Index { Index::At(i.length()) }
        }
    )* };
}
positions!(usize, isize, i32, i64, u32, Length);

impl<T: LengthArg> From<ops::Range<T>> for Index {
    fn from(r: ops::Range<T>) -> Index {
        slice(Some(r.start.length()), Some(r.end.length()))
    }
}
impl<T: LengthArg> From<ops::RangeFrom<T>> for Index {
    fn from(r: ops::RangeFrom<T>) -> Index {
        slice(Some(r.start.length()), None)
    }
}
impl<T: LengthArg> From<ops::RangeTo<T>> for Index {
    fn from(r: ops::RangeTo<T>) -> Index {
        slice(None, Some(r.end.length()))
    }
}
impl<T: LengthArg> From<ops::RangeInclusive<T>> for Index {
    fn from(r: ops::RangeInclusive<T>) -> Index {
        slice(Some(r.start().length()), after(r.end().length()))
    }
}
impl<T: LengthArg> From<ops::RangeToInclusive<T>> for Index {
    fn from(r: ops::RangeToInclusive<T>) -> Index {
        slice(None, after(r.end.length()))
    }
}
impl From<ops::RangeFull> for Index {
    fn from(_: ops::RangeFull) -> Index {
        slice(None, None)
    }
}
impl From<&Tensor> for Index {
    fn from(t: &Tensor) -> Index {
        Index::Tensor(t.clone())
    }
}
impl From<Tensor> for Index {
    fn from(t: Tensor) -> Index {
        Index::Tensor(t)
    }
}

macro_rules! lists {
    ($([$($generics:tt)*] $t:ty;)*) => { $(
        impl<$($generics)*> From<$t> for Index {
            fn from(list: $t) -> Index { Index::List(rows(&list[..])) }
        }
    )* };
}
lists! {
    [T: ListItem, const LEN: usize] [T; LEN];
    [T: ListItem, const LEN: usize] &[T; LEN];
    [T: ListItem] Vec<T>;
    [T: ListItem] &Vec<T>;
    [T: ListItem] &[T];
}

impl Indices {
    /// The view that these pick of `view`: one slice of every axis, then a reshape that drops and adds axes.
    pub(super) fn view(&self, view: &View) -> Result<View, Fault> {
        let lengths = view.shape();
        let indices = self.spelled_out(lengths.len())?;
        let (mut slices, mut shape, mut named) = (Slices::new(), Shape::new(), Named::new());
        for index in &indices {
            if let Index::NewAxis = index {
                shape.push(1);
                continue;
            }
            let axis = slices.len();
            let picked = pick(index, axis, lengths[axis])?;
            named.extend(names(index, axis, lengths[axis], picked));
            if !matches!(index, Index::At(_)) {
                shape.push(picked.len);
            }
            slices.push(picked);
        }
        Ok(view.named_slice(slices, &named).reshape(shape))
    }

    /// Whether tensors or lists pick: then the result is no view.
    pub(super) fn is_advanced(&self) -> bool {
        self.0.iter().any(Index::is_advanced)
    }

    /// Whether nothing stands between the indices that are broadcast together: tensors, lists, and positions beside
    /// them.
    pub(super) fn picks_are_neighbours(&self) -> bool {
        let picks = |i: &Index| i.is_advanced() || matches!(i, Index::At(_));
        let first = self.0.iter().position(picks).unwrap_or(0);
        let last = self.0.iter().rposition(picks).unwrap_or(0);
        self.0[first..].iter().take(last + 1 - first).all(picks)
    }

    /// The indices with the ellipsis, or what is missing at the end, replaced by full slices.
    pub(super) fn spelled_out(&self, rank: usize) -> Result<Vec<Index>, Fault> {
        let taken: usize = self.0.iter().map(Index::axes).sum();
        let ellipses = self.0.iter().filter(|i| matches!(i, Index::Ellipsis)).count();
        if ellipses > 1 {
            return refuse!("more than one `...`");
        }
        let Some(rest) = rank.checked_sub(taken) else {
            return refuse!("{taken} indices for {rank} axes");
        };
        let full = std::iter::repeat_n(Index::from(..), rest);
        let at = self.0.iter().position(|i| matches!(i, Index::Ellipsis));
        let (before, after) = self.0.split_at(at.unwrap_or(self.0.len()));
        let after = after.iter().skip(ellipses);
        Ok(before.iter().cloned().chain(full).chain(after.cloned()).collect())
    }
}

/// The elements of an axis of length `n` that `index` picks.
pub(super) fn pick(index: &Index, axis: usize, n: usize) -> Result<SliceAxis, Fault> {
    match *index {
        Index::At(at) => {
            at.check()?;
            let i = at.value();
            match usize::try_from(if i < 0 { i.saturating_add(n as i64) } else { i }) {
                Ok(start) if start < n => Ok(SliceAxis { start, step: 1, len: 1 }),
                _ => refuse!("index {i} is out of range for axis {axis} of length {n}"),
            }
        }
        Index::Slice { step: 0, .. } => refuse!("the step of a slice must not be 0"),
        Index::Slice { start, stop, step } => {
            start.iter().chain(&stop).try_for_each(|end| end.check())?;
            Ok(python_slice(start.map(Length::value), stop.map(Length::value), step, n))
        }
        Index::Tensor(_) | Index::List(_) => unreachable!("picks no slice"),
        Index::Ellipsis | Index::NewAxis => unreachable!("takes no axis"),
    }
}

/// What the numbers of the slice `picked` of an axis of length `n` were made from.
fn names(index: &Index, axis: usize, n: usize, picked: SliceAxis) -> Named {
    let (start, stop) = match *index {
        Index::At(start) => (Some(start), Some(start + 1)),
        Index::Slice { start, stop, step: 1 } => (start, stop),
        _ => return Named::new(),
    };
    let start = start.unwrap_or(Length::from(0));
    let stop = stop.unwrap_or(Length::from(n));
    // what was clamped, or counts from the end, is another number
    let is_start = start.value() == picked.start as i64;
    let is_stop = stop.value() == (picked.start + picked.len) as i64;
    let varies = |from: &Linear| from.variable.is_some();
    let start_from = start.linear().filter(|_| is_start);
    let length = Some(between(start, stop)).filter(|_| is_start && is_stop).flatten();
    let numbers = [(Number::Start(axis), start_from), (Number::Length(axis), length)];
    let known = numbers.into_iter().filter_map(|(number, from)| Some((number, from?)));
    known.filter(|(_, from)| varies(from)).collect()
}

/// What the difference of two lengths was made from, if that is known and varies.
fn between(start: Length, stop: Length) -> Option<Linear> {
    match (start.linear(), stop.linear()) {
        (Some(_), Some(_)) => {
            let (a, b) = (start.linear()?, stop.linear()?);
            let (times, plus) = (b.times.checked_sub(a.times)?, b.plus.checked_sub(a.plus)?);
            (a.variable == b.variable && times != 0).then_some(Linear { times, plus, ..a })
        }
        (None, _) => (stop - start.value()).linear(),
        (_, None) => (stop.value() - start).linear(),
    }
}

/// What Python's `start:stop:step` picks of `n` elements.
fn python_slice(start: Option<i64>, stop: Option<i64>, step: i64, n: usize) -> SliceAxis {
    let n = n as i64;
    // going backward the ends are the last element and one before the first
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let clamp = |i: i64| if i < 0 { i.saturating_add(n) } else { i }.clamp(low, high);
    let first = start.map_or(if step > 0 { low } else { high }, clamp);
    let end = stop.map_or(if step > 0 { high } else { low }, clamp);
    let distance = if step > 0 { end - first } else { first - end };
    let len =
        if distance <= 0 { 0 } else { (distance as u64).div_ceil(step.unsigned_abs()) as usize };
    match len {
        0 => SliceAxis { start: 0, step: 1, len: 0 },
        1 => SliceAxis { start: first as usize, step: 1, len: 1 },
        _ => SliceAxis { start: first as usize, step: step as isize, len },
    }
}

/// Picking.
impl Tensor {
    /// The elements at `index`: a view, or where tensors or lists are among the indices, a new value.
    ///
    /// The view of positions and ranges sees later writes, and writes through. Of a mask the number of elements follows
    /// from its data: it is computed now.
    ///
    /// ```
    /// use kiln::{Tensor, s};
    /// let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(t.get(s![1, 0..2]).to_vec::<i32>()?, [4, 5]);
    /// let columns = Tensor::from([2, -3, 0]);
    /// assert_eq!(t.get(s![0, &columns]).to_vec::<i32>()?, [3, 1, 1]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A position that is not there, more indices than axes, a step of 0; a mask of another shape, index tensors that
    /// do not broadcast, hold floats or are on another device. Positions that a tensor holds are checked here if they
    /// are known; if they are still to be computed, computing them fails.
    #[must_use]
    #[track_caller]
    pub fn get(&self, index: Indices) -> Tensor {
        match index.is_advanced() {
            true => self.lift("get", self.picked(&index, Caller::of("get"))),
            false => self.alias("get", |view| index.view(view)),
        }
    }
}
