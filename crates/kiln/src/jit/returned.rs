//! What a function gives: tensors, and what holds them.

use crate::{Error, Tensor};

/// A result of a function of [`jit`](crate::jit()): tensors, numbers, and tuples, `Option`s, `Vec`s and `Result`s of these.
#[diagnostic::on_unimplemented(message = "`{Self}` is nothing that a function of `jit` returns")]
pub trait Returned: Sized + 'static {
    /// All of it but the tensors.
    #[doc(hidden)]
    type Form: Send + Sync + 'static;
    /// Takes it apart; none if it is an error.
    #[doc(hidden)]
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form>;
    /// Puts it together again, with other tensors.
    #[doc(hidden)]
    fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self;
}

impl Returned for Tensor {
    type Form = ();
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<()> {
        tensors.push(self.clone());
        Some(())
    }
    fn together(_: &(), tensors: &mut dyn Iterator<Item = Tensor>) -> Tensor {
        tensors.next().expect("as many as there were")
    }
}

impl<R: Returned> Returned for Option<R> {
    type Form = Option<R::Form>;
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        match self {
            Some(inner) => inner.apart(tensors).map(Some),
            None => Some(None),
        }
    }
    fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        form.as_ref().map(|form| R::together(form, tensors))
    }
}

impl<R: Returned> Returned for Vec<R> {
    type Form = Vec<R::Form>;
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        self.iter().map(|inner| inner.apart(tensors)).collect()
    }
    fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        form.iter().map(|form| R::together(form, tensors)).collect()
    }
}

impl<R: Returned, const N: usize> Returned for [R; N] {
    type Form = Vec<R::Form>;
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        self.iter().map(|inner| inner.apart(tensors)).collect()
    }
    fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        std::array::from_fn(|i| R::together(&form[i], tensors))
    }
}

/// An error is no value that could be given again: a call that fails is not replayed.
impl<R: Returned, E: 'static> Returned for Result<R, E> {
    type Form = R::Form;
    fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        self.as_ref().ok()?.apart(tensors)
    }
    fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        Ok(R::together(form, tensors))
    }
}

macro_rules! plain {
    ($($t:ty)*) => { $(
        impl Returned for $t {
            type Form = $t;
            fn apart(&self, _: &mut Vec<Tensor>) -> Option<$t> {
                Some(self.clone())
            }
            fn together(form: &$t, _: &mut dyn Iterator<Item = Tensor>) -> $t {
                form.clone()
            }
        }
    )* };
}
plain!(() bool char u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64 String Error);

macro_rules! tuples {
    ($(($($r:ident $i:tt),*))*) => { $(
        impl<$($r: Returned),*> Returned for ($($r,)*) {
            type Form = ($($r::Form,)*);
            fn apart(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
                Some(($(self.$i.apart(tensors)?,)*))
            }
            fn together(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
                ($($r::together(&form.$i, tensors),)*)
            }
        }
    )* };
}
tuples!((A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5));
