//! Random programs over two lengths. A seed makes a program, whatever the lengths are; its values are whole numbers that
//! wrap, so every order of a sum gives the same bits.

use super::with_lengths;
use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor, measure, s};

type Lengths = (usize, usize);

/// What a step computes from earlier values.
#[derive(Clone, Copy, Debug)]
enum Step {
    Add(usize, usize),
    Times(usize, i32),
    Product(usize, usize),
    Sum(usize, usize),
    Largest(usize, usize),
    Transposed(usize),
    /// Two neighbouring axes become one.
    Merged(usize, usize),
    Behind(usize, usize),
    Before(usize, usize),
    Every(usize, usize, usize),
    Last(usize, usize),
    Flipped(usize, usize),
    Padded(usize, usize, usize, usize),
    Joined(usize, usize, usize),
    /// A row of one value beside a column of another.
    Outer(usize, usize),
    Cumulated(usize, usize),
    /// Positions along an axis where the value is more than what stands there.
    Masked(usize, usize),
    Picked(usize, usize),
    Written(usize, usize),
    Windows(usize, usize),
    Contiguous(usize),
}

/// Lengths at which a program is built as it is made: shapes that are equal at all of these are equal at any.
const PROBES: [Lengths; 3] = [(7, 12), (11, 5), (19, 31)];

/// Values of more elements are not used.
const MOST: usize = 20_000;

fn whole(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let values = (0..n).map(|i| ((i * 7 + 3) % 13) as i32 - 6).collect::<Vec<_>>();
    Tensor::from_vec(values, shape)
}

fn inputs((n, m): Lengths) -> Vec<Tensor> {
    vec![whole(&[n, m]), whole(&[m, 4]), whole(&[n]), whole(&[n, n]), whole(&[3, n, 2])]
}

fn rows(t: &Tensor, axis: usize) -> usize {
    t.shape()[axis]
}

fn apply(step: Step, of: &[Tensor]) -> Tensor {
    let turned = |t: usize, axis: usize| of[t].transpose(0, axis as isize);
    let on_axis = |t, axis: usize, cut: fn(&Tensor) -> Tensor| {
        cut(&turned(t, axis)).transpose(0, axis as isize)
    };
    match step {
        Step::Add(a, b) => &of[a] + &of[b],
        Step::Times(a, by) => &of[a] * by + 1,
        Step::Product(a, b) => of[a].matmul(&of[b]),
        Step::Sum(a, axis) => of[a].sum(axis as isize),
        Step::Largest(a, axis) => of[a].max(axis as isize),
        Step::Transposed(a) => of[a].transpose(-1, -2),
        Step::Merged(a, axis) => {
            let mut shape = of[a].shape().to_vec();
            shape[axis] *= shape.remove(axis + 1);
            of[a].reshape(shape)
        }
        Step::Behind(a, axis) => on_axis(a, axis, |t| t.get(s![1..])),
        Step::Before(a, axis) => on_axis(a, axis, |t| t.get(s![..-2])),
        Step::Every(a, axis, 0) => on_axis(a, axis, |t| t.get(s![..;2])),
        Step::Every(a, axis, _) => on_axis(a, axis, |t| t.get(s![1..;2])),
        Step::Last(a, axis) => turned(a, axis).get(s![-1]),
        Step::Flipped(a, axis) => of[a].flip(axis as isize),
        Step::Padded(a, axis, before, after) => {
            let pads =
                (0..of[a].shape().len()).map(|x| if x == axis { (before, after) } else { (0, 0) });
            of[a].pad(pads.collect::<Vec<_>>())
        }
        Step::Joined(a, b, axis) => Tensor::cat([&of[a], &of[b]], axis as isize),
        Step::Outer(a, b) => {
            let [x, y] = [a, b].map(|t| of[t].reshape([of[t].shape().iter().product::<usize>()]));
            x.unsqueeze(1) * 3 - y.unsqueeze(0)
        }
        Step::Cumulated(a, axis) => of[a].cumsum(axis as isize),
        Step::Masked(a, axis) => {
            let mut shape = vec![1; of[a].shape().len()];
            shape[axis] = rows(&of[a], axis);
            let at = Tensor::arange(rows(&of[a], axis)).reshape(shape);
            at.lt(&of[a]).where_(&of[a], -5)
        }
        Step::Picked(a, axis) => {
            let n = rows(&of[a], axis);
            let at = Tensor::arange(n + 2) * 5 % (n as i32);
            of[a].index_select(axis as isize, &at)
        }
        Step::Written(a, axis) => {
            let t = turned(a, axis).copy();
            t.set(s![1..], t.get(s![..-1]) * 2);
            t
        }
        Step::Windows(a, axis) => of[a].unfold(axis as isize, 3, 2).sum(-1),
        Step::Contiguous(a) => of[a].contiguous(),
    }
}

/// A program: steps over its inputs and each other.
#[derive(Debug)]
struct Program(Vec<Step>);

impl Program {
    fn of(seed: u64) -> Program {
        let rng = &mut Rng(seed);
        let mut probes: Vec<Vec<Tensor>> = PROBES.iter().map(|&l| inputs(l)).collect();
        let mut steps = Vec::new();
        while steps.len() < 3 + (seed % 6) as usize {
            let Some(step) = drawn(rng, &probes) else { continue };
            probes.iter_mut().for_each(|values| values.push(apply(step, values)));
            steps.push(step);
        }
        Program(steps)
    }

    /// The last values, in memory.
    fn run(&self, lengths: Lengths) -> Vec<Vec<i32>> {
        let mut values = inputs(lengths);
        for step in &self.0 {
            values.push(apply(*step, &values));
        }
        let last = &values[values.len() - 2..];
        kiln::realize(last).unwrap_or_else(|why| panic!("{self:?} at {lengths:?}: {why}"));
        last.iter().map(|t| t.cast(DType::I32).to_vec().expect("computes")).collect()
    }
}

/// A step that every probe allows.
fn drawn(rng: &mut Rng, probes: &[Vec<Tensor>]) -> Option<Step> {
    let count = probes[0].len();
    // later values more often: programs get deep
    let value = |rng: &mut Rng| rng.below(count).max(rng.below(count));
    let (a, b) = (value(rng), value(rng));
    let rank = probes[0][a].shape().len();
    let axis = rng.below(rank.max(1));
    let all = |holds: &dyn Fn(&Tensor, &Tensor) -> bool| probes.iter().all(|v| holds(&v[a], &v[b]));
    let has_axis = rank > 0 && all(&|t, _| rows(t, axis) >= 5);
    let small = |step: Step| {
        let fits =
            |values: &Vec<Tensor>| apply(step, values).shape().iter().product::<usize>() <= MOST;
        probes.iter().all(fits).then_some(step)
    };
    let same = all(&|x, y| x.shape() == y.shape());
    let matrices = all(&|x, y| match (x.shape(), y.shape()) {
        ([.., k], [l, _]) => x.shape().len() >= 2 && k == l,
        _ => false,
    });
    let joins = all(&|x, y| {
        let other = |(i, (p, q)): (usize, (&usize, &usize))| i == axis || p == q;
        x.shape().len() == y.shape().len() && x.shape().iter().zip(y.shape()).enumerate().all(other)
    });
    let step = match rng.below(21) {
        0 if same => Step::Add(a, b),
        1 => Step::Times(a, rng.below(5) as i32 - 2),
        2 | 3 if matrices => Step::Product(a, b),
        4 if rank > 0 => Step::Sum(a, axis),
        5 if rank > 0 => Step::Largest(a, axis),
        6 if rank > 1 => Step::Transposed(a),
        7 if axis + 1 < rank => Step::Merged(a, axis),
        8 if has_axis => Step::Behind(a, axis),
        9 if has_axis => Step::Before(a, axis),
        10 if has_axis => Step::Every(a, axis, rng.below(2)),
        11 if has_axis => Step::Last(a, axis),
        12 if rank > 0 => Step::Flipped(a, axis),
        13 if rank > 0 => Step::Padded(a, axis, rng.below(3), rng.below(3)),
        14 if rank > 0 && joins => Step::Joined(a, b, axis),
        15 => Step::Outer(a, b),
        16 if rank > 0 => Step::Cumulated(a, axis),
        17 if rank > 0 => Step::Masked(a, axis),
        18 if has_axis => Step::Picked(a, axis),
        19 if has_axis => Step::Written(a, axis),
        20 if has_axis => Step::Windows(a, axis),
        _ => Step::Contiguous(a),
    };
    small(step)
}

/// Lengths one after the other: some that grow, some that jump.
fn sequence(rng: &mut Rng) -> Vec<Lengths> {
    let (mut n, mut m) = (5 + rng.below(9), 5 + rng.below(9));
    let mut all = Vec::new();
    for _ in 0..9 {
        all.push((n, m));
        n += rng.below(3);
        m += rng.below(2);
        if rng.one_in(4) {
            (n, m) = (5 + rng.below(40), 5 + rng.below(40));
        }
    }
    all
}

fn agree(count: u64) {
    let (mut found, mut runs) = (0, 0);
    for seed in seeds(count) {
        let (program, lengths) = (Program::of(seed), sequence(&mut Rng(!seed)));
        let run = |mode: usize| {
            let once = |&l: &Lengths| measure(|| program.run(l));
            with_lengths(mode, || lengths.iter().map(once).collect::<Vec<_>>())
        };
        let (fixed, general) = (run(0), run(1));
        for ((l, (wanted, _)), (given, counts)) in lengths.iter().zip(&fixed).zip(&general) {
            assert_eq!(given, wanted, "seed {seed} at {l:?}: {program:?} over {lengths:?}");
            found += u64::from(counts.scheduled == 0);
            runs += 1;
        }
    }
    // the test is of nothing if each graph is scheduled for itself
    assert!(found * 3 > runs, "{found} of {runs} graphs had a schedule");
}

#[test]
fn random_programs_mean_the_same_at_every_length() {
    kiln::with([("DEV", "INTERP")], || agree(60)).expect("settings");
}

#[test]
fn compiled_random_programs_mean_the_same_at_every_length() {
    agree(6);
}
