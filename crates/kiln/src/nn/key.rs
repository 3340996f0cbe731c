//! What modules are apart from their tensors: two modules with equal keys compute the same of equal tensors.

use kiln_ir::uop::Mixer;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// Collects what a function depends on besides tensors; see [`jit`](crate::jit).
#[derive(Clone, Default)]
pub struct Key {
    mixer: Mixer,
    unknown: Option<&'static str>,
}

impl Key {
    /// Adds a part.
    pub fn add(&mut self, part: impl Hash) {
        part.hash(&mut self.mixer);
    }

    /// Adds a part by what `Debug` shows of it.
    pub fn add_shown(&mut self, part: &dyn Debug) {
        /// Hashes text as it is written.
        struct Text<'a>(&'a mut Mixer);
        impl std::fmt::Write for Text<'_> {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        // hashing cannot fail; a `Debug` that fails shows what it has shown
        let _ = std::fmt::Write::write_fmt(&mut Text(&mut self.mixer), format_args!("{part:?}|"));
    }

    /// There is a part that cannot be added: what it is.
    pub fn unknown(&mut self, part: &'static str) {
        self.unknown.get_or_insert(part);
    }

    /// The key, or the part that is not in it.
    pub(crate) fn finish(self) -> Result<u128, &'static str> {
        self.unknown.map_or_else(|| Ok(self.mixer.finish128()), Err)
    }
}

impl Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("unknown", &self.unknown).finish_non_exhaustive()
    }
}

/// A field that is no module, in what `#[derive(Module)]` makes. It is hashed if it can be; else what `Debug` shows of it
/// is; else it is unknown. Which of the three holds, Rust decides by the order in which it looks for methods: that of
/// `&Field`, of `&&Field`, of `Field`.
#[doc(hidden)]
#[derive(Debug)]
pub struct Field<'a, T>(pub &'a T);

#[doc(hidden)]
pub trait Hashed {
    fn add_to(&self, key: &mut Key);
}
impl<T: Hash> Hashed for &Field<'_, T> {
    fn add_to(&self, key: &mut Key) {
        key.add(self.0);
    }
}

#[doc(hidden)]
pub trait Shown {
    fn add_to(&self, key: &mut Key);
}
impl<T: Debug> Shown for &&Field<'_, T> {
    fn add_to(&self, key: &mut Key) {
        key.add_shown(self.0);
    }
}

#[doc(hidden)]
pub trait Hidden {
    fn add_to(&self, key: &mut Key);
}
impl<T> Hidden for Field<'_, T> {
    fn add_to(&self, key: &mut Key) {
        key.unknown(std::any::type_name::<T>());
    }
}
