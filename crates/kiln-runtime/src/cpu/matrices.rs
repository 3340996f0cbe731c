//! The right to use matrix units. Their registers are large, so Linux saves them only for a process that asks.

use super::features::features;
use crate::error::{Error, Result};
use std::sync::OnceLock;

/// Asks for the registers of matrix units, once for all threads of the process.
pub(super) fn allow() -> Result<()> {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    match ALLOWED.get_or_init(|| features().contains(&"amx-tile") && ask()) {
        true => Ok(()),
        false => {
            let why = "this process has no matrix units, or may not use them";
            Err(Error::Unsupported(why.to_owned()))
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn ask() -> bool {
    /// `ARCH_REQ_XCOMP_PERM`, and the number of AMX's registers among what is saved.
    const REQUEST: libc::c_long = 0x1023;
    const TILES: libc::c_long = 18;
    // SAFETY: takes two numbers and touches no memory; what it changes is how much the system saves of each thread.
    unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST, TILES) == 0 }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn ask() -> bool {
    false
}
