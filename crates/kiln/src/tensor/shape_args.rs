//! What may stand for a shape or for axes in a call, and what it resolves to.

use super::length::Length;
use crate::error::{Fault, refuse};
use crate::sealed::Sealed;
use kiln_ir::arg::{Axes, Shape};
use kiln_ir::uop::{Named, Number};
use smallvec::SmallVec;
use std::ops::RangeFull;

/// The integers that lengths, axes and indices may have.
pub trait Int: Copy + Sealed {
    #[doc(hidden)]
    fn as_i64(self) -> i64;
}

macro_rules! ints {
    ($($t:ty),*) => { $(
        impl Int for $t {
            // no length and no position is as large as what does not fit
            fn as_i64(self) -> i64 { i64::try_from(self).unwrap_or(i64::MAX) }
        }
    )* };
}
ints!(usize, isize, i32, i64, u32);

impl Sealed for Length {}

/// A length or a position: an integer, or a [`Length`].
pub trait LengthArg: Copy + Sealed {
    #[doc(hidden)]
    fn length(self) -> Length;
}

impl<T: Int> LengthArg for T {
    fn length(self) -> Length {
        Length::plain(self.as_i64())
    }
}
impl LengthArg for Length {
    fn length(self) -> Length {
        self
    }
}

pub(crate) type Lengths = SmallVec<[i64; 4]>;

/// A shape: an array, slice or `Vec` of `usize`, `isize`, `i32` or `i64` or of [`Length`]s, a tuple of any of these, or one
/// of them for one axis; `()` is the shape of a scalar.
pub trait ShapeArg {
    #[doc(hidden)]
    fn each(&self, see: &mut dyn FnMut(Length));

    #[doc(hidden)]
    fn lengths(&self) -> Lengths {
        let mut all = Lengths::new();
        self.each(&mut |n| all.push(n.value()));
        all
    }
}

impl<T: LengthArg> ShapeArg for [T] {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        self.iter().for_each(|n| see(n.length()));
    }
}
impl<T: LengthArg, const N: usize> ShapeArg for [T; N] {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        self.as_slice().each(see);
    }
}
impl<T: LengthArg> ShapeArg for Vec<T> {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        self.as_slice().each(see);
    }
}
impl ShapeArg for () {
    fn each(&self, _: &mut dyn FnMut(Length)) {}
}
impl ShapeArg for Shape {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        self.as_slice().each(see);
    }
}
impl<S: ShapeArg + ?Sized> ShapeArg for &S {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        (**self).each(see);
    }
}

macro_rules! tuples {
    ($(($($t:ident $at:tt),*))*) => { $(
        impl<$($t: LengthArg),*> ShapeArg for ($($t,)*) {
            fn each(&self, see: &mut dyn FnMut(Length)) {
                $(see(self.$at.length());)*
            }
        }
    )* };
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// What the lengths of a shape were made from. Fails if a variable is outside of its bounds.
pub(crate) fn named(arg: &impl ShapeArg) -> Result<Named, Fault> {
    let (mut named, mut checked, mut axis) = (Named::new(), Ok(()), 0);
    arg.each(&mut |n| {
        if let Some(linear) = n.linear() {
            named.push((Number::Length(axis), linear));
            checked = checked.clone().and_then(|()| n.check());
        }
        axis += 1;
    });
    checked.map(|()| named)
}

/// The shape of something new: every length is given.
pub(crate) fn new_shape(arg: impl ShapeArg) -> Result<Shape, Fault> {
    Ok(named_shape(arg)?.0)
}

/// The shape of something new, and what its lengths were made from.
pub(crate) fn named_shape(arg: impl ShapeArg) -> Result<(Shape, Named), Fault> {
    let (named, lengths) = (named(&arg)?, arg.lengths());
    let shape: Option<Shape> = lengths.iter().map(|&n| usize::try_from(n).ok()).collect();
    match shape {
        Some(shape) => Ok((holdable(shape)?, named)),
        None => refuse!("a length is negative in shape {lengths:?}"),
    }
}

/// `shape`, if memory could hold it: indices and sizes in bytes are then numbers that do not overflow.
pub(crate) fn holdable(shape: Shape) -> Result<Shape, Fault> {
    // a product that overflows is no shape, whatever other lengths are 0
    let bytes = shape.iter().filter(|&&n| n != 0).try_fold(8usize, |all, &n| all.checked_mul(n));
    match bytes {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(shape),
        _ => refuse!("shape {shape:?} has more elements than memory could hold"),
    }
}

/// The shape that `numel` elements get; one length may be -1 and follows from the others.
pub(crate) fn reshaped(arg: impl ShapeArg, from: &[usize]) -> Result<Shape, Fault> {
    let lengths = arg.lengths();
    let numel: usize = from.iter().product();
    let open = lengths.iter().filter(|&&n| n == -1).count();
    if open > 1 || lengths.iter().any(|&n| n < -1) {
        return refuse!("cannot read {lengths:?} as a shape");
    }
    let known = lengths.iter().filter(|&&n| n != -1).try_fold(1i64, |all, &n| all.checked_mul(n));
    let fits = |known: i64| match open {
        0 => known as u128 == numel as u128,
        _ => known != 0 && numel as i64 % known == 0,
    };
    match known {
        Some(known) if fits(known) => {
            let length = |n: i64| if n == -1 { numel / known as usize } else { n as usize };
            Ok(lengths.iter().map(|&n| length(n)).collect())
        }
        _ => refuse!("{from:?} has {numel} elements, which {lengths:?} cannot hold"),
    }
}

/// The shape that `from` is expanded to; -1 keeps a length, and axes may be added in front.
pub(crate) fn expanded(arg: impl ShapeArg, from: &[usize]) -> Result<Shape, Fault> {
    let lengths = arg.lengths();
    let Some(missing) = lengths.len().checked_sub(from.len()) else {
        return refuse!("{from:?} has more axes than {lengths:?}");
    };
    let old = |i: usize| i.checked_sub(missing).map(|i| from[i]);
    let length = |(i, &n): (usize, &i64)| match (old(i), n) {
        (Some(old), -1) => Some(old),
        (Some(old), n) if old as i64 == n || (old == 1 && n >= 0) => Some(n as usize),
        (None, n) if n >= 0 => Some(n as usize),
        _ => None,
    };
    let shape: Option<Shape> = lengths.iter().enumerate().map(length).collect();
    match shape {
        Some(shape) => holdable(shape),
        None => refuse!("{from:?} does not expand to {lengths:?}"),
    }
}

/// Axes: one integer, an array, slice or `Vec` of them, or `..` for all. Negative numbers count from the last axis.
pub trait AxesArg {
    #[doc(hidden)]
    fn numbers(&self) -> Option<Lengths>;
}

macro_rules! one_axis {
    ($($t:ty),*) => { $(
        impl ShapeArg for $t {
            fn each(&self, see: &mut dyn FnMut(Length)) { see(self.length()); }
        }
        impl AxesArg for $t {
            fn numbers(&self) -> Option<Lengths> { Some(Lengths::from_slice(&[self.as_i64()])) }
        }
    )* };
}
one_axis!(usize, isize, i32, i64, u32);
impl ShapeArg for Length {
    fn each(&self, see: &mut dyn FnMut(Length)) {
        see(*self);
    }
}

impl AxesArg for RangeFull {
    fn numbers(&self) -> Option<Lengths> {
        None
    }
}
impl<T: Int> AxesArg for [T] {
    fn numbers(&self) -> Option<Lengths> {
        Some(self.lengths())
    }
}
impl<T: Int, const N: usize> AxesArg for [T; N] {
    fn numbers(&self) -> Option<Lengths> {
        Some(self.lengths())
    }
}
impl<T: Int> AxesArg for Vec<T> {
    fn numbers(&self) -> Option<Lengths> {
        Some(self.lengths())
    }
}
impl<A: AxesArg + ?Sized> AxesArg for &A {
    fn numbers(&self) -> Option<Lengths> {
        (**self).numbers()
    }
}
impl AxesArg for Axes {
    fn numbers(&self) -> Option<Lengths> {
        Some(self.lengths())
    }
}

/// The number of one axis among `rank`.
pub(crate) fn axis(axis: impl Int, rank: usize) -> Result<usize, Fault> {
    let axis = axis.as_i64();
    let positive = if axis < 0 { axis + rank as i64 } else { axis };
    match usize::try_from(positive) {
        Ok(a) if a < rank => Ok(a),
        _ => refuse!("axis {axis} is out of range for {rank} axes"),
    }
}

/// Distinct axes in the order given.
pub(crate) fn axes_in_order(arg: impl AxesArg, rank: usize) -> Result<Axes, Fault> {
    let Some(numbers) = arg.numbers() else {
        return Ok((0..rank).collect());
    };
    let axes: Axes = numbers.iter().map(|&a| axis(a, rank)).collect::<Result<_, _>>()?;
    match axes.iter().enumerate().find(|(i, a)| axes[..*i].contains(a)) {
        Some((_, a)) => refuse!("axis {a} is named twice in {:?}", numbers),
        None => Ok(axes),
    }
}

/// Distinct axes, ascending.
pub(crate) fn axes(arg: impl AxesArg, rank: usize) -> Result<Axes, Fault> {
    let mut axes = axes_in_order(arg, rank)?;
    axes.sort_unstable();
    Ok(axes)
}

/// One axis from an argument that may be `..` only where there is one axis.
pub(crate) fn only_axis(arg: impl AxesArg, rank: usize) -> Result<usize, Fault> {
    match axes(arg, rank)?.as_slice() {
        [axis] => Ok(*axis),
        axes => refuse!("wants one axis, not {axes:?}"),
    }
}

/// A number for both spatial axes, or one for each: `1`, `[1, 2]` or `(1, 2)`.
pub trait PairArg {
    #[doc(hidden)]
    fn pair(&self) -> [i64; 2];
}
macro_rules! pair_ints {
    ($($t:ty),*) => { $(
        impl PairArg for $t {
            fn pair(&self) -> [i64; 2] { [self.as_i64(); 2] }
        }
    )* };
}
pair_ints!(usize, isize, i32, i64, u32);
impl<T: Int> PairArg for [T; 2] {
    fn pair(&self) -> [i64; 2] {
        self.map(T::as_i64)
    }
}
impl<T: Int, U: Int> PairArg for (T, U) {
    fn pair(&self) -> [i64; 2] {
        [self.0.as_i64(), self.1.as_i64()]
    }
}

/// Both numbers of `arg`, each at least `least`.
pub(crate) fn pair(what: &str, arg: impl PairArg, least: i64) -> Result<[usize; 2], Fault> {
    let pair = arg.pair();
    if pair.iter().any(|&n| n < least) {
        return refuse!("{what} {pair:?} must be at least {least}");
    }
    Ok(pair.map(|n| n as usize))
}
