//! Part of pass `options`: what overlapping windows cover. Halide calls this bounds inference.
//!
//! A convolution reads `x[row + k]` for 28 rows and `k < 3`: 84 reads of 30 elements. `row` and `k` are one *window group*:
//! the operand is the same wherever `row + k` is. Staged, the group is one range of 30, and `row + k` is a position in it.

use super::access::value_strides;
use super::counting::counting;
use super::forms::{index_forms, is_end_at_launch};
use super::gate::gate;
use super::ranges::{axis_of, kind_of, open_ranges, replace_ranges, size_of};
use super::size::is_fixed;
use kiln_ir::affine::{Affine, factors};
use kiln_ir::arg::RangeKind;
use kiln_ir::uop::{Srcs, mapped, rebuild, toposort};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;

/// Ranges that a value reads only as one sum, each with its factor in it. The first has the factor 1.
#[derive(Clone)]
pub(super) struct Group {
    pub(super) members: Vec<(UOp, i64)>,
    /// Predicates on loads that only end loops of the group where a launch says. Past those ends the value does not count.
    ends: Vec<UOp>,
}

impl Group {
    /// The smallest and the largest value of the sum.
    pub(super) fn bounds(&self) -> (i64, i64) {
        let reach = |(range, factor): &(UOp, i64)| factor * (size_of(range) as i64 - 1);
        let of_sign = |sign: i64| self.members.iter().map(reach).filter(move |r| r * sign > 0);
        (of_sign(-1).sum(), of_sign(1).sum())
    }

    /// Predicates that end loops of the group, as predicates on its sum: `2 * i + k < 2 * n + 1` for `i < n` and `k < 3`. They let
    /// those sums through that valid iterations have, and what is between two such.
    fn limits(&self, ends: &[UOp]) -> Vec<UOp> {
        let end_of = |range: &UOp| {
            let own = ends.iter().filter(|end| end.src(0) == range);
            own.map(|end| end.src(1).clone()).reduce(|a, b| a.minimum(&b))
        };
        let last = |(range, factor): &(UOp, i64)| {
            (end_of(range).unwrap_or_else(|| UOp::index(size_of(range) as i64)) - 1) * *factor
        };
        let of_sign = |sign: i64| self.members.iter().filter(move |(_, factor)| factor * sign > 0);
        let is_ended = |sign: i64| of_sign(sign).any(|(range, _)| end_of(range).is_some());
        let bound = |sign: i64| of_sign(sign).map(last).reduce(|a, b| a + b);
        let sum = self.members.iter().map(|(range, factor)| range * *factor).reduce(|a, b| a + b);
        let sum = sum.expect("a group has members");
        let most = bound(1).filter(|_| is_ended(1)).map(|most| sum.lt(&(most + 1)));
        let least = bound(-1).filter(|_| is_ended(-1)).map(|least| (least - 1).lt(&sum));
        most.into_iter().chain(least).collect()
    }

    /// The range with the factor 1.
    fn unit(&self) -> &UOp {
        &self.members[0].0
    }

    /// The axis of that range.
    pub(super) fn axis(&self) -> u32 {
        axis_of(self.unit())
    }

    pub(super) fn has(&self, range: &UOp) -> bool {
        self.factor(range).is_some()
    }

    /// The factor of a range in the sum, if it is a part of it.
    pub(super) fn factor(&self, range: &UOp) -> Option<i64> {
        self.members.iter().find(|(member, _)| member == range).map(|(_, factor)| *factor)
    }
}

/// The values that `terms` ranges take together: so many iterations, each with its factor in the sum.
pub(super) fn cover(terms: impl Iterator<Item = (usize, i64)>) -> usize {
    terms.map(|(size, factor)| factor.unsigned_abs() as usize * (size - 1)).sum::<usize>() + 1
}

/// The window groups of a value of a kernel. In no two of them is the same range.
pub(super) fn groups(ast: &UOp, value: &UOp) -> Vec<Group> {
    let ends = ends_that_count_nowhere(ast, value);
    let Some(forms) = forms(&without(value, &ends)) else { return Vec::new() };
    let mut ranges = open_ranges(value);
    let factors = |range: &UOp| forms.iter().map(|f| f.coefficient(range)).collect::<Vec<_>>();
    ranges.sort_by_key(|r| (factors(r).iter().map(|k| k.unsigned_abs()).sum::<u64>(), axis_of(r)));
    let mut found: Vec<(Vec<i64>, Group)> = Vec::new();
    for range in ranges {
        let own = factors(&range);
        let joins = |(unit, group): &(Vec<i64>, Group)| {
            let reach = cover(group.members.iter().map(|(r, k)| (size_of(r), *k)));
            multiple(&own, unit).filter(|factor| (factor.unsigned_abs() as usize) < reach)
        };
        match found.iter().position(|known| joins(known).is_some()) {
            Some(i) => {
                let factor = joins(&found[i]).expect("it joins this one");
                found[i].1.members.push((range, factor));
            }
            None => found.push((own, Group { members: vec![(range, 1)], ends: Vec::new() })),
        }
    }
    let overlap = |group: &Group| group.members.len() > 1;
    let groups = found.into_iter().map(|(_, group)| group).filter(overlap);
    let ends_of =
        |group: &Group| ends.iter().filter(|end| group.has(end.src(0))).cloned().collect();
    groups.map(|group| Group { ends: ends_of(&group), ..group }).collect()
}

/// Predicates on a value's loads that end loops where a launch says, if the value does not count past those ends.
fn ends_that_count_nowhere(ast: &UOp, value: &UOp) -> Vec<UOp> {
    let nodes = toposort(value);
    let gates = nodes.iter().filter(|n| n.op() == Op::Load).filter_map(|n| n.gate());
    let mut ends: Vec<UOp> = gates.flat_map(UOp::conjuncts).filter(is_end_at_launch).collect();
    if !ends.is_empty() {
        let counting = counting(&toposort(ast));
        ends.retain(|end| counting.get(value).is_some_and(|known| known.contains(end)));
    }
    ends
}

/// `k` if `own` is `k` times `unit`.
fn multiple(own: &[i64], unit: &[i64]) -> Option<i64> {
    let at = unit.iter().position(|&u| u != 0)?;
    let factor = own[at].checked_div(unit[at]).filter(|&k| k != 0)?;
    let fits = |(&o, &u): (&i64, &i64)| u.checked_mul(factor) == Some(o);
    own.iter().zip(unit).all(fits).then_some(factor)
}

/// All that a value takes from its ranges (see [`index_forms`]).
fn forms(value: &UOp) -> Option<Vec<Affine>> {
    let mut forms: Vec<Affine> = Vec::new();
    for part in index_forms(&toposort(value))?.iter().flat_map(by_scale) {
        if !forms.contains(&part) {
            forms.push(part)
        }
    }
    Some(forms)
}

/// A sum as one sum for each number that a launch decides and that terms are multiplied by: of `h * n + k * n + w`, `h + k` and `w`.
fn by_scale(form: &Affine) -> Vec<Affine> {
    let mut sums: Vec<(Vec<UOp>, Affine)> =
        vec![(Vec::new(), Affine { constant: form.constant, ..Affine::default() })];
    for (atom, k) in &form.terms {
        let (scale, moving): (Vec<UOp>, Vec<UOp>) = factors(atom).into_iter().partition(is_fixed);
        let term = moving.into_iter().reduce(|a, b| a * b).map(|term| (term, *k));
        match sums.iter_mut().find(|(known, _)| *known == scale) {
            Some((_, sum)) => sum.terms.extend(term),
            None => {
                let sum = Affine { terms: term.into_iter().collect(), constant: 0 };
                sums.push((scale, sum));
            }
        }
    }
    sums.into_iter().map(|(_, sum)| sum).collect()
}

/// The value without some conjuncts of its loads' predicates.
fn without(value: &UOp, ends: &[UOp]) -> UOp {
    with_gates(value, ends, |_| Vec::new())
}

/// The value with others instead of some conjuncts of its loads' predicates: those of each load.
fn with_gates(value: &UOp, ends: &[UOp], instead: impl Fn(&[UOp]) -> Vec<UOp>) -> UOp {
    if ends.is_empty() {
        return value.clone();
    }
    let mut done: FxHashMap<UOp, UOp> = FxHashMap::default();
    for node in toposort(value) {
        let mut srcs = mapped(&node, &done);
        let gate = Some(&node).filter(|n| n.op() == Op::Load).and_then(|load| load.gate());
        if let Some(gate) = gate {
            let (own, mut left): (Vec<UOp>, Vec<UOp>) =
                gate.conjuncts().into_iter().partition(|conjunct| ends.contains(conjunct));
            if !own.is_empty() {
                left.extend(instead(&own));
                srcs.truncate(node.gate_source());
                srcs.extend(left.into_iter().reduce(|a, b| a.and(&b)));
            }
        }
        done.insert(node.clone(), rebuild(&node, srcs));
    }
    done[value].clone()
}

/// A group of a staged value as one range of its panel.
pub(super) struct Window {
    /// The range, over which the copy runs.
    pub(super) range: UOp,
    /// The position in it that is read.
    pub(super) place: UOp,
    /// The group's sum over this range and the loops around the panel.
    sum: UOp,
    /// Whether the range is longer than what is read.
    is_rounded: bool,
}

/// What a panel holds.
pub(super) struct Covered {
    /// The value over the loops around the panel and the panel's ranges.
    pub(super) source: UOp,
    pub(super) windows: Vec<Window>,
}

/// The new ranges that stand for old ones.
type NewRanges = FxHashMap<UOp, (UOp, Srcs)>;

impl Covered {
    /// `value` of a kernel as a panel inside the loops `outer` holds it, with a range for each group whose windows overlap there. None
    /// if there is no such group. Past the end of the `padded` ranges nothing is read. New ranges are numbered from
    /// `next_axis`. The copy is in vectors of `lanes`.
    pub(super) fn of(
        (ast, value): (&UOp, &UOp),
        padded: &[UOp],
        map: &NewRanges,
        (outer, next_axis): (&[UOp], u32),
        lanes: usize,
    ) -> Option<Covered> {
        let strides = value_strides(value);
        let is_gated = toposort(value).iter().any(|n| n.op() == Op::Load && n.gate().is_some());
        let groups = groups(ast, value);
        let last = next_axis + groups.len() as u32;
        let window = |(group, axis): (Group, u32)| {
            let in_a_row = strides.get(&group.axis()) == Some(&Some(1));
            let lanes = if in_a_row && is_gated { lanes } else { 1 };
            Some((Window::of(&group, map, outer, axis, lanes)?, group))
        };
        let windows: Vec<_> =
            groups.into_iter().zip((next_axis..last).rev()).filter_map(window).collect();
        if windows.is_empty() {
            return None;
        }
        let limited = |source: UOp, (_, group): &(Window, Group)| {
            with_gates(&source, &group.ends, |own| group.limits(own))
        };
        let mut source = windows.iter().fold(value.clone(), limited);
        for range in padded.iter().filter(|r| !windows.iter().any(|(_, group)| group.has(r))) {
            source = gated(&source, range, &range.lt(range.src(0)));
        }
        let mut map = map.clone();
        for (window, group) in &windows {
            let unit = group.unit();
            if window.is_rounded || padded.iter().any(|range| group.has(range)) {
                let (least, most) = group.bounds();
                let valid = UOp::index(least - 1).lt(unit).and(&unit.lt(&UOp::index(most + 1)));
                source = gated(&source, unit, &valid);
            }
            for (range, _) in &group.members {
                map.insert(range.clone(), (UOp::index(0), Srcs::new()));
            }
            map.insert(unit.clone(), (window.sum.clone(), Srcs::new()));
        }
        let windows = windows.into_iter().map(|(window, _)| window).collect();
        Some(Covered { source: replace_ranges(&source, &map), windows })
    }
}

fn gated(value: &UOp, range: &UOp, valid: &UOp) -> UOp {
    gate(value, range, valid, |_| true)[value].clone()
}

impl Window {
    /// The part of a group that lies inside the loops `outer`; None if it is no smaller than its ranges one by one, or
    /// if lanes would not be neighbours. `axis` is the number of the new range.
    fn of(
        group: &Group,
        map: &NewRanges,
        outer: &[UOp],
        axis: u32,
        lanes: usize,
    ) -> Option<Window> {
        let add = |sum: Affine, (range, factor): &(UOp, i64)| {
            sum.plus(&Affine::of(&map[range].0)?, *factor)
        };
        let sum = group.members.iter().try_fold(Affine::default(), add)?;
        let (inside, outside): (Vec<_>, Vec<_>) =
            sum.terms.into_iter().partition(|(atom, _)| !outer.contains(atom));
        let is_vector = |r: &UOp| kind_of(r) == RangeKind::Vector;
        let stays = |(r, k): &(UOp, i64)| r.op() == Op::Range && (!is_vector(r) || *k == 1);
        if !inside.iter().all(stays) {
            return None;
        }
        let len = cover(inside.iter().map(|(r, k)| (size_of(r), *k)));
        if len >= inside.iter().map(|(r, _)| size_of(r)).product() {
            return None;
        }
        let has_lanes = inside.iter().any(|(r, _)| is_vector(r));
        let kind = if has_lanes { RangeKind::Vector } else { RangeKind::Loop };
        let rounded = rounded(len, lanes);
        let range = UOp::range(axis, kind, rounded);
        let below: i64 = inside.iter().map(|(r, k)| k.min(&0) * (size_of(r) as i64 - 1)).sum();
        let place = Affine { terms: inside.into(), constant: -below };
        let base = Affine { terms: outside.into(), constant: sum.constant + below };
        let sum = base.to_uop() + &range;
        Some(Window { sum, range, place: place.to_uop(), is_rounded: rounded > len })
    }
}

/// A length in whole vectors of at most `lanes`, if that makes it a third longer at most.
fn rounded(len: usize, lanes: usize) -> usize {
    let widths = std::iter::successors(Some(lanes), |lanes| Some(lanes / 2));
    let lengths = widths.take_while(|&lanes| lanes > 1).map(|lanes| len.next_multiple_of(lanes));
    lengths.into_iter().find(|rounded| 3 * rounded <= 4 * len).unwrap_or(len)
}
