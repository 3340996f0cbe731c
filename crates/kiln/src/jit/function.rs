//! Functions of so many arguments, each by reference or by value.

use super::arguments::{Argument, Arguments};
use super::call::Calls;
use super::returned::Returned;
use super::value::Value;
use std::fmt;
use std::marker::PhantomData;

/// An argument by reference.
#[doc(hidden)]
pub struct Ref<A: ?Sized>(PhantomData<fn(&A)>);

/// An argument by value.
#[doc(hidden)]
pub struct Own<A>(PhantomData<fn(A)>);

impl<A: ?Sized> fmt::Debug for Ref<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ref")
    }
}

impl<A> fmt::Debug for Own<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own")
    }
}

/// A function that [`jit`](crate::jit()) takes: one that captures nothing, of up to six arguments. `M` says which of them are
/// references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no function that `jit` takes",
    note = "it has one to six arguments: tensors, modules and optimizers by reference, numbers and strings by value",
    note = "it returns tensors, numbers, and tuples, `Option`s, `Vec`s and `Result`s of these",
    note = "a closure names the types of its arguments: `|net: &Net, x: &Tensor| ..`"
)]
pub trait Compile<M> {
    /// The function that is called.
    type Compiled;
    /// Makes it.
    #[doc(hidden)]
    fn compile(self) -> Self::Compiled;
}

/// The implementation for functions whose arguments are taken so.
macro_rules! functions_of {
    (@ [$($ty:ty,)*] [$($a:ident: $bound:path,)*] [$($kind:ident $b:ident $v:ident)*] [Ref $n:ident $w:ident $($rest:ident)*]) => {
        functions_of!(@ [$($ty,)* &$n,] [$($a: $bound,)* $n: Argument,] [$($kind $b $v)* Ref $n $w] [$($rest)*]);
    };
    (@ [$($ty:ty,)*] [$($a:ident: $bound:path,)*] [$($kind:ident $b:ident $v:ident)*] [Own $n:ident $w:ident $($rest:ident)*]) => {
        functions_of!(@ [$($ty,)* $n,] [$($a: $bound,)* $n: Value,] [$($kind $b $v)* Own $n $w] [$($rest)*]);
    };
    (@ [$($ty:ty,)*] [$($a:ident: $bound:path,)*] [$($kind:ident $b:ident $v:ident)*] []) => {
        impl<F, R, $($a),*> Compile<(($($kind<$b>,)*), R)> for F
        where
            F: Fn($($ty),*) -> R + Send + Sync + 'static,
            R: Returned,
            $($a: $bound + 'static,)*
        {
            type Compiled = Box<dyn Fn($($ty),*) -> R + Send + Sync>;

            fn compile(self) -> Self::Compiled {
                const { assert!(size_of::<F>() == 0, "a function of `jit` captures nothing: what it needs is an argument") };
                let calls = Calls::<R>::default();
                Box::new(move |$($v),*| {
                    let mut all = Arguments::default();
                    $(functions_of!(add $kind all $v);)*
                    calls.call(&all, ||  self($($v),*))
                })
            }
        }
    };
    (add Ref $all:ident $v:ident) => { $all.add($v) };
    (add Own $all:ident $v:ident) => { $all.add_value(&$v) };
}

/// Both ways for each argument.
macro_rules! functions {
    ([$($done:ident)*]) => { functions_of!(@ [] [] [] [$($done)*]); };
    ([$($done:ident)*] $a:ident $v:ident $($rest:ident)*) => {
        functions!([$($done)* Ref $a $v] $($rest)*);
        functions!([$($done)* Own $a $v] $($rest)*);
    };
}
functions!([] A a);
functions!([] A a B b);
functions!([] A a B b C c);
functions!([] A a B b C c D d);
functions!([] A a B b C c D d E e);
functions!([] A a B b C c D d E e G g);
