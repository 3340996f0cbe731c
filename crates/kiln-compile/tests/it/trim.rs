//! Loops that skip what conditions leave out compute the same.

use crate::options::{axes, check, kernel_of, param, plain, run};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::target::Target;
use kiln_ir::arg::{Axes, PadAxis, RangeKind, ReduceOp};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp, spec, text};

/// `column <= row` over `shape`, whose axes `row` and `column` these are.
fn seen(shape: &[usize], row: usize, column: usize) -> UOp {
    let along = |axis: usize| {
        let mut own = vec![1; shape.len()];
        own[axis] = shape[axis];
        UOp::iota(shape[axis], DType::I32).reshape(own.as_slice()).expand(shape)
    };
    along(row).lt(&along(column)).not()
}

/// The sum over the last axis of a product of a matrix and a transposed one, `[rows, columns, terms]`, of those terms
/// that some axis may see of another.
fn product([m, n, k]: [usize; 3], row: usize, column: usize, op: ReduceOp) -> UOp {
    let all = &[m, n, k][..];
    let a = param(0, &[m, k]).reshape(&[m, 1, k][..]).expand(all);
    let b = param(1, &[n, k]).reshape(&[1, n, k][..]).expand(all);
    let nothing = UOp::constant(op.identity(DType::I32), DType::I32);
    seen(all, row, column).where_(&(a * b), &nothing).reduce(op, Axes::from_slice(&[2]))
}

fn split(kind: RangeKind, axis: u32, by: usize) -> Opt {
    Opt::Split { kind, axis, by }
}

/// Loops whose end is no constant.
fn bounded(kernel: &UOp) -> usize {
    let depends = |n: &&UOp| n.op() == Op::Range && n.src(0).as_int().is_none();
    toposort(kernel).iter().filter(depends).count()
}

/// What the kernel of [`product`] leaves, term by term, of what [`run`] puts into its arguments.
fn worked_out([m, n, k]: [usize; 3], row: usize, column: usize, op: ReduceOp) -> Vec<i32> {
    let value = |slot: usize, i: usize| (i * (7 + 4 * slot) % 13) as i32 - 6;
    let element = |i: usize, j: usize| {
        let counts = |&t: &usize| [i, j, t][column] <= [i, j, t][row];
        let terms = (0..k).filter(counts).map(|t| value(1, i * k + t) * value(2, j * k + t));
        if op == ReduceOp::Add { terms.sum() } else { terms.max().unwrap_or(i32::MIN) }
    };
    (0..m * n).map(|at| element(at / n, at % n)).collect()
}

/// Options of tiles and vectors of every loop.
fn tiles(kernel: &UOp) -> Vec<Vec<Opt>> {
    let (loops, reduce) = (axes(kernel, RangeKind::Loop), axes(kernel, RangeKind::Reduce)[0]);
    let mut all = vec![vec![]];
    for &axis in &loops {
        all.push(vec![split(RangeKind::Upcast, axis, 4)]);
        all.push(vec![split(RangeKind::Vector, axis, 8)]);
        all.push(vec![split(RangeKind::Vector, axis, 4), split(RangeKind::Upcast, axis, 2)]);
    }
    all.push(vec![split(RangeKind::Vector, reduce, 8), split(RangeKind::Upcast, reduce, 2)]);
    all.push(vec![split(RangeKind::Upcast, loops[0], 4), split(RangeKind::Vector, loops[1], 8)]);
    all
}

#[test]
fn reductions_skip_what_is_hidden() {
    for op in [ReduceOp::Add, ReduceOp::Max] {
        for (row, column) in [(0, 2), (2, 0), (0, 1), (1, 0)] {
            for shape in [[8, 16, 96], [80, 8, 80], [24, 80, 16]] {
                let kernel = kernel_of(&product(shape, row, column, op));
                assert!(bounded(&plain(&kernel)) > 0, "{op:?} {row} {column}");
                let name = format!("{op:?} {row} {column} {shape:?}");
                let expected = worked_out(shape, row, column, op);
                assert!(run(&plain(&kernel), &Target::interp()) == expected, "{name}");
                let legal = tiles(&kernel).iter().filter(|o| check(&name, &kernel, o)).count();
                assert!(legal > 4, "{name}: {legal}");
            }
        }
    }
}

#[test]
fn what_is_seen_by_all_of_a_tile_is_a_loop_without_conditions() {
    let kernel = kernel_of(&product([80, 8, 80], 0, 2, ReduceOp::Add));
    let rows = split(RangeKind::Upcast, axes(&kernel, RangeKind::Loop)[0], 4);
    let tiled = apply(&kernel, &[rows]).expect("legal").ast;
    let sums = |n: &&UOp| n.op() == Op::Reduce;
    let nodes = toposort(&tiled);
    let gated: Vec<bool> = nodes.iter().filter(sums).map(|r| r.src(0).op() == Op::Where).collect();
    assert_eq!((gated.len(), gated.iter().filter(|g| **g).count()), (2, 1));
}

/// A gate of which one lane does not ask for the loop, around which another condition was: that lane is loaded before the
/// loop, also where it does not run.
#[test]
fn what_is_loaded_before_a_skipped_loop_stays_inside_its_memory() {
    let text = "\
%0 = param i32 slot=0 [19]
%1 = range index axis=0 loop 19
%2 = range index axis=1 reduce 11
%3 = cmplt bool %2 1
%4 = not bool %3
%5 = cmplt bool %2 9
%6 = and bool %4 %5
%7 = cmplt bool %1 1
%8 = not bool %7
%9 = and bool %6 %8
%10 = cmplt bool %1 17
%11 = and bool %9 %10
%12 = param i32 slot=1 [16]
%13 = add index %1 -1
%14 = load i32 %12 %13 gate=%11
%15 = where i32 %11 %14 0:i32
%16 = reduce i32 add %15 %2
%17 = store %0 %1 %16
%18 = end %17 %1
sink name=\"\" %18
";
    let kernel = kiln_ir::text::parse(text).expect("a kernel");
    let options =
        ["UPCAST(axis 1, 2)", "BLOCK(axis 1, 4)", "THREAD(axis 0, 0)", "UNROLL(axis 1, 2)"];
    let options: Vec<Opt> = options.iter().map(|o| o.parse().expect("an option")).collect();
    assert!((0..=options.len()).all(|n| check("gated", &kernel, &options[..n])));
}

/// Every element of a row with the row's sum and its largest element, which costs enough to be kept.
fn rows([m, n]: [usize; 2]) -> UOp {
    let x = param(0, &[m, n]);
    let of_row = |x: &UOp, op| x.reduce(op, &[1][..]).reshape(&[m, 1][..]).expand(&[m, n][..]);
    let apart = &x - of_row(&x, ReduceOp::Max);
    let square = &apart * &apart;
    let costly = UOp::binary(Op::FloorDiv, &(&square * &apart), &(&square + 7)) * &square;
    of_row(&costly, ReduceOp::Add) - costly
}

#[test]
fn rows_of_no_whole_number_of_vectors_are_loops_without_conditions_and_their_ends() {
    let kernel = kernel_of(&rows([5, 299]));
    let (column, sums) = (axes(&kernel, RangeKind::Loop)[1], axes(&kernel, RangeKind::Reduce));
    let mut options: Vec<Opt> =
        [column, sums[0], sums[1]].map(|axis| split(RangeKind::Vector, axis, 8)).to_vec();
    let stores = |options: &[Opt]| {
        let kernel = apply(&kernel, options).expect("legal").ast;
        let stores = toposort(&kernel).into_iter().filter(|n| n.op() == Op::Store);
        let counts = stores.map(|s| (s.memory().op() == Op::Param, s.srcs().len() == 4));
        let mut counts: Vec<(bool, bool)> = counts.collect();
        counts.sort_unstable();
        counts
    };
    assert!(check("vectors", &kernel, &options));
    assert_eq!(stores(&options), [(true, false), (true, true)]);
    options.push(Opt::Keep { bytes: 1 << 12 });
    assert!(check("kept", &kernel, &options));
    assert_eq!(stores(&options), [(false, false), (false, false), (true, false), (true, true)]);
    let accumulators = [split(RangeKind::Upcast, sums[0], 2), split(RangeKind::Upcast, sums[1], 2)];
    let all = [&options[..3], &accumulators, &options[3..]].concat();
    assert!(check("accumulators", &kernel, &all));
    let lines = [column, sums[0], sums[1]].map(|axis| Opt::Align { axis, by: 8 });
    for list in [&options[..3], &options, &all] {
        assert!(check("lines", &kernel, &[&lines[..], list].concat()));
    }
    let lined = [&lines[..], &options].concat();
    // what is summed comes in order: one end, the middle, the other end
    let kept = [(false, false); 3].to_vec();
    assert_eq!(stores(&lined), [kept, vec![(true, false), (true, true)]].concat());
    // one loop alone, and lines of another length than vectors
    assert!(check("one", &kernel, &[&lines[..1], &options[..3]].concat()));
    let other = Opt::Align { axis: column, by: 16 };
    assert!(check("others", &kernel, &[&[other], &options[..3]].concat()));
    assert!(!check("twice", &kernel, &[&lines[..1], &lines[..1]].concat()));
    assert!(!check("late", &kernel, &[&options[..1], &lines[..1]].concat()));
}

/// A row times a matrix whose rows are no whole number of vectors: the sums are carried in scratch from block to block.
#[test]
fn most_vectors_of_carried_sums_have_no_conditions() {
    let [k, n] = [40, 99];
    let row = param(0, &[1, k]).expand(&[n, k][..]);
    let matrix = param(1, &[k, n]).permute(&[1, 0][..]);
    let kernel = kernel_of(&(row * matrix).reduce(ReduceOp::Add, &[1][..]));
    let axis = axes(&kernel, RangeKind::Loop)[0];
    let over = axes(&kernel, RangeKind::Reduce)[0];
    let tile = [split(RangeKind::Vector, axis, 4), split(RangeKind::Upcast, axis, 2)];
    let blocks = [Opt::Block { axis, by: 7 }, Opt::Block { axis: over, by: 4 }];
    let options = [&tile[..], &blocks, &[split(RangeKind::Unroll, over, 4)]].concat();
    assert!((2..=options.len()).all(|n| check("carried", &kernel, &options[..n])));
    // a load in the loop of whole tiles, and one in that of the rest
    let kernel = apply(&kernel, &options).expect("legal").ast;
    let of_matrix = |n: &&UOp| n.op() == Op::Load && n.memory().arg().slot() == Some(2);
    let nodes = toposort(&kernel);
    let mut gated: Vec<bool> = nodes.iter().filter(of_matrix).map(|n| n.gate().is_some()).collect();
    gated.sort_unstable();
    assert_eq!(gated, [false, true]);
}

/// `a` and then `b` along the last axis.
fn joined(rows: usize, a: usize, b: usize) -> UOp {
    let pad = |x: &UOp, before, after| {
        x.pad(&[PadAxis::default(), PadAxis { before, between: 0, after }])
    };
    let first = pad(&UOp::bool(true).broadcast_to(&[rows, a]), 0, b);
    first.where_(&pad(&param(0, &[rows, a]), 0, b), &pad(&param(1, &[rows, b]), a, 0))
}

/// Loads in loops, as many as have a predicate and as have none.
fn loads(kernel: &UOp) -> [usize; 2] {
    let nodes = toposort(kernel);
    let loads = || nodes.iter().filter(|n| n.op() == Op::Load);
    let gated = loads().filter(|n| n.gate().is_some()).count();
    [gated, loads().count() - gated]
}

#[test]
fn tensors_that_are_joined_have_a_loop_each() {
    for (rows, a, b) in [(1, 333, 518), (3, 65, 200), (5, 128, 64), (2, 1, 99), (4, 37, 1)] {
        let kernel = kernel_of(&joined(rows, a, b));
        let row = |i: usize, slot: usize, n: usize| {
            (0..n).map(move |j| (((i * n + j) * (7 + 4 * slot)) % 13) as i32 - 6)
        };
        let expected: Vec<i32> = (0..rows).flat_map(|i| row(i, 1, a).chain(row(i, 2, b))).collect();
        let name = format!("{rows} {a} {b}");
        assert_eq!(run(&plain(&kernel), &Target::interp()), expected, "{name}");
        for axis in axes(&kernel, RangeKind::Loop) {
            for by in [2, 4, 8] {
                check(&name, &kernel, &[split(RangeKind::Vector, axis, by)]);
                let blocked = [split(RangeKind::Vector, axis, by), Opt::Block { axis, by: 9 }];
                check(&name, &kernel, &blocked);
            }
        }
    }
    let kernel = kernel_of(&joined(3, 333, 518));
    assert_eq!(loads(&plain(&kernel)), [0, 2]);
    let last = *axes(&kernel, RangeKind::Loop).last().expect("a loop");
    let vectors = apply(&kernel, &[split(RangeKind::Vector, last, 8)]).expect("legal").ast;
    assert!(loads(&vectors)[1] >= 2, "{:?}", loads(&vectors));
}

/// Rows of a convolution and a mean of each, for lengths that a launch decides, four rows at a time of ten. The loops around a
/// store kept the predicate of the rows in their lengths, and what ends them did not: two loops of one number.
#[test]
fn loops_around_a_store_are_those_that_its_end_names() {
    keeps_the_spec(include_str!("../../../../testdata/general/rows_of_a_launch.uop"), "ROWS(4, 0)");
}

/// A tensor and the same one with padding, joined, where lengths are decided by a launch. Of two forms of one comparison each
/// was the smaller in one place, and two rules replaced them by each other without an end.
#[test]
fn comparisons_have_one_smallest_form() {
    keeps_the_spec(
        include_str!("../../../../testdata/general/joined_with_padded.uop"),
        "VECTOR(axis 0, 16)",
    );
}

/// A kernel of a file is a kernel with an option, too.
fn keeps_the_spec(file: &str, option: &str) {
    let kernel = text::parse(file).expect("a kernel");
    let optimized = apply(&kernel, &[option.parse().expect("an option")]).expect("legal");
    spec::verify(&spec::KERNEL, &optimized.ast).unwrap_or_else(|why| panic!("{why}"));
}
