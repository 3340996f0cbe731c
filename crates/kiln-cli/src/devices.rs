//! `kiln devices`: what this machine computes with.

use crate::outcome::Outcome;
use kiln::Device;
use std::io::Write;

pub(crate) fn run() -> Outcome {
    let mut out = std::io::stdout().lock();
    for device in Device::known() {
        let found = device.describe().unwrap_or_else(|why| format!("missing: {}", why.why()));
        let mark = if device == Device::default_device() { '*' } else { ' ' };
        writeln!(out, "{mark} {:<10} {found}", device.name())?;
    }
    writeln!(out, "\n* is the default; DEV chooses another.")?;
    Ok(())
}
