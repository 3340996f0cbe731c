//! Lengths that say what they were made from.

use crate::error::{Fault, refuse};
use kiln_ir::uop::{Linear, VariableId};
use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::panic::Location;

/// A number that stands for a length or a position, and what it was made from: a [`Variable`](crate::Variable), or
/// nothing.
///
/// Sums, differences and products with integers are lengths again. `usize::from` gives the number alone, 0 for a negative
/// one.
///
/// ```
/// let n = kiln::Variable::new("n", 1, 100).bind(7);
/// assert_eq!(usize::from(2 * n + 1), 15);
/// assert_eq!(kiln::Tensor::zeros((n, 3)).shape(), [7, 3]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Length {
    value: i64,
    from: Option<Bound>,
}

/// A variable with its value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Bound {
    linear: Linear,
    value: i64,
    is_outside: bool,
    at: &'static Location<'static>,
}

impl Length {
    /// The value of a variable.
    #[track_caller]
    pub(super) fn bound(variable: VariableId, value: i64, is_outside: bool) -> Length {
        let linear = Linear { variable: Some(variable), times: 1, plus: 0 };
        let at = Location::caller();
        Length { value, from: Some(Bound { linear, value, is_outside, at }) }
    }

    pub(super) const fn plain(value: i64) -> Length {
        Length { value, from: None }
    }

    /// The number.
    pub(super) fn value(self) -> i64 {
        self.value
    }

    /// What it was made from.
    pub(super) fn linear(self) -> Option<Linear> {
        self.from.map(|bound| bound.linear)
    }

    /// Fails if the variable has a value that is outside of its bounds.
    pub(super) fn check(self) -> Result<(), Fault> {
        match self.from {
            Some(Bound { linear: Linear { variable: Some(id), .. }, value, is_outside, at })
                if is_outside =>
            {
                let known = id.variable();
                refuse!(
                    "variable {} is bound to {value}, outside of {} to {}, at {}:{}",
                    known.name,
                    known.min,
                    known.max,
                    at.file(),
                    at.line()
                )
            }
            _ => Ok(()),
        }
    }

    /// What becomes of it if the number and both parts of the expression are changed. Past the end of `i64` nothing is
    /// known of it any more.
    fn changed(self, value: Option<i64>, parts: Option<(i64, i64)>) -> Length {
        let from = self.from.zip(parts).map(|(bound, (times, plus))| Bound {
            linear: Linear { times, plus, ..bound.linear },
            ..bound
        });
        match value {
            Some(value) => Length { value, from: from.filter(|b| b.linear.times != 0) },
            None => Length::plain(if self.value < 0 { i64::MIN } else { i64::MAX }),
        }
    }

    fn plus(self, n: i64) -> Length {
        let parts = |Linear { times, plus, .. }| Some((times, i64::checked_add(plus, n)?));
        self.changed(self.value.checked_add(n), self.linear().and_then(parts))
    }

    fn times(self, by: i64) -> Length {
        let parts = |Linear { times, plus, .. }| {
            Some((i64::checked_mul(times, by)?, i64::checked_mul(plus, by)?))
        };
        self.changed(self.value.checked_mul(by), self.linear().and_then(parts))
    }
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl From<$t> for Length {
            fn from(n: $t) -> Length { Length::plain(whole(n)) }
        }
        impl Add<$t> for Length {
            type Output = Length;
            fn add(self, n: $t) -> Length { self.plus(whole(n)) }
        }
        impl Add<Length> for $t {
            type Output = Length;
            fn add(self, n: Length) -> Length { n.plus(whole(self)) }
        }
        impl Sub<$t> for Length {
            type Output = Length;
            fn sub(self, n: $t) -> Length { self.plus(whole(n).saturating_neg()) }
        }
        impl Sub<Length> for $t {
            type Output = Length;
            fn sub(self, n: Length) -> Length { n.times(-1).plus(whole(self)) }
        }
        impl Mul<$t> for Length {
            type Output = Length;
            fn mul(self, n: $t) -> Length { self.times(whole(n)) }
        }
        impl Mul<Length> for $t {
            type Output = Length;
            fn mul(self, n: Length) -> Length { n.times(whole(self)) }
        }
    )* };
}
integers!(usize, isize, i32, i64, u32);

/// No length and no position is as large as what does not fit.
fn whole(n: impl TryInto<i64>) -> i64 {
    n.try_into().unwrap_or(i64::MAX)
}

impl From<Length> for usize {
    fn from(n: Length) -> usize {
        usize::try_from(n.value).unwrap_or(0)
    }
}

impl fmt::Debug for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.value)
    }
}
