//! The lengths at which the stage `schedule` runs for a general schedule. What they have to be like says
//! [`kiln_compile::lengths::GeneralSchedule`].

use super::super::cache;
use super::super::capture::{Changed, Closed};
use super::super::device::Opened;
use super::variables::Variables;
use kiln_compile::lengths::{GeneralSchedule, Grid};
use kiln_compile::schedule::{Choices, Schedule};
use kiln_ir::UOp;

/// How much longer than now a length may become.
const GROWTH: i64 = 4;

/// What a length may become at least.
const LEAST_END: i64 = 256;

/// How many primes are tried.
const MOST_PRIMES: usize = 64;

/// How often the ends of an interval are drawn closer to where the graph is.
const MOST_TRIES: usize = 5;

/// For one length, the interval in which it may vary.
#[derive(Clone, Copy, Debug)]
struct Interval {
    low: i64,
    /// Where choices by price are made: between the graph's length and the upper end.
    near: i64,
    high: i64,
    /// One more, where numbers are tried.
    other: i64,
}

/// The widest interval of each variable around a point. `is_graph` says whether there is a graph with these lengths.
fn intervals(
    variables: &Variables,
    point: &[i64],
    is_graph: &dyn Fn(&[i64]) -> bool,
) -> Option<Vec<Interval>> {
    let mut found: Vec<Interval> = Vec::new();
    for v in 0..point.len() {
        let with = |n: i64| {
            let mut other = point.to_vec();
            other[v] = n;
            is_graph(&other)
        };
        let most = last((point[v], point[v].checked_mul(GROWTH)?.max(LEAST_END)), &with);
        let least = -last((-point[v], -2), &|n| with(-n));
        let taken: Vec<i64> = found.iter().map(|i| i.high).collect();
        found.push(interval(variables, point[v], (least, most), &taken)?);
    }
    Some(found)
}

/// The largest number up to `end` for which `holds` is true. It is true at `from`, and up to the number that is returned.
fn last((from, end): (i64, i64), holds: &dyn Fn(i64) -> bool) -> i64 {
    if holds(end) {
        return end;
    }
    let (mut good, mut bad) = (from, end);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        match holds(middle) {
            true => good = middle,
            false => bad = middle,
        }
    }
    good
}

/// An interval around `n` inside of the bounds. Its upper end is a prime that divides no fixed number, and its ends are a
/// prime apart. If possible, the other values divide no fixed number either: less is different there by chance.
fn interval(
    variables: &Variables,
    n: i64,
    (least, most): (i64, i64),
    taken: &[i64],
) -> Option<Interval> {
    let is_apart = |p: i64| p > 1 && variables.fixed().all(|f| f == 0 || f % p != 0);
    let is_end = |p: &i64| is_prime(*p) && is_apart(*p) && !taken.contains(p);
    let mut highs = (n.max(least + 2)..=most).rev().filter(is_end).take(MOST_PRIMES);
    highs.find_map(|high| {
        let mut lows = (least..=n).filter(|&low| low + 1 < high && is_prime(high - low));
        let low = lows.clone().find(|&low| is_apart(low)).or_else(|| lows.next())?;
        let middle = ((n as f64 * high as f64).sqrt() as i64).clamp(low + 1, high - 1);
        let inside = || (middle..high).chain((low + 1..middle).rev());
        // those that divide no fixed number come first
        let apart = inside().take(MOST_PRIMES).filter(|&n| is_apart(n));
        let others: Vec<i64> = apart.chain(inside().take(2)).collect();
        let near = *others.first()?;
        let other = others.into_iter().find(|&other| other != near)?;
        Some(Interval { low, near, high, other })
    })
}

impl Interval {
    /// With one end closer to `n`.
    fn drawn(self, variables: &Variables, n: i64, end: End, taken: &[i64]) -> Option<Interval> {
        let bounds = match end {
            End::Low => (n - (n - self.low) / 4, self.high),
            End::High => (self.low, n + (self.high - n) / 4),
        };
        interval(variables, n, bounds, taken)
    }
}

#[derive(Clone, Copy)]
enum End {
    Low,
    High,
}

/// Makes schedules of a graph with other lengths.
pub(super) struct Witnesses<'a> {
    pub(super) closed: &'a Closed,
    pub(super) variables: &'a Variables,
    /// By constant: whether it is a launch-time scalar.
    pub(super) variable: &'a [bool],
    pub(super) opened: &'a Opened,
}

impl Witnesses<'_> {
    /// A schedule for the lengths around a point: for as many as have the same kernels.
    pub(super) fn schedule(&self, point: &[i64]) -> Option<GeneralSchedule> {
        let is_graph = |point: &[i64]| self.graph(point).is_some();
        let mut intervals = intervals(self.variables, point, &is_graph)?;
        for _ in 0..MOST_TRIES {
            let none = Choices::default();
            let (near, choices) = self.at(intervals.iter().map(|i| i.near), &none)?;
            let choices = choices.again();
            let at = |point: Vec<i64>| Some(self.at(point, &choices)?.0);
            let is_like_near = |point| Some(at(point)?.has_the_kernels_of(&near));
            let end = if !is_like_near(intervals.iter().map(|i| i.high).collect())? {
                End::High
            } else if !is_like_near(intervals.iter().map(|i| i.low).collect())? {
                End::Low
            } else {
                let grid = Grid(intervals.iter().map(|i| [i.low, i.high, i.near]).collect());
                let other: Vec<i64> = intervals.iter().map(|i| i.other).collect();
                let points = grid.points().into_iter().chain([other.clone()]);
                let all: Option<Vec<_>> = points.map(at).collect();
                return GeneralSchedule::through(grid, &other, &all?);
            };
            let mut taken = Vec::new();
            for (interval, n) in intervals.iter_mut().zip(point) {
                *interval = interval.drawn(self.variables, *n, end, &taken)?;
                taken.push(interval.high);
            }
        }
        None
    }

    /// The graph with other lengths, if there is one.
    fn graph(&self, point: &[i64]) -> Option<Vec<UOp>> {
        let numbers = self.variables.numbers(point)?;
        let (lengths, starts) = numbers.split_at(self.closed.lengths.len());
        self.closed.build_with(self.variable, &Changed { lengths, starts })
    }

    fn at(
        &self,
        point: impl IntoIterator<Item = i64>,
        choices: &Choices,
    ) -> Option<(Schedule, Choices)> {
        let point: Vec<i64> = point.into_iter().collect();
        cache::scheduled(&self.graph(&point)?, self.opened, choices).ok()
    }
}

fn is_prime(n: i64) -> bool {
    n > 1 && (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_prime_end_and_a_prime_width() {
        let variables = Variables::of(&[&[12, 384, 64], &[13, 384, 64], &[17, 384, 64]], 3, &[]);
        let at_most_1000 = |point: &[i64]| (2..=1000).contains(&point[0]);
        for n in [2, 3, 12, 100, 999] {
            let found = intervals(&variables, &[n], &at_most_1000);
            let Some(&[Interval { low, near, high, .. }]) = found.as_deref() else {
                assert!(n == 999, "{n}: {found:?}");
                continue;
            };
            assert!(is_prime(high) && is_prime(high - low) && high <= 1000, "{found:?}");
            assert!(low <= n && n <= high && low < near && near < high, "{n}: {found:?}");
        }
    }
}
