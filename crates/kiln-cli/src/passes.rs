//! `kiln passes`: the compiler's passes in order, with what each leaves.

use crate::outcome::Outcome;
use std::io::Write;

pub(crate) fn run() -> Outcome {
    let mut out = std::io::stdout().lock();
    let mut stage = "";
    for pass in kiln::passes() {
        if pass.stage != stage {
            stage = pass.stage;
            writeln!(out, "{stage}")?;
        }
        writeln!(out, "  {:<10} {}", pass.name, pass.leaves)?;
    }
    Ok(())
}
