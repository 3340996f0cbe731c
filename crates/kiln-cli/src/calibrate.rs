//! `kiln calibrate`: the costs that the compiler assumes, beside measurements on this machine.

use crate::outcome::{Failure, Outcome};
use kiln::Cost;
use std::io::Write;

/// By how much a measurement may differ from the description: these are orders of magnitude.
const FAR: f64 = 3.0;

pub(crate) fn run() -> Outcome {
    let costs = kiln::calibrate().map_err(|why| Failure::Said(why.to_string()))?;
    let mut out = std::io::stdout().lock();
    for cost in &costs {
        writeln!(out, "{:<22} {:>9}  {}", cost.name, cost.value, cost.what)?;
        writeln!(out, "{:<22} {:>9}  {}", "", "", origin(cost))?;
    }
    writeln!(out, "\nKernels are made by the description, never by a measurement.")?;
    Ok(())
}

fn origin(cost: &Cost) -> String {
    match cost.measured {
        None => cost.source.clone(),
        Some(measured) => {
            let ratio = measured / cost.value;
            let far = if (1.0 / FAR..=FAR).contains(&ratio) { "" } else { ": far away" };
            format!("{}; this machine: {measured:.3}, {ratio:.2} times that{far}", cost.source)
        }
    }
}
