//! What is asked for before it is read.

use crate::dots;
use crate::options::kernel_of;
use crate::stages::{lower, optimize};
use kiln_compile::render::render;
use kiln_compile::target::{Costs, Language, Target};
use kiln_ir::affine::Affine;
use kiln_ir::arg::{RangeKind, ReduceOp, WindowArg};
use kiln_ir::rules::simplify;
use kiln_ir::uop::{kind_of, substitute, toposort, trip_count};
use kiln_ir::{DType, Op, UOp, spec};
use std::collections::BTreeSet;
use std::slice::from_ref;

const ROWS: usize = 1 << 10;

fn target(language: Language) -> Target {
    Target {
        costs: Costs::CPU,
        language,
        vector_bytes: 64,
        vector_registers: 32,
        masks: true,
        threads: 2,
        cache_bytes: [32 << 10, 512 << 10, 8 << 20],
        groups: false,
        ..Target::interp()
    }
}

/// The text of the only kernel of `root`, and how many elements after their index its prefetches ask for.
fn compiled(root: &UOp, language: Language) -> (String, Vec<usize>) {
    let target = target(language);
    let program = lower(&optimize(&kernel_of(root), &target, true).ast, &target);
    spec::verify_program(&program.ops).expect("a program");
    let ahead = program.ops.iter().filter_map(|op| op.arg().prefetch()).collect();
    (render(&program, &target), ahead)
}

/// The sum over rows of `f` of the distance to the row's maximum.
fn sums(columns: usize, f: impl Fn(&UOp) -> UOp) -> UOp {
    let x = UOp::param(0, DType::F32, [ROWS, columns].as_slice());
    let max = x.reduce(ReduceOp::Max, &[1][..]).reshape(&[ROWS, 1][..]);
    f(&(&x - max.expand(x.shape().clone()))).reduce(ReduceOp::Add, &[1][..])
}

fn exp(x: &UOp) -> UOp {
    UOp::unary(Op::Exp, x)
}

#[test]
fn what_a_second_loop_over_rows_computes_with_is_fetched_a_row_ahead() {
    let (text, ahead) = compiled(&sums(4096, exp), Language::Llvm);
    assert!(!ahead.is_empty() && ahead.iter().all(|&n| n == 4096), "{ahead:?}");
    // 16 KiB on: into the second cache
    assert_eq!(text.matches(", i32 0, i32 2, i32 1)").count(), ahead.len(), "{text}");
    let (text, ahead) = compiled(&sums(4096, exp), Language::C);
    // as an integer: C knows no pointer that far past the end
    assert_eq!(text.matches("+4096)*4), 0, 2);").count(), ahead.len(), "{text}");
    // a row of no whole number of vectors
    assert_eq!(compiled(&sums(4095, exp), Language::Llvm).1, [4095]);
}

/// `[m, k] x [k, n]`; the second is `[n, k]` if `transposed`.
fn product(sizes: [usize; 3], transposed: bool) -> UOp {
    dots::product(([DType::F32; 2], DType::F32), sizes, transposed)
}

#[test]
fn arguments_that_are_read_once_are_asked_for_4096_bytes_ahead() {
    let ahead = |root: &UOp| compiled(root, Language::Llvm).1;
    // elements one after another: an iteration is a vector of 64 bytes
    let x = UOp::param(0, DType::F32, [ROWS, 4096].as_slice());
    assert_eq!(ahead(&exp(&x)), [1024]);
    let text = compiled(&exp(&x), Language::Llvm).0;
    assert!(
        text.contains("@llvm.prefetch.p0") && text.contains(", i32 0, i32 3, i32 1)"),
        "{text}"
    );
    // two arguments share the bytes
    assert_eq!(ahead(&(&x + UOp::param(1, DType::F32, x.shape().clone()))), [512; 2]);
    // four rows of 3 KiB side by side: the next four
    assert_eq!(ahead(&product([1, 768, 50256], true)), [4 * 768; 4]);
    // two vectors of one row: two rows on
    assert_eq!(ahead(&product([1, 768, 50257], true)), [2 * 768; 2]);
    // six vectors of each row of 192 elements, for each of two threads: eleven rows on
    assert_eq!(ahead(&product([1, 3072, 192], false)), [11 * 192; 6]);
    // eight rows of 3 KiB at a time, four vectors of each: the next eight
    assert_eq!(ahead(&product([1, 3072, 768], false)), [8 * 768; 32]);
}

#[test]
fn the_next_panel_is_asked_for_while_this_one_is_computed_with() {
    const K: i64 = 300;
    let target = target(Language::Llvm);
    let kernel = optimize(&kernel_of(&product([64, K as usize, 768], false)), &target, true);
    let program = lower(&kernel.ast, &target);
    spec::verify_program(&program.ops).expect("a program");
    let asked: Vec<&UOp> = program.ops.iter().filter(|op| op.op() == Op::Prefetch).collect();
    // each line of a row of the panel; the next panel is the next columns
    assert!(!asked.is_empty(), "{:?}", kernel.applied);
    let ahead = 16 * asked.len();
    for (i, prefetch) in asked.into_iter().enumerate() {
        assert_eq!(prefetch.arg().prefetch(), Some(ahead));
        let index = Affine::of(prefetch.src(1)).expect("an affine index");
        assert_eq!(index.constant, 16 * i as i64);
        assert_each_row_is_asked_for_in_one_round(prefetch.src(1), K);
    }
}

/// The rows of 768 elements that the steps of a sum ask for, in each round over a panel: `k` rows in all, each in one round or,
/// where two rounds meet, in two.
fn assert_each_row_is_asked_for_in_one_round(index: &UOp, k: i64) {
    let ranges: Vec<UOp> = toposort(index).into_iter().filter(|n| n.op() == Op::Range).collect();
    let row = |at: &dyn Fn(&UOp) -> i64| {
        let values = ranges.iter().map(|r| (r.clone(), UOp::constant(at(r), r.dtype())));
        let index = simplify(&substitute(from_ref(index), &values.collect())[0]);
        index.as_const().and_then(|n| n.as_i128()).expect("a number") as i64
    };
    let is_step = |r: &&UOp| kind_of(r) == RangeKind::Reduce;
    let steps = ranges.iter().find(is_step).expect("the loop that sums, not that of the copy");
    // of the others, those over columns go to the same rows
    let is_round = |r: &&UOp| {
        let next = row(&|other| i64::from(other == *r));
        !is_step(r) && next != row(&|_| 0) && (next - row(&|_| 0)) % 768 == 0
    };
    let rounds = ranges.iter().find(is_round).expect("a loop over rows of the other matrix");
    let mut asked = vec![0; k as usize];
    for round in 0..trip_count(rounds) as i64 {
        let of = |step: i64| {
            move |r: &UOp| if r == rounds { round } else { step * i64::from(r == steps) }
        };
        let rows: BTreeSet<i64> = (0..k).map(|step| row(&of(step)) / 768).collect();
        rows.into_iter().filter(|&r| r < k).for_each(|r| asked[r as usize] += 1);
    }
    assert!(asked.iter().all(|times| (1..=2).contains(times)), "{asked:?}");
    let twice = asked.iter().filter(|times| **times == 2).count() as u64;
    assert!(twice <= 2 * trip_count(rounds), "{asked:?}");
}

/// The weights of a linear layer, in rows of `K`: a panel has 48 of them, and the product asks for each line of the next 48.
#[test]
fn the_next_rows_are_asked_for_while_their_panel_is_computed_with() {
    const K: i64 = 1024;
    let target = Target { threads: 1, ..target(Language::Llvm) };
    let kernel = optimize(&kernel_of(&product([768, K as usize, 768], true)), &target, true);
    let program = lower(&kernel.ast, &target);
    spec::verify_program(&program.ops).expect("a program");
    let mut lines = BTreeSet::new();
    let mut ahead = BTreeSet::new();
    for prefetch in program.ops.iter().filter(|op| op.op() == Op::Prefetch) {
        ahead.extend(prefetch.arg().prefetch().map(|n| n as i64));
        let index = prefetch.src(1);
        let nodes = toposort(index);
        let ranges: Vec<UOp> = nodes.into_iter().filter(|n| n.op() == Op::Range).collect();
        let all: u64 = ranges.iter().map(trip_count).product();
        for i in 0..all {
            let mut left = i;
            let mut at = |r: &UOp| {
                let value = (left % trip_count(r)) as i64;
                left /= trip_count(r);
                (r.clone(), UOp::constant(value, r.dtype()))
            };
            let values = ranges.iter().map(&mut at).collect();
            let index = simplify(&substitute(from_ref(index), &values)[0]);
            lines.insert(index.as_const().and_then(|n| n.as_i128()).expect("a number") as i64);
        }
    }
    let [ahead] = ahead.iter().copied().collect::<Vec<_>>()[..] else {
        panic!("{ahead:?} {:?}", kernel.applied)
    };
    assert_eq!(ahead % K, 0, "{:?}", kernel.applied);
    let all = (0..768 * K).step_by(16);
    assert_eq!(lines, all.collect::<BTreeSet<_>>(), "{ahead} {:?}", kernel.applied);
}

/// Rows become columns by instructions that pick lanes of two vectors.
#[test]
fn rows_are_transposed_two_vectors_at_a_time() {
    let target = target(Language::Llvm);
    let kernel = optimize(&kernel_of(&product([64, 1024, 768], true)), &target, true);
    let program = lower(&kernel.ast, &target);
    let stacks = program.ops.iter().filter(|n| n.op() == Op::Stack && n.lanes() == 16);
    for stack in stacks.clone() {
        let from: BTreeSet<String> =
            stack.srcs().iter().map(|lane| kiln_ir::text::print(lane.src(0))).collect();
        assert_eq!(from.len(), 2, "{}", kiln_ir::text::print(stack));
    }
    // a lane of a vector that was picked is the one that it was
    let origin = |lane: &UOp| {
        let mut lane = lane.clone();
        while lane.src(0).op() == Op::Stack {
            lane = lane.src(0).src(lane.arg().lane().expect("a lane") as usize).clone();
        }
        let place = Affine::of(lane.src(0).src(1)).expect("an affine index").constant;
        (place, lane.arg().lane().expect("a lane"))
    };
    let stored = program.ops.iter().filter(|n| n.op() == Op::Store && n.src(2).op() == Op::Stack);
    let columns: Vec<Vec<(i64, u16)>> =
        stored.map(|store| store.src(2).srcs().iter().map(origin).collect()).collect();
    let column = |i: u16| (0..16).map(move |row| (1024 * row, i)).collect::<Vec<_>>();
    assert_eq!(columns, (0..4).map(column).collect::<Vec<_>>(), "{:?}", kernel.applied);
    assert_eq!(stacks.count(), 4 + 4 + 4);
}

/// The sums of 2048 products of `[2048, 32]` and `[2048, 64]`: a round asks for 2048 / 8 rows of its panel, and a tile writes 4 rows
/// of 64 results, so both count `256 * i`.
#[test]
fn what_a_prefetch_and_a_later_store_share_is_computed_before_both() {
    let argument = |slot, n| UOp::param(slot, DType::F32, &[2048, n][..]);
    let root = argument(1, 32)
        .permute(&[1, 0][..])
        .reshape(&[32, 1, 2048][..])
        .expand(&[32, 64, 2048][..])
        * argument(2, 64)
            .permute(&[1, 0][..])
            .reshape(&[1, 64, 2048][..])
            .expand(&[32, 64, 2048][..]);
    let target = Target { vector_bytes: 32, vector_registers: 16, ..target(Language::Llvm) };
    let sums = kernel_of(&root.reduce(ReduceOp::Add, &[2][..]));
    let program = lower(&optimize(&sums, &target, true).ast, &target);
    spec::verify_program(&program.ops).expect("a program");
    let of = |op: Op| program.ops.iter().filter(move |n| n.op() == op);
    let is_shared =
        |n: &UOp| n.op() == Op::Mul && n.src(1).as_const().and_then(|c| c.as_i128()) == Some(256);
    let uses = |op: Op| of(op).flat_map(|n| toposort(n.src(1))).filter(is_shared).count();
    assert!(uses(Op::Prefetch) > 0 && uses(Op::Store) > 0, "{}", render(&program, &target));
}

#[test]
fn what_is_read_again_is_not_asked_for() {
    let none = |root: &UOp| assert_eq!(compiled(root, Language::Llvm).1, [0; 0]);
    // a row for many rows, a window, an argument that fits into a near cache
    let row = UOp::param(0, DType::F32, [1, 1 << 18].as_slice()).expand(&[64, 1 << 18][..]);
    none(&exp(&row));
    let windows = WindowArg { axis: 0, len: 1 << 20, size: 3, stride: 1, dilation: 1 };
    let x = UOp::param(0, DType::F32, &[1 << 20][..]);
    none(&x.window(windows).reduce(ReduceOp::Add, &[1][..]));
    none(&exp(&UOp::param(0, DType::F32, &[1 << 10][..])));
    // little to compute with a row that two loops read, rows that do not stay in the second cache
    none(&sums(4096, UOp::clone));
    none(&sums(1 << 16, exp));
}
