//! What closes the traits of this crate's arguments.

/// Only this crate's types have it, so that only they have what asks for it.
pub trait Sealed {}
