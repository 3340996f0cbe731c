//! Lists as indices: nested arrays, slices and `Vec`s of integers or bools, held as the program wrote them until it is
//! known how long the axis is and which device it is on.

use crate::sealed::Sealed;
use kiln_ir::arg::Shape;

/// Positions, or a mask, as a program writes them; see [`Indices`](super::Indices).
#[derive(Clone, Debug)]
pub struct List {
    /// `None` where rows differ in length.
    pub(super) shape: Option<Shape>,
    pub(super) numbers: Numbers,
}

/// What a list holds. An empty one of bools holds integers as well as not: it picks nothing either way.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    Positions(Vec<i64>),
    Mask(Vec<bool>),
}

impl Numbers {
    fn append(&mut self, more: Numbers) {
        match (self, more) {
            (Numbers::Positions(all), Numbers::Positions(more)) => all.extend(more),
            (Numbers::Mask(all), Numbers::Mask(more)) => all.extend(more),
            _ => unreachable!("a list has one type"),
        }
    }
}

/// What lists of positions or masks are made of: integers, bools, and lists of them.
pub trait ListItem: Sealed {
    #[doc(hidden)]
    fn list(&self) -> List;
    /// No items of this type.
    #[doc(hidden)]
    fn none() -> List;
}

macro_rules! positions {
    ($($t:ty),*) => { $(
        impl ListItem for $t {
            // what no i64 holds is past every axis
            #[allow(clippy::unnecessary_fallible_conversions)]
            fn list(&self) -> List {
                let position = i64::try_from(*self).unwrap_or(i64::MAX);
                List { shape: Some(Shape::new()), numbers: Numbers::Positions(vec![position]) }
            }
            fn none() -> List {
                List { shape: Some(Shape::new()), numbers: Numbers::Positions(Vec::new()) }
            }
        }
    )* };
}
positions!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl ListItem for bool {
    fn list(&self) -> List {
        List { shape: Some(Shape::new()), numbers: Numbers::Mask(vec![*self]) }
    }
    fn none() -> List {
        List { shape: Some(Shape::new()), numbers: Numbers::Mask(Vec::new()) }
    }
}

/// The items one after the other, if all are shaped alike.
pub(super) fn rows<T: ListItem>(items: &[T]) -> List {
    let mut all = T::none();
    let mut inner = items.first().map_or(T::none().shape, |first| first.list().shape);
    for item in items {
        let List { shape, numbers } = item.list();
        inner = inner.filter(|inner| shape.as_ref() == Some(inner));
        all.numbers.append(numbers);
    }
    all.shape = inner.map(|inner| std::iter::once(items.len()).chain(inner).collect());
    all
}

macro_rules! lists {
    ($([$($generics:tt)*] $t:ty;)*) => { $(
        impl<$($generics)*> ListItem for $t {
            fn list(&self) -> List { rows(&self[..]) }
            fn none() -> List { rows::<T>(&[]) }
        }
    )* };
}
lists! {
    [T: ListItem, const LEN: usize] [T; LEN];
    [T: ListItem] Vec<T>;
}
