//! What the heuristic makes of random kernels with reductions inside reductions, against the kernels as they are, on
//! INTERP: vectors, tiles, carried sums, kept values, threads, all as they meet.

use super::options::{check, is_counted, param, plain, run, seed, small_target};
use kiln_compile::optimize::{Opt, optimize};
use kiln_compile::schedule::schedule;
use kiln_compile::target::Target;
use kiln_ir::arg::{PadAxis, ReduceOp, WindowArg};
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

fn random_root(dice: &mut Dice) -> UOp {
    let sizes = [1, 2, 3, 4, 5, 8, 16, 19, 32];
    let shape = [sizes[dice.below(sizes.len())], sizes[1 + dice.below(sizes.len() - 1)]];
    let mut x = param(0, &shape);
    for _ in 0..2 + dice.below(4) {
        let op = [ReduceOp::Add, ReduceOp::Max][dice.below(2)];
        x = match dice.below(7) {
            0 | 1 => quotient(&x),
            2 | 3 => with_reduced(&x, dice.below(2), op),
            4 => windows(&x, 2 + dice.below(3), op),
            5 => {
                let row = param(1, &[shape[1]]).reshape(&[1, shape[1]][..]);
                let row = quotient(&row).expand(&shape[..]);
                with_reduced(&(&x * &row), 1, op) + row
            }
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
        for kernel in schedule(&[random_root(&mut dice)]).kernels {
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
