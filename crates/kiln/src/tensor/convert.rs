//! Tensors to and from what Rust has: nested rows, iterators, borrowed memory.

use super::{Tensor, compute};
use crate::element::Element;
use crate::error::{Error, Fault, at_caller, refuse};
use crate::origin::outermost;
use std::iter::{Product, Sum};

/// What a tensor can be read as: a number, and `Vec`s and arrays of what a tensor can be read as.
pub trait FromNested: Sized {
    /// The type of the numbers.
    type Item: Element;
    /// Whether a tensor of this shape is read so.
    #[doc(hidden)]
    fn fits(shape: &[usize]) -> bool;
    /// The next rows of `numbers`.
    #[doc(hidden)]
    fn take(numbers: &mut std::vec::IntoIter<Self::Item>, shape: &[usize]) -> Self;
}

impl<T: Element> FromNested for T {
    type Item = T;
    fn fits(shape: &[usize]) -> bool {
        shape.is_empty()
    }
    fn take(numbers: &mut std::vec::IntoIter<T>, _: &[usize]) -> T {
        numbers.next().expect("as many numbers as the shape has")
    }
}

impl<N: FromNested> FromNested for Vec<N> {
    type Item = N::Item;
    fn fits(shape: &[usize]) -> bool {
        shape.split_first().is_some_and(|(_, inner)| N::fits(inner))
    }
    fn take(numbers: &mut std::vec::IntoIter<N::Item>, shape: &[usize]) -> Vec<N> {
        (0..shape[0]).map(|_| N::take(numbers, &shape[1..])).collect()
    }
}

impl<N: FromNested, const LEN: usize> FromNested for [N; LEN] {
    type Item = N::Item;
    fn fits(shape: &[usize]) -> bool {
        shape.split_first().is_some_and(|(&n, inner)| n == LEN && N::fits(inner))
    }
    fn take(numbers: &mut std::vec::IntoIter<N::Item>, shape: &[usize]) -> [N; LEN] {
        std::array::from_fn(|_| N::take(numbers, &shape[1..]))
    }
}

/// Out of tensors.
impl Tensor {
    /// The elements in rows as the shape has them: `Vec`s or arrays, nested as often as there are axes.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(t.to_nested::<Vec<Vec<i32>>>()?, [[1, 2], [3, 4]]);
    /// let [row, _] = t.to_nested::<[[i32; 2]; 2]>()?;
    /// assert_eq!(row, [1, 2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_vec`](Tensor::to_vec), and another number of axes, or another length than an array's.
    #[track_caller]
    pub fn to_nested<N: FromNested>(&self) -> Result<N, Error> {
        at_caller("to_nested", self.nested())
    }

    fn nested<N: FromNested>(&self) -> Result<N, Fault> {
        Tensor::all_valid([self])?;
        if !N::fits(self.shape()) {
            return refuse!(
                "shape {:?} is not that of {}",
                self.shape(),
                std::any::type_name::<N>()
            );
        }
        Ok(N::take(&mut self.read_as::<N::Item>()?.into_iter(), self.shape()))
    }

    /// Gives `see` the elements in row-major order. A contiguous tensor in the processor's memory is not copied; other views,
    /// files and bools are copied as by [`to_vec`](Tensor::to_vec). Writes meanwhile go to other memory.
    ///
    /// ```
    /// let t = kiln::Tensor::from([3.0f32, 1.0, 2.0]);
    /// let largest = t.with_slice(|s: &[f32]| s.iter().copied().fold(f32::MIN, f32::max))?;
    /// assert_eq!(largest, 3.0);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_vec`](Tensor::to_vec).
    #[track_caller]
    pub fn with_slice<T: Element, R>(&self, see: impl FnOnce(&[T]) -> R) -> Result<R, Error> {
        at_caller("with_slice", self.shown(see))
    }

    fn shown<T: Element, R>(&self, see: impl FnOnce(&[T]) -> R) -> Result<R, Fault> {
        let value = self.value()?;
        let is_plain = T::of_raw_slice(&[]).is_some() && self.dtype() == T::DTYPE;
        if !is_plain || self.device().file().is_some() {
            return Ok(see(&self.read_as::<T>()?));
        }
        compute::show(&value, self.device(), |raw: &[T::Raw]| {
            see(T::of_raw_slice(raw).expect("numbers that are their own memory"))
        })
    }

    /// The rows, which are the parts along the first axis, as views. A number has no rows: then there is one tensor, which
    /// carries the error.
    ///
    /// ```
    /// let t = kiln::Tensor::from([[1, 2], [3, 4]]);
    /// let sums: Vec<i32> = t.rows().map(|row| row.sum(..).item()).collect::<Result<_, _>>()?;
    /// assert_eq!(sums, [3, 7]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// A tensor without axes.
    #[track_caller]
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = Tensor> + ExactSizeIterator + use<> {
        let _method = outermost("rows");
        let rows = match (self.error(), self.ndim()) {
            (None, 0) => vec![Tensor::broken(Error::invalid("rows", "a number has no rows"))],
            (Some(_), _) => vec![self.clone()],
            (None, _) => self.unbind(0),
        };
        rows.into_iter()
    }
}

macro_rules! read_into {
    ($($t:ty)*) => { $(
        /// The only element, as [`Tensor::item`].
        impl TryFrom<&Tensor> for $t {
            type Error = Error;
            #[track_caller]
            fn try_from(t: &Tensor) -> Result<$t, Error> { t.item() }
        }
    )* };
}
read_into!(bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 half::f16 half::bf16);

/// The elements in rows, as [`Tensor::to_nested`].
impl<N: FromNested> TryFrom<&Tensor> for Vec<N> {
    type Error = Error;
    #[track_caller]
    fn try_from(t: &Tensor) -> Result<Vec<N>, Error> {
        t.to_nested()
    }
}

/// The elements in rows, as [`Tensor::to_nested`].
impl<N: FromNested, const LEN: usize> TryFrom<&Tensor> for [N; LEN] {
    type Error = Error;
    #[track_caller]
    fn try_from(t: &Tensor) -> Result<[N; LEN], Error> {
        t.to_nested()
    }
}

/// A tensor of one axis.
impl<T: Element> FromIterator<T> for Tensor {
    fn from_iter<I: IntoIterator<Item = T>>(numbers: I) -> Tensor {
        let numbers: Vec<T> = numbers.into_iter().collect();
        let shape = [numbers.len()];
        Tensor::from_vec(numbers, shape)
    }
}

/// Tensors added up element by element; the number 0 of none.
impl Sum for Tensor {
    fn sum<I: Iterator<Item = Tensor>>(tensors: I) -> Tensor {
        tensors.reduce(|a, b| a + b).unwrap_or_else(|| Tensor::zeros(()))
    }
}
impl<'a> Sum<&'a Tensor> for Tensor {
    fn sum<I: Iterator<Item = &'a Tensor>>(tensors: I) -> Tensor {
        tensors.cloned().sum()
    }
}

/// Tensors multiplied element by element; the number 1 of none.
impl Product for Tensor {
    fn product<I: Iterator<Item = Tensor>>(tensors: I) -> Tensor {
        tensors.reduce(|a, b| a * b).unwrap_or_else(|| Tensor::ones(()))
    }
}
impl<'a> Product<&'a Tensor> for Tensor {
    fn product<I: Iterator<Item = &'a Tensor>>(tensors: I) -> Tensor {
        tensors.cloned().product()
    }
}
