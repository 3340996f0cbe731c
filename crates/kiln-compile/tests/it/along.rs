//! Items of a group that go along rows together, in several reductions and in loops over what is stored of a row, on INTERP.

use crate::option_kinds::random_kernels;
use crate::options::{
    Dice, axes, check, is_counted, kernel_of, kernels, param, plain, repeated, run, seed,
};
use crate::stages::{lower, optimize, schedule};
use kiln_compile::optimize::{self, Opt, apply};
use kiln_compile::pipeline::{self, Settings};
use kiln_compile::target::{Groups, Target};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::uop::{axis_of, toposort};
use kiln_ir::{DType, Op, UOp};
use kiln_runtime::interp;
use std::cell::Cell;

fn split(kind: RangeKind, axis: u32, by: usize) -> Opt {
    Opt::Split { kind, axis, by }
}

/// Rows of `n`, each without its largest value and then times its sum.
fn rows(count: usize, n: usize) -> UOp {
    let x = param(0, &[count, n]);
    let all = |x: UOp| x.reshape(&[count, 1][..]).expand(&[count, n][..]);
    let x = &x - &all(x.reduce(ReduceOp::Max, &[1][..]));
    &x * &all((&x * &x).reduce(ReduceOp::Add, &[1][..]))
}

/// Kernels with rows: fixed ones, and those of random graphs.
fn all_kernels() -> Vec<UOp> {
    let fixed = kernels().into_iter().map(|(_, root)| root);
    let fixed = fixed.chain([rows(5, 16), rows(3, 11), repeated(6, 8)]);
    fixed.map(|root| kernel_of(&root)).chain(random_kernels(60)).collect()
}

/// Rows as groups, perhaps several rows in a group; then some loops inside of rows by the same items, which may exchange or
/// combine in two steps.
fn random_options(kernel: &UOp, dice: &mut Dice) -> Vec<Opt> {
    let nodes = toposort(kernel);
    let nests = nodes.iter().filter(|n| matches!(n.op(), Op::Store | Op::Reduce));
    let is_around = |axis: &u32| nests.clone().all(|n| n.scope().contains(*axis));
    let loops = axes(kernel, RangeKind::Loop).into_iter();
    let (around, inner): (Vec<u32>, Vec<u32>) = loops.partition(is_around);
    let mut options = Vec::new();
    for &axis in &around {
        if dice.below(2) == 0 {
            options.push(split(RangeKind::Local, axis, 2 + dice.below(2)));
        }
    }
    options.extend(around.iter().map(|axis| split(RangeKind::Global, *axis, 1)));
    let by = [2, 3, 4, 6, 8][dice.below(5)];
    for axis in axes(kernel, RangeKind::Reduce).into_iter().chain(inner) {
        if dice.below(4) > 0 {
            options.push(split(RangeKind::Local, axis, by));
        }
    }
    if dice.below(3) == 0 {
        options.push(Opt::Subgroup { lanes: [2, 4][dice.below(2)] });
    }
    if dice.below(3) == 0 {
        options.push(Opt::Combine { parts: 2 });
    }
    options
}

/// Those of the options that are legal after those before.
fn legal(kernel: &UOp, options: Vec<Opt>) -> Vec<Opt> {
    options.into_iter().fold(Vec::new(), |mut legal, option| {
        legal.push(option);
        if optimize::check(kernel, &legal).is_err() {
            legal.pop();
        }
        legal
    })
}

fn locals(kernel: &UOp) -> usize {
    let is_item = |n: &&UOp| n.arg().range().is_some_and(|r| r.1 == RangeKind::Local);
    toposort(kernel).iter().filter(|n| n.op() == Op::Range).filter(is_item).count()
}

#[test]
fn rows_that_items_go_along_together_stay_as_they_are() {
    let (mut dice, mut several) = (Dice(seed(5)), 0);
    for kernel in all_kernels() {
        for _ in 0..20 {
            let options = legal(&kernel, random_options(&kernel, &mut dice));
            assert!(check("rows", &kernel, &options), "{options:?}");
            let local = |o: &&Opt| matches!(o, Opt::Split { kind: RangeKind::Local, .. });
            let ranges = locals(&apply(&kernel, &options).expect("legal").ast);
            several += usize::from(options.iter().filter(local).count() > ranges);
        }
    }
    assert!(several > 120 || !is_counted(), "{several} divide several loops");
}

/// The results of a kernel that writes its rows over those that it reads.
fn in_place(kernel: &UOp) -> Vec<Cell<u8>> {
    let program = lower(kernel, &Target::interp());
    let len = program.params[0].len as i32;
    let bytes = (0..len).flat_map(|i| (i * 7 % 13 - 6).to_ne_bytes());
    let memory: Vec<Cell<u8>> = bytes.map(Cell::new).collect();
    interp::run(&program, &[&memory[..], &memory[..]], &[]).expect("runs");
    memory
}

/// A row may be written over the row that it was computed from.
#[test]
fn rows_are_read_by_all_items_before_one_writes() {
    let kernel = kernel_of(&rows(5, 16));
    let (mut dice, mut written) = (Dice(seed(17)), 0);
    let expected = in_place(&plain(&kernel));
    let inner = axes(&kernel, RangeKind::Loop)[1];
    for _ in 0..200 {
        let options = legal(&kernel, random_options(&kernel, &mut dice));
        let writes = |o: &Opt| matches!(*o, Opt::Split { kind: RangeKind::Local, axis, .. } if axis == inner);
        if options.iter().any(writes) {
            let found = in_place(&apply(&kernel, &options).expect("legal").ast);
            assert!(found == expected, "{options:?}");
            written += 1;
        }
    }
    assert!(written > 30 || !is_counted(), "{written} write together");
}

#[test]
fn one_range_of_items_divides_all_loops_of_a_row() {
    let kernel = kernel_of(&rows(5, 16));
    let [around, inner] = axes(&kernel, RangeKind::Loop)[..] else { panic!("two loops") };
    let [first, second] = axes(&kernel, RangeKind::Reduce)[..] else { panic!("two reductions") };
    let group = split(RangeKind::Global, around, 1);
    let local = |axis, by| split(RangeKind::Local, axis, by);
    let all = [group, local(first, 8), local(second, 8), local(inner, 8)];
    assert!(check("rows", &kernel, &all));
    assert_eq!(locals(&apply(&kernel, &all).expect("legal").ast), 1);
    let why = |options: &[Opt]| optimize::check(&kernel, options).expect_err("illegal");
    for (options, reason) in [
        (&[group, local(first, 8), local(second, 4)][..], "the items have another number"),
        (
            &[group, local(first, 8), local(inner, 8)],
            "a reduction outside of the loop is not divided",
        ),
        (&[local(first, 8)], "all loops around everything must be done by groups before"),
        (
            &[group, local(first, 4), local(first, 4)],
            "the items divide a loop around it or inside of it",
        ),
        (&[group, Opt::Combine { parts: 2 }], "no items reduce together"),
        (
            &[group, local(first, 8), Opt::Combine { parts: 3 }],
            "it must divide the partial results",
        ),
    ] {
        assert!(why(options).ends_with(&format!(": {reason}")), "{}", why(options));
    }
}

#[test]
fn what_the_strategy_chooses_for_rows_changes_nothing() {
    // with room for many items, for a few, and for none that go along rows
    let mut along = 0;
    let fixed = [rows(5, 64), rows(70, 100), rows(300, 33), rows(2, 1000), rows(9, 20)];
    let fixed = fixed.into_iter().flat_map(|root| schedule(&[root]).kernels);
    let fixed = fixed.map(|k| k.ast);
    for kernel in fixed.chain(random_kernels(60)) {
        let kernel = optimize::collapsed(&kernel);
        let expected = run(&plain(&kernel), &Target::interp());
        for (items, bytes, subgroup) in [(256, 48 << 10, 1), (64, 512, 8), (256, 128, 1)] {
            let groups = Groups { most_items: items, shared_bytes: bytes, subgroup };
            let target = Target::opencl(groups);
            let optimized = optimize(&kernel, &target, true);
            assert!(run(&optimized.ast, &target) == expected, "{:?}", optimized.applied);
            let program = lower(&optimized.ast, &target);
            assert!(program.scratch_bytes <= bytes, "{:?}", optimized.applied);
            let is_barrier = |n: &UOp| n.op() == Op::Barrier;
            along += usize::from(toposort(&optimized.ast).iter().any(is_barrier));
        }
    }
    assert!(along > 20 || !is_counted(), "{along} go along rows");
}

/// Two writes to one tensor, the second to elements of the first: `out[i] = 1`, then `out[63 - i] = 2`. No barrier orders what items of
/// several groups store, so one item does all of it.
#[test]
fn writes_in_sequence_are_no_rows() {
    let [one, two] = [1, 2].map(|n| UOp::constant(n, DType::I32));
    let [i, j] = [0, 1].map(|axis| UOp::range(axis, RangeKind::Loop, 64));
    let out = UOp::param(0, DType::I32, &[64][..]);
    let first = UOp::store(&out, &i, &one, None).end([i]);
    let second =
        UOp::store(&out.after([first.clone()]), &(&j * -1 + 63), &two, None).end([j.clone()]);
    let kernel = UOp::kernel([first, second], "");
    let along = split(RangeKind::Local, axis_of(&j), 8);
    let why = optimize::check(&kernel, &[along]).expect_err("illegal");
    assert!(why.ends_with(": a loop would need what other items store in another one"), "{why}");
    let target = Target::opencl(Groups { most_items: 64, shared_bytes: 48 << 10, subgroup: 1 });
    let optimized = optimize(&kernel, &target, true);
    assert!(run(&optimized.ast, &target) == run(&plain(&kernel), &Target::interp()));
}

/// If a group is one subgroup, no barrier separates the exchange from the store by the first item.
#[test]
fn where_items_exchange_the_first_is_not_found_by_a_bound() {
    let sums = param(0, &[4, 64]).reduce(ReduceOp::Add, &[1][..]);
    let source = |subgroup| {
        let groups = Groups { most_items: 32, shared_bytes: 1 << 14, subgroup };
        let settings = Settings { optimize: true, ..Settings::default() };
        let compiled = pipeline::compile(&kernel_of(&sums), &Target::opencl(groups), settings);
        compiled.unwrap_or_else(|bug| panic!("{bug}")).program.source
    };
    assert!(source(32).contains("sub_group_shuffle_xor"));
    assert!(source(32).contains("(get_local_id(0) % 32)") && !source(32).contains("barrier"));
    assert!(!source(1).contains("get_local_id(0) % 32"));
}
