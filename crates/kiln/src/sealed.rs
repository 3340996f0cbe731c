//! What closes the traits of this crate's arguments.

/// Only this crate's types have it, so that only they have what asks for it.
pub trait Sealed {}

impl<T, const N: usize> Sealed for [T; N] {}
impl<T> Sealed for &[T] {}
impl<T, const N: usize> Sealed for &[T; N] {}
impl<T> Sealed for Vec<T> {}
impl<T> Sealed for &Vec<T> {}
