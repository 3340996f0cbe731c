//! What the rewrite rules did in all.

use super::units::{rest, time};
use crate::outcome::Outcome;
use kiln::record::{Record, Rule};
use std::io::Write;

/// The rules that took the most time. A program that did not come to its end has not said it.
pub(super) fn show(record: &Record, most: usize, out: &mut impl Write) -> Outcome {
    let mut rules: Vec<&Rule> = record.rules.iter().collect();
    rules.sort_by(|a, b| b.took.total_cmp(&a.took).then_with(|| a.rule.cmp(&b.rule)));
    writeln!(
        out,
        "\n{} rules were tried, {} fired; by time\n     time    fired      tried  rule",
        rules.len(),
        rules.iter().filter(|rule| rule.fired > 0).count()
    )?;
    for Rule { rule, file, line, tried, fired, took, .. } in rules.iter().take(most) {
        writeln!(out, "{:>9} {fired:>8} {tried:>10}  {rule} {file}:{line}", time(*took))?;
    }
    write!(out, "{}", rest(rules.len(), most, "rules"))?;
    Ok(())
}
