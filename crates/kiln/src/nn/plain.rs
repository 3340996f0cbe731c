//! What a field may be besides a module of one's own: a tensor, several of something, or something without tensors.

use super::{Key, Module, join, unchangeable};
use crate::error::Error;
use crate::{DType, Device, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What changes a tensor of a name.
type Change<'a> = &'a mut dyn FnMut(&str, &mut Tensor);

impl Module for Tensor {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        f(prefix, self);
    }
    fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
        f(prefix, self);
        Ok(())
    }
    fn key(&self, _: &mut Key) {}
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

/// As [`visit_all`], to change them.
fn change_all<'a, M: Module + 'a>(
    items: impl IntoIterator<Item = &'a mut M>,
    prefix: &str,
    f: Change<'_>,
) -> Result<(), Error> {
    let mut items = items.into_iter().enumerate();
    items.try_for_each(|(i, item)| item.visit_mut(&join(prefix, &i.to_string()), f))
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        visit_all(self, prefix, f);
    }
    fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
        change_all(self, prefix, f)
    }
    fn key(&self, key: &mut Key) {
        key.add(self.len());
        self.iter().for_each(|item| item.key(key));
    }
}
impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        visit_all(self, prefix, f);
    }
    fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
        change_all(self, prefix, f)
    }
    fn key(&self, key: &mut Key) {
        key.add(self.len());
        self.iter().for_each(|item| item.key(key));
    }
}
impl<M: Module> Module for Option<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        if let Some(module) = self {
            module.visit(prefix, f);
        }
    }
    fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
        self.as_mut().map_or(Ok(()), |module| module.visit_mut(prefix, f))
    }
    fn key(&self, key: &mut Key) {
        key.add(self.is_some());
        self.iter().for_each(|item| item.key(key));
    }
}
impl<M: Module + ?Sized> Module for Box<M> {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        (**self).visit(prefix, f);
    }
    fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
        (**self).visit_mut(prefix, f)
    }
    fn key(&self, key: &mut Key) {
        (**self).key(key);
    }
}
impl<M: Module + ?Sized> Module for &M {
    fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
        (**self).visit(prefix, f);
    }
    fn key(&self, key: &mut Key) {
        (**self).key(key);
    }
}

/// What is shared can be changed only where nobody else holds it.
macro_rules! shared {
    ($($pointer:ident)*) => { $(
        impl<M: Module + ?Sized> Module for $pointer<M> {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                (**self).visit(prefix, f);
            }
            fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
                match $pointer::get_mut(self) {
                    Some(module) => module.visit_mut(prefix, f),
                    None => unchangeable(self, prefix),
                }
            }
            fn key(&self, key: &mut Key) {
                (**self).key(key);
            }
        }
    )* };
}
shared!(Arc Rc);

/// Values under their keys. A map without an order is visited by name, so that names come in the same order each time.
macro_rules! maps {
    ($($map:ident)*) => { $(
        impl<K: Display, M: Module> Module for $map<K, M> {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                let mut items: Vec<(String, &M)> =
                    self.iter().map(|(key, item)| (join(prefix, &key.to_string()), item)).collect();
                items.sort_by(|a, b| a.0.cmp(&b.0));
                items.into_iter().for_each(|(name, item)| item.visit(&name, f));
            }
            fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
                let mut items: Vec<(String, &mut M)> =
                    self.iter_mut().map(|(key, item)| (join(prefix, &key.to_string()), item)).collect();
                items.sort_by(|a, b| a.0.cmp(&b.0));
                items.into_iter().try_for_each(|(name, item)| item.visit_mut(&name, f))
            }
            fn key(&self, key: &mut Key) {
                let mut items: Vec<(String, &M)> =
                    self.iter().map(|(key, item)| (key.to_string(), item)).collect();
                items.sort_by(|a, b| a.0.cmp(&b.0));
                key.add(items.len());
                items.into_iter().for_each(|(name, item)| {
                    key.add(name);
                    item.key(key);
                });
            }
        }
    )* };
}
maps!(BTreeMap HashMap);

macro_rules! tuples {
    ($(($($m:ident $i:tt),*))*) => { $(
        impl<$($m: Module),*> Module for ($($m,)*) {
            fn visit(&self, prefix: &str, f: &mut dyn FnMut(&str, &Tensor)) {
                $(self.$i.visit(&join(prefix, stringify!($i)), f);)*
            }
            fn visit_mut(&mut self, prefix: &str, f: Change<'_>) -> Result<(), Error> {
                $(self.$i.visit_mut(&join(prefix, stringify!($i)), f)?;)*
                Ok(())
            }
            fn key(&self, key: &mut Key) {
                $(self.$i.key(key);)*
            }
        }
    )* };
}
tuples!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5) (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7));

macro_rules! without_tensors {
    ($($t:ty: |$value:ident| $part:expr),* $(,)?) => { $(
        impl Module for $t {
            fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
            fn key(&self, key: &mut Key) {
                let $value = self;
                key.add($part);
            }
        }
    )* };
    ($($t:ty)*) => { without_tensors!($($t: |value| value),*); };
}
without_tensors!(() bool char u8 u16 u32 u64 usize i8 i16 i32 i64 isize String &'static str DType);
without_tensors!(
    f32: |x| x.to_bits(),
    f64: |x| x.to_bits(),
    Device: |device| device.name(),
    fn(&Tensor) -> Tensor: |f| *f as usize,
);
impl<T> Module for PhantomData<T> {
    fn visit(&self, _: &str, _: &mut dyn FnMut(&str, &Tensor)) {}
    fn key(&self, _: &mut Key) {}
}
