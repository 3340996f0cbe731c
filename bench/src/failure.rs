//! What failed.

/// What failed, for people.
pub(crate) type Failure = String;
