//! How many cache lines a launch of a program brings into a cache: an estimate from loops, addresses and reuse distances (Wolf and
//! Lam, "A data locality optimizing algorithm", 1991).
//!
//! Example: `for i < 100 { for k < 4096 { a[k] * b[i, k] } }` reads `a` again in each iteration of `i`. Between two reads of an
//! element lie one row of `a` and one of `b`, 32 KiB. If the cache holds them, `a` is brought in once, else 100 times.

use super::{Known, LINE, Program};
use crate::op::Op;
use crate::uop::UOp;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// A loop, by its place among the loops of the program.
type Loop = usize;
/// Bytes (or elements) that an address grows by in an iteration of each loop that it depends on.
type Steps = SmallVec<[(Loop, f64); 6]>;

/// The loads and stores of a program, with the loops that they are in.
pub struct Traffic<'a> {
    /// How often each loop runs, each time that it is started.
    trips: Vec<f64>,
    streams: Vec<Stream<'a>>,
}

/// Accesses in one place that differ in constants alone, such as those of an unrolled loop.
struct Stream<'a> {
    memory: &'a UOp,
    /// The loops around it, innermost first.
    around: Vec<Loop>,
    /// Bytes.
    steps: Steps,
    /// The lines of one iteration of all loops, counted from that of address 0.
    lines: FxHashSet<i128>,
}

impl<'a> Traffic<'a> {
    /// Of a launch with these scalars (by slot), in the thread that has most to do.
    pub fn of(program: &'a Program, vars: &'a [i64], threads: usize) -> Traffic<'a> {
        let mut traffic = Traffic { trips: Vec::new(), streams: Vec::new() };
        let (mut open, mut steps) = (Vec::new(), FxHashMap::default());
        let mut known = Known::new(vars, threads);
        for op in &program.ops {
            match op.op() {
                Op::Range => {
                    open.push(traffic.trips.len());
                    traffic.trips.push(known.trip_count(op) as f64);
                }
                Op::End => drop(open.pop()),
                Op::Load | Op::Store if !op.is_in_registers() => {
                    let index = known.value(op.src(1)).and_then(|c| c.as_i128());
                    let of_index = steps.get(op.src(1)).cloned().unwrap_or_default();
                    traffic.add(op, index, of_index, &open);
                }
                _ => {}
            }
            if let Some(of_op) = steps_of(op, &open, &known, &steps) {
                steps.insert(op, of_op);
            }
            known.add(op);
        }
        traffic
    }

    fn add(&mut self, op: &'a UOp, index: Option<i128>, mut steps: Steps, open: &[Loop]) {
        let (memory, value) = (op.memory(), if op.op() == Op::Load { op } else { op.src(2) });
        let size = value.dtype().size() as i128;
        steps.iter_mut().for_each(|(_, step)| *step *= size as f64);
        let around: Vec<Loop> = open.iter().rev().copied().collect();
        let is_same = |s: &Stream<'_>| s.memory == memory && s.around == around && s.steps == steps;
        let at = self.streams.iter().position(is_same).unwrap_or_else(|| {
            self.streams.push(Stream { memory, around, steps, lines: FxHashSet::default() });
            self.streams.len() - 1
        });
        // an address that nobody knows is in a line of its own
        let start = index.unwrap_or(1 << 40) * size;
        let end = start + size * i128::from(value.lanes()) - 1;
        let line = LINE as i128;
        self.streams[at].lines.extend(start.div_euclid(line)..=end.div_euclid(line));
    }

    /// How many lines come into a cache of so many bytes, from further away.
    pub fn lines_into(&self, cache: usize) -> f64 {
        let bodies: Vec<f64> =
            (0..self.trips.len()).map(|l| LINE as f64 * self.lines_of_body(l)).collect();
        let stays = |l: Loop| bodies[l] <= cache as f64;
        self.streams.iter().map(|stream| self.lines_of(stream, &stays)).sum()
    }

    /// Different lines of one iteration of a loop.
    fn lines_of_body(&self, of: Loop) -> f64 {
        let within = self.streams.iter().filter(|s| s.around.contains(&of));
        let inside = |l: &Loop| *l != of;
        within.map(|s| self.distinct(s, s.around.iter().copied().take_while(inside))).sum()
    }

    /// Different lines in all iterations of these loops.
    fn distinct(&self, stream: &Stream<'_>, loops: impl Iterator<Item = Loop> + Clone) -> f64 {
        let moving = || loops.clone().filter_map(|l| Some((self.trips[l], stream.step(l)?)));
        let one = stream.lines.len() as f64;
        let all: f64 = moving().map(|(trips, step)| lines_along(trips, step)).product();
        // windows overlap
        let reach: f64 = moving().map(|(trips, step)| (trips - 1.0).max(0.0) * step.abs()).sum();
        one * all.min(1.0 + reach / LINE as f64)
    }

    /// The lines of a stream that come into a cache, in which an iteration of some loops `stays` until the next one.
    fn lines_of(&self, stream: &Stream<'_>, stays: &impl Fn(Loop) -> bool) -> f64 {
        let mut lines = stream.lines.len() as f64;
        for (depth, &l) in stream.around.iter().enumerate() {
            let inside = &stream.around[..=depth];
            lines *= match stream.step(l) {
                Some(step) => lines_along(self.trips[l], step),
                None if stays(l) => 1.0,
                None => self.trips[l],
            };
            if inside.iter().all(|&l| stays(l)) {
                lines = lines.min(self.distinct(stream, inside.iter().copied()));
            }
        }
        lines
    }
}

impl Stream<'_> {
    fn step(&self, of: Loop) -> Option<f64> {
        self.steps.iter().find(|(l, _)| *l == of).map(|(_, step)| *step)
    }
}

/// Lines of so many addresses, `step` bytes apart.
fn lines_along(trips: f64, step: f64) -> f64 {
    (trips * step.abs() / LINE as f64).clamp(trips.min(1.0), trips)
}

/// How a scalar grows with the loops that are `open`, if it does.
fn steps_of(
    op: &UOp,
    open: &[Loop],
    known: &Known<'_>,
    steps: &FxHashMap<&UOp, Steps>,
) -> Option<Steps> {
    let of = |i: usize| steps.get(op.src(i)).cloned().unwrap_or_default();
    let scaled =
        |i: usize, by: f64| -> Steps { of(i).into_iter().map(|(l, n)| (l, n * by)).collect() };
    // a factor that nobody knows takes each iteration to another line
    let factor = |i: usize| {
        let known = known.value(op.src(i)).and_then(|c| c.as_i128());
        known.map_or(LINE as f64, |n| n as f64)
    };
    let grown: Steps = match op.op() {
        Op::Range => open.last().map(|&l| (l, 1.0)).into_iter().collect(),
        _ if !op.dtype().is_int() || op.lanes() > 1 => return None,
        Op::Cast | Op::FloorMod => of(0),
        Op::Neg => scaled(0, -1.0),
        Op::Add => plus(of(0), of(1)),
        Op::Sub => plus(of(0), scaled(1, -1.0)),
        Op::Mul if of(1).is_empty() => scaled(0, factor(1)),
        Op::Mul if of(0).is_empty() => scaled(1, factor(0)),
        Op::FloorDiv if of(1).is_empty() => scaled(0, 1.0 / factor(1).max(1.0)),
        // a minimum with a constant, a choice: as one of its sources
        alu if alu.is_alu() => {
            (0..op.srcs().len()).map(of).rfind(|steps| !steps.is_empty()).unwrap_or_default()
        }
        _ => return None,
    };
    (!grown.is_empty()).then_some(grown)
}

fn plus(mut all: Steps, more: Steps) -> Steps {
    for (l, step) in more {
        match all.iter_mut().find(|(known, _)| *known == l) {
            Some((_, sum)) => *sum += step,
            None => all.push((l, step)),
        }
    }
    all.retain(|(_, step)| *step != 0.0);
    all.sort_by_key(|(l, _)| *l);
    all
}
