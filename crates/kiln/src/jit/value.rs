//! Arguments that are no tensors: a call with another value is another call.

use crate::nn::Key;
use crate::{DType, Device};

/// An argument by value of a function of [`jit`](crate::jit()): a number, a string, and tuples and `Vec`s of these.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no value that a function of `jit` takes",
    note = "tensors, modules and optimizers are taken by reference"
)]
pub trait Value: 'static {
    /// Adds the value to a key, bit for bit.
    fn add_to(&self, key: &mut Key);
}

macro_rules! values {
    ($($t:ty: |$value:ident| $part:expr),* $(,)?) => { $(
        impl Value for $t {
            fn add_to(&self, key: &mut Key) {
                let $value = self;
                key.add($part);
            }
        }
    )* };
    ($($t:ty)*) => { values!($($t: |value| value),*); };
}
values!(() bool char u8 u16 u32 u64 usize i8 i16 i32 i64 isize String &'static str DType);
values!(f32: |x| x.to_bits(), f64: |x| x.to_bits(), Device: |device| device.name());

impl<V: Value> Value for Vec<V> {
    fn add_to(&self, key: &mut Key) {
        key.add(self.len());
        self.iter().for_each(|value| value.add_to(key));
    }
}
impl<V: Value, const N: usize> Value for [V; N] {
    fn add_to(&self, key: &mut Key) {
        self.iter().for_each(|value| value.add_to(key));
    }
}
impl<V: Value> Value for Option<V> {
    fn add_to(&self, key: &mut Key) {
        key.add(self.is_some());
        self.iter().for_each(|value| value.add_to(key));
    }
}
macro_rules! tuples {
    ($(($($v:ident $i:tt),*))*) => { $(
        impl<$($v: Value),*> Value for ($($v,)*) {
            fn add_to(&self, key: &mut Key) {
                $(self.$i.add_to(key);)*
            }
        }
    )* };
}
tuples!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3));
