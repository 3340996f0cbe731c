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

/// The same, where all shorter lengths have the same kernels: that of most texts.
const LEAST_FAR_END: i64 = 512;

/// No larger length is tried: primes are found by division.
const FARTHEST: i64 = 1 << 32;

/// A prime is looked for so far above the largest value of a variable.
const BEYOND: i64 = 40;

/// How many primes are tried.
const MOST_PRIMES: usize = 64;

/// How many kernels a general schedule may be made from, all schedules together: about two seconds.
const MOST_KERNELS: usize = 32 << 10;

/// How often the ends of an interval are drawn closer to where the graph is.
const MOST_TRIES: usize = 5;

/// For one length, the interval in which it may vary.
#[derive(Clone, Copy, Debug)]
struct Interval {
    /// What it is made for.
    n: i64,
    low: i64,
    /// Where choices by price are made: between the graph's length and the upper end.
    near: i64,
    high: i64,
    /// One more, where numbers are tried.
    other: i64,
}

/// Which intervals are wanted.
#[derive(Clone, Copy, Debug)]
enum Wanted<'a> {
    /// Around the point.
    Near,
    /// Those that leave out least of what is below these lengths, and go as far beyond as lengths may grow.
    Below(&'a [i64]),
    /// Those that leave out least of what is between these bounds, wherever the point is.
    Wide(&'a [(i64, i64)]),
    /// The same, with ends at which less is equal by chance.
    Apart(&'a [(i64, i64)]),
}

impl Wanted<'_> {
    /// The bounds of a variable that is now `n`.
    fn bounds(self, v: usize, n: i64) -> (i64, i64) {
        match self {
            Wanted::Near => (2, end_of(n)),
            Wanted::Below(longest) => {
                (2, end_of(longest[v]).max(LEAST_FAR_END).saturating_add(BEYOND))
            }
            Wanted::Wide(bounds) | Wanted::Apart(bounds) => {
                let (low, high) = bounds[v];
                (low.max(2), high.saturating_add(BEYOND))
            }
        }
    }

    /// Up to where an interval of a variable is to leave out least.
    fn until(self, v: usize) -> Option<i64> {
        match self {
            Wanted::Below(longest) => Some(longest[v]),
            Wanted::Wide(bounds) => Some(bounds[v].1),
            Wanted::Near | Wanted::Apart(_) => None,
        }
    }
}

/// What a length may become.
fn end_of(n: i64) -> i64 {
    n.saturating_mul(GROWTH).max(LEAST_END)
}

/// An interval for each variable, for the graphs around a point. `is_graph` says whether there is a graph with these
/// lengths.
fn intervals(
    variables: &Variables,
    point: &[i64],
    wanted: Wanted<'_>,
    is_graph: &dyn Fn(&[i64]) -> bool,
) -> Option<Vec<Interval>> {
    let mut found: Vec<Interval> = Vec::new();
    for v in 0..point.len() {
        let with = |n: i64| {
            let mut other = point.to_vec();
            other[v] = n;
            is_graph(&other)
        };
        let (low, high) = wanted.bounds(v, point[v]);
        let high = Some(high.min(FARTHEST)).filter(|high| *high > point[v])?;
        let most = last((point[v], high), &with);
        let least = -last((-point[v], -low), &|n| with(-n));
        let taken: Vec<i64> = found.iter().flat_map(Interval::values).collect();
        let center = match wanted {
            Wanted::Near => point[v],
            _ => least.midpoint(most),
        };
        let ends = Ends { variables, n: center, least, most, taken: &taken };
        found.push(match wanted.until(v) {
            Some(until) => ends.widest(until)?,
            None => ends.interval()?,
        });
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

/// Where an interval around `n` may end. Its upper end is a prime that divides no fixed number, and its ends are a prime
/// apart.
struct Ends<'a> {
    variables: &'a Variables,
    n: i64,
    least: i64,
    most: i64,
    /// What other lengths are where schedules are made: kernels over loops of one length may be merged.
    taken: &'a [i64],
}

impl Ends<'_> {
    fn is_apart(&self, p: i64) -> bool {
        p > 1 && self.variables.fixed().all(|f| f == 0 || f % p != 0)
    }

    /// Upper ends, largest first.
    fn highs(&self) -> impl Iterator<Item = i64> + '_ {
        let is_end = |p: &i64| is_prime(*p) && self.is_apart(*p) && !self.taken.contains(p);
        (self.n.max(self.least + 2)..=self.most).rev().filter(is_end).take(MOST_PRIMES)
    }

    /// Lower ends, smallest first.
    fn lows(&self, high: i64) -> impl Iterator<Item = i64> + Clone {
        (self.least..=self.n).filter(move |&low| low + 1 < high && is_prime(high - low))
    }

    /// The interval with the largest upper end. If possible, the other values divide no fixed number either: less is different
    /// there by chance.
    fn interval(&self) -> Option<Interval> {
        self.highs().find_map(|high| {
            let mut lows = self.lows(high);
            let is_free = |low: &i64| !self.taken.contains(low);
            let best = lows.clone().find(|low| is_free(low) && self.is_apart(*low));
            let low = best.or_else(|| lows.clone().find(is_free)).or_else(|| lows.next())?;
            self.between(low, high)
        })
    }

    /// The interval that leaves out least up to a number.
    fn widest(&self, until: i64) -> Option<Interval> {
        let with = |high: i64| Some((self.lows(high).next()?, high));
        let left_out =
            |&(low, high): &(i64, i64)| (low - self.least) + (until.min(self.most) - high).max(0);
        let (low, high) = self.highs().filter_map(with).min_by_key(left_out)?;
        self.between(low, high)
    }

    fn between(&self, low: i64, high: i64) -> Option<Interval> {
        let n = self.n;
        let middle = ((n as f64 * high as f64).sqrt() as i64).clamp(low + 1, high - 1);
        let is_free = |n: &i64| !self.taken.contains(n);
        let inside = || (middle..high).chain((low + 1..middle).rev()).filter(is_free);
        // those that divide no fixed number come first
        let apart = inside().take(MOST_PRIMES).filter(|&n| self.is_apart(n));
        let others: Vec<i64> = apart.chain(inside().take(2)).collect();
        let near = *others.first()?;
        let other = others.into_iter().find(|&other| other != near)?;
        Some(Interval { n, low, near, high, other })
    }
}

impl Interval {
    /// Where schedules are made.
    fn values(&self) -> [i64; 4] {
        [self.low, self.near, self.high, self.other]
    }

    /// With one end closer to the number that it is for.
    fn drawn(self, variables: &Variables, end: End, taken: &[i64]) -> Option<Interval> {
        let n = self.n;
        let (least, most) = match end {
            End::Low => (n - (n - self.low) / 4, self.high),
            End::High => (self.low, n + (self.high - n) / 4),
        };
        Ends { variables, n, least, most, taken }.interval()
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
    /// By variable: the largest value that was seen.
    pub(super) longest: &'a [i64],
    pub(super) opened: &'a Opened,
}

impl Witnesses<'_> {
    /// A schedule for all lengths inside of the bounds, whatever the point is, if that holds the point. Without bounds, or outside of
    /// them, one for all lengths that are not much longer than those that were seen. If those do not all have the same kernels, for
    /// as many around the point as do.
    pub(super) fn schedule(
        &self,
        point: &[i64],
        bounds: Option<&[(i64, i64)]>,
    ) -> Option<GeneralSchedule> {
        let holds = |found: &GeneralSchedule| found.at(point).is_some();
        let is_inside = |bounds: &[(i64, i64)]| {
            bounds.iter().zip(point).all(|((low, high), n)| (low..=high).contains(&n))
        };
        let named = bounds.filter(|bounds| is_inside(bounds)).and_then(|bounds| {
            let wide = self.around(point, Wanted::Wide(bounds)).filter(holds);
            wide.or_else(|| self.around(point, Wanted::Apart(bounds)).filter(holds))
        });
        let below = || self.around(point, Wanted::Below(self.longest)).filter(holds);
        named.or_else(below).or_else(|| self.around(point, Wanted::Near))
    }

    fn around(&self, point: &[i64], wanted: Wanted<'_>) -> Option<GeneralSchedule> {
        let is_graph = |point: &[i64]| self.graph(point).is_some();
        let mut intervals = intervals(self.variables, point, wanted, &is_graph)?;
        let tries =
            if matches!(wanted, Wanted::Wide(_) | Wanted::Below(_)) { 1 } else { MOST_TRIES };
        for _ in 0..tries {
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
                let grid = Grid::new(intervals.iter().map(|i| [i.low, i.high, i.near]).collect());
                if grid.points().count() * near.kernels.len() > MOST_KERNELS {
                    return None;
                }
                let other: Vec<i64> = intervals.iter().map(|i| i.other).collect();
                let points = grid.points().chain([other.clone()]);
                let all: Option<Vec<_>> = points.map(at).collect();
                return GeneralSchedule::through(grid, &other, &all?);
            };
            let mut taken = Vec::new();
            for interval in &mut intervals {
                *interval = interval.drawn(self.variables, end, &taken)?;
                taken.extend(interval.values());
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
            let found = intervals(&variables, &[n], Wanted::Near, &at_most_1000);
            let Some(&[Interval { low, near, high, .. }]) = found.as_deref() else {
                assert!(n == 999, "{n}: {found:?}");
                continue;
            };
            assert!(is_prime(high) && is_prime(high - low) && high <= 1000, "{found:?}");
            assert!(low <= n && n <= high && low < near && near < high, "{n}: {found:?}");
            let wide = intervals(&variables, &[n], Wanted::Wide(&[(1, 500)]), &at_most_1000);
            let (low, high) = wide.map(|wide| (wide[0].low, wide[0].high)).expect("wide");
            assert!(low == 2 && high >= 500 && is_prime(high) && is_prime(high - low), "{n}");
            let below = intervals(&variables, &[n], Wanted::Below(&[n.max(300)]), &at_most_1000);
            let (low, high) = below.map(|below| (below[0].low, below[0].high)).expect("below");
            assert!(low == 2 && high >= 800 && is_prime(high) && is_prime(high - low), "{n}");
        }
    }
}
