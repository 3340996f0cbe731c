//! The tracked driver: counts and times every attempt, for `TRACK_MATCH_STATS`, and tells an observer of each rewrite.

use super::matcher::{Place, Track};
use crate::observe::{self, Event, Kind};
use crate::uop::UOp;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static ON: AtomicBool = AtomicBool::new(false);
static TOTALS: Mutex<BTreeMap<Place, Stats>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// The rule that is being tried on this thread.
    static CURRENT: Cell<Option<Place>> = const { Cell::new(None) };
    /// Whether [`blame`] is watching this thread.
    static BLAMING: Cell<bool> = const { Cell::new(false) };
}

/// What one rule has done.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Attempts that the dispatch table let through.
    pub tried: u64,
    /// Attempts that rewrote a node.
    pub fired: u64,
    /// Time in attempts that rewrote a node, right sides included.
    pub time_fired: Duration,
    /// Time in all attempts.
    pub time: Duration,
}

impl Stats {
    fn add(&mut self, other: Stats) {
        self.tried += other.tried;
        self.fired += other.fired;
        self.time_fired += other.time_fired;
        self.time += other.time;
    }
}

/// Counts from now on (or no longer), in every rewrite of the process.
pub fn set_tracking(on: bool) {
    ON.store(on, Ordering::Relaxed);
}

pub(crate) fn is_tracking() -> bool {
    ON.load(Ordering::Relaxed) || BLAMING.get() || observe::is_wanted(Kind::Steps)
}

/// Runs what is known to panic once more, tracked, and names the rule that does it, if it is one.
pub fn blame(run: impl FnOnce()) -> Option<String> {
    BLAMING.set(true);
    CURRENT.set(None);
    let panicked = catch_unwind(AssertUnwindSafe(run)).is_err();
    BLAMING.set(false);
    let place = CURRENT.take().filter(|_| panicked)?;
    Some(format!("{} ({}:{})", place.name, place.file, place.line))
}

/// Watches one call.
pub(crate) struct Tracker<'a> {
    places: &'a [Place],
    stats: Vec<Stats>,
}

impl<'a> Tracker<'a> {
    pub(crate) fn new(places: &'a [Place]) -> Tracker<'a> {
        Tracker { places, stats: vec![Stats::default(); places.len()] }
    }

    /// Adds what was seen to the totals of the process.
    pub(crate) fn publish(self) {
        let mut totals = TOTALS.lock().expect("match statistics");
        for (place, stats) in self.places.iter().zip(self.stats) {
            totals.entry(*place).or_default().add(stats);
        }
    }
}

impl Track for Tracker<'_> {
    /// When, and the rule whose right side this rewrite is a part of.
    type Started = (Instant, Option<Place>);

    fn start(&self, rule: usize) -> Self::Started {
        (Instant::now(), CURRENT.replace(Some(self.places[rule])))
    }

    fn stop(
        &mut self,
        rule: usize,
        (started, outer): Self::Started,
        node: &UOp,
        new: Option<&UOp>,
    ) {
        let time = started.elapsed();
        CURRENT.set(outer);
        let (n, time_fired) = if new.is_some() { (1, time) } else { (0, Duration::ZERO) };
        if let Some(new) = new {
            let Place { name, file, line } = self.places[rule];
            let place = (file, line);
            observe::see(&Event::Rewrite { rule: name, place, before: node, after: new });
        }
        self.stats[rule].add(Stats { tried: 1, fired: n, time_fired, time });
    }
}

/// A rule that took part: its name, file and line, and what it has done.
pub type Ruled = ((&'static str, &'static str, u32), Stats);

/// What every rule that took part has done, in order of file and line.
pub fn totals() -> Vec<Ruled> {
    let totals = TOTALS.lock().expect("match statistics");
    totals.iter().map(|(place, stats)| ((place.name, place.file, place.line), *stats)).collect()
}

/// What the rule of this name has done, over all rules of that name.
pub fn stats(name: &str) -> Stats {
    let totals = TOTALS.lock().expect("match statistics");
    let mut sum = Stats::default();
    totals.iter().filter(|(place, _)| place.name == name).for_each(|(_, s)| sum.add(*s));
    sum
}

/// The rules that took part, in order of file and line, then the sum. `all` lists those too that never fired.
pub fn report(all: bool) -> String {
    let totals = TOTALS.lock().expect("match statistics");
    let (mut text, mut sum) = (String::new(), Stats::default());
    writeln!(text, "{:>10} / {:<10} {:>10} / {:<10} rule", "fired", "tried", "ms fired", "ms")
        .expect("write to a string");
    for (place, stats) in totals.iter() {
        sum.add(*stats);
        if stats.fired > 0 || (all && stats.tried > 0) {
            line(&mut text, stats, &format!("{}:{} {}", place.file, place.line, place.name));
        }
    }
    line(&mut text, &sum, "total");
    text
}

fn line(text: &mut String, stats: &Stats, what: &str) {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let (fired, all) = (ms(stats.time_fired), ms(stats.time));
    writeln!(text, "{:>10} / {:<10} {fired:>10.2} / {all:<10.2} {what}", stats.fired, stats.tried)
        .expect("write to a string");
}
