//! What the heuristic makes of random kernels with reductions inside reductions, against the kernels as they are, on
//! INTERP: vectors, tiles, carried sums, kept values, threads, all as they meet.

use super::options::{check, is_counted, param, plain, run, seed, small_target};
use super::schedule;
use crate::stages::optimize;
use kiln_compile::optimize::Opt;
use kiln_compile::target::Target;
use kiln_ir::arg::{PadAxis, ReduceOp, SliceAxis, WindowArg};
use kiln_ir::{Op, UOp};

/// A small generator of numbers: below `n`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// Something that costs enough to be kept.
fn quotient(x: &UOp) -> UOp {
    let square = x * x;
    UOp::binary(Op::FloorDiv, &(&square * x), &(&square + 7)) * square
}

/// Every element with what its row or column is reduced to.
fn with_reduced(x: &UOp, axis: usize, op: ReduceOp) -> UOp {
    let mut one = x.shape().clone();
    one[axis] = 1;
    let reduced = x.reduce(op, &[axis][..]).reshape(one).expand(x.shape().clone());
    if op == ReduceOp::Max { x - reduced } else { x * reduced }
}

/// Reductions of all windows of `size` along the last axis, which they overlap in.
fn windows(x: &UOp, size: usize, op: ReduceOp) -> UOp {
    let n = x.shape()[1];
    let pad = PadAxis { before: size / 2, between: 0, after: (size - 1) / 2 };
    let padded = x.pad(&[PadAxis::default(), pad]);
    let window = WindowArg { axis: 1, len: padded.shape()[1], size, stride: 1, dilation: 1 };
    let windows = padded.window(window);
    assert_eq!(windows.shape()[1], n);
    windows.reduce(op, &[2][..])
}

/// Sums of products of what `x` holds with other matrices, beside each other: convolutions along the first axis, over
/// windows of several sizes.
fn products(x: &UOp, dice: &mut Dice) -> UOp {
    let [m, n] = [x.shape()[0], x.shape()[1]];
    let mut sum = x.clone();
    for i in 0..2 + dice.below(2) {
        let size = [1, 1, 2, 3][dice.below(4)];
        let slot = 2 + 3 * i + size;
        let pad = PadAxis { before: size / 2, between: 0, after: (size - 1) / 2 };
        let padded = x.pad(&[pad, PadAxis::default()]);
        let len = padded.shape()[0];
        let windows = padded.window(WindowArg { axis: 0, len, size, stride: 1, dilation: 1 });
        let all = &[m, size, n, n][..];
        let windows = windows.reshape(&[m, size, n, 1][..]).expand(all);
        let other = param(slot, &[size, n, n]).reshape(&[1, size, n, n][..]).expand(all);
        sum = sum + (windows * other).reduce(ReduceOp::Add, &[1, 2][..]);
    }
    sum
}

/// Two values that a loop of matrix updates leaves.
fn random_updates(n: usize, dice: &mut Dice) -> [UOp; 2] {
    let (mut r, mut q) = (param(0, &[n, n]), param(1, &[n, n]));
    for i in 0..1 + dice.below(3) {
        let column = SliceAxis { start: i % n, step: 1, len: 1 };
        let x = r.slice(&[SliceAxis::full(n), column]);
        let (sum, squares) = (x.reduce(ReduceOp::Add, &[0][..]), &x * &x);
        let squares = squares.reduce(ReduceOp::Add, &[0][..]);
        let norm = [&sum + &squares, sum, squares][dice.below(3)].clone();
        let v = &x * norm.reshape(&[1, 1][..]).expand(&[n, 1][..]);
        let turned = v.permute(&[1, 0][..]);
        r = &r - matmul(&v, &matmul(&turned, &r));
        q = match dice.below(3) {
            0 => matmul(&q, &r),
            _ => &q - matmul(&matmul(&q, &v), &turned),
        };
    }
    [q, r]
}

fn matmul(a: &UOp, b: &UOp) -> UOp {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let a = a.reshape(&[m, k, 1][..]).expand(&[m, k, n][..]);
    (a * b.reshape(&[1, k, n][..]).expand(&[m, k, n][..])).reduce(ReduceOp::Add, &[1][..])
}

fn random_root(dice: &mut Dice) -> UOp {
    let sizes = [1, 2, 3, 4, 5, 8, 16, 19, 32];
    let shape = [sizes[dice.below(sizes.len())], sizes[1 + dice.below(sizes.len() - 1)]];
    let mut x = param(0, &shape);
    for _ in 0..2 + dice.below(4) {
        let op = [ReduceOp::Add, ReduceOp::Max][dice.below(2)];
        x = match dice.below(9) {
            0 | 1 => quotient(&x),
            2 | 3 => with_reduced(&x, dice.below(2), op),
            4 => windows(&x, 2 + dice.below(3), op),
            5 => {
                let row = param(1, &[shape[1]]).reshape(&[1, shape[1]][..]);
                let row = quotient(&row).expand(&shape[..]);
                with_reduced(&(&x * &row), 1, op) + row
            }
            6 | 7 if shape[1] <= 16 => products(&x, dice),
            _ => &x + param(1, &[shape[1]]).reshape(&[1, shape[1]][..]).expand(&shape[..]),
        };
    }
    match dice.below(4) {
        0 => x.reduce(ReduceOp::Add, &[dice.below(2)][..]),
        _ => x,
    }
}

/// How many of the lists of options have one that is wanted.
fn count(lists: &[Vec<Opt>], wanted: fn(&Opt) -> bool) -> usize {
    lists.iter().filter(|list| list.iter().any(wanted)).count()
}

#[test]
fn what_the_heuristic_chooses_for_reductions_changes_nothing() {
    let mut dice = Dice(seed(5));
    let mut chosen = Vec::new();
    for case in 0..120 {
        for kernel in crate::stages::schedule(&[random_root(&mut dice)]).kernels {
            let name = format!("case {case}");
            check(&name, &kernel.ast, &[Opt::Keep { bytes: 1 << 12 }]);
            let plain = run(&plain(&kernel.ast), &Target::interp());
            for target in [small_target(16, false), small_target(64, true)] {
                let target = Target { cache_bytes: [1 << 10, 1 << 14, 1 << 16], ..target };
                let optimized = optimize(&kernel.ast, &target, true);
                assert!(run(&optimized.ast, &target) == plain, "{name}: {:?}", optimized.applied);
                chosen.push(optimized.applied);
            }
        }
    }
    assert!(count(&chosen, |o| matches!(o, Opt::Keep { .. })) > 20 || !is_counted());
}

#[test]
fn values_asked_for_together_are_those_asked_for_alone() {
    let mut dice = Dice(seed(6));
    for case in 0..40 {
        let n = 2 + dice.below(4);
        let roots = random_updates(n, &mut dice);
        let input = |slot: usize| (0..n * n).map(|i| (i * 7 + slot) as i32 % 5 - 2).collect();
        let inputs: [Vec<i32>; 2] = [0, 1].map(input);
        let inputs = [&inputs[0][..], &inputs[1][..]];
        let (_, together) = schedule::run(&roots, &inputs);
        let alone = roots.map(|root| schedule::run(&[root], &inputs).1.swap_remove(0));
        assert_eq!(together, alone, "case {case}");
    }
}
