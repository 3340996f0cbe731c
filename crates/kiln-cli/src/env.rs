//! `kiln env`: the environment variables, with what they are set to.

use crate::outcome::Outcome;
use std::io::Write;

pub(crate) fn run() -> Outcome {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<18} {:<21} {:<14} meaning", "variable", "default", "set to")?;
    for variable in kiln::env::describe() {
        let value = variable.value.as_deref().unwrap_or("-");
        let (name, default, help) = (variable.name, variable.default, variable.help);
        writeln!(out, "{name:<18} {default:<21} {value:<14} {help}")?;
    }
    Ok(())
}
