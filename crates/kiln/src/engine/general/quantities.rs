//! The lengths of a graph as quantities: those that are equal by its structure are one.

use super::super::capture::Closed;
use super::form::Form;
use kiln_ir::arg::{Arg, PadAxis, SliceAxis, WindowArg};
use kiln_ir::uop::{Linear, Number};
use kiln_ir::{Op, UOp};
use smallvec::SmallVec;

/// Numbers of a graph that are equal by its structure are one quantity. Here, by position.
pub(super) type Quantity = usize;
pub(super) type Quantities = SmallVec<[Quantity; 4]>;

/// What a node says of quantities.
pub(super) enum Relation {
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
pub(super) struct Quantified {
    pub(super) values: Vec<i64>,
    /// An equal quantity that came before, or itself.
    equal: Vec<Quantity>,
    pub(super) forms: Vec<Option<Form>>,
    pub(super) relations: Vec<Relation>,
    /// By length of the graph.
    pub(super) lengths: Vec<Quantity>,
    /// By start of a slice that is a constant of the graph.
    pub(super) starts: Vec<Quantity>,
    /// What the program said.
    pub(super) said: Vec<(Quantity, Linear)>,
    /// Starts that will be others, whatever they are.
    pub(super) free: Vec<Quantity>,
    /// By node, the lengths of its axes.
    pub(super) axes: Vec<Quantities>,
}

impl Quantified {
    pub(super) fn of(closed: &Closed) -> Quantified {
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
        all.axes = axes;
        all
    }

    fn quantity(&mut self, value: usize) -> Quantity {
        let next = self.values.len();
        self.values.push(value as i64);
        self.equal.push(next);
        self.forms.push(None);
        next
    }

    fn new_length(&mut self, value: usize) -> Quantity {
        let new = self.quantity(value);
        self.lengths.push(new);
        new
    }

    /// The first of equal quantities.
    pub(super) fn first(&self, mut quantity: Quantity) -> Quantity {
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
        let Some(x) = sources.first() else { return self.leaf(node) };
        match (node.op(), node.arg()) {
            (Op::Reshape, _) => {
                let new: Quantities = node.shape().iter().map(|&n| self.new_length(n)).collect();
                self.reshape(x, &new);
                new
            }
            (Op::Expand, _) => {
                x.iter().zip(node.shape()).map(|(&x, &n)| self.spread(x, n)).collect()
            }
            (Op::Permute, Arg::Axes(axes)) => axes.iter().map(|&a| x[a]).collect(),
            (Op::Slice, Arg::Slice(slices)) => {
                let choice = |axis: usize| starts.iter().find(|(a, _)| *a == axis).map(|s| s.1);
                let axes = slices.iter().zip(x.iter()).enumerate();
                axes.map(|(axis, (slice, &x))| self.slice(*slice, x, choice(axis))).collect()
            }
            (Op::Pad, Arg::Pad(pads)) => {
                let axes = x.iter().zip(pads.iter().zip(node.shape()));
                axes.map(|(&x, (pad, &n))| self.pad(*pad, x, n)).collect()
            }
            (Op::Window | Op::Unwindow, Arg::Window(window)) => self.window(node, *window, x),
            (Op::Reduce, Arg::Reduce { axes, .. }) => {
                let kept = x.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
                kept.map(|(_, &x)| x).collect()
            }
            (Op::Update, _) => {
                self.join_all(sources[1], sources[2]);
                (*x).clone()
            }
            (Op::Gather, _) => sources[1].clone(),
            _ => self.elementwise(node, sources),
        }
    }

    fn leaf(&mut self, node: &UOp) -> Quantities {
        node.shape().iter().map(|&n| self.new_length(n)).collect()
    }

    /// An axis that is expanded to a length.
    fn spread(&mut self, x: Quantity, n: usize) -> Quantity {
        if self.values[x] != n as i64 {
            return self.new_length(n);
        }
        self.lengths.push(x);
        x
    }

    /// An axis that is padded to a length.
    fn pad(&mut self, pad: PadAxis, x: Quantity, n: usize) -> Quantity {
        let numbers = [pad.before, pad.between, pad.after];
        let [before, between, after] = numbers.map(|n| self.new_length(n));
        if pad.is_empty() {
            return x;
        }
        let padded = self.quantity(n);
        self.relations.push(Relation::Pad { x, padded, before, between, after });
        padded
    }

    fn window(&mut self, node: &UOp, window: WindowArg, x: &Quantities) -> Quantities {
        let (axis, mut new) = (window.axis, x.clone());
        let (len, count) = match node.op() {
            Op::Window => {
                self.lengths.push(x[axis]);
                new[axis] = self.quantity(window.count());
                new.insert(axis + 1, self.quantity(window.size));
                (x[axis], new[axis])
            }
            _ => {
                new[axis] = self.new_length(window.len);
                (new[axis], x[axis])
            }
        };
        self.relations.push(Relation::Window { len, count, window });
        new
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
            None => node.shape().iter().map(|&n| self.quantity(n)).collect(),
        }
    }

    fn slice(&mut self, slice: SliceAxis, x: Quantity, choice: Option<usize>) -> Quantity {
        let is_whole = self.values[x] == slice.len as i64;
        let len = if is_whole { x } else { self.quantity(slice.len) };
        self.lengths.push(len);
        let start = match choice {
            None => self.new_length(slice.start),
            Some(number) if self.starts[number] == Quantity::MAX => {
                self.starts[number] = self.quantity(slice.start);
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
}
