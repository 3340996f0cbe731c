//! What the heuristic chooses for kernels in which choices exclude each other.

use crate::stages::{CHECKED, optimize, schedule};
use kiln_compile::optimize::{MAX_NODES, Opt};
use kiln_compile::pipeline::{Settings, compile};
use kiln_compile::target::{Costs, Target};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::observe::{self, Event, Observer};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn target() -> Target {
    Target {
        costs: Costs::CPU,
        vector_bytes: 32,
        vector_registers: 16,
        cache_bytes: [32 << 10, 512 << 10, 32 << 20],
        masks: true,
        threads: 2,
        ..Target::interp()
    }
}

fn range(axis: u32, kind: RangeKind, n: usize) -> UOp {
    UOp::range(axis, kind, n)
}

fn param(slot: usize, n: usize) -> UOp {
    UOp::param(slot, DType::F32, [n].as_slice())
}

fn sum(value: &UOp, ranges: &[UOp]) -> UOp {
    value.reduce_ranges(ReduceOp::Add, ranges.iter().cloned())
}

/// The sum of a row, and after it a chain of so many operations.
fn chain(operations: usize) -> UOp {
    let (i, j) = (range(0, RangeKind::Loop, 64), range(1, RangeKind::Reduce, 512));
    let x = UOp::load(&param(1, 64 * 512), &(&i * 512 + &j));
    let mut y = sum(&x, &[j]);
    for number in 0..operations {
        let index = &i * operations as i64 + number as i64;
        let x = UOp::load(&param(2, 64 * operations), &index);
        y = &y * &x + &x;
    }
    UOp::kernel([UOp::store(&param(0, 64), &i, &y, None).end([i])], "chain")
}

#[test]
fn a_kernel_that_is_long_as_it_is_keeps_its_vectors() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    let plain = Settings { optimize: false, ..settings };
    for operations in [10, 1000] {
        let [plain, done] =
            [plain, settings].map(|s| compile(&chain(operations), &target(), s).expect("compiles"));
        let is_vector = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, .. });
        assert!(done.applied.iter().any(is_vector), "{operations}: {:?}", done.applied);
        assert!(operations < 1000 || done.program.ops.len() < 2 * plain.program.ops.len());
    }
}

/// The end of a loop that vectors do not divide is a copy of all its operations.
#[test]
fn a_long_loop_that_vectors_do_not_divide_keeps_its_vectors() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    for elements in [1024, 1000] {
        let i = range(0, RangeKind::Loop, elements);
        let param = |slot| UOp::param(slot, DType::F32, [elements].as_slice());
        let x = UOp::load(&param(1), &i);
        let y = (0..2500).fold(x.clone(), |y, _| &y * &x + &x);
        let kernel = UOp::kernel([UOp::store(&param(0), &i, &y, None).end([i])], "chain");
        let done = compile(&kernel, &wide(), settings).expect("compiles");
        let is_vector = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, .. });
        assert!(done.applied.iter().any(is_vector), "{elements}: {:?}", done.applied);
    }
}

/// Counts how often a kernel is lowered.
#[derive(Debug, Default)]
struct Lowered(AtomicUsize);

impl Observer for Lowered {
    fn see(&self, event: &Event<'_>) {
        let is_last = matches!(event, Event::Pass { pass: "linearize", .. });
        self.0.fetch_add(is_last as usize, Relaxed);
    }
}

#[test]
fn options_that_are_tried_again_are_not_lowered_again() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    let lowered = Arc::new(Lowered::default());
    let compile = || compile(&chain(1000), &target(), settings).expect("compiles");
    let done = observe::with(Some(lowered.clone()), compile);
    // the limit is halved eleven times, and the same two lists of options come out
    assert!(done.program.ops.len() > MAX_NODES);
    assert!((1..=3).contains(&lowered.0.load(Relaxed)), "{lowered:?}");
}

/// Adds the product of `[m, k]` and `[k, n]` to the rows of `[rows, n]` that data choose.
fn scattered([m, k, n]: [usize; 3], rows: usize) -> UOp {
    let param = |slot, shape: &[usize]| UOp::param(slot, DType::I32, shape);
    let all = &[m, k, n][..];
    let x = param(1, &[m, k]).reshape(&[m, k, 1][..]).expand(all);
    let w = param(2, &[k, n]).reshape(&[1, k, n][..]).expand(all);
    let product = (x * w).reduce(ReduceOp::Add, &[1][..]);
    let row = param(3, &[m]).reshape(&[m, 1][..]).expand(&[m, n][..]);
    let column = UOp::iota(n, DType::I32).reshape(&[1, n][..]).expand(&[m, n][..]);
    let at = row * n as i64 + column;
    param(0, &[rows * n]).update_with(Some(ReduceOp::Add), &product, &at)
}

#[test]
fn a_product_is_stored_before_data_scatter_it() {
    let kernels = |shape| schedule(&[scattered(shape, 100)]).kernels.len();
    assert_eq!(kernels([64, 128, 256]), 2);
    // a short sum is as fast in order
    assert_eq!(kernels([64, 4, 256]), 1);
}

/// Each element of a row times the sum of the row, where an element takes two divisions.
fn shares(rows: usize, n: usize) -> UOp {
    let x = UOp::param(0, DType::F32, [rows, n].as_slice());
    let value = UOp::binary(Op::Div, &UOp::binary(Op::Div, &x, &(&x + 2)), &(&x + 3));
    let sum = value.reduce(ReduceOp::Add, &[1][..]).reshape(&[rows, 1][..]);
    value * sum.expand(&[rows, n][..])
}

#[test]
fn what_an_unrolled_reduction_has_is_not_computed_again() {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    let lanes = target().vector_bytes / 4;
    for vectors in 1..=5 {
        let kernel = schedule(&[shares(64, vectors * lanes)]).kernels[0].ast.clone();
        let done = compile(&kernel, &target(), settings).expect("compiles");
        let divisions = done.program.ops.iter().filter(|node| node.op() == Op::Div).count();
        assert_eq!(divisions, 2 * vectors, "{vectors}: {:?}", done.applied);
    }
}

/// Of `[2, rows, channels]` each element times the sum of 64 parts for its channel. It is written as it is read, or with
/// channels before rows.
fn scaled_by_parts(rows: usize, channels: usize, turned: bool) -> UOp {
    let (b, r, c) = (
        range(0, RangeKind::Loop, 2),
        range(1, RangeKind::Loop, rows),
        range(2, RangeKind::Loop, channels),
    );
    let part = range(3, RangeKind::Reduce, 64);
    let scale = sum(&UOp::load(&param(2, 64 * channels), &(&c * 64 + &part)), &[part]);
    let sizes = rows as i64 * channels as i64;
    let place = &b * sizes + &r * channels as i64 + &c;
    let value = UOp::load(&param(1, 2 * sizes as usize), &place) * scale;
    let to = if turned { &b * sizes + &c * rows as i64 + &r } else { place };
    let store = UOp::store(&param(0, 2 * sizes as usize), &to, &value, None);
    UOp::kernel([store.end([b, r, c])], "scaled")
}

fn chosen(kernel: &UOp) -> Vec<Opt> {
    chosen_for(kernel, &target())
}

fn chosen_for(kernel: &UOp, target: &Target) -> Vec<Opt> {
    let settings = Settings { optimize: true, checks: CHECKED, ..Settings::default() };
    compile(kernel, target, settings).expect("compiles").applied
}

/// With vectors of 16 numbers.
fn wide() -> Target {
    Target { vector_bytes: 64, vector_registers: 32, ..target() }
}

/// Of an image of `channels` x `n` x `n` with a border, to `outputs` channels; every second position of `side` x `side`.
fn strided([channels, n, side, outputs]: [usize; 4]) -> UOp {
    let border = (side / 2) as i64;
    let loops = [(0, outputs), (1, n / 2), (2, n / 2)].map(|(a, n)| range(a, RangeKind::Loop, n));
    let sums = [(3, channels), (4, side), (5, side)].map(|(a, n)| range(a, RangeKind::Reduce, n));
    let ([o, y, x], [c, ky, kx]) = (&loops, &sums);
    let inside = |at: &UOp| UOp::index(-1).lt(at).and(&at.lt(&UOp::index(n as i64)));
    let [row, column] = [(y, ky), (x, kx)].map(|(at, k)| at * 2 + k - border);
    let is_inside = inside(&row).and(&inside(&column));
    let place = c * (n * n) as i64 + &row * n as i64 + &column;
    let pixel = UOp::load_lanes(&param(1, channels * n * n), &place, Some(&is_inside), 1);
    let terms = channels * side * side;
    let place = o * terms as i64 + c * (side * side) as i64 + ky * side as i64 + kx;
    let weight = UOp::load(&param(2, outputs * terms), &place);
    let value = sum(&(pixel * weight), &sums);
    let half = (n / 2) as i64;
    let place = o * (half * half) + y * half + x;
    let store = UOp::store(&param(0, outputs * (n / 2) * (n / 2)), &place, &value, None);
    UOp::kernel([store.end(loops)], "strided")
}

/// Vectors along the channels, and positions, of the tile.
fn sides(kernel: &UOp) -> [usize; 2] {
    let options = chosen_for(kernel, &wide());
    let is_along = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: 0, by: 16 });
    assert!(options.iter().any(is_along), "{options:?}");
    sides_of(&options)
}

/// Vectors along axis 0, and iterations of other loops, of the tile.
fn sides_of(options: &[Opt]) -> [usize; 2] {
    options.iter().fold([1, 1], |[across, rows], option| match *option {
        Opt::Split { kind: RangeKind::Upcast, axis: 0, by } => [across * by, rows],
        Opt::Split { kind: RangeKind::Upcast, by, .. } => [across, rows * by],
        _ => [across, rows],
    })
}

#[test]
fn sums_and_predicated_loads_of_a_tile_have_registers() {
    for sizes in [[3, 224, 7, 64], [3, 96, 5, 48], [16, 60, 3, 80], [64, 45, 3, 80]] {
        for target in [wide(), target()] {
            let options = chosen_for(&strided(sizes), &target);
            let [across, rows] = sides_of(&options);
            // a panel holds pixels with their border: then they are loaded one after the other, without predicates
            let is_staged = options.iter().any(|o| matches!(o, Opt::Stage { operand: 0, .. }));
            let operands = if is_staged { across.min(rows) + 1 } else { across + rows };
            let registers = across * rows + operands;
            assert!(registers <= target.vector_registers, "{sizes:?}: {across} x {rows}");
            assert!(across * rows >= 8, "{sizes:?}: {across} x {rows}");
        }
    }
}

/// Registers for a predicated load of each pixel would leave room for a tile of 2 x 3.
#[test]
fn windows_that_are_copied_take_no_registers() {
    let options = chosen(&convolution_of(1, [96, 45, 80], false));
    assert!(options.iter().any(|o| matches!(o, Opt::Stage { operand: 0, .. })), "{options:?}");
    assert!(points(&options) >= 10, "{options:?}");
}

/// Each weight is used by 49 pixels only, so to copy all of them takes a sixth of the time. That is so with vectors of channels, and
/// with vectors of pixels, too, where one lane in eight would be unused.
#[test]
fn a_copy_of_weights_has_a_price_in_blocks_of_the_sum_too() {
    let options = chosen(&convolution_of(1, [512, 7, 512], false));
    assert!(options.iter().any(|o| matches!(o, Opt::Block { axis: 4, .. })), "{options:?}");
    let is_along = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: 1, .. });
    assert!(options.iter().any(is_along), "{options:?}");
}

/// A line from the second cache takes two clock cycles, a product of such vectors three quarters of one.
#[test]
fn a_tile_reads_no_more_lines_than_the_second_cache_gives() {
    for sizes in [[128, 28, 3, 256], [192, 20, 3, 320], [256, 14, 3, 512]] {
        let [across, rows] = sides(&strided(sizes));
        let cycles = across * rows * 3 / 4;
        assert!(2 * across <= cycles, "{sizes:?}: {across} x {rows}");
    }
}

/// `w @ x` of `[m, k]` and `[k, n]`: a convolution of one pixel.
fn rows_times([m, k, n]: [usize; 3]) -> UOp {
    let [i, j] = [(0, m), (1, n)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let t = range(2, RangeKind::Reduce, k);
    let w = UOp::load(&param(1, m * k), &(&i * k as i64 + &t));
    let x = UOp::load(&param(2, k * n), &(&t * n as i64 + &j));
    let value = sum(&(x * w), &[t]);
    let store = UOp::store(&param(0, m * n), &(&i * n as i64 + &j), &value, None);
    UOp::kernel([store.end([i, j])], "")
}

/// Of 128 channels of 625 or 2209 pixels, each row of a tile would read more pages than a core finds at once. Those of 196 pixels share
/// pages.
#[test]
fn rows_in_many_pages_are_copied() {
    let copies_pixels = |n: usize| {
        let options = chosen(&rows_times([128, 128, n]));
        let is_along = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: 1, .. });
        assert!(options.iter().any(is_along), "{options:?}");
        options.iter().filter(|o| matches!(o, Opt::Stage { .. })).count() == 2
    };
    assert_eq!([625, 2209, 196].map(copies_pixels), [true, true, false]);
}

/// With 64 rows of 4 KiB beside each other, all in one set of the first cache, a line left it before its next element was read.
#[test]
fn a_transpose_reads_as_many_rows_at_a_time_as_a_vector_has_lanes() {
    let [i, j] = [(0, 1024), (1, 64)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let x = UOp::load(&param(1, 64 * 1024), &(&j * 1024 + &i));
    let store = UOp::store(&param(0, 64 * 1024), &(&i * 64 + &j), &x, None);
    let options = chosen(&UOp::kernel([store.end([i, j])], "transpose"));
    let rows = |o: &&Opt| matches!(o, Opt::Split { kind, axis: 1, .. } if *kind != RangeKind::Loop);
    let kinds: Vec<&Opt> = options.iter().filter(rows).collect();
    assert!(
        matches!(kinds[..], [Opt::Split { kind: RangeKind::Vector, by: 8, .. }]),
        "{options:?}"
    );
}

/// `x[i / 2]` moves evenly along both loops that `i` becomes, so their elements are read in vectors. A loop that writes in a row
/// stays whole: its vectors would have gaps.
#[test]
fn a_loop_that_is_divided_by_two_becomes_two_unless_it_writes_in_a_row() {
    let divisions = |strides: [i64; 2]| {
        let [i, j] = [(0, 1024), (1, 64)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
        let half = i.floordiv(&UOp::index(2));
        let x = UOp::load(&param(1, 64 * 512), &(&j * 512 + &half));
        let to = &i * strides[0] + &j * strides[1];
        let store = UOp::store(&param(0, 64 * 1024), &to, &x, None);
        let kernel = UOp::kernel([store.end([i, j])], "repeated");
        let done = optimize(&kernel, &target(), true).ast;
        toposort(&done).iter().filter(|n| n.op() == Op::FloorDiv).count()
    };
    assert_eq!(divisions([64, 1]), 0);
    assert!(divisions([1, 1024]) > 0);
}

/// `x @ w.T`, of `[m, k]` and `[n, k]`.
fn product(sizes: [usize; 3]) -> UOp {
    product_and(sizes, UOp::clone)
}

/// The same, and a function of each sum.
fn product_and([m, n, k]: [usize; 3], function: impl Fn(&UOp) -> UOp) -> UOp {
    let ([i, j], t) = (
        [(0, m), (1, n)].map(|(axis, n)| range(axis, RangeKind::Loop, n)),
        range(2, RangeKind::Reduce, k),
    );
    let x = UOp::load(&param(1, m * k), &(&i * k as i64 + &t));
    let w = UOp::load(&param(2, n * k), &(&j * k as i64 + &t));
    let value = function(&sum(&(x * w), &[t]));
    let store = UOp::store(&param(0, m * n), &(&i * n as i64 + &j), &value, None);
    UOp::kernel([store.end([i, j])], "product")
}

/// `x @ w`, of `[m, k]` and `[k, n]`.
fn product_by_rows([m, n, k]: [usize; 3]) -> UOp {
    let [i, j] = [(0, m), (1, n)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let t = range(2, RangeKind::Reduce, k);
    let x = UOp::load(&param(1, m * k), &(&i * k as i64 + &t));
    let w = UOp::load(&param(2, k * n), &(&t * n as i64 + &j));
    let index = &i * n as i64 + &j;
    let store = UOp::store(&param(0, m * n), &index, &sum(&(x * w), &[t]), None);
    UOp::kernel([store.end([i, j])], "product_by_rows")
}

/// `(x @ v.T) * (x @ w.T)`, of `[m, k]` and `[n, k]`.
fn gated_product([m, n, k]: [usize; 3]) -> UOp {
    let [i, j] = [(0, m), (1, n)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let product = |(slot, axis)| {
        let t = range(axis, RangeKind::Reduce, k);
        let x = UOp::load(&param(1, m * k), &(&i * k as i64 + &t));
        let w = UOp::load(&param(slot, n * k), &(&j * k as i64 + &t));
        sum(&(x * w), &[t])
    };
    let [v, w] = [(2, 2), (3, 3)].map(product);
    let store = UOp::store(&param(0, m * n), &(&i * n as i64 + &j), &(v * w), None);
    UOp::kernel([store.end([i, j])], "gated_product")
}

/// The points of a tile of registers.
fn points(options: &[Opt]) -> usize {
    let upcast = |option: &Opt| match option {
        Opt::Split { kind: RangeKind::Upcast, by, .. } => Some(*by),
        _ => None,
    };
    options.iter().filter_map(upcast).product()
}

#[test]
fn tiles_have_registers_for_all_sums() {
    let target = Target { cache_bytes: [48 << 10, 2 << 20, 32 << 20], ..wide() };
    let points = points(&chosen_for(&gated_product([64, 2048, 768]), &target));
    assert!(points > 4 && 2 * points < target.vector_registers, "{points}");
}

/// A polynomial of degree 60.
fn polynomial(x: &UOp) -> UOp {
    (0..60).fold(x.clone(), |y, c| y * x + x.const_like(f64::from(c)))
}

#[test]
fn long_sums_may_have_longer_code() {
    let points = |sizes| points(&chosen_for(&product_and(sizes, polynomial), &wide()));
    // 300 million terms, 20 million, and 3 million
    let sizes = [[128, 3072, 768], [35, 1536, 384], [128, 32, 768]];
    let [long, middle, short] = sizes.map(points);
    assert!(long >= 12 && middle >= 12 && short < middle, "{long} {middle} {short}");
}

/// Whether the lanes of a product go along its sum.
fn are_along_the_sum(options: &[Opt]) -> bool {
    let is = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, axis: 2, .. });
    options.iter().any(is)
}

#[test]
fn results_that_cost_much_are_computed_in_vectors() {
    let is_inner = |function: fn(&UOp) -> UOp| {
        are_along_the_sum(&chosen_for(&product_and([17, 1536, 384], function), &wide()))
    };
    // with few rows the lanes go along the sum, but then few results share a vector
    assert_eq!([is_inner(UOp::clone), is_inner(polynomial)], [true, false]);
}

#[test]
fn few_rows_of_few_columns_too_are_inner_products() {
    // the sum of a tile's lanes is short: sums of neighbours are added up together
    for sizes in [[9, 384, 384], [17, 512, 64]] {
        let options = chosen_for(&product_and(sizes, UOp::clone), &wide());
        assert!(are_along_the_sum(&options), "{sizes:?}: {options:?}");
    }
}

#[test]
fn rows_of_small_integers_have_more_lanes() {
    let lanes = |dtype: DType, turned: bool| {
        let [i, j] = [(0, 96), (1, 128)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
        let param = |slot| UOp::param(slot, dtype, [96 * 128].as_slice());
        let (across, along) = (&j * 96 + &i, &i * 128 + &j);
        let x = UOp::load(&param(1), if turned { &across } else { &along });
        let store = UOp::store(&param(0), &along, &(&x + &x), None);
        let options = chosen_for(&UOp::kernel([store.end([i, j])], ""), &wide());
        options.into_iter().find_map(|option| match option {
            Opt::Split { kind: RangeKind::Vector, by, .. } => Some(by),
            _ => None,
        })
    };
    let dtypes = [DType::I8, DType::U16, DType::F16, DType::I32];
    assert_eq!(dtypes.map(|dtype| lanes(dtype, false)), [32, 32, 16, 16].map(Some));
    // squares of them are transposed
    assert!(lanes(DType::I8, true) <= Some(16));
}

/// Rows of a linear layer of 384 features, as many as a launch says, 2 to 1024.
fn rows_of_any_number() -> UOp {
    let [i, o] = [range(0, RangeKind::Loop, 1024), range(1, RangeKind::Loop, 384)];
    let k = range(2, RangeKind::Reduce, 384);
    let is_row = i.lt(&UOp::var(0, DType::Index, 2, 1024));
    let x = UOp::load_lanes(&param(1, 1024 * 384), &(&i * 384 + &k), Some(&is_row), 1);
    let w = UOp::load(&param(2, 384 * 384), &(&o * 384 + &k));
    let place = &i * 384 + &o;
    let store = UOp::store(&param(0, 1024 * 384), &place, &sum(&(x * w), &[k]), Some(&is_row));
    UOp::kernel([store.end([i, o])], "")
}

#[test]
fn what_a_launch_may_make_short_is_divided_by_few_and_not_among_threads() {
    let options = chosen_for(&rows_of_any_number(), &wide());
    let split = |option: &Opt| match *option {
        Opt::Split { kind, axis, by } => Some((kind, axis, by)),
        _ => None,
    };
    let splits: Vec<_> = options.iter().filter_map(split).collect();
    // 3 rows take as long as a tile of them
    let rows: usize = splits.iter().filter(|s| s.1 == 0).map(|s| s.2).product();
    assert!(rows <= 16, "{options:?}");
    assert!(splits.contains(&(RangeKind::Thread, 1, 1)), "{options:?}");
}

#[test]
fn a_block_of_all_rows_is_one_block_in_the_longest_launch_too() {
    // a loop over blocks would be around everything, and each of them would copy all columns
    let options = chosen_for(&rows_of_any_number(), &wide());
    let of_rows = |option: &Opt| match *option {
        Opt::Split { axis: 0, by, .. } | Opt::Block { axis: 0, by } => Some(by),
        _ => None,
    };
    let left = options.iter().filter_map(of_rows).fold(1024, usize::div_ceil);
    assert_eq!(left, 1, "{options:?}");
}

/// The numbers of loops around the panels of a product whose rows are 3 KiB, where the second cache has 1 MiB, and the last 32.
fn depths(rows: usize) -> Vec<usize> {
    let target = Target { cache_bytes: [32 << 10, 1 << 20, 32 << 20], threads: 1, ..wide() };
    let depth = |option| match option {
        Opt::Stage { depth, .. } => Some(depth),
        _ => None,
    };
    chosen_for(&product([rows, 3072, 768]), &target).into_iter().filter_map(depth).collect()
}

#[test]
fn a_panel_is_filled_for_one_tile_if_all_rows_can_pass_it() {
    // the rows fit the second cache beside the columns of a tile, or the last cache
    assert_eq!(depths(197).last(), Some(&1));
    assert_eq!(depths(1000).last(), Some(&1));
    // they do not: several blocks of rows read what is copied once for all of them
    assert_eq!(depths(6000).last(), Some(&0));
}

/// A product for each of several pairs of matrices, whose second ones may all be the same.
fn batched([b, m, n, k]: [usize; 4], shares_columns: bool) -> UOp {
    let [z, i, j] = [(0, b), (1, m), (2, n)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let l = range(3, RangeKind::Reduce, k);
    let (m, n, k) = (m as i64, n as i64, k as i64);
    let x = UOp::load(&param(1, b * (m * k) as usize), &(&z * (m * k) + &i * k + &l));
    let matrix = if shares_columns { 0 } else { k * n };
    let w = UOp::load(&param(2, b * (k * n) as usize), &(&z * matrix + &l * n + &j));
    let place = &z * (m * n) + &i * n + &j;
    let store = UOp::store(&param(0, b * (m * n) as usize), &place, &sum(&(&x * &w), &[l]), None);
    UOp::kernel([store.end([z, i, j])], "batched")
}

/// The loops around the copies of a batched product's columns.
fn depth_of_columns(shares_columns: bool) -> Option<usize> {
    let target = Target { cache_bytes: [48 << 10, 2 << 20, 32 << 20], threads: 1, ..wide() };
    let options = chosen_for(&batched([8, 64, 2048, 512], shares_columns), &target);
    options.iter().find_map(|option| match *option {
        Opt::Stage { operand: 1, depth, .. } => Some(depth),
        _ => None,
    })
}

#[test]
fn matrices_of_their_own_are_copied_by_tile() {
    // inside the loops over matrices and over tiles
    assert_eq!(depth_of_columns(false), Some(2));
    // what all matrices share is copied once, in blocks that are around the loop over them
    assert_eq!(depth_of_columns(true), Some(1));
}

/// A convolution 3 x 3 with a border, of 8 images of `side` x `side` pixels, whose channels are last or before the rows.
fn convolution(sizes: [usize; 3], channels_last: bool) -> UOp {
    convolution_of(8, sizes, channels_last)
}

/// The same of any number of images.
fn convolution_of(
    images: usize,
    [channels, side, outputs]: [usize; 3],
    channels_last: bool,
) -> UOp {
    let image = if channels_last { [side, side, outputs] } else { [outputs, side, side] };
    let axes = [images, image[0], image[1], image[2]];
    let loops = axes.into_iter().zip(0..).map(|(n, a)| range(a, RangeKind::Loop, n));
    let sums = [channels, 3, 3].into_iter().zip(4..).map(|(n, a)| range(a, RangeKind::Reduce, n));
    let (loops, sums): (Vec<UOp>, Vec<UOp>) = (loops.collect(), sums.collect());
    let ([n, second, third, last], [c, ky, kx]) = (&loops[..], &sums[..]) else {
        unreachable!("seven")
    };
    let (o, y, x) = if channels_last { (last, second, third) } else { (second, third, last) };
    let side = side as i64;
    let place = |channel: &UOp, channels: usize, row: &UOp, column: &UOp| match channels_last {
        true => ((n * side + row) * side + column) * channels as i64 + channel,
        false => ((n * channels as i64 + channel) * side + row) * side + column,
    };
    let inside = |at: &UOp| UOp::index(-1).lt(at).and(&at.lt(&UOp::index(side)));
    let (row, column) = (y + ky - 1, x + kx - 1);
    let is_inside = inside(&row).and(&inside(&column));
    let pixels = images * (side * side) as usize;
    let from = place(c, channels, &row, &column);
    let pixel = UOp::load_lanes(&param(1, pixels * channels), &from, Some(&is_inside), 1);
    let weight = ((o * channels as i64 + c) * 3 + ky) * 3 + kx;
    let weight = UOp::load(&param(2, outputs * channels * 9), &weight);
    let value = sum(&(pixel * weight), &sums);
    let to = place(o, outputs, y, x);
    let store = UOp::store(&param(0, pixels * outputs), &to, &value, None);
    UOp::kernel([store.end(loops)], "convolution")
}

#[test]
fn pixels_that_share_sets_of_a_cache_are_staged() {
    // pixels are 2 KiB apart; a block of the sum reads some channels of each, again for every tile
    let target = Target { cache_bytes: [32 << 10, 1 << 20, 32 << 20], threads: 1, ..wide() };
    let options = chosen_for(&convolution([512, 7, 512], true), &target);
    let is_block = |o: &Opt| matches!(o, Opt::Block { axis: 4, .. });
    assert!(options.iter().any(is_block), "{options:?}");
    assert!(options.contains(&Opt::Stage { operand: 0, depth: 1, lanes: 16 }), "{options:?}");
}

/// A panel for one row of the results holds three rows of the image, one for four rows holds six.
#[test]
fn rows_whose_windows_overlap_share_a_panel() {
    let rows = |second: usize| -> Vec<usize> {
        let cache_bytes = [48 << 10, second, 32 << 20];
        let target = Target { cache_bytes, threads: 1, ..wide() };
        let options = chosen_for(&convolution_of(1, [64, 56, 64], true), &target);
        assert!(options.iter().any(|o| matches!(o, Opt::Stage { operand: 0, .. })), "{options:?}");
        let by = |o: &Opt| match *o {
            Opt::Block { axis: 2, by } => Some(by),
            _ => None,
        };
        options.iter().filter_map(by).collect()
    };
    assert_eq!(rows(2 << 20), [4, 14]);
    // of 256 KiB, a panel may take 64: two rows of the results, which read four of 58 pixels
    assert_eq!(rows(256 << 10), [2, 28]);
}

/// The gradient for weights 3 x 3 between 256 and 256 channels, of 8 images of 14 x 14. Windows that the border cuts end earlier.
fn gradient_for_weights() -> UOp {
    let loops = [256, 256, 3, 3].into_iter().zip(0..).map(|(n, a)| range(a, RangeKind::Loop, n));
    let sums = [8, 14, 14].into_iter().zip(4..).map(|(n, a)| range(a, RangeKind::Reduce, n));
    let (loops, sums): (Vec<UOp>, Vec<UOp>) = (loops.collect(), sums.collect());
    let ([o, c, ky, kx], [n, y, x]) = (&loops[..], &sums[..]) else { unreachable!("seven") };
    let all = 8 * 256 * 14 * 14;
    let inside = |at: &UOp| UOp::index(-1).lt(at).and(&at.lt(&UOp::index(14)));
    let (row, column) = (y + ky - 1, x + kx - 1);
    let is_inside = inside(&row).and(&inside(&column));
    let from = ((n * 256 + c) * 14 + &row) * 14 + &column;
    let pixel = UOp::load_lanes(&param(1, all), &from, Some(&is_inside), 1);
    let slope = UOp::load(&param(2, all), &(((n * 256 + o) * 14 + y) * 14 + x));
    let to = ((o * 256 + c) * 3 + ky) * 3 + kx;
    let store = UOp::store(&param(0, 256 * 256 * 9), &to, &sum(&(pixel * slope), &sums), None);
    UOp::kernel([store.end(loops)], "weights")
}

/// Each window and each channel reads the same panel again: 1568 rows of vectors, from the second cache or the last one. Of 8 vectors
/// and 3 columns of the window, its lines would come slower than the products of 24.
#[test]
fn a_panel_that_other_loops_read_again_gives_its_lines_to_more_rows() {
    let cache_bytes = [48 << 10, 1 << 20, 32 << 20];
    let options = chosen_for(&gradient_for_weights(), &Target { cache_bytes, ..wide() });
    let lanes = |o: &Opt| match *o {
        Opt::Split { kind: RangeKind::Vector, axis, .. } => Some(axis),
        _ => None,
    };
    let along = options.iter().find_map(lanes);
    let rows = |o: &&Opt| matches!(o, Opt::Split { axis, .. } if Some(*axis) != along);
    let rows: Vec<Opt> = options.iter().filter(rows).cloned().collect();
    assert!(points(&rows) >= 4, "{options:?}");
}

/// A convolution of each channel on its own, of 7 x 7 pixels: nothing divides 7, and the weights are loaded once for a row.
#[test]
fn rows_of_seven_are_a_tile() {
    let [y, x, c] = [(0, 7), (1, 7), (2, 64)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let [ky, kx] = [3, 4].map(|axis| range(axis, RangeKind::Reduce, 3));
    let inside = |at: &UOp| UOp::index(-1).lt(at).and(&at.lt(&UOp::index(7)));
    let (row, column) = (&y + &ky - 1, &x + &kx - 1);
    let from = (&row * 7 + &column) * 64 + &c;
    let is_inside = inside(&row).and(&inside(&column));
    let pixel = UOp::load_lanes(&param(1, 7 * 7 * 64), &from, Some(&is_inside), 1);
    let weight = UOp::load(&param(2, 64 * 9), &((&c * 3 + &ky) * 3 + &kx));
    let value = sum(&(pixel * weight), &[ky, kx]);
    let to = (&y * 7 + &x) * 64 + &c;
    let store = UOp::store(&param(0, 7 * 7 * 64), &to, &value, None);
    let options = chosen_for(&UOp::kernel([store.end([y, x, c])], "channels"), &wide());
    let is_row = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Upcast, axis: 1, by: 7 });
    assert!(options.iter().any(is_row), "{options:?}");
}

/// A compiler keeps values of long code in memory, not in registers.
#[test]
fn few_terms_of_a_sum_are_written_out() {
    let unrolled = |kernel: &UOp, target: &Target| -> usize {
        let options = chosen_for(kernel, target);
        let by = |option: &Opt| match *option {
            Opt::Split { kind: RangeKind::Unroll, by, .. } => by,
            _ => 1,
        };
        options.iter().map(by).product()
    };
    let convolutions =
        [(1, [512, 7, 512]), (1, [3, 7, 64]), (1, [320, 7, 64]), (2, [64, 9, 64]), (1, [5, 5, 5])];
    let terms = |target: &Target| {
        convolutions.map(|(images, sizes)| unrolled(&convolution_of(images, sizes, false), target))
    };
    assert!(terms(&wide()).into_iter().all(|n| n <= 32), "{:?}", terms(&wide()));
    // 16 registers hold no values of a second term; a sum of three terms ends with them
    assert_eq!(terms(&target()), [1; 5]);
    assert_eq!(unrolled(&batched([1, 7, 4096, 3], true), &target()), 3);
    let few_channels = convolution_of(1, [64, 5, 16], false);
    assert_eq!([wide(), target()].map(|target| unrolled(&few_channels, &target)), [3, 1]);
}

#[test]
fn the_columns_of_an_image_stay_inside_of_its_rows() {
    // blocks follow each other from the innermost loop outward; a loop without one is around all of them
    let columns_are_around = |second| {
        let cache_bytes = [48 << 10, second, 32 << 20];
        let options = chosen_for(
            &convolution([64, 56, 64], false),
            &Target { cache_bytes, threads: 1, ..wide() },
        );
        let block = |n| options.iter().any(|o| matches!(o, Opt::Block { axis, .. } if *axis == n));
        block(2) && !block(3)
    };
    assert!(!columns_are_around(2 << 20));
    assert!(!columns_are_around(1 << 20));
}

/// The sides of a tile of inner products, if a product of such sizes has one.
fn inner_sides(sizes: [usize; 3]) -> Option<[usize; 2]> {
    let target = Target { cache_bytes: [48 << 10, 2 << 20, 32 << 20], threads: 1, ..wide() };
    let options = chosen_for(&product(sizes), &target);
    let by = |kind, along| {
        options.iter().find_map(|option| match option {
            Opt::Split { kind: k, axis, by } if *k == kind && *axis == along => Some(*by),
            _ => None,
        })
    };
    by(RangeKind::Vector, 2)?;
    Some([0, 1].map(|axis| by(RangeKind::Upcast, axis).unwrap_or(1)))
}

/// Two products take the time of a line from the second cache, about.
#[test]
fn a_tile_of_inner_products_reads_no_more_lines_than_the_second_cache_gives() {
    let mut tiles = 0;
    for sizes in [[49, 512, 2048], [49, 512, 4608], [50, 1024, 1024], [35, 2600, 1280]] {
        let Some([few, many]) = inner_sides(sizes) else { continue };
        assert!(few * many >= 2 * (few + many), "{sizes:?}: {few} x {many}");
        tiles += 1;
    }
    assert!(tiles > 0);
    // a single row stays in the first cache, and each line of the matrix comes once
    assert!(inner_sides([1, 4096, 4096]).is_some());
}

#[test]
fn vectors_need_not_divide_the_sum_of_inner_products() {
    for sizes in [[3, 10000, 650], [5, 1000, 300]] {
        let few = inner_sides(sizes).map(|[few, _]| few);
        assert_eq!(few, Some(sizes[0]), "{sizes:?}: the matrix is read once");
    }
}

/// A loop around the many rows, 8 MiB, would read them again in each of its iterations.
#[test]
fn all_of_the_few_rows_are_inside_the_loop_over_the_many() {
    let target = Target { cache_bytes: [48 << 10, 2 << 20, 32 << 20], threads: 1, ..wide() };
    let [z, i, j] = [(0, 7), (1, 7), (2, 2048)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let l = range(3, RangeKind::Reduce, 1024);
    // every second pixel, so that the loops over them do not become one
    let x = UOp::load(&param(1, 14 * 14 * 1024), &((&z * 28 + &i * 2) * 1024 + &l));
    let w = UOp::load(&param(2, 2048 * 1024), &(&j * 1024 + &l));
    let place = &z * 7 + &i + &j * 49;
    let store = UOp::store(&param(0, 49 * 2048), &place, &sum(&(&x * &w), &[l]), None);
    let options = chosen_for(&UOp::kernel([store.end([z, i, j])], "pixels"), &target);
    let has = |wanted: Opt| options.contains(&wanted);
    assert!(has(Opt::Split { kind: RangeKind::Vector, axis: 3, by: 16 }), "{options:?}");
    assert!(
        has(Opt::Block { axis: 0, by: 7 }) || has(Opt::Block { axis: 1, by: 7 }),
        "{options:?}"
    );
}

/// A vector that does not start at a line is in two of them, so a tile should read each more often.
#[test]
fn rows_at_any_byte_make_larger_tiles() {
    let products_of_a_load = |depth| {
        let [few, many] = inner_sides([11, 2048, depth]).expect("inner products");
        (few * many) as f64 / (few + many) as f64
    };
    assert!(products_of_a_load(513) > products_of_a_load(512));
}

#[test]
fn a_short_sum_inside_keeps_no_lanes_from_a_long_loop() {
    let options = chosen(&scaled_by_parts(512, 32, false));
    assert!(options.contains(&Opt::Split { kind: RangeKind::Vector, axis: 2, by: 8 }));
}

/// Rows of an image from those of its windows of `size` at steps of `stride`, in each of which a row was at another position.
fn rows_of_windows(stride: i64, size: usize) -> UOp {
    let (h, w) = (range(0, RangeKind::Loop, 60), range(1, RangeKind::Loop, 64));
    let k = range(2, RangeKind::Reduce, size);
    let from_start = &h - &k + 12 * stride;
    let [window, rest] =
        [from_start.floordiv(&UOp::index(stride)), from_start.floormod(&UOp::index(stride))];
    let index = (window * size as i64 + &k) * 64 + &w;
    let gate = rest.eq_(&UOp::index(0));
    let x = UOp::load_lanes(&param(1, 100 * 64 * size), &index, Some(&gate), 1);
    let y = sum(&x, &[k]);
    UOp::kernel([UOp::store(&param(0, 60 * 64), &(&h * 64 + &w), &y, None).end([h, w])], "rows")
}

#[test]
fn rows_go_by_as_many_as_windows_move() {
    let rows = |stride, size| {
        let options = chosen(&rows_of_windows(stride, size));
        let of_rows = |o: &Opt| match *o {
            Opt::Split { kind: RangeKind::Upcast, axis: 0, by } => Some(by),
            _ => None,
        };
        options.iter().find_map(of_rows)
    };
    assert_eq!((rows(2, 3), rows(3, 5), rows(4, 4)), (Some(2), Some(3), Some(4)));
    // the windows' positions are not unrolled, or there is just one
    assert_eq!((rows(2, 12), rows(2, 1)), (None, None));
}

#[test]
fn threads_share_a_loop_that_everything_is_inside_of() {
    let options = chosen(&scaled_by_parts(512, 32, false));
    assert!(options.contains(&Opt::Split { kind: RangeKind::Thread, axis: 2, by: 1 }));
}

#[test]
fn a_transpose_beside_a_sum_goes_by_squares() {
    let options = chosen(&scaled_by_parts(512, 32, true));
    let upcast = |o: &Opt| matches!(o, Opt::Split { kind: RangeKind::Upcast, axis: 2, .. });
    assert!(options.iter().any(upcast));
}

/// `x @ w`, of `[1, k]` and `[k, n]`.
fn row([n, k]: [usize; 2]) -> UOp {
    let (j, t) = (range(0, RangeKind::Loop, n), range(1, RangeKind::Reduce, k));
    let x = UOp::load(&param(1, k), &t);
    let w = UOp::load(&param(2, n * k), &(&t * n as i64 + &j));
    let value = sum(&(x * w), &[t]);
    UOp::kernel([UOp::store(&param(0, n), &j, &value, None).end([j])], "row")
}

#[test]
fn threads_get_equally_many_blocks_of_columns() {
    for vectors in [48, 72, 144, 192] {
        let options = chosen_for(&row([16 * vectors, 768]), &wide());
        let by = options.iter().find_map(|option| match *option {
            Opt::Split { kind: RangeKind::Upcast, axis: 0, by } => Some(by),
            _ => None,
        });
        let blocks = vectors / by.expect("vectors go side by side");
        assert!(blocks.is_multiple_of(2), "{vectors}: {options:?}");
    }
}

/// Threads share the rows. So the 50257th would have no loop of its own, and all rows would look whether they exist.
#[test]
fn rows_go_side_by_side_if_none_is_left() {
    let tiled = |rows: usize, axis: u32| {
        let options = chosen_for(&product([1, rows, 768]), &wide());
        let by = |o: &Opt| match *o {
            Opt::Split { kind: RangeKind::Upcast, axis: a, by } => (a == axis).then_some(by),
            _ => None,
        };
        options.iter().find_map(by)
    };
    assert_eq!([tiled(50256, 1), tiled(50256, 2)], [Some(4), None]);
    // several sums of one row instead
    assert_eq!(tiled(50257, 1), None);
    assert!(tiled(50257, 2).is_some_and(|sums| sums > 1));
}

#[test]
fn a_matrix_that_one_tile_of_rows_reads_once_stays_where_it_is() {
    let is_staged = |rows: usize| {
        let options = chosen_for(&product_by_rows([rows, 3072, 768]), &wide());
        options.iter().any(|o| matches!(o, Opt::Stage { operand: 1, .. }))
    };
    assert!(!is_staged(5) && !is_staged(2) && is_staged(64));
}

/// Of an image of `n` x `n` x `channels` with a border: each channel by its own filter of `side` x `side`.
fn depthwise([channels, n, side]: [usize; 3]) -> UOp {
    let border = (side / 2) as i64;
    let loops = [(0, n), (1, n), (2, channels)].map(|(a, n)| range(a, RangeKind::Loop, n));
    let sums = [(3, side), (4, side)].map(|(a, n)| range(a, RangeKind::Reduce, n));
    let ([y, x, c], [ky, kx]) = (&loops, &sums);
    let inside = |at: &UOp| UOp::index(-1).lt(at).and(&at.lt(&UOp::index(n as i64)));
    let [row, column] = [(y, ky), (x, kx)].map(|(at, k)| at + k - border);
    let is_inside = inside(&row).and(&inside(&column));
    let image = param(1, n * n * channels);
    let place = (&row * n as i64 + &column) * channels as i64 + c;
    let pixel = UOp::load_lanes(&image, &place, Some(&is_inside), 1);
    let place = c * (side * side) as i64 + ky * side as i64 + kx;
    let weight = UOp::load(&param(2, channels * side * side), &place);
    let value = sum(&(pixel * weight), &sums);
    let place = (y * n as i64 + x) * channels as i64 + c;
    let store = UOp::store(&param(0, n * n * channels), &place, &value, None);
    UOp::kernel([store.end(loops)], "depthwise")
}

/// By loop: how many iterations are inside the loop over lanes.
fn passing(options: &[Opt]) -> [usize; 2] {
    [0, 1].map(|loop_| {
        let by = |option: &Opt| match *option {
            Opt::Block { axis, by } if axis == loop_ => Some(by),
            _ => None,
        };
        options.iter().find_map(by).unwrap_or(1)
    })
}

/// A filter that fits registers is unrolled whole, and stays there while the pixels of a row pass by.
#[test]
fn a_filter_stays_in_registers_while_pixels_pass_by() {
    let terms = |options: &[Opt]| {
        options.iter().fold(1, |terms, option| match *option {
            Opt::Split { kind: RangeKind::Unroll, by, .. } => terms * by,
            _ => terms,
        })
    };
    let copies = |options: &[Opt]| {
        let copy = |option: &Opt| match *option {
            Opt::Stage { operand, depth, .. } => Some((operand, depth)),
            _ => None,
        };
        options.iter().find_map(copy)
    };
    let options = chosen_for(&depthwise([144, 56, 3]), &wide());
    assert_eq!((passing(&options), terms(&options)), ([1, 14], 9), "{options:?}");
    // of few pixels all, so that there are enough
    let options = chosen_for(&depthwise([960, 7, 3]), &wide());
    assert_eq!((passing(&options), terms(&options)), ([7, 1], 9), "{options:?}");
    // 60 vectors of channels are as many for each of two threads, 3 are not
    let options = chosen_for(&depthwise([48, 7, 3]), &wide());
    assert_eq!(passing(&options), [1, 1], "{options:?}");
    // 49 vectors do not fit 32 registers: they are copied, and a row of the filter is unrolled
    let options = chosen_for(&depthwise([96, 56, 7]), &wide());
    assert_eq!((passing(&options), terms(&options)), ([1, 14], 7), "{options:?}");
    assert_eq!(copies(&options), Some((0, 2)));
    // each channel by a filter of one element is no sum of filters
    assert_eq!(passing(&chosen_for(&depthwise([144, 56, 1]), &wide())), [1, 1]);
}
