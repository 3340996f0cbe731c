//! How a subcommand ends.

use std::fmt::Display;
use std::io::{Error, ErrorKind};

/// Why a subcommand stopped.
pub(crate) enum Failure {
    /// Whoever read the output has left, as `head` does: no reason to complain.
    Unread,
    /// One line for people.
    Said(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The failure that `why` tells, on one line.
    pub(crate) fn new(why: impl Display) -> Failure {
        let why = why.to_string();
        Failure::Said(why.lines().map(str::trim).collect::<Vec<_>>().join(" "))
    }
}

impl From<kiln::Error> for Failure {
    fn from(error: kiln::Error) -> Failure {
        Failure::new(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error.kind() {
            ErrorKind::BrokenPipe => Failure::Unread,
            _ => Failure::new(error),
        }
    }
}
