//! One kernel: where it comes from, what each option did to it, its text and machine code, its launches.

use super::kernels::{floor, limit, median};
use super::listing;
use super::units::{cut, size, time};
use crate::outcome::{Failure, Outcome};
use kiln::record::{Applied, Kernel, Launch, Record, Step};
use std::collections::BTreeSet;
use std::collections::HashSet;
use std::io::Write;

/// Shows the kernels of this name.
pub(super) fn show(record: &Record, name: &str, out: &mut impl Write) -> Outcome {
    let found = found(record, name);
    if found.is_empty() {
        return launched(record, name, out);
    }
    found.iter().try_for_each(|kernel| one(record, kernel, out))
}

/// The kernels of this name, or with this beginning of a hash. If there are none, `name` may be the beginning of one name.
pub(super) fn found<'a>(record: &'a Record, name: &str) -> Vec<&'a Kernel> {
    let is_it = |k: &&Kernel| {
        k.name == name
            || (name.len() > 5 && [&k.scheduled, &k.optimized].iter().any(|h| h.starts_with(name)))
    };
    let found: Vec<&Kernel> = record.kernels.iter().filter(is_it).collect();
    let longer = longer(record, name);
    match (found.is_empty(), longer.first()) {
        (true, Some(only)) if longer.len() == 1 => {
            record.kernels.iter().filter(|k| k.name == *only).collect()
        }
        _ => found,
    }
}

/// The names of kernels that begin so.
fn longer<'a>(record: &'a Record, name: &str) -> BTreeSet<&'a str> {
    record.kernels.iter().map(|k| &k.name[..]).filter(|n| n.starts_with(name)).collect()
}

/// That no kernel has this name, and which names begin so.
pub(super) fn missing(record: &Record, name: &str) -> Failure {
    let longer: Vec<&str> = longer(record, name).into_iter().collect();
    Failure::new(match longer.is_empty() {
        true => {
            format!("no kernel of the record is named {name}: `kiln explain FILE` lists kernels")
        }
        false => format!(
            "no kernel of the record is named {name}; these begin so: {}",
            longer.join(", ")
        ),
    })
}

/// A kernel that was compiled before the record began has launches alone.
fn launched(record: &Record, name: &str, out: &mut impl Write) -> Outcome {
    let launches: Vec<&Launch> = record
        .launches
        .iter()
        .filter(|l| l.name == name || (name.len() > 5 && l.kernel.starts_with(name)))
        .collect();
    let Some(last) = launches.last() else {
        return Err(missing(record, name));
    };
    writeln!(out, "\n{}: compiled before the record began", last.name)?;
    runs(record, &launches, out)
}

fn one(record: &Record, kernel: &Kernel, out: &mut impl Write) -> Outcome {
    writeln!(out, "\n{}: {}, in {}", kernel.name, kernel.origin, time(kernel.took))?;
    writeln!(
        out,
        "  key in memory {}, graph after optimizing {}",
        kernel.scheduled, kernel.optimized
    )?;
    let again = record.found.iter().filter(|f| f.scheduled == kernel.scheduled).count();
    writeln!(out, "  found in memory {again} times after that; its key on disk is its text")?;
    let launches: Vec<&Launch> =
        record.launches.iter().filter(|l| l.kernel == kernel.optimized).collect();
    runs(record, &launches, out)?;
    options(&record.after_options(kernel), out)?;
    linear(record, kernel, out)?;
    writeln!(out, "\nsource, {} lines", kernel.source.lines().count())?;
    writeln!(out, "{}", kernel.source.trim_end())?;
    match &kernel.code {
        Some(code) => writeln!(
            out,
            "\nmachine code, {} instructions\n{}",
            code.lines().count(),
            code.trim_end()
        )?,
        None => writeln!(out, "\nno machine code is recorded: VIZ_CODE=1 records it")?,
    }
    Ok(())
}

/// The launches, their median, and how far that is from the roof.
fn runs(record: &Record, launches: &[&Launch], out: &mut impl Write) -> Outcome {
    let Some(last) = launches.last() else {
        writeln!(out, "  it did not run")?;
        return Ok(());
    };
    let times: Vec<f64> = launches.iter().map(|l| l.took).collect();
    let (least, most) = times.iter().fold((f64::INFINITY, 0.0), |(a, b), &t| (t.min(a), t.max(b)));
    let (middle, total) = (median(&times), times.iter().sum::<f64>());
    writeln!(
        out,
        "  {} launches on {}, {} in all: median {}, {} to {}",
        times.len(),
        last.device,
        time(total),
        time(middle),
        time(least),
        time(most)
    )?;
    let (flops, bytes) = last.work;
    let rate = |work: u64| work as f64 / (middle * 1e3).max(1e-9);
    write!(
        out,
        "  {flops} flops and {} a launch: {:.2} GFLOPS, {:.1} GB/s",
        size(bytes as usize),
        rate(flops),
        rate(bytes)
    )?;
    write!(out, "{}", roof(record, last, middle).unwrap_or_default())?;
    let mut seen = HashSet::new();
    let methods: Vec<&str> = launches
        .iter()
        .flat_map(|l| &l.methods)
        .map(String::as_str)
        .filter(|m| seen.insert(*m))
        .collect();
    writeln!(out, "\n  made by {}", methods.join(", "))?;
    Ok(())
}

/// How far a kernel that takes so long is from the roof; none if no speed is known.
fn roof(record: &Record, last: &Launch, took: f64) -> Option<String> {
    let speed = record.speed(&last.device)?;
    let (least, what) = floor(last, speed);
    let [flops, bytes] = [speed.flops, speed.bytes].map(|rate| rate / 1e9);
    let described = if record.measured.is_empty() { " (as described, not measured)" } else { "" };
    let limit = match least > took {
        true => "its data is in a cache, or the roof is higher".to_owned(),
        false => format!("it is limited by {}", limit((least, what), took, speed)),
    };
    Some(format!(
        "; the roof is {flops:.1} GFLOPS, {bytes:.1} GB/s{described}, so the floor is {} ({what}), {:.0}% of the median; {limit}",
        time(least),
        100.0 * least / took.max(1e-9),
    ))
}

/// The loop nest before the options and after each. A nest that stayed as it was is not shown again.
fn options(all: &[Applied], out: &mut impl Write) -> Outcome {
    let mut before: &[kiln::record::LoopLine] = &[];
    for (at, applied) in all.iter().enumerate() {
        match &applied.option {
            None => writeln!(
                out,
                "\nloops before the options: axis 1 of any option is r1 here; after an option, loops have new numbers"
            )?,
            Some(option) => writeln!(out, "\noption {at}: {option}")?,
        }
        applied
            .decided
            .iter()
            .filter_map(prices)
            .try_for_each(|text| writeln!(out, "  priced: {text}"))?;
        if let Some(why) = &applied.without {
            writeln!(out, "  takes effect with the options that follow: {why}")?;
        } else if applied.nest == before {
            writeln!(out, "  the loops stay as they are")?;
        }
        for line in applied.nest.iter().filter(|_| applied.nest != before) {
            let kind = line.kind.map_or_else(String::new, |kind| format!("  ({kind})"));
            let text = cut(&line.text, MOST_TEXT);
            writeln!(out, "  {}{text}{kind}", "  ".repeat(line.depth))?;
        }
        if applied.without.is_none() {
            before = &applied.nest;
        }
    }
    Ok(())
}

/// Statements are cut here.
const MOST_TEXT: usize = 240;

/// A decision with all its prices.
pub(super) fn prices(step: &Step) -> Option<String> {
    let Step::Decision { about, alternatives, unit, chosen, note, .. } = step else { return None };
    let price = |(at, (name, price)): (usize, &(String, Option<f64>))| {
        let taken = if at == *chosen { " (taken)" } else { "" };
        match price {
            Some(price) => format!("{name} {price:.3} {unit}{taken}"),
            None => format!("{name}{taken}"),
        }
    };
    let all: Vec<String> = alternatives.iter().enumerate().map(price).collect();
    let note = if note.is_empty() { String::new() } else { format!(": {note}") };
    Some(format!("{about}: {}{note}", all.join(", ")))
}

/// The linear program: what the last pass before the text left.
fn linear(record: &Record, kernel: &Kernel, out: &mut impl Write) -> Outcome {
    let ops = kernel.steps.iter().rev().find_map(|step| match step {
        Step::Pass { stage, pass, after, .. } if stage == "lower" && pass == "prefetch" => {
            Some(after)
        }
        _ => None,
    });
    let Some(ops) = ops else {
        writeln!(out, "\nthe record has no linear program of it")?;
        return Ok(());
    };
    writeln!(out, "\nlinear program, {} ops", ops.len())?;
    listing::listed(record, ops, |_| ' ', out)
}
