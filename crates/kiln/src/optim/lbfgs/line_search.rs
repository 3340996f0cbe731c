//! A point along a direction that is low and flat enough (Nocedal and Wright, Numerical Optimization, algorithms 3.5 and
//! 3.6, with PyTorch's numbers).

use super::vectors::{dot, largest};
use crate::error::Fault;

/// The part of the slope at the start that the loss must fall by.
const FALL: f64 = 1e-4;
/// The part of the slope at the start that may be left.
const FLATNESS: f64 = 0.9;

/// The loss and its gradient.
pub(super) struct Value {
    pub(super) loss: f64,
    pub(super) grad: Vec<f64>,
}

impl Value {
    pub(super) fn is_finite(&self) -> bool {
        self.loss.is_finite() && self.grad.iter().all(|g| g.is_finite())
    }
}

/// A trial.
struct Point {
    t: f64,
    loss: f64,
    slope: f64,
    grad: Vec<f64>,
}

impl Point {
    /// A loss that is infinite or NaN is above all others.
    fn new(t: f64, value: Value, d: &[f64]) -> Point {
        let loss = if value.is_finite() { value.loss } else { f64::INFINITY };
        Point { t, loss, slope: dot(&value.grad, d), grad: value.grad }
    }
}

/// A search along a direction.
pub(super) struct Search<'a> {
    /// The value at a distance.
    pub(super) try_at: &'a mut dyn FnMut(f64) -> Result<Value, Fault>,
    pub(super) start: &'a Value,
    pub(super) d: &'a [f64],
    /// How many trials there may be after the first.
    pub(super) left: usize,
    /// A change of each parameter that is none.
    pub(super) least: f64,
}

impl Search<'_> {
    /// How far to go, first tried with `t`, and the value there.
    pub(super) fn run(mut self, t: f64) -> Result<(f64, Value), Fault> {
        let (a, b) = self.bracket(t)?;
        let found = match b {
            Some(b) => self.narrow(a, b)?,
            None => a,
        };
        Ok((found.t, Value { loss: found.loss, grad: found.grad }))
    }

    fn origin(&self) -> Point {
        let start = Value { loss: self.start.loss, grad: self.start.grad.clone() };
        Point::new(0.0, start, self.d)
    }

    fn point(&mut self, t: f64) -> Result<Point, Fault> {
        self.left = self.left.saturating_sub(1);
        Ok(Point::new(t, (self.try_at)(t)?, self.d))
    }

    fn slope(&self) -> f64 {
        dot(&self.start.grad, self.d)
    }

    fn falls(&self, p: &Point) -> bool {
        p.loss <= self.start.loss + FALL * p.t * self.slope()
    }

    fn is_flat(&self, p: &Point) -> bool {
        p.slope.abs() <= -FLATNESS * self.slope()
    }

    /// Goes further until a minimum lies between two points, or one point is good enough.
    fn bracket(&mut self, t: f64) -> Result<(Point, Option<Point>), Fault> {
        let first = (self.try_at)(t)?;
        let (mut before, mut here) = (self.origin(), Point::new(t, first, self.d));
        let mut is_late = false; // PyTorch does not compare the first two trials
        for i in 0.. {
            if self.left == 0 {
                return Ok((self.origin(), Some(here)));
            }
            if !self.falls(&here) || (is_late && here.loss >= before.loss) {
                break;
            }
            if self.is_flat(&here) {
                return Ok((here, None));
            }
            if here.slope >= 0.0 {
                break;
            }
            let least = here.t + 0.01 * (here.t - before.t);
            let next = self.point(minimum(&before, &here, least, here.t * 10.0))?;
            before = std::mem::replace(&mut here, next);
            is_late = i > 0;
        }
        Ok((before, Some(here)))
    }

    /// Comes closer to the minimum between two points.
    fn narrow(&mut self, mut low: Point, mut high: Point) -> Result<Point, Fault> {
        let mut was_near_end = false;
        loop {
            if high.loss < low.loss {
                std::mem::swap(&mut low, &mut high);
            }
            if self.left == 0 || (high.t - low.t).abs() * largest(self.d) < self.least {
                return Ok(low);
            }
            let t = between(&low, &high, &mut was_near_end);
            let here = self.point(t)?;
            if !self.falls(&here) || here.loss >= low.loss {
                high = here;
                continue;
            }
            if self.is_flat(&here) {
                return Ok(here);
            }
            let rises = here.slope * (high.t - low.t) >= 0.0;
            let past = std::mem::replace(&mut low, here);
            if rises {
                high = past;
            }
        }
    }
}

/// Where to try between two points: not twice in a row near an end.
fn between(low: &Point, high: &Point, was_near_end: &mut bool) -> f64 {
    let (from, to) = (low.t.min(high.t), low.t.max(high.t));
    let t = minimum(low, high, from, to);
    let margin = 0.1 * (to - from);
    let is_near_end = (to - t).min(t - from) < margin;
    if is_near_end && (*was_near_end || t >= to || t <= from) {
        *was_near_end = false;
        return if (t - to).abs() < (t - from).abs() { to - margin } else { from + margin };
    }
    *was_near_end = is_near_end;
    t
}

/// The minimum between `from` and `to` of the cubic polynomial through two points with their slopes; the middle if there
/// is none.
fn minimum(a: &Point, b: &Point, from: f64, to: f64) -> f64 {
    let (a, b) = if a.t <= b.t { (a, b) } else { (b, a) };
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
    let d2 = (d1 * d1 - a.slope * b.slope).sqrt();
    let t = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2));
    if t.is_nan() { (from + to) / 2.0 } else { t.max(from).min(to) }
}
