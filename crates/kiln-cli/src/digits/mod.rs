//! `kiln digits`: trains a small convolutional network on handwritten digits, and says how well it went and what it
//! took.
//!
//! With `--json` standard output is one line; everything for people goes to standard error.

/// Embedded, unpacked, split, shuffled.
mod data;
/// The network.
mod model;
/// What can be chosen.
mod options;
/// Steps, and what they cost.
mod train;
/// What is said at the end.
mod report;

use crate::outcome::{Failure, Outcome};
use kiln::Device;
use model::Net;
pub(crate) use options::Options;
use report::Report;
use std::fs::OpenOptions;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::time::Instant;

pub(crate) fn run(options: &Options) -> Outcome {
    let start = Instant::now();
    let mut out: Box<dyn Write> =
        if options.json { Box::new(stderr()) } else { Box::new(stdout()) };
    let (result, counts) = kiln::measure(|| train_and_test(options, &mut *out));
    let (report, digits) = result?;
    let total = report::Total { counts, seconds: start.elapsed().as_secs_f64() };
    report.write(&mut *out, &total, &digits.test)?;
    out.flush()?;
    if options.json {
        writeln!(stdout(), "{}", report.json(&total))?;
    }
    Ok(())
}

fn train_and_test(options: &Options, out: &mut dyn Write) -> Outcome<(Report, data::Digits)> {
    let compiler = Device::default_device().describe().map_err(|e| Failure::new(e.why()))?;
    if let Some(path) = &options.save {
        writable(path)?;
    }
    let digits = data::load(options.limit)?;
    kiln::manual_seed(options.seed);
    let net = Net::new();
    if let Some(path) = &options.load {
        net.load(path)?;
    }
    let cost = train::train(&net, &digits.train, options, out)?;
    if let Some(path) = &options.save {
        net.save(path)?;
    }
    let predicted = train::predict(&net, &digits.test, options.precision)?;
    Ok((Report { compiler, cost, predicted, labels: digits.test.labels.clone() }, digits))
}

/// Fails now rather than after the training where a file cannot be written. Leaves no new file behind.
fn writable(path: &Path) -> Outcome {
    let existed = path.exists();
    match OpenOptions::new().append(true).create(true).open(path) {
        Err(why) => Err(Failure::new(format!("cannot save to {}: {why}", path.display()))),
        Ok(_) if existed => Ok(()),
        Ok(_) => Ok(std::fs::remove_file(path)?),
    }
}
