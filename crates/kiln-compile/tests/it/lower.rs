//! Lowering: hand-written kernels of `testdata` keep their meaning (INTERP runs them), and their programs have the
//! form that renderers rely on.

use crate::stages::lower;
use expect_test::{Expect, expect};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::target::{Costs, Language, Target};
use kiln_ir::arg::{RangeKind, ReduceOp};
use kiln_ir::program::Program;
use kiln_ir::spec::verify_program;
use kiln_ir::text::{parse, print_list};
use kiln_ir::{DType, Op, UOp};
use std::cell::Cell;
use std::collections::HashSet;

fn kernel(name: &str) -> UOp {
    let path = format!("{}/../../testdata/{name}.uop", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    parse(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn target(fma: bool) -> Target {
    Target {
        costs: Costs::CPU,
        language: Language::C,
        vector_bytes: 32,
        vector_registers: 16,
        fma,
        groups: false,
        ..Target::interp()
    }
}

fn program(name: &str) -> Program {
    let program = lower(&kernel(name), &target(true));
    verify(&program);
    program
}

/// The program has the form that devices rely on.
pub(crate) fn verify(program: &Program) {
    verify_program(&program.ops).unwrap_or_else(|e| panic!("{e}\n{}", print_list(&program.ops)));
}

fn bytes(values: &[f32]) -> Vec<Cell<u8>> {
    values.iter().flat_map(|v| v.to_le_bytes()).map(Cell::new).collect()
}

fn floats(bytes: &[Cell<u8>]) -> Vec<f32> {
    let bytes: Vec<u8> = bytes.iter().map(Cell::get).collect();
    bytes.chunks(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect()
}

/// Runs the kernel on `inputs`, which follow the one output; the output starts as `-1`s.
fn run(name: &str, len: usize, inputs: &[&[f32]]) -> Vec<f32> {
    run_program(&program(name), len, inputs)
}

fn run_program(program: &Program, len: usize, inputs: &[&[f32]]) -> Vec<f32> {
    let buffers: Vec<_> =
        std::iter::once(bytes(&vec![-1.0; len])).chain(inputs.iter().map(|i| bytes(i))).collect();
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    kiln_runtime::interp::run(program, &views, &[]).unwrap();
    floats(&buffers[0])
}

/// Some numbers that differ, small enough for sums to be exact.
fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 4.0).collect()
}

fn check_program(name: &str, expected: Expect) {
    expected.assert_eq(&print_list(&program(name).ops));
}

fn count(program: &Program, op: Op) -> usize {
    program.ops.iter().filter(|n| n.op() == op).count()
}

#[test]
fn elementwise() {
    let (x, y) = (numbers(96), numbers(100));
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| (x + 1.0) * y).collect();
    assert_eq!(run("elementwise", 96, &[&x, &y[..96]]), expected);
    let p = program("elementwise");
    assert_eq!((p.threads.as_int(), p.flops, p.bytes), (Some(3), 2 * 96, 3 * 96 * 4));
}

#[test]
fn a_register_tile_matmul() {
    let (a, b) = (numbers(96), numbers(192));
    let dot = |i: usize, j: usize| (0..12).map(|k| a[i * 12 + k] * b[k * 16 + j]).sum::<f32>();
    let expected: Vec<f32> = (0..128).map(|o| dot(o / 16, o % 16)).collect();
    assert_eq!(run("matmul_tile", 128, &[&a, &b]), expected);
    let p = program("matmul_tile");
    assert_eq!(count(&p, Op::MulAdd), 16);
    assert_eq!(p.flops, 2 * 8 * 16 * 12);
    assert_eq!(p.bytes, (128 + 96 + 192) * 4);
    let plain = lower(&kernel("matmul_tile"), &target(false));
    assert_eq!((count(&plain, Op::MulAdd), count(&plain, Op::Mul) >= 16), (0, true));
}

#[test]
fn an_unrolled_tile_goes_on_step_by_step() {
    let letter = |n: &UOp| match n.op() {
        Op::MulAdd => Some('m'),
        Op::Load if n.memory().arg().slot() == Some(2) => Some('b'),
        _ => None,
    };
    let order: String = program("matmul_tile").ops.iter().filter_map(letter).collect();
    assert_eq!(order, "bmmmm".repeat(4));
}

#[test]
fn softmax_in_one_kernel() {
    let x = numbers(60);
    let out = run("softmax", 60, &[&x]);
    for (row, got) in x.chunks(20).zip(out.chunks(20)) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exps: Vec<f32> = row.iter().map(|x| (x - max).exp()).collect();
        let sum: f32 = exps.iter().sum();
        for (e, got) in exps.iter().zip(got) {
            assert!((e / sum - got).abs() < 1e-6, "{} and {got}", e / sum);
        }
    }
    assert_eq!(program("softmax").scratch_bytes, 128);
}

#[test]
fn a_reduce_inside_a_reduce() {
    let x = numbers(24);
    let max = |i: usize| x[i * 4..][..4].iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let expected = [max(0) + max(1) + max(2), max(3) + max(4) + max(5)];
    assert_eq!(run("reduce_in_reduce", 2, &[&x]), expected);
}

#[test]
fn two_reduces_and_two_stores_share_loops() {
    let x = numbers(24);
    let program = program("shared_loops");
    assert_eq!(count(&program, Op::Range), 2);
    let buffers = [bytes(&[0.0; 4]), bytes(&[0.0; 4]), bytes(&x)];
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    kiln_runtime::interp::run(&program, &views, &[]).unwrap();
    let sums: Vec<f32> = x.chunks(6).map(|r| r.iter().sum()).collect();
    let squares: Vec<f32> = x.chunks(6).map(|r| r.iter().map(|x| x * x).sum()).collect();
    assert_eq!((floats(&buffers[0]), floats(&buffers[1])), (sums, squares));
}

/// Stores over `(i, k)` and `(j, k)` share the loop `k`, so `j` has to be inside `i`.
#[test]
fn loops_that_meet_further_in_nest() {
    let data = |slot, len: usize| UOp::param(slot, DType::F32, [len].as_slice());
    let r: Vec<UOp> = (0..3).map(|a| UOp::range(a, RangeKind::Loop, 2 + a as usize)).collect();
    let store = |slot: usize, outer: &UOp| {
        let at = &(outer * 4) + &r[2];
        UOp::store(&data(slot, 12), &at, &UOp::load(&data(2, 4), &r[2]), None)
    };
    let ends = [(0, &r[0]), (1, &r[1])].map(|(s, o)| store(s, o).end([o.clone(), r[2].clone()]));
    let program = lower(&UOp::kernel(ends, "meet"), &target(true));
    verify(&program);
    let x = [1.0, 2.0, 3.0, 4.0];
    let buffers = [bytes(&[0.0; 12]), bytes(&[0.0; 12]), bytes(&x)];
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    kiln_runtime::interp::run(&program, &views, &[]).unwrap();
    assert_eq!(floats(&buffers[0]), [x.repeat(2), vec![0.0; 4]].concat());
    assert_eq!(floats(&buffers[1]), x.repeat(3));
}

#[test]
fn a_sum_rounds_the_same_whoever_else_uses_its_products() {
    let program = |name: &str| lower(&kernel(name), &target(true));
    assert_eq!(count(&program("shared_loops"), Op::MulAdd), 1);
    assert_eq!(count(&program("shared_product"), Op::MulAdd), 1);
    assert_eq!(run("shared_product", 1, &[&[1.0, -3.0, 2.0]]), [14.0 + 9.0]);
}

#[test]
fn a_mask_that_says_more_than_the_gate_stays() {
    assert_eq!(run("mask", 8, &[&numbers(4)]), [-1.0, 0.0, 2.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(count(&program("mask"), Op::Where), 1);
}

#[test]
fn gates_cut_the_last_tile() {
    let (x, y) = (numbers(10), numbers(17));
    let y = &y[7..];
    let expected: Vec<f32> = (0..10).map(|i| 2.0 * x[i] + if i < 6 { y[i] } else { 0.0 }).collect();
    assert_eq!(run("gated_edge", 10, &[&x, y]), expected);
    assert_eq!(count(&program("gated_edge"), Op::Where), 0, "the loads are masked already");
}

/// `out[i, j] = sum of x[i, k] w[j, k], and twice x[i, 0] more` for 3 rows of so many products, and 6 columns.
fn rows_by_columns(products: usize, options: &[Opt]) -> Program {
    let range = |axis, kind, n| UOp::range(axis, kind, n);
    let [i, j] = [(0, 3), (1, 6)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let k = range(2, RangeKind::Reduce, products);
    let load = |slot, rows: usize, index: &UOp| {
        let param = UOp::param(slot, DType::F32, [rows * products].as_slice());
        UOp::load(&param, index)
    };
    let row = |i: &UOp| i * products as i64;
    let [x, w] = [load(1, 3, &(row(&i) + &k)), load(2, 6, &(row(&j) + &k))];
    let more = load(1, 3, &row(&i)) * UOp::constant(2, DType::F32);
    let sum = (x * w).reduce_ranges(ReduceOp::Add, [k]) + more;
    let out = UOp::param(0, DType::F32, [18].as_slice());
    let store = UOp::store(&out, &(&i * 6 + &j), &sum, None);
    let kernel = UOp::kernel([store.end([i, j])], "");
    let program = lower(&apply(&kernel, options).expect("legal").ast, &target(true));
    verify(&program);
    program
}

#[test]
fn sums_of_lanes_that_are_neighbours_are_added_up_together() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let tile = [
        split(RangeKind::Vector, 2, 8),
        split(RangeKind::Upcast, 1, 6),
        split(RangeKind::Upcast, 0, 3),
    ];
    let (plain, tiled) = (rows_by_columns(64, &[]), rows_by_columns(64, &tile));
    let stored: Vec<u16> = tiled
        .ops
        .iter()
        .filter(|n| n.op() == Op::Store && n.memory().op() == Op::Param)
        .map(|n| n.src(2).lanes())
        .collect();
    // of each row, four and two
    assert_eq!(stored.iter().filter(|n| **n == 4).count(), 3, "{stored:?}");
    assert_eq!(stored.len(), 6, "{stored:?}");
    let is_sum = |n: &&UOp| n.op() == Op::Add && n.dtype() == DType::F32;
    // 8 lanes to 4 and 2 and 1: of four sums, 2 additions, 1 and 1; of two, 1 and 1 and 1. What follows is one more for each
    assert_eq!(tiled.ops.iter().filter(is_sum).count(), 3 * (4 + 3 + 2));
    let of = |program| run_program(program, 18, &[&numbers(192), &numbers(384)]);
    assert_eq!(of(&plain), of(&tiled));
}

/// Of 8 rows, a tile of 6 has a last one of 2, and its stores are apart from those of the others. In the order of these stores,
/// four rows would be held at a time.
#[test]
fn of_a_tile_few_operands_are_held_at_a_time() {
    let range = |axis, kind, n| UOp::range(axis, kind, n);
    let [i, j] = [(0, 8), (1, 16)].map(|(axis, n)| range(axis, RangeKind::Loop, n));
    let k = range(2, RangeKind::Reduce, 64);
    let load = |slot, n: usize, index: &UOp| {
        UOp::load(&UOp::param(slot, DType::F32, [n].as_slice()), index)
    };
    let [x, w] = [load(1, 8 * 64, &(&i * 64 + &k)), load(2, 64 * 16, &(&k * 16 + &j))];
    let sum = (x * w).reduce_ranges(ReduceOp::Add, [k]);
    // neighbours along the rows: results are stored one by one
    let store =
        UOp::store(&UOp::param(0, DType::F32, [128].as_slice()), &(&j * 8 + &i), &sum, None);
    let kernel = UOp::kernel([store.end([i, j])], "");
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    let tile = [
        split(RangeKind::Vector, 1, 8),
        split(RangeKind::Upcast, 1, 2),
        split(RangeKind::Upcast, 0, 6),
    ];
    let program = lower(&apply(&kernel, &tile).expect("legal").ast, &target(true));
    verify(&program);
    assert_eq!(count(&program, Op::MulAdd), 12);
    assert!(held_operands(&program.ops) <= 3, "{}", print_list(&program.ops));
    let of = |program| run_program(program, 128, &[&numbers(512), &numbers(1024)]);
    assert_eq!(of(&lower(&kernel, &target(true))), of(&program));
}

/// How many factors of products have been loaded and are still needed, at most.
fn held_operands(ops: &[UOp]) -> usize {
    let factors = |n: &UOp| n.srcs()[..2].to_vec();
    let products = || ops.iter().enumerate().filter(|(_, n)| n.op() == Op::MulAdd);
    let held = |at: usize| {
        let open = products().filter(|(i, _)| *i >= at).flat_map(|(_, n)| factors(n));
        let done = |n: &UOp| ops[..=at].contains(n);
        open.filter(done).collect::<HashSet<UOp>>().len()
    };
    products().map(|(at, _)| held(at)).max().unwrap_or(0)
}

/// A value that is loaded before a loop takes a register as long as the loop runs.
#[test]
fn what_only_a_second_loop_reads_is_loaded_after_the_first() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    // 69 products are 8 vectors and an end, under a mask; the tile has all results
    let tile = [
        split(RangeKind::Vector, 2, 8),
        split(RangeKind::Upcast, 1, 6),
        split(RangeKind::Upcast, 0, 3),
    ];
    let program = rows_by_columns(69, &tile);
    let loops_before = |load: &UOp| {
        let before = program.ops.iter().take_while(|n| *n != load);
        before.filter(|n| n.op() == Op::End).count()
    };
    let masked: Vec<usize> = program
        .ops
        .iter()
        .filter(|n| n.op() == Op::Load && n.gate().is_some())
        .map(loops_before)
        .collect();
    assert!(!masked.is_empty() && masked.iter().all(|loops| *loops == 1), "{masked:?}");
    let of = |program| run_program(program, 18, &[&numbers(3 * 69), &numbers(6 * 69)]);
    assert_eq!(of(&rows_by_columns(69, &[])), of(&program));
}

#[test]
fn lanes_combine_after_the_loop() {
    let x = numbers(192);
    assert_eq!(run("vector_sum", 1, &[&x]), [x.iter().sum::<f32>()]);
}

#[test]
fn lanes_that_are_not_neighbours() {
    let (x, small) = (numbers(32), numbers(4));
    let value = |j: usize, i: usize| x[i * 4 + 3 - j] + small[i / 2];
    let expected: Vec<f32> = (0..32).map(|o| value(o / 8, o % 8)).collect();
    assert_eq!(run("strided", 32, &[&x, &small]), expected);
    let p = program("strided");
    assert_eq!((count(&p, Op::Splat), count(&p, Op::Store)), (1, 4));
}

#[test]
fn division_of_aligned_lanes_is_uniform() {
    let (x, row) = (numbers(16), numbers(4));
    let expected: Vec<f32> = (0..64).map(|i| x[i % 16] + row[i / 16]).collect();
    assert_eq!(run("aligned", 64, &[&x, &row]), expected);
    assert_eq!(count(&program("aligned"), Op::Load), 2);
}

#[test]
fn registers_written_by_hand() {
    let x = numbers(40);
    let expected: Vec<f32> = (0..8).map(|o| (0..5).map(|r| x[r * 8 + o]).sum()).collect();
    assert_eq!(run("registers", 8, &[&x]), expected);
}

#[test]
fn indices_that_are_loaded() {
    let table = numbers(5);
    let pick = [3i32, 0, 4, 7, -1, 1, 2, 5];
    let expected = pick.map(|p| if (0..5).contains(&p) { table[p as usize] } else { 0.0 });
    assert_eq!(run("gather", 8, &[&table, &pick.map(|p| f32::from_bits(p as u32))]), expected);
}

#[test]
fn reads_of_registers_come_before_writes() {
    assert_eq!(
        run("shift", 6, &[&[1.0, 4.0, 9.0, 16.0, 25.0, 36.0]]),
        [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]
    );
}

/// `out[i]` is the next of each reversed group of 4 of `x[8]`. Not among `testdata`, whose kernels run on CPUs.
const GROUPS: &str = "
    %out = param f32 slot=0 [8]
    %x = param f32 slot=1 [8]
    %stage = local f32 scratch id=0 len=4
    %g = range axis=0 global 2
    %l = range axis=1 local 4
    %g4 = mul %g 4
    %i = add %g4 %l
    %v = load %x %i
    %put = store %stage %l %v
    %met = barrier %put
    %staged = after %stage %met
    %back = mul %l -1
    %other = add %back 3
    %w = load %staged %other
    %stage2 = local f32 scratch id=1 len=4
    %put2 = store %stage2 %l %w
    %met2 = barrier %put2
    %staged2 = after %stage2 %met2
    %l1 = add %l 1
    %next = floormod %l1 4
    %w2 = load %staged2 %next
    %s = store %out %i %w2
    %e = end %s %g %l
    sink name=reverse_2_4 %e
";

#[test]
fn work_items_meet_at_barriers() {
    let p = lower(&parse(GROUPS).unwrap(), &Target::interp());
    verify(&p);
    let (out, x) = (bytes(&[0.0; 8]), bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
    kiln_runtime::interp::run(&p, &[&out, &x], &[]).unwrap();
    assert_eq!(floats(&out), [3.0, 2.0, 1.0, 4.0, 7.0, 6.0, 5.0, 8.0]);
    assert_eq!((p.global, p.local, p.scratch_bytes), (vec![2], vec![4], 128));
}

#[test]
fn an_output_may_be_an_input() {
    let program = program("swap");
    let both = bytes(&[1.0, 2.0]);
    kiln_runtime::interp::run(&program, &[&both, &both], &[]).unwrap();
    assert_eq!(floats(&both), [2.0, 1.0]);
}

#[test]
fn programs_read_well() {
    check_program(
        "vector_sum",
        expect![[r#"
        %0 = param f32 slot=0 [1]
        %1 = param f32 slot=1 [192]
        %2 = local f32x8 register id=0 len=1
        %3 = splat f32x8 0.0:f32
        %4 = store %2 0:i32 %3
        %5 = range i32 axis=0 reduce 6:i32
        with %6 = after f32x8 %2 %4 %5
        %7 = load f32x8 %6 0:i32
        %8 = mul i32 %5 32:i32
        %9 = load f32x8 %1 %8
        %10 = add f32x8 %7 %9
        %11 = add i32 %8 8:i32
        %12 = load f32x8 %1 %11
        %13 = add f32x8 %10 %12
        %14 = add i32 %8 16:i32
        %15 = load f32x8 %1 %14
        %16 = add f32x8 %13 %15
        %17 = add i32 %8 24:i32
        %18 = load f32x8 %1 %17
        %19 = add f32x8 %16 %18
        %20 = store %6 0:i32 %19
        end %5
        with %21 = end %20 %5
        with %22 = after f32x8 %2 %21
        %23 = load f32x8 %22 0:i32
        %24 = lane f32 lane=0 %23
        %25 = lane f32 lane=1 %23
        %26 = lane f32 lane=2 %23
        %27 = lane f32 lane=3 %23
        %28 = stack f32x4 %24 %25 %26 %27
        %29 = lane f32 lane=4 %23
        %30 = lane f32 lane=5 %23
        %31 = lane f32 lane=6 %23
        %32 = lane f32 lane=7 %23
        %33 = stack f32x4 %29 %30 %31 %32
        %34 = add f32x4 %28 %33
        %35 = lane f32 lane=0 %34
        %36 = lane f32 lane=1 %34
        %37 = stack f32x2 %35 %36
        %38 = lane f32 lane=2 %34
        %39 = lane f32 lane=3 %34
        %40 = stack f32x2 %38 %39
        %41 = add f32x2 %37 %40
        %42 = lane f32 lane=0 %41
        %43 = lane f32 lane=1 %41
        %44 = add f32 %42 %43
        store %0 0:i32 %44
    "#]],
    );
    check_program(
        "gated_edge",
        expect![[r#"
            %0 = param f32 slot=0 [10]
            %1 = param f32 slot=1 [10]
            %2 = param f32 slot=2 [10]
            %3 = stack i32x4 0:i32 1:i32 2:i32 3:i32
            %4 = splat i32x4 10:i32
            %5 = splat f32x4 2.0:f32
            %6 = splat i32x4 6:i32
            %7 = range i32 axis=0 loop 2:i32
            %8 = mul i32 %7 8:i32
            %9 = splat i32x4 %8
            %10 = add i32x4 %9 %3
            %11 = cmplt boolx4 %10 %4
            %12 = load f32x4 %1 %8 gate=%11
            %13 = mul f32x4 %12 %5
            %14 = cmplt boolx4 %10 %6
            %15 = and boolx4 %11 %14
            %16 = load f32x4 %2 %8 gate=%15
            %17 = add f32x4 %13 %16
            %18 = add i32 %8 4:i32
            %19 = splat i32x4 %18
            %20 = add i32x4 %19 %3
            %21 = cmplt boolx4 %20 %4
            %22 = load f32x4 %1 %18 gate=%21
            %23 = mul f32x4 %22 %5
            %24 = cmplt boolx4 %20 %6
            %25 = and boolx4 %21 %24
            %26 = load f32x4 %2 %18 gate=%25
            %27 = add f32x4 %23 %26
            store %0 %8 %17 gate=%11
            store %0 %18 %27 gate=%21
            end %7
        "#]],
    );
    check_program(
        "reduce_in_reduce",
        expect![[r#"
        %0 = param f32 slot=0 [2]
        %1 = param f32 slot=1 [24]
        %2 = local f32 register id=0 len=1
        %3 = local f32 register id=1 len=1
        %4 = range i32 axis=0 loop 2:i32
        with %5 = after f32 %3 %4
        %6 = store %5 0:i32 0.0:f32
        %7 = mul i32 %4 12:i32
        %8 = range i32 axis=1 reduce 3:i32
        with %9 = after f32 %2 %4 %8
        %10 = store %9 0:i32 -inf:f32
        %11 = mul i32 %8 4:i32
        %12 = add i32 %7 %11
        %13 = range i32 axis=2 reduce 4:i32
        with %14 = after f32 %2 %10 %4 %8 %13
        %15 = load f32 %14 0:i32
        %16 = add i32 %12 %13
        %17 = load f32 %1 %16
        %18 = max f32 %15 %17
        %19 = store %14 0:i32 %18
        end %13
        with %20 = after f32 %3 %6 %4 %8
        %21 = load f32 %20 0:i32
        with %22 = end %19 %13
        with %23 = after f32 %2 %22
        %24 = load f32 %23 0:i32
        %25 = add f32 %21 %24
        %26 = store %20 0:i32 %25
        end %8
        with %27 = end %26 %8
        with %28 = after f32 %3 %27
        %29 = load f32 %28 0:i32
        store %0 %4 %29
        end %4
    "#]],
    );
}

/// A kernel that copies `len` elements.
fn copy(len: usize, bound: UOp) -> UOp {
    let (out, x) =
        (UOp::param(0, DType::U8, [len].as_slice()), UOp::param(1, DType::U8, [len].as_slice()));
    let i = UOp::range_to(0, RangeKind::Loop, bound);
    UOp::kernel([UOp::store(&out, &i, &UOp::load(&x, &i), None).end([i])], "copy")
}

#[test]
fn indices_are_as_wide_as_their_bounds() {
    let range = |p: &Program| p.ops.iter().find(|n| n.op() == Op::Range).unwrap().dtype();
    let big = 1usize << 33;
    assert_eq!(range(&lower(&copy(100, UOp::index(100)), &target(true))), DType::I32);
    assert_eq!(range(&lower(&copy(big, UOp::index(big as i64)), &target(true))), DType::I64);
    let n = UOp::var(0, DType::Index, 0, 100);
    let given = lower(&copy(100, n), &target(true));
    verify(&given);
    assert_eq!((range(&given), given.vars), (DType::I32, vec![DType::I64]));
}

#[test]
#[should_panic(expected = "loops wait for each other")]
fn a_loop_that_waits_for_itself_is_our_bug() {
    let (x, r) = (UOp::param(1, DType::F32, [4].as_slice()), UOp::range(0, RangeKind::Reduce, 4));
    let v = UOp::load(&x, &r);
    let max = v.reduce_ranges(kiln_ir::arg::ReduceOp::Max, [r.clone()]);
    let sum = (&v - &max).reduce_ranges(kiln_ir::arg::ReduceOp::Add, [r]);
    let out = UOp::param(0, DType::F32, [1].as_slice());
    lower(&UOp::kernel([UOp::store(&out, &UOp::index(0), &sum, None)], "bad"), &target(true));
}
