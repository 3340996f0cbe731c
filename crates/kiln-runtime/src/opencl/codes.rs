//! What the library answers.

use crate::error::{Error, Result};

/// What a code of the library means.
fn failed(what: &str, code: i32) -> Error {
    let name = match code {
        -1 => "no device",
        -4 => "memory cannot be allocated",
        -5 => "out of resources",
        -6 => "out of the host's memory",
        -11 => "the program does not build",
        -48 => "an invalid kernel",
        -52 => "invalid arguments",
        -54 => "an invalid size of groups",
        -61 => "an invalid size of a buffer",
        _ => "an error",
    };
    Error::Launch(format!("OpenCL: {what}: {name} ({code})"))
}

pub(super) fn checked(what: &str, code: i32) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(failed(what, code)) }
}
