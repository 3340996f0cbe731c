//! Which numbers of a graph vary, from the variables that its program names.
//!
//! A program gives some numbers of a graph as expressions of its variables. Others follow from these: both operands of a sum
//! have one shape, a reshape keeps the number of elements. What is left is taken as fixed. That is a guess too, and each
//! number of each graph is compared with it.

use super::super::capture::Closed;
use super::form::Form;
use super::variables::Variables;
use kiln_ir::arg::{Arg, SliceAxis, WindowArg};
use kiln_ir::uop::{Linear, Number, VariableId};
use kiln_ir::{Op, UOp};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// How the numbers of a graph depend on the variables of its program.
pub(super) struct Named {
    pub(super) variables: Variables,
    /// By variable, its smallest and its largest value.
    pub(super) bounds: Vec<(i64, i64)>,
}

/// Numbers of a graph that are equal by its structure are one quantity. Here, by position.
type Quantity = usize;
type Quantities = SmallVec<[Quantity; 4]>;

/// What a node says of quantities.
enum Relation {
    /// The products are equal.
    Product(Quantities, Quantities),
    Pad {
        x: Quantity,
        padded: Quantity,
        before: Quantity,
        between: Quantity,
        after: Quantity,
    },
    Slice {
        x: Quantity,
        len: Quantity,
        start: Quantity,
        step: isize,
        /// Whether another start is possible.
        has_choice: bool,
    },
    Window {
        len: Quantity,
        count: Quantity,
        window: WindowArg,
    },
}

/// The quantities of a graph, and what is known of them.
#[derive(Default)]
struct Quantified {
    values: Vec<i64>,
    /// An equal quantity that came before, or itself.
    equal: Vec<Quantity>,
    forms: Vec<Option<Form>>,
    relations: Vec<Relation>,
    /// By length of the graph.
    lengths: Vec<Quantity>,
    /// By start of a slice that is a constant of the graph.
    starts: Vec<Quantity>,
    /// What the program said.
    said: Vec<(Quantity, Linear)>,
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
        if !closed.is_named {
            return None;
        }
        let mut all = Quantified::of(closed);
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
            let is_said = varying.contains(&start);
            let other = if is_said { Form::Free } else { Form::Fixed(all.values[start]) };
            forms.push(form.unwrap_or(other));
        }
        let Bases { at, bounds, .. } = bases;
        (!at.is_empty()).then(|| Named { variables: Variables::with(at, &forms), bounds })
    }
}

impl Quantified {
    fn of(closed: &Closed) -> Quantified {
        let mut all = Quantified::default();
        let starts = closed.starts().len();
        all.starts = vec![Quantity::MAX; starts];
        let mut axes: Vec<Quantities> = Vec::with_capacity(closed.nodes().len());
        for (at, node) in closed.nodes().enumerate() {
            let of = |s: usize| &axes[closed.sources(at)[s]];
            let own = match closed.is_computed(at) {
                true => of(0).clone(),
                false if !closed.is_active(at) => Quantities::new(),
                false => {
                    let sources: Vec<&Quantities> = (0..closed.sources(at).len()).map(of).collect();
                    let numbers: Vec<_> = closed.start_numbers(at).collect();
                    let own = all.visit(node, &sources, &numbers);
                    all.hear(node, &own, &numbers);
                    own
                }
            };
            axes.push(own);
        }
        all
    }

    fn new(&mut self, value: usize) -> Quantity {
        let next = self.values.len();
        self.values.push(value as i64);
        self.equal.push(next);
        self.forms.push(None);
        next
    }

    fn new_length(&mut self, value: usize) -> Quantity {
        let new = self.new(value);
        self.lengths.push(new);
        new
    }

    /// The first of equal quantities.
    fn first(&self, mut quantity: Quantity) -> Quantity {
        while self.equal[quantity] != quantity {
            quantity = self.equal[quantity];
        }
        quantity
    }

    fn join(&mut self, a: Quantity, b: Quantity) {
        let (a, b) = (self.first(a), self.first(b));
        if self.values[a] == self.values[b] {
            self.equal[a.max(b)] = a.min(b);
        }
    }

    fn join_all(&mut self, a: &Quantities, b: &Quantities) {
        if a.len() == b.len() {
            a.iter().zip(b).for_each(|(&a, &b)| self.join(a, b));
        }
    }

    /// The lengths of a node's axes. Its numbers are noted in the order of [`Closed::lengths`].
    fn visit(
        &mut self,
        node: &UOp,
        sources: &[&Quantities],
        starts: &[(usize, usize)],
    ) -> Quantities {
        let shape = node.shape();
        let x = sources.first().copied();
        match (node.op(), node.arg(), x) {
            (Op::Reshape, _, Some(x)) => {
                let new: Quantities = shape.iter().map(|&n| self.new_length(n)).collect();
                self.reshape(x, &new);
                new
            }
            (Op::Expand, _, Some(x)) => {
                let spread = |(&x, &n): (&Quantity, &usize)| match self.values[x] == n as i64 {
                    true => {
                        self.lengths.push(x);
                        x
                    }
                    false => self.new_length(n),
                };
                x.iter().zip(shape).map(spread).collect()
            }
            (Op::Permute, Arg::Axes(axes), Some(x)) => axes.iter().map(|&a| x[a]).collect(),
            (Op::Slice, Arg::Slice(slices), Some(x)) => {
                let choice = |axis: usize| starts.iter().find(|(a, _)| *a == axis).map(|s| s.1);
                let axes = slices.iter().zip(x).enumerate();
                axes.map(|(axis, (slice, &x))| self.slice(*slice, x, choice(axis))).collect()
            }
            (Op::Pad, Arg::Pad(pads), Some(x)) => {
                let mut pad = |(&x, (p, &n)): (&Quantity, (&kiln_ir::arg::PadAxis, &usize))| {
                    let numbers = [p.before, p.between, p.after];
                    let [before, between, after] = numbers.map(|n| self.new_length(n));
                    if p.is_empty() {
                        return x;
                    }
                    let padded = self.new(n);
                    self.relations.push(Relation::Pad { x, padded, before, between, after });
                    padded
                };
                x.iter().zip(pads.iter().zip(shape)).map(&mut pad).collect()
            }
            (Op::Window, Arg::Window(window), Some(x)) => {
                let len = x[window.axis];
                self.lengths.push(len);
                let (count, size) = (self.new(window.count()), self.new(window.size));
                self.relations.push(Relation::Window { len, count, window: *window });
                let mut new = x.clone();
                new[window.axis] = count;
                new.insert(window.axis + 1, size);
                new
            }
            (Op::Unwindow, Arg::Window(window), Some(x)) => {
                let (len, count) = (self.new_length(window.len), x[window.axis]);
                self.relations.push(Relation::Window { len, count, window: *window });
                let mut new = x.clone();
                new[window.axis] = len;
                new
            }
            (Op::Reduce, Arg::Reduce { axes, .. }, Some(x)) => {
                let kept = x.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
                kept.map(|(_, &x)| x).collect()
            }
            (Op::Update, _, Some(x)) => {
                self.join_all(sources[1], sources[2]);
                x.clone()
            }
            (Op::Gather, _, _) => sources[1].clone(),
            (Op::Buffer | Op::Iota, ..) => shape.iter().map(|&n| self.new_length(n)).collect(),
            _ => self.elementwise(node, sources),
        }
    }

    /// All that have the node's shape have the same axes.
    fn elementwise(&mut self, node: &UOp, sources: &[&Quantities]) -> Quantities {
        let is_alike = |axes: &&&Quantities| {
            let lengths = axes.iter().map(|&x| self.values[x] as usize);
            lengths.eq(node.shape().iter().copied())
        };
        let alike: Vec<&Quantities> = sources.iter().filter(is_alike).copied().collect();
        match alike.split_first() {
            Some((first, others)) => {
                others.iter().for_each(|other| self.join_all(first, other));
                (*first).clone()
            }
            None => node.shape().iter().map(|&n| self.new(n)).collect(),
        }
    }

    fn slice(&mut self, slice: SliceAxis, x: Quantity, choice: Option<usize>) -> Quantity {
        let is_whole = self.values[x] == slice.len as i64;
        let len = if is_whole { x } else { self.new(slice.len) };
        self.lengths.push(len);
        let start = match choice {
            None => self.new_length(slice.start),
            Some(number) if self.starts[number] == Quantity::MAX => {
                self.starts[number] = self.new(slice.start);
                self.starts[number]
            }
            Some(number) => self.starts[number],
        };
        let has_choice = choice.is_some();
        self.relations.push(Relation::Slice { x, len, start, step: slice.step, has_choice });
        len
    }

    /// Matches the axes of a reshape: neighbours with equal products belong together. Axes of length 1 are nothing.
    fn reshape(&mut self, from: &Quantities, to: &Quantities) {
        let long = |axes: &Quantities| -> Vec<Quantity> {
            axes.iter().copied().filter(|&a| self.values[a] != 1).collect()
        };
        let (from, to) = (long(from), long(to));
        let (mut a, mut b) = (from.as_slice(), to.as_slice());
        while !a.is_empty() && !b.is_empty() {
            let (mut i, mut j) = (1, 1);
            let product = |axes: &[Quantity]| axes.iter().map(|&x| self.values[x]).product::<i64>();
            while product(&a[..i]) != product(&b[..j]) {
                match product(&a[..i]) < product(&b[..j]) {
                    true if i < a.len() => i += 1,
                    false if j < b.len() => j += 1,
                    _ => return,
                }
            }
            let ((mine, rest), (others, rest_of_others)) = (a.split_at(i), b.split_at(j));
            (a, b) = (rest, rest_of_others);
            match (mine, others) {
                (&[x], &[y]) => self.join(x, y),
                _ => self.relations.push(Relation::Product(mine.into(), others.into())),
            }
        }
    }

    /// Notes what the program said of a node.
    fn hear(&mut self, node: &UOp, axes: &Quantities, starts: &[(usize, usize)]) {
        for (number, linear) in node.named() {
            let pad = |axis: usize, nth: usize| {
                let pads = self.lengths.len() - 3 * axes.len();
                (node.op() == Op::Pad).then(|| self.lengths[pads + 3 * axis + nth])
            };
            let quantity = match number {
                Number::Length(axis) => axes.get(axis).copied(),
                Number::Start(axis) => {
                    starts.iter().find(|(a, _)| *a == axis).map(|s| self.starts[s.1])
                }
                Number::Before(axis) => pad(axis, 0),
                Number::After(axis) => pad(axis, 2),
            };
            self.said.extend(quantity.map(|quantity| (quantity, linear)));
        }
    }

    /// Which variable, with which value, makes a quantity what it is.
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

    /// The form of a factor among `others` that makes their product that of `known`, of which one varies. Of several
    /// the last.
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

    /// Supposes something that a program may well have meant: that a slice up to the end of an axis leaves out as many
    /// elements as now, and that one element at the end of an axis stays there; that a padding which varies leads to a length
    /// that does not.
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
        match self.values[start] > 0 && self.values[len] == 1 {
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
        let times = (linear.times % base.times == 0).then(|| linear.times / base.times)?;
        Some(Form::line(*v, times, linear.plus - base.plus * times))
    }
}
