//! Tables, for people and for files: Markdown, a line for each workload.

use crate::failure::Failure;
use crate::machine;
use crate::options::Options;
use crate::subject::Subject;
use crate::turns::{Measured, Times, median};
use crate::workloads::{Case, is_of_table};
use std::path::Path;

/// The head of the table.
pub(crate) fn header(subjects: &[Subject], options: &Options) -> String {
    let names: Vec<&str> = subjects.iter().map(|s| s.name.as_str()).collect();
    let ratios: Vec<String> = names[1..].iter().map(|n| format!("{n} / kiln")).collect();
    let columns = [vec!["workload"], names.clone(), vec!["floor"]].concat();
    let rest = ["floor / kiln", "goal"].map(str::to_owned);
    let of_memory = names.iter().filter(|_| options.memory).map(|n| format!("{n}, MB"));
    let all: Vec<String> = columns
        .iter()
        .map(|c| (*c).to_owned())
        .chain(ratios)
        .chain(rest)
        .chain(of_memory)
        .collect();
    format!("| {} |\n|{}", all.join(" | "), "---|".repeat(all.len()))
}

/// A workload's line: milliseconds (microseconds of a piece), then ratios, then memory if that was measured.
pub(crate) fn line(case: &Case, measured: &Measured) -> String {
    let kiln = time(&measured.times[0]);
    let mut cells = vec![case.name.to_owned()];
    cells.extend(measured.times.iter().map(|t| shown(case, t)));
    let floor = median(&measured.floors);
    let has_floor = floor > 0.0;
    cells.push(if has_floor { number(floor * 1e3) } else { String::new() });
    cells.extend(measured.times[1..].iter().map(|t| ratio(time(t), kiln)));
    let share = kiln.map(|k| floor / k).filter(|_| has_floor);
    cells.push(share.map_or(String::new(), |s| format!("{:.0} %", 100.0 * s)));
    cells.push(goal(case, measured, share));
    let megabytes = |bytes: &f64| number(bytes / 1e6);
    cells.extend(measured.peaks.iter().map(|p| p.as_ref().map_or("-".to_owned(), megabytes)));
    format!("| {} |", cells.join(" | "))
}

fn time(times: &Result<Times, Failure>) -> Option<f64> {
    times.as_ref().ok().map(Times::median).filter(|t| t.is_finite())
}

/// A time, and a word if its result is wrong.
fn shown(case: &Case, times: &Result<Times, Failure>) -> String {
    let Ok(times) = times else { return "-".to_owned() };
    let seconds = times.median() / f64::from(case.pieces);
    let text = if case.pieces > 1 {
        format!("{} us", number(seconds * 1e6))
    } else {
        number(seconds * 1e3)
    };
    if times.apart <= 1.0 { text } else { format!("{text} DIFFERS") }
}

/// Three digits.
fn number(x: f64) -> String {
    match x {
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x => format!("{x:.2}"),
    }
}

fn ratio(theirs: Option<f64>, ours: Option<f64>) -> String {
    theirs.zip(ours).map_or(String::new(), |(t, o)| number(t / o))
}

/// What PyTorch's ratio should be, and whether it is; 85 % of the floor counts as well.
fn goal(case: &Case, measured: &Measured, share: Option<f64>) -> String {
    let (kiln, torch) = (time(&measured.times[0]), measured.times.get(1).and_then(time));
    match torch.zip(kiln) {
        Some((torch, kiln)) if case.goal > 0.0 => {
            let is_met = torch / kiln >= case.goal || share.is_some_and(|s| s >= 0.85);
            format!("{} {}", case.goal, if is_met { "met" } else { "MISSED" })
        }
        _ => String::new(),
    }
}

/// Geometric means of the ratios over the table, and what did not run or agree.
pub(crate) fn summary(subjects: &[Subject], lines: &[(&Case, Measured)]) -> String {
    let mut out = String::new();
    for (i, subject) in subjects.iter().enumerate().skip(1) {
        let ratios = table_ratios(lines, i);
        if !ratios.is_empty() {
            let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len() as f64).exp();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let (name, n, mean, least) = (&subject.name, ratios.len(), number(mean), number(least));
            out += &format!(
                "{name} / kiln over {n} workloads of the table: {mean} as geometric mean, {least} at least.\n\n"
            );
        }
    }
    for (case, measured) in lines {
        for (subject, times) in subjects.iter().zip(&measured.times) {
            out += &trouble(case, &subject.name, times);
        }
    }
    out
}

/// A subject's times over kiln's, of the table's workloads.
fn table_ratios(lines: &[(&Case, Measured)], subject: usize) -> Vec<f64> {
    let ratio = |m: &Measured| Some(time(&m.times[subject])? / time(&m.times[0])?);
    lines.iter().filter(|(case, _)| is_of_table(case)).filter_map(|(_, m)| ratio(m)).collect()
}

/// Why there is no time, or how wrong a result is.
fn trouble(case: &Case, who: &str, times: &Result<Times, Failure>) -> String {
    match times {
        Err(why) => format!("{who} has no {}: {}\n\n", case.name, short(why)),
        Ok(t) if t.apart > 1.0 => {
            format!(
                "{who} and kiln differ in {} by {:.1} times what is allowed.\n\n",
                case.name, t.apart
            )
        }
        Ok(_) => String::new(),
    }
}

fn short(why: &str) -> String {
    why.chars().take(160).collect()
}

/// How each workload's calls spread. Where a machine is busy, the least of them says more than the median.
fn details(subjects: &[Subject], lines: &[(&Case, Measured)]) -> String {
    let columns = [
        "workload",
        "what",
        "who",
        "first call, s",
        "least, ms",
        "median",
        "most",
        "least / kiln's",
    ];
    let mut out = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for (case, measured) in lines {
        let kiln = measured.times[0].as_ref().map_or(f64::NAN, Times::least);
        for (subject, times) in subjects.iter().zip(&measured.times) {
            if let Ok(times) = times {
                out += &detail(case, &subject.name, times, kiln);
            }
        }
    }
    out
}

fn detail(case: &Case, who: &str, times: &Times, kiln: f64) -> String {
    let [least, middle, most] =
        [times.least(), times.median(), times.most()].map(|s| number(s * 1e3));
    let ratio = number(times.least() / kiln);
    let (name, what, first) = (case.name, case.what, times.first);
    format!("| {name} | {what} | {who} | {first:.2} | {least} | {middle} | {most} | {ratio} |\n")
}

/// Writes the results under bench/results.
pub(crate) fn write(
    head: &str,
    subjects: &[Subject],
    lines: &[(&Case, Measured)],
    summary: &str,
    options: &Options,
) -> Result<(), Failure> {
    let date = options.date.clone().unwrap_or_else(machine::today);
    let label = options.label.as_ref().map_or(String::new(), |l| format!("-{l}"));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    let path = folder.join(format!("{date}-peers{label}.md"));
    let table: String = lines.iter().map(|(case, m)| line(case, m) + "\n").collect();
    let text = format!(
        "# Against its peers, {date}\n\n{head}\n\nMedians in ms (`launch`: us a kernel), then ratios.\n\n{}\n{table}\n{summary}\n\
         ## Spread\n\n{}",
        header(subjects, options),
        details(subjects, lines)
    );
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}
