//! Every kind of option alone leaves what random kernels compute as it is, on INTERP; what is not legal is refused with
//! a reason, and nothing panics.

use crate::options::{Dice, axes, check, is_counted, param, seed, small_target};
use crate::stages::schedule;
use kiln_compile::optimize::{self, Opt};
use kiln_ir::UOp;
use kiln_ir::arg::{PadAxis, RangeKind, ReduceOp, SliceAxis};
use std::collections::{BTreeMap, BTreeSet};

/// A random expression over parameters.
struct Writer {
    dice: Dice,
    params: usize,
}

impl Writer {
    fn shape(&mut self) -> Vec<usize> {
        let rank = 1 + self.dice.below(3);
        (0..rank).map(|_| [1, 2, 3, 4, 5, 8, 11, 16][self.dice.below(8)]).collect()
    }

    /// New data of this shape.
    fn data(&mut self, shape: &[usize]) -> UOp {
        self.params += 1;
        param(self.params - 1, shape)
    }

    fn expression(&mut self) -> UOp {
        let shape = self.shape();
        let mut x = self.data(&shape);
        for _ in 0..2 + self.dice.below(4) {
            x = self.step(&x);
        }
        x
    }

    fn step(&mut self, x: &UOp) -> UOp {
        let shape = x.shape().to_vec();
        match self.dice.below(8) {
            0 => x * &self.data(&shape),
            1 => x.permute((0..shape.len()).rev().collect::<Vec<_>>().as_slice()),
            2 => x.pad(&vec![PadAxis { before: 1, between: 0, after: 2 }; shape.len()]),
            3 => x.slice(&shape.iter().map(|&n| reversed(n)).collect::<Vec<_>>()),
            4 => self.product(x),
            5 if !shape.is_empty() => self.repeated(x),
            5 | 6 => self.reduced(x),
            _ => self.against_its_sum(x),
        }
    }

    /// Times a vector along the last axis, and that again.
    fn repeated(&mut self, x: &UOp) -> UOp {
        let shape = x.shape().to_vec();
        let row = self.data(&shape[shape.len() - 1..]).broadcast_to(&shape);
        (x + &row).maximum(&row)
    }

    fn reduced(&mut self, x: &UOp) -> UOp {
        let axis = self.dice.below(x.shape().len().max(1));
        let op = [ReduceOp::Add, ReduceOp::Max][self.dice.below(2)];
        if x.shape().is_empty() { x.clone() } else { x.reduce(op, &[axis][..]) }
    }

    /// What a softmax looks like.
    fn against_its_sum(&mut self, x: &UOp) -> UOp {
        let shape = x.shape().to_vec();
        let Some(last) = shape.len().checked_sub(1) else { return x.clone() };
        let mut kept = shape.clone();
        kept[last] = 1;
        let sum = x.reduce(ReduceOp::Add, &[last][..]).reshape(kept.as_slice());
        x * &sum.expand(shape.as_slice())
    }

    /// The matrix product with new data.
    fn product(&mut self, x: &UOp) -> UOp {
        let shape = x.shape().to_vec();
        let &[m, k] = shape.as_slice() else { return x.clone() };
        let n = [3, 8, 10][self.dice.below(3)];
        let y = self.data(&[n, k]).reshape(&[1, n, k][..]).expand(&[m, n, k][..]);
        let x = x.reshape(&[m, 1, k][..]).expand(&[m, n, k][..]);
        (x * y).reduce(ReduceOp::Add, &[2][..])
    }
}

fn reversed(n: usize) -> SliceAxis {
    SliceAxis { start: n.saturating_sub(1), step: -1, len: n }
}

/// The kernels of some random graphs.
pub(crate) fn random_kernels(graphs: u64) -> Vec<UOp> {
    let kernels = |graph| {
        let root = Writer { dice: Dice(seed(graph)), params: 0 }.expression();
        schedule(&[root]).kernels.into_iter().map(|k| k.ast)
    };
    (1..=graphs).flat_map(kernels).collect()
}

/// Options of every kind, legal or not.
fn all_options(kernel: &UOp) -> Vec<Opt> {
    let mut options = Vec::new();
    use RangeKind::{Global, Local, Reduce, Thread, Unroll, Upcast, Vector};
    let kinds = [Upcast, Unroll, Vector, Thread, Global, Local, Reduce];
    let (loops, reduces) = (axes(kernel, RangeKind::Loop), axes(kernel, RangeKind::Reduce));
    for axis in loops.into_iter().chain(reduces).chain([99]) {
        for by in [0, 1, 2, 3, 4, 8] {
            options.extend(kinds.map(|kind| Opt::Split { kind, axis, by }));
            options.push(Opt::Block { axis, by });
        }
    }
    for operand in 0..3 {
        let stage = |depth| [1, 3, 4].map(|lanes| Opt::Stage { operand, depth, lanes });
        options.extend((0..3).flat_map(stage));
        options.extend((0..3).map(|depth| Opt::Share { operand, depth, banks: 4 }));
    }
    options.extend([64, 1 << 12].map(|bytes| Opt::Keep { bytes }));
    options.extend([2, 4].map(|lanes| Opt::Subgroup { lanes }));
    options.extend([2, 4].map(|parts| Opt::Combine { parts }));
    options
}

fn kind_of(opt: &Opt) -> String {
    opt.to_string().split('(').next().expect("a name").to_owned()
}

#[test]
fn each_alone_changes_nothing_of_random_kernels() {
    let mut legal: BTreeMap<String, usize> = BTreeMap::new();
    for kernel in random_kernels(60) {
        for opt in all_options(&kernel) {
            if check("random", &kernel, &[opt]) {
                *legal.entry(kind_of(&opt)).or_default() += 1;
            }
        }
    }
    if !is_counted() {
        return;
    }
    let kinds: Vec<&str> = legal.keys().map(String::as_str).collect();
    let own = ["BLOCK", "KEEP", "REDUCE", "STAGE", "THREAD", "UNROLL", "UPCAST", "VECTOR"];
    let all: BTreeSet<&str> = own.into_iter().chain(["GLOBAL", "LOCAL"]).collect();
    assert!(all.into_iter().eq(kinds));
    assert!(legal.values().all(|&n| n > 30), "{legal:?}");
}

/// What a search may come to: options one after the other, each legal after those before it.
#[test]
fn any_that_are_legal_together_change_nothing_of_random_kernels() {
    let (mut dice, mut legal) = (Dice(seed(7)), 0);
    for kernel in random_kernels(100) {
        let all = all_options(&kernel);
        for _ in 0..8 {
            let mut options = Vec::new();
            for _ in 0..12 {
                options.push(all[dice.below(all.len())]);
                if optimize::check(&kernel, &options).is_err() {
                    options.pop();
                }
            }
            legal += check("random", &kernel, &options) as usize;
        }
    }
    assert!(legal > 500 || !is_counted(), "{legal} are legal");
}

/// Steps that a search takes, from the heuristic's options on.
#[test]
fn where_a_search_goes_changes_nothing_of_random_kernels() {
    let (mut dice, mut steps) = (Dice(seed(11)), 0);
    for kernel in random_kernels(40) {
        let kernel = optimize::collapsed(&kernel);
        let mut options = crate::stages::optimize(&kernel, &small_target(32, true), true).applied;
        for _ in 0..5 {
            let near = optimize::neighbours(&kernel, &options);
            assert!(!near.contains(&options));
            if near.is_empty() {
                break;
            }
            let next = near[dice.below(near.len())].clone();
            if check("random", &kernel, &next) {
                options = next;
                steps += 1;
            }
        }
    }
    assert!(steps > 100 || !is_counted(), "{steps} steps");
}

#[test]
fn what_is_not_legal_says_why() {
    let x = param(0, &[4, 8]);
    let kernel = &schedule(&[x.reduce(ReduceOp::Add, &[1][..])]).kernels[0].ast;
    let (outer, inner) = (axes(kernel, RangeKind::Loop)[0], axes(kernel, RangeKind::Reduce)[0]);
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let why = |options: &[Opt]| optimize::check(kernel, options).expect_err("illegal");
    assert_eq!(why(&[split(RangeKind::Upcast, 9, 2)]), "UPCAST(axis 9, 2): no loop has axis 9");
    for (options, reason) in [
        (
            vec![split(RangeKind::Unroll, outer, 2)],
            "only a reduction is unrolled; a loop over outputs is upcast",
        ),
        (
            vec![split(RangeKind::Vector, outer, 3)],
            "a vector has a power of two of lanes, at most 64",
        ),
        (vec![split(RangeKind::Upcast, outer, 5)], "the loop has fewer iterations left"),
        (vec![split(RangeKind::Thread, inner, 1)], "a reduction cannot be divided among threads"),
        (vec![split(RangeKind::Thread, outer, 1); 2], "the loop is divided among threads already"),
        (vec![Opt::Block { axis: inner, by: 2 }; 2], "a reduction is blocked already"),
        (
            vec![Opt::Stage { operand: 7, depth: 0, lanes: 1 }],
            "the kernel has no operand of this number",
        ),
        (
            vec![Opt::Share { operand: 0, depth: 0, banks: 32 }],
            "the kernel has no operand of this number",
        ),
        (vec![split(RangeKind::Reduce, outer, 2)], "the loop is not a reduction's"),
        (
            vec![split(RangeKind::Vector, outer, 4), split(RangeKind::Vector, inner, 4)],
            "an expression would vary over the lanes of two loops",
        ),
    ] {
        assert!(why(&options).ends_with(&format!(": {reason}")), "{}", why(&options));
    }
}
