//! What a field may be besides a module of one's own: a tensor, several of something, or something without tensors.

use super::{Module, join};
use crate::{DType, Device, Tensor};
use std::marker::PhantomData;

impl Module for Tensor {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        f(prefix, self);
    }
}

/// Items under their numbers.
fn visit_all<'a, M: Module + 'a>(
    items: impl IntoIterator<Item = &'a M>,
    prefix: &str,
    f: &mut dyn FnMut(&str, &Tensor),
) {
    for (i, item) in items.into_iter().enumerate() {
        item.visit(&join(prefix, &i.to_string()), f);
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        visit_all(self, prefix, f);
    }
}
impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        visit_all(self, prefix, f);
    }
}
impl<M: Module> Module for Option<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        if let Some(module) = self {
            module.visit(prefix, f);
        }
    }
}
impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        (**self).visit(prefix, f);
    }
}
impl<M: Module + ?Sized> Module for &M {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        (**self).visit(prefix, f);
    }
}

macro_rules! tuples {
    ($(($($m:ident $i:tt),*))*) => { $(
        impl<$($m: Module),*> Module for ($($m,)*) {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                $(self.$i.visit(&join(prefix, stringify!($i)), f);)*
            }
        }
    )* };
}
tuples!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5));

macro_rules! without_tensors {
    ($($t:ty),*) => { $(
        impl Module for $t {
            fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
        }
    )* };
}
without_tensors!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    usize,
    i8,
    i16,
    i32,
    i64,
    isize,
    f32,
    f64,
    String,
    &'static str,
    DType,
    Device,
    fn(&Tensor) -> Tensor
);
impl<T> Module for PhantomData<T> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
}
