//! Sums of products by names of axes: `"ij,jk->ik"`.

use super::Tensor;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// A letter; the axes that `...` stands for have private ones.
type Label = char;

/// An operand whose axes have names.
#[derive(Clone)]
struct Term {
    tensor: Tensor,
    labels: Vec<Label>,
}

/// What each operand's and the result's axes are called, and how long each name is.
struct Plan {
    inputs: Vec<Vec<Label>>,
    output: Vec<Label>,
    lengths: BTreeMap<Label, usize>,
}

/// The name of the `i`-th axis from the end that `...` stands for.
fn hidden(i: usize) -> Label {
    char::from_u32(0xE000 + i as u32).expect("a private letter")
}

/// The labels of a side, with as many for `...` as axes are left over.
fn labels(text: &str, rest: usize) -> Result<Vec<Label>, Fault> {
    let text = text.replace(' ', "");
    let (before, after) = text.split_once("...").unwrap_or((&text, ""));
    if let Some(odd) = before.chars().chain(after.chars()).find(|c| !c.is_ascii_alphabetic()) {
        return refuse!("{odd:?} is no letter, in {text:?}");
    }
    let dots = if text.contains("...") { rest } else { 0 };
    Ok(before.chars().chain((0..dots).rev().map(hidden)).chain(after.chars()).collect())
}

/// The labels of an operand.
fn input(text: &str, shape: &[usize]) -> Result<Vec<Label>, Fault> {
    let rank = shape.len();
    let named = text.chars().filter(char::is_ascii_alphabetic).count();
    let fits = if text.contains("...") { named <= rank } else { named == rank };
    if !fits {
        return refuse!("{text:?} does not name {rank} axes");
    }
    let labels = labels(text, rank - named)?;
    // a diagonal does not stretch
    let first = |axis: usize| labels.iter().position(|l| *l == labels[axis]).unwrap_or(axis);
    match (0..rank).find(|&axis| shape[axis] != shape[first(axis)]) {
        Some(axis) => refuse!(
            "{:?} stands twice in {text:?}, for {} and for {} elements",
            labels[axis],
            shape[first(axis)],
            shape[axis]
        ),
        None => Ok(labels),
    }
}

/// The result's labels if the equation has no `->`: the axes of `...`, then the letters that occur once.
fn implied(inputs: &[Vec<Label>]) -> Vec<Label> {
    let mut counts = BTreeMap::new();
    for label in inputs.iter().flatten() {
        *counts.entry(*label).or_insert(0) += 1;
    }
    let mut dots: Vec<Label> = counts.keys().copied().filter(|l| !l.is_ascii()).collect();
    dots.reverse();
    let once = counts.iter().filter(|(l, n)| l.is_ascii() && **n == 1).map(|(l, _)| *l);
    dots.into_iter().chain(once).collect()
}

impl Plan {
    fn new(equation: &str, tensors: &[Tensor]) -> Result<Plan, Fault> {
        let (left, right) = match equation.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (equation, None),
        };
        let sides: Vec<&str> = left.split(',').collect();
        if sides.len() != tensors.len() {
            return refuse!("{left:?} names {} operands, not {}", sides.len(), tensors.len());
        }
        let inputs: Vec<Vec<Label>> = sides
            .iter()
            .zip(tensors)
            .map(|(side, t)| input(side, t.shape()))
            .collect::<Result<_, _>>()?;
        let dots = inputs.iter().map(|i| i.iter().filter(|l| !l.is_ascii()).count()).max();
        let output = match right {
            Some(text) => labels(text, dots.unwrap_or(0))?,
            None => implied(&inputs),
        };
        let lengths = lengths(&inputs, tensors)?;
        let twice = |(i, label): &(usize, &Label)| output[..*i].contains(label);
        if let Some((_, label)) = output.iter().enumerate().find(twice) {
            return refuse!("{label:?} stands twice in the result of {equation:?}");
        }
        match output.iter().find(|l| !lengths.contains_key(l)) {
            Some(label) => refuse!("{label:?} is in the result of {equation:?} but in no operand"),
            None => Ok(Plan { inputs, output, lengths }),
        }
    }

    /// How many multiplications it takes to contract two terms.
    fn cost(&self, a: &Term, b: &Term) -> f64 {
        let more = b.labels.iter().filter(|l| !a.labels.contains(l));
        a.labels.iter().chain(more).map(|l| self.lengths[l] as f64).product()
    }

    /// The two terms that are cheapest to contract first.
    fn cheapest(&self, terms: &[Term]) -> (usize, usize) {
        let pairs = (0..terms.len()).flat_map(|i| (i + 1..terms.len()).map(move |j| (i, j)));
        let cost = |&(i, j): &(usize, usize)| self.cost(&terms[i], &terms[j]);
        pairs.min_by(|a, b| cost(a).total_cmp(&cost(b))).expect("two terms")
    }

    /// The labels that the result or another term needs.
    fn needed(&self, others: &[Term]) -> Vec<Label> {
        let others = others.iter().flat_map(|t| &t.labels);
        self.output.iter().chain(others).copied().collect()
    }
}

/// The length of each name; 1 stretches.
fn lengths(inputs: &[Vec<Label>], tensors: &[Tensor]) -> Result<BTreeMap<Label, usize>, Fault> {
    let mut lengths: BTreeMap<Label, usize> = BTreeMap::new();
    let named = inputs.iter().zip(tensors).flat_map(|(i, t)| i.iter().zip(t.shape()));
    for (label, &n) in named {
        let known = lengths.entry(*label).or_insert(n);
        match (*known, n) {
            (1, _) => *known = n,
            (a, b) if a == b || b == 1 => {}
            (a, b) => return refuse!("an axis is {a} long here and {b} there, both are {label:?}"),
        }
    }
    Ok(lengths)
}

impl Term {
    /// Names that stand twice are a diagonal, axes of one element that stretch are dropped.
    #[track_caller]
    fn simplified(mut self, lengths: &BTreeMap<Label, usize>) -> Term {
        for axis in (0..self.labels.len()).rev() {
            if self.tensor.shape()[axis] == 1 && lengths[&self.labels[axis]] != 1 {
                self.labels.remove(axis);
                self.tensor = self.tensor.squeeze(axis);
            }
        }
        let twice = |labels: &[Label]| {
            let second = (1..labels.len()).find(|&j| labels[..j].contains(&labels[j]))?;
            Some((labels.iter().position(|l| *l == labels[second])?, second))
        };
        while let Some((a, b)) = twice(&self.labels) {
            self.tensor = self.tensor.diagonal(0, a, b);
            let label = self.labels.remove(b);
            self.labels.remove(a);
            self.labels.push(label);
        }
        self
    }

    /// Summed over the names that nothing needs.
    #[track_caller]
    fn summed(self, needed: &[Label]) -> Term {
        let (kept, gone): (Vec<usize>, Vec<usize>) =
            (0..self.labels.len()).partition(|&i| needed.contains(&self.labels[i]));
        match gone.is_empty() {
            true => self,
            false => Term {
                tensor: self.tensor.sum(gone),
                labels: kept.into_iter().map(|i| self.labels[i]).collect(),
            },
        }
    }

    /// The axes as three: those of each group together.
    #[track_caller]
    fn grouped(&self, groups: [&[Label]; 3], lengths: &BTreeMap<Label, usize>) -> Tensor {
        let place = |l: &Label| self.labels.iter().position(|m| m == l).expect("its own label");
        let order: Vec<usize> = groups.iter().flat_map(|g| g.iter()).map(place).collect();
        let length = |group: &[Label]| group.iter().map(|l| lengths[l]).product::<usize>();
        self.tensor.permute(order).reshape(groups.map(length))
    }

    /// The product with another term, summed over what both have and nothing needs.
    #[track_caller]
    fn times(&self, other: &Term, needed: &[Label], lengths: &BTreeMap<Label, usize>) -> Term {
        let both = |l: &&Label| other.labels.contains(l);
        let (shared, left): (Vec<Label>, Vec<Label>) = self.labels.iter().partition(both);
        let (batch, inner): (Vec<Label>, Vec<Label>) =
            shared.iter().partition(|l| needed.contains(l));
        let right: Vec<Label> =
            other.labels.iter().copied().filter(|l| !self.labels.contains(l)).collect();
        let rows = self.grouped([&batch, &left, &inner], lengths);
        let columns = other.grouped([&batch, &inner, &right], lengths);
        let labels = [batch, left, right].concat();
        let shape: Vec<usize> = labels.iter().map(|l| lengths[l]).collect();
        Term { tensor: rows.matmul(&columns).reshape(shape), labels }
    }
}

impl Tensor {
    /// Sums of products by names of axes, a letter each: every operand's axes are named, those of the result after `->`, and
    /// what is not in the result is summed. Without `->` the result has the letters that stand once, in alphabetical order.
    /// A letter that one operand has twice is its diagonal; `...` stands for axes that broadcast. More than two operands
    /// are multiplied two by two, the cheapest first.
    ///
    /// ```
    /// use kiln::Tensor;
    /// let a = Tensor::from([[1, 2], [3, 4]]);
    /// assert_eq!(Tensor::einsum("ij,jk->ik", [&a, &a]).to_vec::<i32>()?, [7, 10, 15, 22]);
    /// assert_eq!(Tensor::einsum("ii", [&a]).item::<i32>()?, 5);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// An equation of other operands or axes; names whose lengths differ; other devices.
    #[must_use]
    #[track_caller]
    pub fn einsum<T: Borrow<Tensor>>(
        equation: &str,
        operands: impl IntoIterator<Item = T>,
    ) -> Tensor {
        let _method = outermost("einsum");
        let tensors: Vec<Tensor> = operands.into_iter().map(|t| t.borrow().clone()).collect();
        let plan = Tensor::all_valid(&tensors).and_then(|()| Plan::new(equation, &tensors));
        match plan {
            Ok(plan) => contracted(&plan, tensors),
            Err(fault) => Tensor::broken(fault.at("einsum")),
        }
    }
}

#[track_caller]
fn contracted(plan: &Plan, tensors: Vec<Tensor>) -> Tensor {
    let mut terms = Vec::new();
    for (tensor, labels) in tensors.into_iter().zip(&plan.inputs) {
        terms.push(Term { tensor, labels: labels.clone() }.simplified(&plan.lengths));
    }
    for i in 0..terms.len() {
        let others: Vec<Term> = [&terms[..i], &terms[i + 1..]].concat();
        terms[i] = terms[i].clone().summed(&plan.needed(&others));
    }
    while terms.len() > 1 {
        let (i, j) = plan.cheapest(&terms);
        let (b, a) = (terms.remove(j), terms.remove(i));
        terms.push(a.times(&b, &plan.needed(&terms), &plan.lengths));
    }
    let last = terms.remove(0);
    let place = |l: &Label| last.labels.iter().position(|m| m == l).expect("a label of the result");
    let order: Vec<usize> = plan.output.iter().map(place).collect();
    last.tensor.permute(order).copy()
}
