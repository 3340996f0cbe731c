//! Which numbers of a graph vary, from the variables that its program names.
//!
//! A program gives some numbers of a graph as expressions of its variables, or fills a storage from the front ([`filled`]).
//! Others follow from these: both operands of a sum have one shape, a reshape keeps the number of elements. What is left is
//! taken as fixed. That is a guess too, and each number of each graph is compared with it.

use super::super::capture::Closed;
use super::filled;
use super::form::Form;
use super::quantities::{Quantified, Quantities, Quantity, Relation};
use super::variables::Variables;
use kiln_ir::uop::{Linear, VariableId};
use rustc_hash::FxHashMap;

/// How the numbers of a graph depend on the variables of its program.
pub(super) struct Named {
    pub(super) variables: Variables,
    /// By variable, its smallest and its largest value.
    pub(super) bounds: Vec<(i64, i64)>,
}

/// A variable with one of its values: two values of one name are two variables.
type Instance = (VariableId, i64);

/// What variables are replaced by: lengths of the graph.
#[derive(Default)]
struct Bases {
    of: FxHashMap<Instance, (usize, Linear)>,
    /// By variable, the length that it is.
    at: Vec<usize>,
    bounds: Vec<(i64, i64)>,
}

impl Named {
    /// None if no length of the graph depends on a variable, or one does in a way that has no form.
    pub(super) fn of(closed: &Closed) -> Option<Named> {
        let mut all = Quantified::of(closed);
        if !closed.is_named {
            filled::hear(closed, &mut all);
        }
        if all.said.is_empty() {
            return None;
        }
        let bases = all.bases();
        all.settle(&bases)?;
        let point: Vec<i64> = bases.at.iter().map(|&at| all.values[all.lengths[at]]).collect();
        let mut forms = Vec::with_capacity(all.lengths.len() + all.starts.len());
        for &length in &all.lengths {
            let form = all.form(length);
            if form.at(&point) != Some(all.values[length]) {
                return None;
            }
            forms.push(form);
        }
        let varying: Vec<Quantity> = all.said.iter().map(|&(quantity, _)| quantity).collect();
        for &start in &all.starts {
            let form = all.forms[all.first(start)].clone();
            let form = form.filter(|form| form.at(&point) == Some(all.values[start]));
            let is_said = varying.contains(&start) || all.free.contains(&start);
            let other = if is_said { Form::Free } else { Form::Fixed(all.values[start]) };
            forms.push(form.unwrap_or(other));
        }
        let Bases { at, bounds, .. } = bases;
        (!at.is_empty()).then(|| Named { variables: Variables::with(at, &forms), bounds })
    }
}

impl Quantified {
    /// The variable that a quantity was made from, and its value.
    fn instance(&self, (quantity, linear): &(Quantity, Linear)) -> Option<Instance> {
        let by_variable = self.values[*quantity].checked_sub(linear.plus)?;
        let is_whole = by_variable.checked_rem(linear.times)? == 0;
        is_whole.then_some((linear.variable?, by_variable / linear.times))
    }

    /// For each variable a length to stand for it: of those with the smallest factor, what is said most often.
    fn bases(&self) -> Bases {
        let mut length_of: FxHashMap<Quantity, usize> = FxHashMap::default();
        for (nth, &length) in self.lengths.iter().enumerate() {
            length_of.entry(self.first(length)).or_insert(nth);
        }
        let mut bases = Bases::default();
        for said in &self.said {
            let Some(instance) = self.instance(said) else { continue };
            if bases.of.contains_key(&instance) {
                continue;
            }
            let mine = self.said.iter().filter(|other| self.instance(other) == Some(instance));
            let lengths = mine.filter_map(|&(quantity, linear)| {
                Some((*length_of.get(&self.first(quantity))?, linear))
            });
            let lengths: Vec<(usize, Linear)> = lengths.collect();
            let often = |linear: &Linear| lengths.iter().filter(|(_, l)| l == linear).count();
            let order = |(_, linear): &&(usize, Linear)| {
                (std::cmp::Reverse(linear.times.abs()), often(linear))
            };
            // of equals the first
            if let Some(&(at, linear)) = lengths.iter().rev().max_by_key(order) {
                bases.add(instance, at, linear);
            }
        }
        bases
    }

    /// What is known of a quantity; else it is taken as fixed.
    fn form(&self, quantity: Quantity) -> Form {
        let known = self.forms[self.first(quantity)].clone();
        known.unwrap_or(Form::Fixed(self.values[quantity]))
    }

    fn is_known(&self, quantity: Quantity) -> bool {
        self.forms[self.first(quantity)].is_some()
    }

    fn varies(&self, quantity: Quantity) -> bool {
        self.forms[self.first(quantity)].as_ref().is_some_and(Form::varies)
    }

    /// Notes a form, and whether there is one.
    fn know(&mut self, quantity: Quantity, form: Option<Form>) -> bool {
        let first = self.first(quantity);
        let is_new = self.forms[first].is_none() && form.is_some();
        if is_new {
            self.forms[first] = form;
        }
        is_new
    }

    /// Finds the forms of all quantities that follow from what was said. None if one has no form.
    fn settle(&mut self, bases: &Bases) -> Option<()> {
        for (quantity, linear) in self.said.clone() {
            let form = match self.instance(&(quantity, linear)) {
                Some(instance) => bases.form(instance, linear),
                None => (linear.times == 0).then_some(Form::Fixed(linear.plus)),
            };
            self.know(quantity, form);
        }
        let relations = std::mem::take(&mut self.relations);
        // what must be comes before what is likely
        while relations.iter().any(|relation| self.follow(relation))
            || relations.iter().any(|relation| self.suppose(relation))
        {}
        relations.iter().all(|relation| self.holds(relation)).then_some(())
    }

    /// Whether a relation told something new.
    fn follow(&mut self, relation: &Relation) -> bool {
        match relation {
            Relation::Product(a, b) => match self.factor(a, b).or_else(|| self.factor(b, a)) {
                Some((quantity, form)) => self.know(quantity, Some(form)),
                None => false,
            },
            &Relation::Pad { x, padded, before, between, after } => {
                let gaps = self.values[between];
                let spread = |x: Form| x.times(&Form::Fixed(1 + gaps))?.plus(&Form::Fixed(-gaps));
                let minus = |a: Form, b: Form| a.plus(&b.negative()?);
                let around = self.form(before).plus(&self.form(after));
                if !self.is_known(padded) {
                    let sum = || around?.plus(&spread(self.form(x))?);
                    return self.varies(x) && self.know(padded, sum());
                }
                if self.varies(x) && !self.is_known(after) {
                    let rest = minus(self.form(padded), self.form(before));
                    let rest = rest.zip(spread(self.form(x))).and_then(|(a, b)| minus(a, b));
                    return self.know(after, rest);
                }
                let inside = || minus(self.form(padded), around?);
                let varies = [padded, before, after].into_iter().any(|q| self.varies(q));
                varies && gaps == 0 && !self.is_known(x) && self.know(x, inside())
            }
            &Relation::Slice { len, start, step, has_choice: false, .. } if step < 0 => {
                let reach =
                    || self.form(len).plus(&Form::Fixed(-1))?.times(&Form::Fixed(-step as i64));
                self.varies(len) && !self.is_known(start) && self.know(start, reach())
            }
            Relation::Slice { .. } => false,
            &Relation::Window { len, count, window } if window.stride == 1 => {
                let less = (window.dilation * (window.size - 1)) as i64;
                let (counted, long) = (
                    self.form(len).plus(&Form::Fixed(-less)),
                    self.form(count).plus(&Form::Fixed(less)),
                );
                self.varies(len) && self.know(count, counted)
                    || self.varies(count) && self.know(len, long)
            }
            Relation::Window { .. } => false,
        }
    }

    /// Solves `known = others`, two products of which the first varies, for a factor of the second: its form. Of several
    /// factors the last is taken.
    fn factor(&self, known: &Quantities, others: &Quantities) -> Option<(Quantity, Form)> {
        let product = |of: &[Quantity]| {
            of.iter().try_fold(Form::Fixed(1), |all, &q| all.times(&self.form(q)))
        };
        let wanted = product(known)?;
        if !wanted.varies() || product(others).as_ref() == Some(&wanted) {
            return None;
        }
        let mut open = (0..others.len()).rev().filter(|&i| !self.is_known(others[i]));
        let solved = |i: usize| {
            let mut rest = others.clone();
            let factor = rest.remove(i);
            Some((factor, wanted.over(&product(&rest)?)?))
        };
        open.find_map(solved)
    }

    /// Supposes something that a program may well have meant. A slice up to the end of an axis leaves out as many
    /// elements as now, or has as many, whichever number is smaller. A padding that varies leads to a fixed length.
    fn suppose(&mut self, relation: &Relation) -> bool {
        let (x, len, start, step) = match *relation {
            Relation::Slice { x, len, start, step, .. } => (x, len, start, step),
            Relation::Pad { padded, before, after, .. } => {
                let fixed = Form::Fixed(self.values[padded]);
                let varies = self.varies(before) || self.varies(after);
                return varies && !self.is_known(padded) && self.know(padded, Some(fixed));
            }
            _ => return false,
        };
        let end = self.values[start] + if step == 1 { self.values[len] } else { 1 };
        if step.unsigned_abs() != 1 || !self.varies(x) || end != self.values[x] {
            return false;
        }
        let behind = |n: i64| self.form(x).plus(&Form::Fixed(n - self.values[x]));
        let (left_out, count) = (self.values[start], self.values[len]);
        match left_out > 0 && (count == 1 || step == 1 && left_out > count) {
            true => !self.is_known(start) && self.know(start, behind(self.values[start])),
            false => !self.is_known(len) && self.know(len, behind(self.values[len])),
        }
    }

    /// Whether what is known fits a relation.
    fn holds(&self, relation: &Relation) -> bool {
        match relation {
            Relation::Window { len, window, .. } => window.stride == 1 || !self.varies(*len),
            Relation::Slice { x, len, step, .. } => {
                step.unsigned_abs() == 1 || !self.varies(*x) || self.is_known(*len)
            }
            Relation::Product(..) | Relation::Pad { .. } => true,
        }
    }
}

impl Bases {
    fn add(&mut self, instance: Instance, at: usize, linear: Linear) {
        let variable = instance.0.variable();
        let end = |n: i64| n.saturating_mul(linear.times).saturating_add(linear.plus);
        let (a, b) = (end(variable.min), end(variable.max));
        self.of.insert(instance, (self.at.len(), linear));
        self.at.push(at);
        self.bounds.push((a.min(b), a.max(b)));
    }

    /// `linear` as an expression of what stands for the variable.
    fn form(&self, instance: Instance, linear: Linear) -> Option<Form> {
        let (v, base) = self.of.get(&instance)?;
        let is_whole = linear.times.checked_rem(base.times)? == 0;
        let times = is_whole.then(|| linear.times / base.times)?;
        Some(Form::line(*v, times, linear.plus.checked_sub(base.plus.checked_mul(times)?)?))
    }
}
