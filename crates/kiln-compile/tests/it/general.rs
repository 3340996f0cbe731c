//! General kernels compute what each kernel of their family computes, and fit no other.

use crate::stages::{lower, optimize};
use kiln_compile::optimize::{General, Opt, Skeleton, apply, collapsed};
use kiln_compile::pipeline::{self, Settings};
use kiln_compile::target::Target;
use kiln_ir::arg::RangeKind::{self, Loop, Reduce, Thread};
use kiln_ir::arg::ReduceOp;
use kiln_ir::program::Traffic;
use kiln_ir::uop::toposort;
use kiln_ir::{Const, DType, Op, UOp};
use kiln_runtime::interp;
use std::cell::Cell;

fn memory(slot: usize, len: usize) -> UOp {
    UOp::param(slot, DType::I32, &[len][..])
}

/// `out[i] = sum over j of a[i*n + j]`, for `m` rows.
fn rows(m: usize, n: usize) -> UOp {
    let (i, j) = (UOp::range(0, Loop, m), UOp::range(1, Reduce, n));
    let element = UOp::load(&memory(1, m * n), &(&i * n as i64 + &j));
    let sum = element.reduce_ranges(ReduceOp::Add, [j]);
    UOp::kernel([UOp::store(&memory(0, m), &i, &sum, None).end([i])], "")
}

/// `out[n - 1 - i] = a[i + p] * k`.
fn turned(n: usize, p: usize, k: i64) -> UOp {
    let i = UOp::range(0, Loop, n);
    let element = UOp::load(&memory(1, n + p), &(&i + p as i64));
    let place = &i * -1 + (n as i64 - 1);
    UOp::kernel([UOp::store(&memory(0, n), &place, &(element * k), None).end([i])], "")
}

/// The product of `[m, k]` and `[k, n]` matrices.
fn product(m: usize, k: usize, n: usize) -> UOp {
    product_of(m, k, n, |i, l| i * k as i64 + l)
}

/// The same of a first matrix that lies in memory as `[k, m]`.
fn product_of_transposed(m: usize, k: usize, n: usize) -> UOp {
    product_of(m, k, n, |i, l| l * m as i64 + i)
}

/// The same, with the place of each element of the first matrix.
fn product_of(m: usize, k: usize, n: usize, place: impl Fn(&UOp, &UOp) -> UOp) -> UOp {
    let (i, j, l) = (UOp::range(0, Loop, m), UOp::range(1, Loop, n), UOp::range(2, Reduce, k));
    let a = UOp::load(&memory(1, 900), &place(&i, &l));
    let b = UOp::load(&memory(1, 900), &(&l * n as i64 + &j));
    let sum = (a * b).reduce_ranges(ReduceOp::Add, [l]);
    let store = UOp::store(&memory(0, m * n), &(&i * n as i64 + &j), &sum, None);
    UOp::kernel([store.end([i, j])], "")
}

/// `out[0] = i` for each `i` in turn: the last one stays.
fn last(n: usize) -> UOp {
    let i = UOp::range(0, Loop, n);
    let store = UOp::store(&memory(0, 1), &UOp::index(0), &i.cast(DType::I32), None);
    UOp::kernel([store.end([i])], "")
}

/// A target with vectors, tiles and threads.
fn vectors() -> Target {
    Target { vector_bytes: 32, vector_registers: 16, threads: 2, ..Target::interp() }
}

/// What a kernel leaves in its first argument of `len` elements; its second argument has numbers in it.
fn run(kernel: &UOp, enabled: bool, len: usize, scalars: &[i64]) -> Vec<i32> {
    run_optimized(&optimize(kernel, &vectors(), enabled).ast, [len, 900], scalars)
}

/// The same of an optimized kernel, with so many numbers.
fn run_optimized(kernel: &UOp, [len, numbers]: [usize; 2], scalars: &[i64]) -> Vec<i32> {
    let program = lower(kernel, &vectors());
    let cells = |numbers: Vec<i32>| -> Vec<Cell<u8>> {
        numbers.iter().flat_map(|n| n.to_ne_bytes()).map(Cell::new).collect()
    };
    let (out, a) =
        (cells(vec![-99; len]), cells((0..numbers as i32).map(|i| i * 7 % 31).collect()));
    interp::run(&program, &[&out, &a], scalars).expect("runs");
    let bytes: Vec<u8> = out.iter().map(Cell::get).collect();
    bytes.chunks_exact(4).map(|c| i32::from_ne_bytes(c.try_into().expect("4"))).collect()
}

fn numbers(kernel: &UOp) -> Vec<Const> {
    Skeleton::of(kernel).numbers
}

fn general(seen: &[UOp]) -> General {
    let numbers: Vec<_> = seen.iter().map(numbers).collect();
    General::of(&Skeleton::of(&seen[0]), &numbers).expect("something varies")
}

/// Runs a kernel as it is, and the general kernel with its numbers.
fn agree(general: &General, kernel: &UOp, len: usize) {
    let values = general.fits(&numbers(kernel));
    let values = values.unwrap_or_else(|| panic!("{general:?} does not fit {kernel:?}"));
    let scalars: Vec<i64> =
        values.iter().map(|(c, _)| c.as_i128().expect("whole") as i64).collect();
    let wanted = run(kernel, false, len, &[]);
    for enabled in [false, true] {
        assert_eq!(run(&general.ast, enabled, len, &scalars), wanted, "{kernel:?}");
    }
}

#[test]
fn a_general_kernel_computes_what_its_family_computes() {
    let sums = general(&[rows(3, 5), rows(4, 7), rows(9, 6)]);
    for (m, n) in [(3, 5), (4, 7), (2, 2), (9, 16), (7, 33), (40, 3)] {
        agree(&sums, &rows(m, n), m + 2);
    }
    let parts = general(&[turned(5, 3, 4), turned(9, 4, -2), turned(6, 9, 1)]);
    for (n, p, k) in [(5, 3, 4), (17, 20, 9), (2, 100, 7)] {
        agree(&parts, &turned(n, p, k), n + 2);
    }
    let lasts = general(&[last(4), last(6)]);
    [4, 5, 6, 100].into_iter().for_each(|n| agree(&lasts, &last(n), 3));
}

#[test]
fn a_kernel_that_was_not_seen_is_no_pattern() {
    // what does not vary would stay as the first kernel has it
    let (large, small) =
        (Skeleton::of(&turned(1 << 20, 3, 5)), [turned(8, 0, 2), turned(40, 0, 2)]);
    let seen: Vec<Vec<Const>> = small.iter().map(numbers).collect();
    assert!(General::of(&large, &seen).is_none());
    assert!(General::of(&Skeleton::of(&small[0]), &seen).is_some());
}

#[test]
fn products_of_any_lengths_are_tiled_and_end_at_their_lengths() {
    let kernel = general(&[product(3, 5, 4), product(4, 7, 9), product(20, 6, 30)]);
    for (m, k, n) in [(3, 5, 4), (2, 2, 2), (9, 16, 17), (7, 33, 5), (17, 3, 40), (25, 30, 23)] {
        agree(&kernel, &product(m, k, n), m * n + 2);
    }
    let optimized = optimize(&kernel.ast, &vectors(), true);
    let has = |wanted: RangeKind| {
        let is_split = |o: &Opt| matches!(o, Opt::Split { kind, .. } if *kind == wanted);
        optimized.applied.iter().any(is_split)
    };
    assert!(has(RangeKind::Vector) && has(RangeKind::Upcast), "{:?}", optimized.applied);
    assert_ends_at_launch(&optimized.ast);
}

/// A panel of columns is copied, as it is for known lengths. Of four rows at a time, those past the last read the first one, so no
/// load of the sum has a predicate.
#[test]
fn large_products_have_panels_and_no_predicates_in_their_sums() {
    let kernel = general(&[product(600, 800, 500), product(500, 1000, 700), product(9, 4, 5)]);
    let optimized = optimize(&kernel.ast, &vectors(), true);
    let stages = |o: &Opt| matches!(o, Opt::Stage { operand: 1, .. });
    assert!(optimized.applied.iter().any(stages), "{:?}", optimized.applied);
    let nodes = toposort(&optimized.ast);
    let loads = nodes.iter().filter(|n| n.op() == Op::Load && n.memory().op() == Op::Param);
    let mut gated: Vec<bool> = loads.map(|n| n.gate().is_some()).collect();
    gated.sort_unstable();
    assert_eq!(gated, [false, true], "{:?}", optimized.ast);
    for (m, k, n) in [(9, 4, 5), (30, 30, 30), (2, 2, 2), (29, 31, 17), (7, 33, 5)] {
        agree(&kernel, &product(m, k, n), m * n + 2);
    }
}

/// Gradients of weights: rows of the first matrix are neighbours in memory. Panels of both for the longest sums fit into scratch, since a
/// panel of the first has as many rows as fit.
#[test]
fn transposed_products_have_panels_that_fit_scratch() {
    let seen = [(600, 800, 500), (500, 1000, 700), (9, 4, 5)];
    let kernel = general(&seen.map(|(m, k, n)| product_of_transposed(m, k, n)));
    let (optimized, target) = (optimize(&kernel.ast, &vectors(), true), vectors());
    let stages = |o: &&Opt| matches!(o, Opt::Stage { .. });
    assert_eq!(optimized.applied.iter().filter(stages).count(), 2, "{:?}", optimized.applied);
    let bytes = lower(&optimized.ast, &target).scratch_bytes;
    assert!(bytes <= 16 << 20, "{bytes} bytes of scratch: {:?}", optimized.applied);
    for (m, k, n) in [(9, 4, 5), (30, 30, 30), (2, 2, 2), (29, 31, 17), (7, 33, 5)] {
        agree(&kernel, &product_of_transposed(m, k, n), m * n + 2);
    }
}

/// A row of sums costs as many instructions as its lengths say, and as many as it ever may if they are not known.
#[test]
fn instructions_are_counted_for_the_lengths_of_a_launch() {
    let kernel = general(&[rows(3, 5), rows(4, 7), rows(9, 6)]);
    let settings = Settings::default();
    let program = pipeline::program(&kernel.ast, &Target::interp(), settings).expect("no bug");
    let count = |m, n| {
        let scalars = kernel.fits(&Skeleton::of(&rows(m, n)).numbers).expect("of the family");
        let scalars = scalars.iter().filter_map(|(n, _)| n.as_i128()?.try_into().ok());
        program.instructions(&scalars.collect::<Vec<i64>>(), 1)
    };
    let (few, more, most) = (count(4, 10), count(8, 20), program.instructions(&[], 1));
    assert!(3 * few < more && more < 5 * few && more < most, "{few} {more} {most}");
    // a term more is its address, its load and an addition to what is in a register
    assert_eq!((count(4, 20) - count(4, 10)) / (4 * 10), 3);
}

/// Eight rows that two threads share are four for each; of one row one thread has all.
#[test]
fn instructions_are_those_of_the_thread_that_has_most() {
    let program = |rows: usize| {
        let (i, j) = (UOp::range(0, Thread, rows), UOp::range(1, Reduce, 100));
        let element = UOp::load(&memory(1, rows * 100), &(&i * 100 + &j));
        let sum = element.reduce_ranges(ReduceOp::Add, [j]);
        let store = UOp::store(&memory(0, rows), &i, &sum, None).end([i]);
        lower(&UOp::kernel([store], ""), &Target::interp())
    };
    let (one, eight) = (program(1), program(8));
    let [all, half, most] = [1, 2, 100].map(|threads| eight.instructions(&[], threads));
    assert!(half * 2 >= all && half * 2 < all + 10 && most * 8 < all + 80, "{all} {half} {most}");
    assert_eq!(one.instructions(&[], 2), one.instructions(&[], 1));
}

/// `out[i] = sum over k of a[k] * b[i, k]`, for 100 rows of 4096 numbers. Between two reads of an element of `a` lie a row of `a` and one
/// of `b`, 1024 lines.
#[test]
fn lines_are_read_again_if_the_cache_is_too_small_for_what_lies_between() {
    let (i, k) = (UOp::range(0, Loop, 100), UOp::range(1, Reduce, 4096));
    let a = UOp::load(&memory(1, 4096), &k);
    let b = UOp::load(&memory(2, 100 * 4096), &(&i * 4096 + &k));
    let sum = (a * b).reduce_ranges(ReduceOp::Add, [k]);
    let store = UOp::store(&memory(0, 100), &i, &sum, None).end([i]);
    let program = lower(&UOp::kernel([store], ""), &Target::interp());
    let traffic = Traffic::of(&program, &[], 1);
    let (row, result) = (4096.0 / 16.0, 100.0 / 16.0);
    assert_eq!(traffic.lines_into(64 << 10), row + 100.0 * row + result);
    assert_eq!(traffic.lines_into(16 << 10), 100.0 * row + 100.0 * row + result);
}

/// The trips of a loop are those of a launch, and windows that overlap are brought in once.
#[test]
fn lines_of_windows_at_the_lengths_of_a_launch() {
    let windows = |n: usize| {
        let (i, k) = (UOp::range(0, Loop, n), UOp::range(1, Reduce, 9));
        let element = UOp::load(&memory(1, 900), &(&i + &k));
        let sum = element.reduce_ranges(ReduceOp::Add, [k]);
        UOp::kernel([UOp::store(&memory(0, 900), &i, &sum, None).end([i])], "")
    };
    let kernel = general(&[windows(33), windows(48), windows(100)]);
    let settings = Settings::default();
    let program = pipeline::program(&kernel.ast, &Target::interp(), settings).expect("no bug");
    let scalars = kernel.fits(&Skeleton::of(&windows(65)).numbers).expect("of the family");
    let scalars: Vec<i64> =
        scalars.iter().filter_map(|(n, _)| n.as_i128()?.try_into().ok()).collect();
    let lines = Traffic::of(&program, &scalars, 1).lines_into(32 << 10);
    // 65 results, and as many elements: a window ends in the line in which it begins, or in the next window's
    assert_eq!(lines, 65.0 / 16.0 + 65.0 / 16.0);
}

/// No loop of a general kernel, also none that threads share, runs as often as it ever may.
fn assert_ends_at_launch(ast: &UOp) {
    let ends = |r: &UOp| matches!(r.arg().range(), Some((_, Loop | Reduce | Thread)));
    let loops = toposort(ast).into_iter().filter(|n| n.op() == Op::Range && ends(n));
    let fixed: Vec<UOp> = loops.filter(|r| r.src(0).as_int().is_some_and(|n| n > 16)).collect();
    assert!(
        fixed.is_empty(),
        "these run as often as they ever may: {fixed:?} {}",
        kiln_ir::text::print(ast)
    );
}

/// `out[i, j] = a[i, j] - max of a[i, ..]`, over the sum of that: values of one loop are kept for a later one.
fn shares(m: usize, n: usize) -> UOp {
    let i = UOp::range(0, Loop, m);
    let element = |j: &UOp| UOp::load(&memory(1, 900), &(&i * n as i64 + j));
    let [j, k, l] =
        [(1, Loop), (2, Reduce), (3, Reduce)].map(|(axis, kind)| UOp::range(axis, kind, n));
    let most = element(&l).reduce_ranges(ReduceOp::Max, [l]);
    let part = |x: UOp, n: i32| x.floordiv(&UOp::constant(n, DType::I32));
    let less = |j: &UOp| part(part(part(element(j) - &most, 2) * 7, 3) + 5, 2);
    let sum = less(&k).reduce_ranges(ReduceOp::Add, [k.clone()]);
    let store = UOp::store(&memory(0, m * n), &(&i * n as i64 + &j), &(less(&j) - sum), None);
    UOp::kernel([store.end([i, j])], "")
}

/// `out[i, j] = a[j, i]`, and its double behind that: two results of one loop.
fn twice(m: usize, n: usize) -> UOp {
    let (i, j) = (UOp::range(0, Loop, m), UOp::range(1, Loop, n));
    let element = UOp::load(&memory(1, 900), &(&j * m as i64 + &i));
    let place = &i * n as i64 + &j;
    let both = [(&place + 0, element.clone()), (&place + (m * n) as i64, element * 2)];
    let stores = both.map(|(place, value)| {
        UOp::store(&memory(0, 2 * m * n), &place, &value, None).end([i.clone(), j.clone()])
    });
    UOp::kernel(stores, "")
}

/// A convolution with windows of 3 x 3 over images of `n` by `n`, with a border of `pad` zeros. Both operands are the second argument.
fn convolution([channels, results]: [usize; 2], n: usize, pad: i64) -> UOp {
    let (n, m) = (n as i64, n as i64 + 2 * pad - 2);
    let [o, h, w] =
        [(0, results), (1, m as usize), (2, m as usize)].map(|(axis, n)| UOp::range(axis, Loop, n));
    let [c, k, l] = [(3, channels), (4, 3), (5, 3)].map(|(axis, n)| UOp::range(axis, Reduce, n));
    let inside = |place: &UOp| UOp::index(pad - 1).lt(place).and(&place.lt(&UOp::index(n + pad)));
    let inside = inside(&(&h + &k)).and(&inside(&(&w + &l)));
    let index = &c * (n * n) + (&h + &k - pad) * n + (&w + &l - pad);
    let x = UOp::load_lanes(&memory(1, 900), &index, Some(&inside), 1);
    let x = inside.where_(&x, &x.const_like(0));
    let weight = &o * (channels * 9) as i64 + &c * 9 + &k * 3 + &l;
    let weight = UOp::load(&memory(1, 900), &weight);
    let sum = (x * weight).reduce_ranges(ReduceOp::Add, [c, k, l]);
    let len = results * (m * m) as usize;
    let store = UOp::store(&memory(0, len), &(&o * (m * m) + &h * m + &w), &sum, None);
    UOp::kernel([store.end([o, h, w])], "")
}

/// Channels of a convolution's result are `n * n` elements apart. If that were a number of its own, two channels might overlap, and
/// they could not be lanes.
#[test]
fn planes_are_products_of_lengths() {
    let kernel = general(&[5, 7, 9].map(|n| convolution([2, 3], n, 1)));
    assert_eq!(kernel.fits(&numbers(&convolution([2, 3], 12, 1))).expect("fits").len(), 1);
    [2, 3, 8, 12].into_iter().for_each(|n| agree(&kernel, &convolution([2, 3], n, 1), 3 * n * n));
    // two sizes are enough
    let kernel = general(&[5, 9].map(|n| convolution([2, 3], n, 0)));
    assert!(kernel.fits(&numbers(&convolution([2, 3], 12, 0))).is_some());
}

/// Images of changing sizes are copied with their borders, as those of one size are, and tiled alike.
#[test]
fn windows_over_images_of_any_size_are_copied() {
    let kernel = general(&[12, 40, 100].map(|n| convolution([64, 64], n, 1)));
    let options = optimize(&kernel.ast, &vectors(), true).applied;
    let exact = optimize(&convolution([64, 64], 45, 1), &vectors(), true).applied;
    let staged = |options: &[Opt]| -> Vec<usize> {
        options
            .iter()
            .filter_map(|o| if let Opt::Stage { operand, .. } = o { Some(*operand) } else { None })
            .collect()
    };
    assert!(staged(&exact).contains(&0), "{exact:?}");
    assert_eq!(staged(&options), staged(&exact), "{options:?}");
    let lanes = |o: &&Opt| matches!(o, Opt::Split { kind: RangeKind::Vector, .. });
    assert_eq!(options.iter().find(lanes), exact.iter().find(lanes));
    let lowered = lower(&optimize(&kernel.ast, &vectors(), true).ast, &vectors());
    assert!(lowered.scratch_bytes <= 16 << 20, "{}", lowered.scratch_bytes);
}

/// `out[o, i] = sum over j < n of a[k*i + l*j] * a[j] * o`, for two `o`, from `a` with as many elements as that.
fn windows([m, n]: [usize; 2], [k, l]: [i64; 2]) -> UOp {
    let (o, i, j) = (UOp::range(0, Loop, 2), UOp::range(1, Loop, m), UOp::range(2, Reduce, n));
    let last = |n: usize, k: i64| k * (n as i64 - 1);
    let (i_last, j_last) = (last(m, k), last(n, l));
    let first = -(i_last.min(0) + j_last.min(0));
    let len = 1 + i_last.abs() + j_last.abs();
    let a = UOp::load(&memory(1, len as usize), &(&i * k + &j * l + first));
    let b = UOp::load(&memory(1, len as usize), &j) * o.cast(DType::I32);
    let sum = (a * b).reduce_ranges(ReduceOp::Add, [j]);
    let store = UOp::store(&memory(0, 2 * m), &(&o * m as i64 + &i), &sum, None);
    UOp::kernel([store.end([o, i])], "")
}

/// A panel of windows holds what rows before the end read, and nothing past that: memory may end there. So it is for each sign.
#[test]
fn panels_of_windows_end_where_their_rows_do() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let stage = |operand| Opt::Stage { operand, depth: 0, lanes: 4 };
    let options = [split(RangeKind::Upcast, 1, 4), stage(0), stage(1)];
    for factors in [[1, 1], [2, 1], [1, 3], [1, -1], [-2, 1], [-1, -1]] {
        let kernel = general(&[[5, 3], [9, 4], [4, 8]].map(|lengths| windows(lengths, factors)));
        let optimized = apply(&collapsed(&kernel.ast), &options).expect("legal").ast;
        let panels = toposort(&optimized).into_iter().filter(|n| n.op() == Op::Local);
        let len = panels.filter_map(|panel| panel.known_len()).max().expect("two panels");
        assert!(len < 2000, "a panel of {len} elements holds windows one by one");
        for lengths in [[2, 2], [3, 7], [8, 5], [17, 30], [80, 3], [41, 43]] {
            let exact = windows(lengths, factors);
            let values = kernel.fits(&numbers(&exact)).expect("fits");
            let scalars: Vec<i64> =
                values.iter().map(|(c, _)| c.as_i128().expect("whole") as i64).collect();
            let len = 1 + [0, 1]
                .iter()
                .map(|&i| (lengths[i] - 1) * factors[i].unsigned_abs() as usize)
                .sum::<usize>();
            let plain = optimize(&exact, &vectors(), false).ast;
            let wanted = run_optimized(&plain, [2 * lengths[0], len], &[]);
            let found = run_optimized(&optimized, [2 * lengths[0], len], &scalars);
            assert_eq!(found, wanted, "{factors:?} {lengths:?}");
        }
    }
}

/// `out[o, h, w] = sum over c of a[c, h, w] * a[o + c]`, three of five channels of images.
fn pixels(m: usize, n: usize) -> UOp {
    pixels_at(m, n, |h, w| h * n as i64 + w)
}

/// The same with images on their side.
fn turned_pixels(m: usize, n: usize) -> UOp {
    pixels_at(m, n, |h, w| w * m as i64 + h)
}

fn pixels_at(m: usize, n: usize, place: impl Fn(&UOp, &UOp) -> UOp) -> UOp {
    let [o, h, w] = [(0, 3), (1, m), (2, n)].map(|(axis, n)| UOp::range(axis, Loop, n));
    let (c, plane) = (UOp::range(3, Reduce, 5), (m * n) as i64);
    let a = UOp::load(&memory(1, 900), &(&c * plane + &h * n as i64 + &w));
    let b = UOp::load(&memory(1, 900), &(&o + &c));
    let sum = (a * b).reduce_ranges(ReduceOp::Add, [c]);
    let store = UOp::store(&memory(0, 3 * m * n), &(&o * plane + place(&h, &w)), &sum, None);
    UOp::kernel([store.end([o, h, w])], "")
}

/// `out[c] = sum over h, w of a[c, h, w]`, of three images.
fn planes(m: usize, n: usize) -> UOp {
    let c = UOp::range(0, Loop, 3);
    let [h, w] = [(1, m), (2, n)].map(|(axis, n)| UOp::range(axis, Reduce, n));
    let a = UOp::load(&memory(1, 900), &(&c * (m * n) as i64 + &h * n as i64 + &w));
    let sum = a.reduce_ranges(ReduceOp::Add, [h, w]);
    UOp::kernel([UOp::store(&memory(0, 3), &c, &sum, None).end([c])], "")
}

/// Rows of an image follow each other in memory: one loop goes along all pixels, if no index asks for a row.
#[test]
fn rows_that_follow_each_other_are_one_loop_at_any_length() {
    let loops = |ast: &UOp| toposort(ast).iter().filter(|n| n.op() == Op::Range).count();
    for (of, before, after) in
        [(pixels as Family, 4, 3), (turned_pixels as Family, 4, 4), (planes as Family, 3, 2)]
    {
        let kernel = general(&[(3, 5), (4, 7), (9, 6)].map(|(m, n)| of(m, n)));
        assert_eq!((loops(&kernel.ast), loops(&collapsed(&kernel.ast))), (before, after));
        for (m, n) in [(3, 5), (2, 2), (9, 16), (7, 21), (17, 3), (12, 12)] {
            agree(&kernel, &of(m, n), 3 * m * n + 2);
        }
    }
    let kernel = general(&[5, 7, 9].map(|n| convolution([2, 3], n, 1)));
    assert_eq!(loops(&collapsed(&kernel.ast)), loops(&kernel.ast));
}

type Family = fn(usize, usize) -> UOp;

#[test]
fn loops_with_several_ends_end_at_their_lengths() {
    let lengths = [(3, 5), (4, 7), (20, 30)];
    let kept = vec![Opt::Keep { bytes: 1 << 16 }];
    for (of, options) in [(shares as Family, kept), (twice as Family, vec![])] {
        let kernel = general(&lengths.map(|(m, n)| of(m, n)));
        for (m, n) in [(3, 5), (2, 2), (9, 16), (7, 33), (17, 3), (25, 30)] {
            agree(&kernel, &of(m, n), 2 * m * n + 2);
        }
        let optimized = optimize(&kernel.ast, &vectors(), true);
        assert_ends_at_launch(&optimized.ast);
        let optimized = apply(&kernel.ast, &options).expect("legal").ast;
        let keeps = toposort(&optimized).iter().any(|n| n.op() == Op::Local);
        assert_eq!(keeps, !options.is_empty());
        assert_ends_at_launch(&optimized);
    }
}

/// A general product with these options: it computes what the products do, and no loop runs on past what a launch needs.
fn assert_panels_end_at_launch(options: &[Opt]) {
    let kernel = general(&[product(3, 5, 4), product(4, 7, 9), product(20, 6, 30)]);
    let optimized = apply(&collapsed(&kernel.ast), options).expect("legal");
    assert_ends_at_launch(&optimized.ast);
    for (m, k, n) in [(3, 5, 4), (2, 2, 2), (9, 16, 17), (30, 30, 29)] {
        let product = product(m, k, n);
        let values = kernel.fits(&numbers(&product)).expect("fits");
        let scalars: Vec<i64> =
            values.iter().map(|(c, _)| c.as_i128().expect("whole") as i64).collect();
        let wanted = run(&product, false, m * n + 2, &[]);
        let computed = run_optimized(&optimized.ast, [m * n + 2, 900], &scalars);
        assert_eq!(computed, wanted, "{m} {k} {n}");
    }
}

/// Five rows are four lanes that are read at once and, from the second row on, four again: the place is no sum of loops.
#[test]
fn panels_are_filled_as_far_as_they_are_read() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    for rows in [4, 5] {
        assert_panels_end_at_launch(&[
            split(RangeKind::Vector, 1, 8),
            split(RangeKind::Upcast, 0, rows),
            Opt::Block { axis: 0, by: 256_usize.div_ceil(rows) },
            split(Thread, 1, 1),
            Opt::Stage { operand: 0, depth: 1, lanes: 4 },
        ]);
    }
}

#[test]
fn sums_carried_between_blocks_end_with_the_last_row_of_the_last_block() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    assert_panels_end_at_launch(&[
        split(RangeKind::Vector, 1, 8),
        split(RangeKind::Upcast, 0, 4),
        Opt::Block { axis: 0, by: 32 },
        Opt::Block { axis: 1, by: 16 },
        Opt::Block { axis: 0, by: 2 },
        Opt::Block { axis: 2, by: 64 },
        Opt::Stage { operand: 0, depth: 3, lanes: 4 },
    ]);
}

#[test]
fn blocks_of_rows_end_with_the_rows() {
    let kernel = general(&[product(3, 5, 4), product(4, 7, 9), product(100, 6, 9)]);
    // else each of 32 blocks would fill the panel that the rows of one block read
    let options = [Opt::Block { axis: 0, by: 4 }, Opt::Stage { operand: 1, depth: 2, lanes: 1 }];
    let optimized = apply(&collapsed(&kernel.ast), &options).expect("legal");
    assert_ends_at_launch(&optimized.ast);
}

/// Sums that are carried in scratch from block to block are begun, added to and read as far as the lengths go.
#[test]
fn carried_sums_end_at_their_lengths() {
    let kernel = general(&[product(3, 12, 4), product(4, 12, 9), product(30, 12, 40)]);
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let options = [
        split(RangeKind::Vector, 1, 8),
        split(RangeKind::Upcast, 0, 4),
        Opt::Block { axis: 0, by: 64 },
        Opt::Block { axis: 2, by: 4 },
    ];
    let optimized = apply(&collapsed(&kernel.ast), &options).expect("legal").ast;
    let is_carried = |n: &UOp| n.op() == Op::Store && n.memory().op() == Op::Local;
    assert_eq!(toposort(&optimized).into_iter().filter(is_carried).count(), 2);
    assert_ends_at_launch(&optimized);
}

#[test]
fn numbers_that_go_together_are_one_scalar() {
    // the stride, the trip count and both lengths
    let values = general(&[rows(4, 5), rows(4, 6)]).fits(&numbers(&rows(4, 9))).expect("fits");
    assert_eq!(values, [(Const::from(9), DType::Index)]);
    // `n`, and `p` as `n - 2`
    let values = general(&[turned(5, 3, 4), turned(6, 4, 4)]).fits(&numbers(&turned(8, 6, 4)));
    assert_eq!(values.map(|v| v.len()), Some(1));
}

#[test]
fn a_wrong_guess_does_not_fit() {
    let guess = general(&[turned(5, 3, 4), turned(6, 4, 4)]);
    assert!(guess.fits(&numbers(&turned(8, 6, 4))).is_some());
    assert!(guess.fits(&numbers(&turned(8, 5, 4))).is_none(), "`p` is not `n - 2`");
    assert!(guess.fits(&numbers(&turned(8, 6, 5))).is_none(), "the factor was the same");
    assert!(guess.fits(&numbers(&turned(100_000, 99_998, 4))).is_none(), "past the bound");
    // of three the pattern is another
    let three = [turned(5, 3, 4), turned(6, 4, 4), turned(8, 5, 4)];
    agree(&general(&three), &turned(12, 7, 4), 13);
    assert!(
        General::of(&Skeleton::of(&last(4)), &[numbers(&last(4)), numbers(&last(4))]).is_none()
    );
}

#[test]
fn a_skeleton_is_all_but_the_numbers() {
    let (a, b) = (Skeleton::of(&rows(3, 5)), Skeleton::of(&rows(40, 7)));
    assert_eq!(a.key, b.key);
    assert_eq!(a.with(&b.numbers), Some(rows(40, 7)));
    assert_eq!(b.with(&a.numbers), Some(rows(3, 5)));
    assert_ne!(a.key, Skeleton::of(&turned(3, 5, 2)).key);
}
