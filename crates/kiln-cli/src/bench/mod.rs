//! `kiln bench`: what a few programs take on this machine, kernel by kernel where `--beam` searches for better options
//! than the heuristic's.

/// The programs.
mod programs;

use crate::outcome::{Failure, Outcome};
use kiln::Found;
use programs::{PROGRAMS, Program, Run};
use std::io::Write;
use std::time::{Duration, Instant};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs, or beginnings of their names; all if none is named
    names: Vec<String>,
    /// Search for better options than the heuristic's, going on from the best N at a time [default: 4]
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "4")]
    beam: Option<usize>,
    /// List the programs
    #[arg(long)]
    list: bool,
}

/// Calls of a program before any is timed: the first two compile.
const WARM_UP: usize = 3;
/// Turns that are timed, and how long one takes at least.
const TURNS: usize = 11;
const TURN: Duration = Duration::from_millis(20);

pub(crate) fn run(options: &Options) -> Outcome {
    let mut out = std::io::stdout().lock();
    for program in chosen(&options.names)? {
        if options.list {
            writeln!(out, "{:<12} {}", program.name, program.what)?;
        } else {
            measure(program, options.beam, &mut out)?;
        }
        out.flush()?;
    }
    Ok(())
}

fn chosen(names: &[String]) -> Outcome<Vec<&'static Program>> {
    let begins = |name: &str| PROGRAMS.iter().any(|p| p.name.starts_with(name));
    if let Some(unknown) = names.iter().find(|name| !begins(name)) {
        return Err(Failure::new(format!("no program is called {unknown}; --list shows all")));
    }
    let is_chosen =
        |p: &&Program| names.is_empty() || names.iter().any(|n| p.name.starts_with(n.as_str()));
    Ok(PROGRAMS.iter().filter(is_chosen).collect())
}

fn measure(program: &Program, beam: Option<usize>, out: &mut impl Write) -> Outcome {
    let run = (program.build)()?;
    let plain = || kiln::search(0, || call(&run)).0;
    (0..WARM_UP).try_for_each(|_| plain())?;
    let Some(width) = beam else {
        let [time] = in_turn([&plain])?;
        writeln!(out, "{:<12} {}", program.name, shown(time))?;
        return Ok(());
    };
    let mut found = Vec::new();
    for _ in 0..WARM_UP {
        let (done, more) = kiln::search(width, || call(&run));
        done?;
        found.extend(more);
    }
    let searched = || kiln::search(width, || call(&run)).0;
    let [before, after] = in_turn([&plain, &searched])?;
    let ratio = before.as_secs_f64() / after.as_secs_f64();
    let (name, before, after) = (program.name, shown(before), shown(after));
    writeln!(
        out,
        "{name:<12} {before} by heuristic, {after} after the search: {ratio:.2} times as fast"
    )?;
    found.iter().try_for_each(|f| report(f, out))
}

fn call(run: &Run) -> Outcome {
    Ok(run()?)
}

/// Medians of turns that all have, one after the other.
fn in_turn<const N: usize>(calls: [&dyn Fn() -> Outcome; N]) -> Outcome<[Duration; N]> {
    let mut times = [(); N].map(|()| Vec::new());
    for _ in 0..TURNS {
        for (call, times) in calls.iter().zip(&mut times) {
            let (start, mut n) = (Instant::now(), 0);
            while n == 0 || start.elapsed() < TURN {
                call()?;
                n += 1;
            }
            times.push(start.elapsed() / n);
        }
    }
    Ok(times.map(|mut all| {
        all.sort_unstable();
        all[all.len() / 2]
    }))
}

/// What a search has found for a kernel: both lists of options, and what is different.
fn report(found: &Found, out: &mut impl Write) -> Outcome {
    let verdict = match (found.is_taken, found.ratio() > 1.0) {
        (true, _) => "taken",
        (false, true) => "not taken: too little",
        (false, false) => "not taken",
    };
    let tried = match found.is_noted {
        true => format!("{} tried by an earlier process", found.tried),
        false => format!("{} tried", found.tried),
    };
    let ratio = found.ratio();
    writeln!(out, "  {} of {}", found.kernel, found.methods.join(", "))?;
    writeln!(out, "    heuristic {}  {}", shown(found.heuristic_time), list(&found.heuristic))?;
    writeln!(out, "    best      {}  {}", shown(found.candidate_time), list(&found.candidate))?;
    writeln!(out, "    {ratio:.2} times as fast, {verdict}; {tried}; {}", difference(found))?;
    Ok(())
}

fn list(options: &[String]) -> String {
    if options.is_empty() { "no options".to_owned() } else { options.join(" ") }
}

/// Which options make the difference.
fn difference(found: &Found) -> String {
    let only = |word: &str, all: &[String], others: &[String]| {
        let own: Vec<&str> =
            all.iter().filter(|o| !others.contains(o)).map(String::as_str).collect();
        (!own.is_empty()).then(|| format!("{word} {}", own.join(" ")))
    };
    let less = only("without", &found.heuristic, &found.candidate);
    let more = only("with", &found.candidate, &found.heuristic);
    let parts: Vec<String> = less.into_iter().chain(more).collect();
    if parts.is_empty() { "in another order".to_owned() } else { parts.join(", ") }
}

fn shown(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 1e-3 => format!("{:8.2} us", s * 1e6),
        s => format!("{:8.2} ms", s * 1e3),
    }
}
