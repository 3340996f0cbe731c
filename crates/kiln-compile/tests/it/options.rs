//! Options of the optimizer leave what a kernel computes as it is: each alone, and any together, on INTERP.

use crate::stages::{lower, optimize, schedule};
use kiln_compile::optimize::{Opt, apply, collapsed};
use kiln_compile::target::{Costs, Target};
use kiln_ir::affine::Affine;
use kiln_ir::arg::{PadAxis, RangeKind, ReduceOp, SliceAxis, WindowArg};
use kiln_ir::uop::toposort;
use kiln_ir::{Arg, DType, Op, UOp, spec};
use kiln_runtime::interp;
use std::cell::Cell;

pub(crate) fn param(slot: usize, shape: &[usize]) -> UOp {
    UOp::param(slot, DType::I32, shape)
}

/// `[m, k] x [k, n]`, from operands that lie transposed if so wanted.
pub(crate) fn product([m, k, n]: [usize; 3], ta: bool, tb: bool) -> UOp {
    let a = if ta { param(0, &[k, m]).permute(&[1, 0][..]) } else { param(0, &[m, k]) };
    let b = if tb { param(1, &[n, k]).permute(&[1, 0][..]) } else { param(1, &[k, n]) };
    sum_of_products(&a, &b)
}

fn sum_of_products(a: &UOp, b: &UOp) -> UOp {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    let a = a.reshape(&[m, 1, k][..]).expand(&[m, n, k][..]);
    let b = b.permute(&[1, 0][..]).reshape(&[1, n, k][..]).expand(&[m, n, k][..]);
    (a * b).reduce(ReduceOp::Add, &[2][..])
}

fn batched() -> UOp {
    let (b, m, k, n) = (3, 5, 6, 8);
    let x = param(0, &[b, m, k]).reshape(&[b, m, 1, k][..]).expand(&[b, m, n, k][..]);
    let y = param(1, &[b, k, n]).permute(&[0, 2, 1][..]).reshape(&[b, 1, n, k][..]);
    (x * y.expand(&[b, m, n, k][..])).reduce(ReduceOp::Add, &[3][..])
}

/// A convolution of 3 channels to 4, whose images are padded: loads are gated.
fn convolution() -> UOp {
    convolution_of(3, 1, 1)
}

/// The same with windows of `size` elements that lie `dilation` apart, one every `stride`.
fn convolution_of(size: usize, stride: usize, dilation: usize) -> UOp {
    convolved(3, [size, stride, dilation])
}

/// The same of `c` channels, with windows of 3 elements.
fn convolution_of_channels(c: usize) -> UOp {
    convolved(c, [3, 1, 1])
}

fn convolved(c: usize, [size, stride, dilation]: [usize; 3]) -> UOp {
    let (o, h, w) = (4, 5, 8);
    let pad = PadAxis { before: 1, between: 0, after: 1 };
    let none = PadAxis::default();
    let window = |axis, len| WindowArg { axis, len, size, stride, dilation };
    let count = |len: usize| (len - dilation * (size - 1) - 1) / stride + 1;
    let (rows, columns) = (count(h + 2), count(w + 2));
    let all = &[o, c, rows, size, columns, size][..];
    let x = param(0, &[c, h, w]).pad(&[none, pad, pad]);
    let x = x.window(window(1, h + 2)).window(window(3, w + 2));
    let x = x.reshape(&[1, c, rows, size, columns, size][..]).expand(all);
    let k = param(1, &[o, c, size, size]).reshape(&[o, c, 1, size, 1, size][..]).expand(all);
    (x * k).reduce(ReduceOp::Add, &[1, 3, 5][..])
}

/// The gradient of a convolution of 3 channels to 4, for its input: at the borders few windows cover an element.
fn gradient_for_input() -> UOp {
    let (c, o, h, w) = (3, 4, 5, 8);
    let window = |axis, len| WindowArg { axis, len, size: 3, stride: 1, dilation: 1 };
    let all = &[o, c, h - 2, 3, w - 2, 3][..];
    let dy = param(0, &[o, h - 2, w - 2]).reshape(&[o, 1, h - 2, 1, w - 2, 1][..]).expand(all);
    let k = param(1, &[o, c, 3, 3]).reshape(&[o, c, 1, 3, 1, 3][..]).expand(all);
    let covered = (dy * k).unwindow(window(4, w)).unwindow(window(2, h));
    covered.reduce(ReduceOp::Add, &[0, 3, 5][..])
}

/// The same for its weights, over a batch: few outputs, each a long sum.
fn gradient_for_weights() -> UOp {
    let (n, c, o, h, w) = (3, 3, 4, 8, 8);
    let window = |axis, len| WindowArg { axis, len, size: 3, stride: 1, dilation: 1 };
    let all = &[n, o, c, h - 2, 3, w - 2, 3][..];
    let dy = param(0, &[n, o, h - 2, w - 2]);
    let dy = dy.reshape(&[n, o, 1, h - 2, 1, w - 2, 1][..]).expand(all);
    let x = param(1, &[n, c, h, w]).window(window(2, h)).window(window(4, w));
    let x = x.reshape(&[n, 1, c, h - 2, 3, w - 2, 3][..]).expand(all);
    (dy * x).reduce(ReduceOp::Add, &[0, 3, 5][..])
}

/// What is reduced has an operand of two loads, and is used after.
fn scaled() -> UOp {
    let (m, k, n) = (6, 7, 9);
    let scale = param(2, &[k]).reshape(&[1, k][..]).expand(&[m, k][..]);
    let sum = sum_of_products(&(param(0, &[m, k]) * scale), &param(1, &[k, n]));
    let bias = param(3, &[n]).reshape(&[1, n][..]).expand(&[m, n][..]);
    (&sum + &bias).maximum(&sum)
}

/// What is read across how it is written, added to what is not.
fn turned(m: usize, n: usize) -> UOp {
    param(0, &[n, m]).permute(&[1, 0][..]) + param(1, &[m, n])
}

/// Sums of products beside each other, over loops of their own.
fn beside() -> UOp {
    let (m, k, l, n) = (6, 8, 10, 8);
    let first = sum_of_products(&param(0, &[m, k]), &param(1, &[k, n]));
    first + sum_of_products(&param(2, &[m, l]), &param(3, &[l, n]))
}

/// Two sums of products that have a factor in common, as in a gated layer.
fn gated([m, k, n]: [usize; 3]) -> UOp {
    let x = param(0, &[m, k]);
    sum_of_products(&x, &param(1, &[k, n])) * sum_of_products(&x, &param(2, &[k, n]))
}

pub(crate) fn kernels() -> Vec<(&'static str, UOp)> {
    vec![
        ("beside each other", beside()),
        ("even", product([8, 6, 16], false, false)),
        ("ragged", product([7, 5, 11], false, false)),
        ("transposed", product([7, 16, 9], true, false)),
        ("both transposed", product([6, 16, 10], true, true)),
        ("batched", batched()),
        ("convolution", convolution()),
        ("strided convolution", convolution_of(3, 2, 1)),
        ("dilated convolution", convolution_of(3, 1, 2)),
        ("strided and dilated convolution", convolution_of(2, 2, 3)),
        ("gradient for the input", gradient_for_input()),
        ("gradient for the weights", gradient_for_weights()),
        ("scaled", scaled()),
    ]
}

/// The only kernel of a graph.
pub(crate) fn kernel_of(root: &UOp) -> UOp {
    let schedule = schedule(std::slice::from_ref(root));
    assert_eq!(schedule.kernels.len(), 1);
    schedule.kernels[0].ast.clone()
}

pub(crate) fn run(ast: &UOp, target: &Target) -> Vec<i32> {
    spec::verify(&spec::KERNEL, ast).expect("a kernel");
    let program = lower(ast, target);
    spec::verify_program(&program.ops).expect("a program");
    let value = |slot: usize, i: usize| (i * (7 + 4 * slot) % 13) as i32 - 6;
    let memory = |slot: usize, len: usize| -> Vec<Cell<u8>> {
        (0..len).flat_map(|i| value(slot, i).to_ne_bytes()).map(Cell::new).collect()
    };
    let params = program.params.iter().enumerate();
    let buffers: Vec<Vec<Cell<u8>>> = params.map(|(slot, p)| memory(slot, p.len)).collect();
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    interp::run(&program, &views, &[]).expect("runs");
    let bytes: Vec<u8> = buffers[0].iter().map(Cell::get).collect();
    bytes.chunks_exact(4).map(|c| i32::from_ne_bytes(c.try_into().expect("4"))).collect()
}

/// Compares what a kernel computes with and without options; false where they are not legal.
pub(crate) fn check(name: &str, kernel: &UOp, options: &[Opt]) -> bool {
    let Ok(optimized) = apply(kernel, options) else { return false };
    let list: Vec<String> = options.iter().map(ToString::to_string).collect();
    let read: Vec<Opt> = list.iter().map(|o| o.parse().expect("as it was written")).collect();
    assert_eq!(read, options);
    let plain = run(&plain(kernel), &Target::interp());
    assert!(
        plain == run(&optimized.ast, &Target::interp()),
        "{name}: {list:?} of\n{}",
        kiln_ir::text::print(kernel)
    );
    true
}

/// The kernel without any option.
pub(crate) fn plain(kernel: &UOp) -> UOp {
    apply(kernel, &[]).expect("no option is legal").ast
}

pub(crate) fn axes(kernel: &UOp, kind: RangeKind) -> Vec<u32> {
    let ranges = toposort(kernel).into_iter().filter(|n| n.op() == Op::Range);
    let mut axes: Vec<u32> =
        ranges.filter_map(|r| r.arg().range().filter(|r| r.1 == kind)).map(|r| r.0).collect();
    axes.sort_unstable();
    axes
}

#[test]
fn blocks_change_nothing() {
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        for axis in axes(&kernel, RangeKind::Loop) {
            for by in [2, 3, 4, 16] {
                check(name, &kernel, &[Opt::Block { axis, by }]);
            }
        }
    }
}

#[test]
fn reductions_in_blocks_change_nothing() {
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        for axis in axes(&kernel, RangeKind::Reduce) {
            for by in [2, 3, 4] {
                let block = Opt::Block { axis, by };
                check(name, &kernel, &[block]);
                let first = axes(&kernel, RangeKind::Loop)[0];
                check(name, &kernel, &[Opt::Block { axis: first, by: 2 }, block]);
            }
        }
    }
}

#[test]
fn staging_changes_nothing() {
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        for operand in 0..2 {
            for depth in 0..=axes(&kernel, RangeKind::Loop).len() {
                for lanes in [1, 4, 16] {
                    check(name, &kernel, &[Opt::Stage { operand, depth, lanes }]);
                }
            }
        }
    }
}

#[test]
fn a_panel_of_windows_holds_what_they_cover() {
    let panel = |kernel: &UOp, depth: usize, lanes: usize| -> usize {
        let options = [Opt::Stage { operand: 0, depth, lanes }];
        assert!(check("windows", kernel, &options));
        let staged = apply(kernel, &options).expect("legal").ast;
        let scratch = toposort(&staged).into_iter().find(|n| n.op() == Op::Local);
        let Some(Arg::Memory { len, .. }) = scratch.as_ref().map(UOp::arg) else {
            panic!("no panel")
        };
        *len
    };
    let whole = |size, stride, dilation| {
        let kernel = kernel_of(&convolution_of(size, stride, dilation));
        panel(&kernel, 0, 1)
    };
    // of 3 channels 7 rows of 10 elements, with the border; where windows don't overlap, a row of its own for each
    assert_eq!(whole(3, 1, 1), 3 * 7 * 10);
    assert_eq!(whole(3, 2, 1), 3 * 7 * 9);
    assert_eq!(whole(3, 1, 2), 3 * 7 * 10);
    assert_eq!(whole(2, 2, 1), 3 * (3 * 2) * (5 * 2));
    assert_eq!(whole(2, 2, 3), 3 * (2 * 2) * (4 * 2));
    let kernel = kernel_of(&convolution());
    // a row is rounded to whole vectors; inside the loops over channels of the output and rows there are 3 rows
    assert_eq!(panel(&kernel, 0, 4), 3 * 7 * 12);
    assert_eq!(panel(&kernel, 2, 4), 3 * 3 * 12);
    // a gradient reads the windows that cover an element: past the ends of the 3 x 6 outputs there is 0
    let kernel = kernel_of(&gradient_for_input());
    assert_eq!(panel(&kernel, 0, 1), 4 * (5 + 2) * (8 + 2));
}

#[test]
fn weights_of_windows_are_transposed_in_squares() {
    // 4 channels of 3 x 3 weights are 36 neighbours in memory: 9 squares of 4 x 4
    let kernel = collapsed(&kernel_of(&convolution_of_channels(4)));
    let outputs = axes(&kernel, RangeKind::Loop)[0];
    let lanes = Opt::Split { kind: RangeKind::Vector, axis: outputs, by: 4 };
    let options = [lanes, Opt::Stage { operand: 1, depth: 0, lanes: 4 }];
    assert!(check("weights", &kernel, &options));
    let staged = apply(&kernel, &options).expect("legal").ast;
    assert_eq!(axes(&staged, RangeKind::Vector).len(), 2, "{}", kiln_ir::text::print(&staged));
}

#[test]
fn blocks_of_one_reduction_are_not_around_what_is_staged_for_another() {
    let kernel = kernel_of(&beside());
    for axis in axes(&kernel, RangeKind::Reduce) {
        for operand in 0..4 {
            for depth in 0..=3 {
                let options = [Opt::Block { axis, by: 2 }, Opt::Stage { operand, depth, lanes: 1 }];
                assert!(check("beside", &kernel, &options), "{options:?} is legal");
            }
        }
    }
}

#[test]
fn sums_that_load_the_same_are_over_one_loop() {
    let kernel = collapsed(&kernel_of(&gated([9, 8, 14])));
    let (loops, sums) = (axes(&kernel, RangeKind::Loop), axes(&kernel, RangeKind::Reduce));
    assert_eq!((loops.len(), sums.len()), (2, 1), "{}", kiln_ir::text::print(&kernel));
    // neither of the sums is stored beside their product
    let stores = toposort(&kernel).into_iter().filter(|n| n.op() == Op::Store);
    assert_eq!(stores.count(), 1);
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let (lanes, rows) =
        (split(RangeKind::Vector, loops[0], 4), split(RangeKind::Upcast, loops[1], 7));
    for depth in [0, 1, 2] {
        let stage = Opt::Stage { operand: 0, depth, lanes: 4 };
        let block = Opt::Block { axis: loops[1], by: 2 };
        assert!(check(
            "gated",
            &kernel,
            &[lanes, split(RangeKind::Upcast, loops[0], 2), rows, block, stage]
        ));
    }
    // sums that depend on each other are not
    let x = param(0, &[9, 8]);
    let largest = x.reduce(ReduceOp::Max, &[1][..]).reshape(&[9, 1][..]).expand(&[9, 8][..]);
    let kernel = collapsed(&kernel_of(&(x - largest).reduce(ReduceOp::Add, &[1][..])));
    assert_eq!(axes(&kernel, RangeKind::Reduce).len(), 2);
}

/// `i % 16` varies over a part of the loop over `i` alone, which becomes a loop of its own; `i < 16` over the other.
#[test]
fn sums_that_vary_over_parts_of_a_loop_keep_their_loops() {
    let i = UOp::range(0, RangeKind::Loop, 48);
    let [k, l] = [1, 2].map(|axis| UOp::range(axis, RangeKind::Reduce, 17));
    let row = i.floormod(&UOp::index(16)) * 17;
    let y = |k: &UOp| UOp::load(&param(1, &[17]), k);
    let first = UOp::load(&param(2, &[16 * 17]), &(&row + &k)) * y(&k);
    let below = i.lt(&UOp::index(16));
    let second = UOp::load_lanes(&param(3, &[16 * 17]), &(row + &l), Some(&below), 1) * y(&l);
    let sum = |value: UOp, range: UOp| value.reduce_ranges(ReduceOp::Add, [range]);
    let store = UOp::store(&param(0, &[48]), &i, &(sum(first, k) + sum(second, l)), None);
    let kernel = collapsed(&UOp::kernel([store.end([i])], "parts"));
    spec::verify(&spec::KERNEL, &kernel).expect("a kernel");
    assert_eq!(axes(&kernel, RangeKind::Reduce).len(), 2);
}

/// Rows that blocks do not divide: most run without conditions, and the rest of a block is one row or none.
#[test]
fn the_rest_of_a_block_may_be_nothing() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    for m in [79, 78, 81, 121, 119] {
        let kernel = kernel_of(&product([m, 8, 3], false, false));
        let (rows, sums) = (axes(&kernel, RangeKind::Loop)[0], axes(&kernel, RangeKind::Reduce)[0]);
        for (rows_by, sums_by) in [(20, 4), (20, 8), (24, 4)] {
            let options = [
                split(RangeKind::Upcast, rows, 2),
                Opt::Block { axis: rows, by: rows_by },
                Opt::Block { axis: sums, by: sums_by },
                split(RangeKind::Thread, rows, 1),
            ];
            assert!(check("rows", &kernel, &options), "{options:?}");
        }
    }
}

/// A value that takes many operations.
fn quotient(x: &UOp) -> UOp {
    let square = x * x;
    UOp::binary(Op::FloorDiv, &(&square * x), &(&square + 7)) * &square
}

/// Quotients, and each times the sum of its row.
pub(crate) fn repeated(rows: usize, n: usize) -> UOp {
    let quotient = quotient(&param(0, &[rows, n]));
    let sum = quotient.reduce(ReduceOp::Add, &[1][..]).reshape(&[rows, 1][..]);
    quotient * sum.expand(&[rows, n][..])
}

/// The same within rows, and the results once for each of some columns that come first.
fn repeated_for_columns(columns: usize, rows: usize, n: usize) -> UOp {
    let largest = repeated(rows, n).reduce(ReduceOp::Max, &[1][..]);
    let all = &[columns, rows][..];
    let times = param(1, &[columns]).reshape(&[columns, 1][..]).expand(all);
    largest.reshape(&[1, rows][..]).expand(all) * times
}

#[test]
fn a_value_is_kept_inside_of_loops_that_its_reduction_is_not_in() {
    for (columns, rows, n) in [(3, 35, 15), (2, 5, 32)] {
        let kernel = kernel_of(&repeated_for_columns(columns, rows, n));
        assert!(check("columns", &kernel, &[Opt::Keep { bytes: 1 << 12 }]));
    }
}

#[test]
fn a_sum_that_reads_what_is_kept_inside_of_more_loops_has_a_loop_of_its_own() {
    // the inner sums are the same for all 3 rows, and both load the same weights
    let (rows, m, n) = (3, 6, 5);
    let inner = |x: UOp| x.reshape(&[1, 2, 1, n][..]).expand(&[rows, 2, n, n][..]);
    let weights = param(2, &[n, n]).reshape(&[1, 1, n, n][..]).expand(&[rows, 2, n, n][..]);
    let sum = |x: UOp| (inner(x) * &weights).reduce(ReduceOp::Add, &[3][..]);
    let quotient = quotient(&param(0, &[2, n]));
    let again = quotient.reshape(&[1, 2, n][..]).expand(&[rows, 2, n][..]);
    let scale = param(3, &[rows, n]).reshape(&[rows, 1, n][..]).expand(&[rows, 2, n][..]);
    let sums = (sum(quotient) + sum(param(1, &[2, n])) + again) * scale;
    let last = param(4, &[m, n]).reshape(&[1, 1, m, n][..]).expand(&[rows, 2, m, n][..]);
    let product = sums.reshape(&[rows, 2, 1, n][..]).expand(&[rows, 2, m, n][..]) * last;
    let kernel = collapsed(&kernel_of(&product.reduce(ReduceOp::Add, &[3][..])));
    assert_eq!(axes(&kernel, RangeKind::Reduce).len(), 2, "{}", kiln_ir::text::print(&kernel));
    let keep = [Opt::Keep { bytes: 1 << 12 }];
    assert!(check("sums of rows", &kernel, &keep), "legal");
    let kept = apply(&kernel, &keep).expect("legal").ast;
    assert_eq!(axes(&kept, RangeKind::Reduce).len(), 3, "{}", kiln_ir::text::print(&kept));
}

#[test]
fn keeping_changes_nothing() {
    let keep = Opt::Keep { bytes: 1 << 12 };
    let is_scratch = |n: &UOp| n.op() == Op::Local;
    for (rows, n) in [(6, 32), (5, 19)] {
        let kernel = kernel_of(&repeated(rows, n));
        let (loops, sums) = (axes(&kernel, RangeKind::Loop), axes(&kernel, RangeKind::Reduce));
        let split = |kind, axis, by| Opt::Split { kind, axis, by };
        let lanes = [loops[1], sums[0]].map(|axis| split(RangeKind::Vector, axis, 4));
        let rows = split(RangeKind::Upcast, loops[0], 2);
        let thread = split(RangeKind::Thread, loops[0], 1);
        for options in [vec![], lanes.to_vec(), [&lanes[..], &[rows, thread]].concat(), vec![rows]]
        {
            let options = [&options[..], &[keep]].concat();
            check("repeated", &kernel, &options);
            let kept = apply(&kernel, &options).expect("legal").ast;
            assert!(toposort(&kept).iter().any(is_scratch), "{options:?} keeps nothing");
        }
        let small = apply(&kernel, &[Opt::Keep { bytes: 4 * n - 1 }]).expect("legal").ast;
        assert!(!toposort(&small).iter().any(is_scratch), "does not fit");
    }
}

#[test]
fn tiles_need_not_divide_their_loops() {
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        let kinds = [(RangeKind::Upcast, RangeKind::Loop), (RangeKind::Unroll, RangeKind::Reduce)];
        for (kind, of) in kinds {
            for axis in axes(&kernel, of) {
                for by in [2, 3, 4] {
                    check(name, &kernel, &[Opt::Split { kind, axis, by }]);
                }
            }
        }
    }
}

/// The seed of a test with random cases: `own`, or with `KILN_SEED=s` another one.
pub(crate) fn seed(own: u64) -> u64 {
    let other = std::env::var("KILN_SEED").ok().and_then(|text| text.parse::<u64>().ok());
    own.wrapping_add(other.unwrap_or(0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Whether what a test with random cases has seen enough of can be said: its seeds are known.
pub(crate) fn is_counted() -> bool {
    seed(0) == 0
}

/// A small generator of numbers: below `n`.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

/// A tile, perhaps blocks, perhaps staged operands, perhaps threads.
fn random_options(kernel: &UOp, dice: &mut Dice) -> Vec<Opt> {
    let outputs = axes(kernel, RangeKind::Loop);
    let mut options = Vec::new();
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    if dice.below(3) > 0 {
        let axis = outputs[dice.below(outputs.len())];
        options.push(split(RangeKind::Vector, axis, [2, 4, 8][dice.below(3)]));
    }
    for &axis in &outputs {
        if dice.below(2) == 0 {
            options.push(split(RangeKind::Upcast, axis, 2 + dice.below(3)));
        }
    }
    for _ in 0..dice.below(4) {
        let axis = outputs[dice.below(outputs.len())];
        options.push(Opt::Block { axis, by: 2 + dice.below(3) });
    }
    let reduces = axes(kernel, RangeKind::Reduce);
    if dice.below(3) == 0 {
        let axis = reduces[dice.below(reduces.len())];
        options.push(Opt::Block { axis, by: 2 + dice.below(3) });
    }
    if dice.below(4) == 0 {
        return [options, groups(&outputs, dice)].concat();
    }
    let threads = dice.below(2);
    if threads == 1 {
        options.push(split(RangeKind::Thread, outputs[dice.below(outputs.len())], 1));
    }
    for operand in 0..2 {
        if dice.below(2) == 0 {
            let (depth, lanes) = (threads + dice.below(5), [1, 2, 4][dice.below(3)]);
            options.push(Opt::Stage { operand, depth, lanes });
        }
    }
    options
}

/// Some loops as work-items, some as groups.
fn groups(outputs: &[u32], dice: &mut Dice) -> Vec<Opt> {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let mut options = Vec::new();
    for &axis in outputs {
        if dice.below(2) == 0 {
            options.push(split(RangeKind::Local, axis, 2 + dice.below(4)));
        }
        if dice.below(3) > 0 {
            options.push(split(RangeKind::Global, axis, 1));
        }
    }
    options
}

/// All loops over outputs as groups, whose items reduce together.
fn together(kernel: &UOp, items: usize) -> Vec<Vec<Opt>> {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let outputs = axes(kernel, RangeKind::Loop).into_iter();
    let groups: Vec<Opt> = outputs.map(|axis| split(RangeKind::Global, axis, 1)).collect();
    let reduces = axes(kernel, RangeKind::Reduce).into_iter();
    reduces.map(|axis| [&groups[..], &[split(RangeKind::Local, axis, items)]].concat()).collect()
}

#[test]
fn items_reduce_together() {
    let mut legal = 0;
    // one result, without a loop around it
    let all = [("sum of all", param(0, &[37]).reduce(ReduceOp::Add, &[0][..]))];
    for (name, root) in kernels().into_iter().chain(all) {
        let kernel = kernel_of(&root);
        for options in [2, 3, 5].into_iter().flat_map(|items| together(&kernel, items)) {
            legal += usize::from(check(name, &kernel, &options));
        }
    }
    assert!(legal > 20, "{legal}");
}

#[test]
fn partial_results_are_combined_in_two_steps() {
    let mut legal = 0;
    let barriers = |ast: &UOp| toposort(ast).iter().filter(|n| n.op() == Op::Barrier).count();
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        for (items, parts) in [(4, 2), (6, 2), (6, 3), (8, 4), (5, 2), (4, 4)] {
            for options in together(&kernel, items) {
                let two = [&options[..], &[Opt::Combine { parts }]].concat();
                if check(name, &kernel, &two) {
                    let [one, two] = [options, two].map(|o| apply(&kernel, &o).expect("legal").ast);
                    assert_eq!(barriers(&two), 2 * barriers(&one));
                    legal += 1;
                }
            }
        }
    }
    assert!(legal > 20, "{legal}");
}

/// Subgroups alone, and with a scratch for each subgroup's result; types that are not exchanged use scratch only.
#[test]
fn items_exchange_results() {
    let (mut legal, mut shuffles) = (0, 0);
    let all = |dtype: DType, op: ReduceOp| {
        let x = UOp::param(0, dtype, [37].as_slice());
        x.reduce(op, &[0][..])
    };
    let ops = [ReduceOp::Add, ReduceOp::Mul, ReduceOp::Max, ReduceOp::Min];
    let roots = ops.map(|op| all(DType::I32, op)).into_iter();
    let named = roots.chain([all(DType::I16, ReduceOp::Max)]).map(|root| ("of all", root));
    for (name, root) in kernels().into_iter().chain(named) {
        let kernel = kernel_of(&root);
        for (items, lanes) in [(2, 2), (4, 2), (4, 4), (6, 2), (8, 4), (12, 4)] {
            for options in together(&kernel, items) {
                let options = [&options[..], &[Opt::Subgroup { lanes }]].concat();
                check(name, &kernel, &[&options[..], &[Opt::Combine { parts: 2 }]].concat());
                if check(name, &kernel, &options) {
                    legal += 1;
                    let ops = apply(&kernel, &options).expect("legal").ast;
                    shuffles += toposort(&ops).iter().filter(|n| n.op() == Op::Shuffle).count();
                }
            }
        }
    }
    assert!(legal > 40 && shuffles > 60, "{legal} {shuffles}");
    // a subgroup that the items do not fill, and items that do not reduce
    let kernel = kernel_of(&all(DType::F32, ReduceOp::Add));
    let items = |by, lanes| {
        let local = Opt::Split { kind: RangeKind::Local, axis: 0, by };
        apply(&kernel, &[local, Opt::Subgroup { lanes }]).map(|_| ())
    };
    assert!(items(6, 4).is_err() && items(4, 3).is_err() && items(4, 4).is_ok());
}

#[test]
fn options_together_change_nothing() {
    let mut dice = Dice(seed(1));
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        let mut random = || check(name, &kernel, &random_options(&kernel, &mut dice));
        let legal = (0..150).filter(|_| random()).count();
        assert!(legal > 8 || !is_counted(), "{name}: {legal} of 150 are legal");
    }
}

/// Targets with vectors of `bytes`, and caches so small that everything is blocked and staged.
pub(super) fn small_target(vector_bytes: usize, masks: bool) -> Target {
    Target {
        costs: Costs::CPU,
        vector_bytes,
        vector_registers: 16,
        masks,
        threads: 2,
        cache_bytes: [64, 512, 2048],
        groups: false,
        ..Target::interp()
    }
}

#[test]
fn what_the_heuristic_chooses_changes_nothing() {
    for (name, root) in kernels().into_iter().chain([
        ("large", product([37, 20, 50], false, false)),
        ("large transposed", product([40, 33, 64], true, true)),
        ("few rows", product([6, 64, 50], false, true)),
        ("turned", turned(96, 64)),
        ("turned, ragged", turned(37, 53)),
        ("channels last", param(0, &[3, 7, 11]).permute(&[1, 2, 0][..]).contiguous()),
    ]) {
        let kernel = kernel_of(&root);
        let plain = run(&plain(&kernel), &Target::interp());
        for target in [small_target(16, false), small_target(32, true), small_target(64, true)] {
            let optimized = optimize(&kernel, &target, true);
            assert!(run(&optimized.ast, &target) == plain, "{name}: {:?}", optimized.applied);
        }
    }
}

#[test]
fn what_is_transposed_is_copied_in_squares() {
    let kernel = kernel_of(&product([6, 8, 16], false, false));
    let squares = |operand| {
        let staged = apply(&kernel, &[Opt::Stage { operand, depth: 0, lanes: 4 }]).expect("legal");
        let ops = lower(&staged.ast, &Target::interp()).ops;
        ops.iter().filter(|op| op.op() == Op::Store && op.src(2).op() == Op::Stack).count()
    };
    assert_eq!([0, 1].map(squares), [0, 4]);
}

/// `[64, 8]` in panels of 4 of the 8: a row of the panel is 16 bytes, and the next row of memory the next one of the panel. In the
/// order of memory alone, each store would go to the other panel, 64 rows away.
#[test]
fn rows_of_a_panel_that_are_neighbours_are_copied_together() {
    let kernel = kernel_of(&product([8, 64, 5], true, false));
    let rows =
        Opt::Split { kind: RangeKind::Upcast, axis: axes(&kernel, RangeKind::Loop)[0], by: 4 };
    let options = [rows, Opt::Stage { operand: 0, depth: 0, lanes: 1 }];
    assert!(check("rows", &kernel, &options));
    let staged = apply(&kernel, &options).expect("legal").ast;
    let is_copy = |n: &&UOp| n.op() == Op::Store && n.memory().op() == Op::Local;
    let copies = toposort(&staged);
    let copy = copies.iter().find(is_copy).expect("a copy");
    let place = Affine::of(copy.src(1)).expect("few terms");
    let is_loop =
        |(range, _): &&(UOp, i64)| matches!(range.arg().range(), Some((_, RangeKind::Loop)));
    let steps: Vec<i64> = place.terms.iter().filter(is_loop).map(|(_, step)| *step).collect();
    // 16 rows at a time, of one panel and then of the other
    assert_eq!(steps, [64, 256, 4]);
}

/// Weights `[14, 4, 9]` in panels of 8 of the 14. The last panel ends early, and a window of 9 may be unrolled. Either way the 36
/// weights of a row run on in memory and in the panel, and are loaded four at a time.
#[test]
fn panels_with_an_end_or_an_unrolled_window_are_copied_in_runs() {
    let [o, p] = [(0, 14), (1, 6)].map(|(axis, n)| UOp::range(axis, RangeKind::Loop, n));
    let [c, t] = [(2, 4), (3, 9)].map(|(axis, n)| UOp::range(axis, RangeKind::Reduce, n));
    let load = |slot, n: usize, index: &UOp| {
        UOp::load(&UOp::param(slot, DType::F32, [n].as_slice()), index)
    };
    let weight = load(1, 14 * 36, &(&o * 36 + &c * 9 + &t));
    let pixel = load(2, 4 * 14, &(&c * 14 + &p + &t));
    let sum = (weight * pixel).reduce_ranges(ReduceOp::Add, [c, t]);
    let out = UOp::param(0, DType::F32, [14 * 6].as_slice());
    let store = UOp::store(&out, &(&o * 6 + &p), &sum, None);
    let kernel = UOp::kernel([store.end([o, p])], "");
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let stage = Opt::Stage { operand: 0, depth: 0, lanes: 4 };
    let lanes = split(RangeKind::Vector, 0, 4);
    let unroll = split(RangeKind::Unroll, 3, 9);
    let two = split(RangeKind::Upcast, 0, 2);
    for options in [vec![lanes, two, stage], vec![lanes, two, unroll, stage]] {
        let staged = apply(&kernel, &options).expect("legal");
        let ops = lower(&staged.ast, &small_target(16, true)).ops;
        let is_weight = |n: &&UOp| n.op() == Op::Load && n.memory().arg().slot() == Some(1);
        let lanes: Vec<u16> = ops.iter().filter(is_weight).map(UOp::lanes).collect();
        assert!(!lanes.is_empty() && lanes.iter().all(|n| *n == 4), "{options:?}: {lanes:?}");
    }
}

#[test]
fn the_heuristic_stages_what_misses_the_caches() {
    let kernel = kernel_of(&product([40, 33, 64], false, true));
    let applied = optimize(&kernel, &small_target(32, true), true).applied;
    assert!(applied.iter().any(|o| matches!(o, Opt::Stage { .. })), "{applied:?}");
    assert!(applied.iter().any(|o| matches!(o, Opt::Block { .. })), "{applied:?}");
}

#[test]
fn what_is_read_in_a_row_is_not_staged() {
    // of the second operand, what a step reads goes on where the step before it ended
    let kernel = kernel_of(&product([40, 600, 8], false, false));
    let applied = optimize(&kernel, &small_target(32, true), true).applied;
    assert!(applied.iter().any(|o| matches!(o, Opt::Block { .. })), "{applied:?}");
    let staged = |n: usize| move |o: &Opt| matches!(o, Opt::Stage { operand, .. } if *operand == n);
    assert!(!applied.iter().any(staged(1)), "{applied:?}");
}

#[test]
fn rows_go_around_windows_that_fit_the_second_cache() {
    let (n, c, h) = (32, 16, 10);
    let window = |axis| WindowArg { axis, len: h, size: 3, stride: 1, dilation: 1 };
    let all = &[n, c, h - 2, 3, h - 2, 3][..];
    let dy = param(0, &[n, h - 2, h - 2]).reshape(&[n, 1, h - 2, 1, h - 2, 1][..]).expand(all);
    let k = param(1, &[3, 3, c]).permute(&[2, 0, 1][..]).reshape(&[1, c, 1, 3, 1, 3][..]);
    let covered = (dy * k.expand(all)).unwindow(window(4)).unwindow(window(2));
    let gradient = covered.reduce(ReduceOp::Add, &[3, 5][..]);
    let kernel = kernel_of(&gradient.permute(&[0, 2, 3, 1][..]));
    // the gradients of an image are 256 bytes
    let inside = |second: usize| {
        let target = Target { threads: 1, ..small_target(64, false) };
        let target = Target { cache_bytes: [64, second, 1 << 20], ..target };
        let optimized = optimize(&kernel, &target, true);
        assert!(run(&optimized.ast, &target) == run(&plain(&kernel), &Target::interp()));
        let blocks = optimized.applied.iter().filter_map(|o| match *o {
            Opt::Block { axis, .. } => Some(axis),
            _ => None,
        });
        blocks.collect::<Vec<u32>>()
    };
    let [image, y, x, _] = axes(&kernel, RangeKind::Loop)[..] else { panic!("four loops") };
    assert_eq!(inside(8192), [x, y]);
    assert_eq!(inside(65536), [image, x, y]);
}

/// The gradient of a convolution's input sums over the window first, then over channels; blocks are of channels, as those of
/// the window leave too many weights for the cache.
#[test]
fn blocks_of_a_reduction_are_of_the_loop_that_makes_them_small() {
    let (n, o, c, h) = (2, 64, 64, 10);
    let window = |axis| WindowArg { axis, len: h, size: 3, stride: 1, dilation: 1 };
    let all = &[n, o, c, h - 2, 3, h - 2, 3][..];
    let dy = param(0, &[n, o, h - 2, h - 2]).reshape(&[n, o, 1, h - 2, 1, h - 2, 1][..]);
    let k = param(1, &[o, c, 3, 3]).reshape(&[1, o, c, 1, 3, 1, 3][..]).expand(all);
    let products = (dy.expand(all) * k).reduce(ReduceOp::Add, &[1][..]);
    let covered = products.unwindow(window(4)).unwindow(window(2));
    let kernel = kernel_of(&covered.reduce(ReduceOp::Add, &[3, 5][..]));
    let caches = [1 << 12, 1 << 18, 1 << 25];
    let target = Target { vector_registers: 32, cache_bytes: caches, ..small_target(64, true) };
    let optimized = optimize(&kernel, &target, true);
    assert!(run(&optimized.ast, &target) == run(&plain(&kernel), &Target::interp()));
    let [y, x, channels] = axes(&kernel, RangeKind::Reduce)[..] else { panic!("three loops") };
    let has_blocks =
        |of| optimized.applied.iter().any(|o| matches!(*o, Opt::Block { axis, .. } if axis == of));
    assert_eq!([y, x, channels].map(has_blocks), [false, false, true]);
}

/// A tile of a convolution's gradient stores to one cache line of each channel, of `n` x `n` floats. If `n` is 128, these lines
/// share one set of the cache, so tiles have fewer channels than with 124.
#[test]
fn tiles_store_to_lines_that_caches_can_hold() {
    let vectors_of_channels = |n: usize| {
        let (o, c) = (32, 64);
        let window = |axis| WindowArg { axis, len: n + 2, size: 3, stride: 1, dilation: 1 };
        let all = &[o, c, n, 3, n, 3][..];
        let dy = param(0, &[o, n, n]).reshape(&[o, 1, n, 1, n, 1][..]).expand(all);
        let k = param(1, &[o, c, 3, 3]).reshape(&[o, c, 1, 3, 1, 3][..]).expand(all);
        let products = (dy * k).reduce(ReduceOp::Add, &[0][..]);
        let covered = products.unwindow(window(3)).unwindow(window(1));
        let covered = covered.reduce(ReduceOp::Add, &[2, 4][..]);
        let inside = SliceAxis { start: 1, step: 1, len: n };
        let kernel = kernel_of(&covered.slice(&[SliceAxis::full(c), inside, inside]));
        let caches = [3 << 14, 1 << 20, 1 << 25];
        let target = Target { vector_registers: 32, cache_bytes: caches, ..small_target(64, true) };
        let applied = optimize(&kernel, &target, true).applied;
        let channels = axes(&kernel, RangeKind::Loop)[0];
        applied.iter().find_map(|o| match *o {
            Opt::Split { kind: RangeKind::Upcast, axis, by } if axis == channels => Some(by),
            _ => None,
        })
    };
    assert_eq!([124, 128].map(vectors_of_channels), [Some(4), Some(2)]);
}

#[test]
fn what_is_done_with_results_is_done_in_vectors() {
    let mut root = product([1024, 1024, 1024], false, true);
    for i in 0..20 {
        root = &root * &root + i;
    }
    let kernel = kernel_of(&root);
    let caches = [1 << 15, 1 << 20, 1 << 25];
    let target = Target { vector_registers: 32, cache_bytes: caches, ..small_target(64, true) };
    let applied = optimize(&kernel, &target, true).applied;
    let last = axes(&kernel, RangeKind::Loop)[1];
    let lanes =
        |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis, .. } if *axis == last);
    assert!(applied.iter().any(lanes), "{applied:?}");
}

#[test]
fn short_loops_are_in_a_tile_together() {
    let (n, o, h, w) = (2, 16, 6, 6);
    let window = |axis, len| WindowArg { axis, len, size: 3, stride: 1, dilation: 1 };
    let all = &[n, o, h - 2, 3, w - 2, 3][..];
    let dy = param(0, &[n, h - 2, w - 2, o]).permute(&[0, 3, 1, 2][..]);
    let dy = dy.reshape(&[n, o, h - 2, 1, w - 2, 1][..]).expand(all);
    let x = param(1, &[n, h, w]).window(window(1, h)).window(window(3, w));
    let x = x.reshape(&[n, 1, h - 2, 3, w - 2, 3][..]).expand(all);
    let kernel = kernel_of(&(dy * x).reduce(ReduceOp::Add, &[0, 2, 4][..]));
    let target = Target { vector_registers: 32, ..small_target(64, true) };
    let optimized = optimize(&kernel, &target, true);
    let [_, rows, columns] = axes(&kernel, RangeKind::Loop)[..] else { panic!("three loops") };
    for axis in [rows, columns] {
        let whole = Opt::Split { kind: RangeKind::Upcast, axis, by: 3 };
        assert!(optimized.applied.contains(&whole), "{:?}", optimized.applied);
    }
    assert!(run(&optimized.ast, &target) == run(&plain(&kernel), &Target::interp()));
}

#[test]
fn few_rows_are_in_the_tile_of_a_matrix_that_is_read_once() {
    let kernel = kernel_of(&product([8, 512, 1024], false, true));
    let caches = [1 << 15, 1 << 20, 1 << 25];
    let target = Target { vector_registers: 32, cache_bytes: caches, ..small_target(64, true) };
    let applied = optimize(&kernel, &target, true).applied;
    let [rows, columns] = axes(&kernel, RangeKind::Loop)[..] else { panic!("two loops") };
    let sum = axes(&kernel, RangeKind::Reduce)[0];
    let has = |kind, axis| {
        let is_it =
            |o: &Opt| matches!(o, Opt::Split { kind: k, axis: a, .. } if *k == kind && *a == axis);
        applied.iter().any(is_it)
    };
    assert!(has(RangeKind::Vector, sum), "{applied:?}");
    assert!(has(RangeKind::Upcast, rows) && has(RangeKind::Upcast, columns), "{applied:?}");
}

#[test]
fn transposes_are_done_in_squares() {
    let kernel = kernel_of(&turned(96, 64));
    let loops = axes(&kernel, RangeKind::Loop);
    let applied = optimize(&kernel, &small_target(64, true), true).applied;
    let has = |kind, axis| {
        let of_kind =
            |o: &&Opt| matches!(o, Opt::Split { kind: k, axis: a, .. } if *k == kind && *a == axis);
        applied.iter().any(|o| of_kind(&o))
    };
    assert!(has(RangeKind::Vector, loops[1]) && has(RangeKind::Upcast, loops[0]), "{applied:?}");
}

#[test]
fn sums_skip_what_is_zero() {
    let kernel = kernel_of(&gradient_for_input());
    let depends = |r: &UOp| r.op() == Op::Range && r.src(0).as_int().is_none();
    assert_eq!(toposort(&plain(&kernel)).iter().filter(|n| depends(n)).count(), 2);
    let rows =
        Opt::Split { kind: RangeKind::Upcast, axis: axes(&kernel, RangeKind::Loop)[2], by: 2 };
    let tiled = apply(&kernel, &[rows]).expect("legal").ast;
    assert_eq!(toposort(&tiled).iter().filter(|n| depends(n)).count(), 2);
}

#[test]
fn blocks_of_a_reduction_go_around_all_loops() {
    let kernel = kernel_of(&gradient_for_weights());
    let optimized = optimize(&kernel, &small_target(32, true), true);
    let batch = axes(&kernel, RangeKind::Reduce)[0];
    let is_block = |o: &Opt| matches!(o, Opt::Block { axis, .. } if *axis == batch);
    assert!(optimized.applied.iter().any(is_block), "{:?}", optimized.applied);
}
