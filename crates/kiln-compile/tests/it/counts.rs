//! What kernels for a device with groups do to memory, counted by INTERP, which needs no such device. Products are compared
//! with one that is written by hand.

use crate::by_hand::product as by_hand;
use crate::stages::{CHECKED, lower, optimize};
use expect_test::expect;
use kiln_compile::pipeline;
use kiln_compile::target::{Costs, Groups, Target};
use kiln_ir::arg::{PadAxis, ReduceOp, WindowArg};
use kiln_ir::program::Program;
use kiln_ir::{DType, Op, UOp, spec};
use kiln_runtime::interp::{self, Counts, Neighbours};
use std::cell::Cell;

fn target() -> Target {
    Target::opencl(Groups { most_items: 1024, shared_bytes: 48 << 10, subgroup: 1 })
}

fn neighbours() -> Neighbours {
    let costs = Costs::CPU;
    Neighbours {
        items: costs.group_neighbours,
        line_bytes: costs.group_line,
        banks: costs.group_banks,
        bank_bytes: costs.group_bank_bytes,
    }
}

/// What a program does, and its first buffer afterwards. It begins with small whole numbers, whose sums are exact.
fn run(program: &Program) -> (Counts, Vec<u8>) {
    let value = |slot: usize, i: usize| (i * (7 + 4 * slot) % 13) as f32 - 6.0;
    let memory = |slot: usize, len: usize| -> Vec<Cell<u8>> {
        (0..len).flat_map(|i| value(slot, i).to_ne_bytes()).map(Cell::new).collect()
    };
    let params = program.params.iter().enumerate();
    let buffers: Vec<Vec<Cell<u8>>> = params.map(|(slot, p)| memory(slot, p.len)).collect();
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    let counts = interp::count(program, &views, &[], neighbours()).expect("runs");
    (counts, buffers[0].iter().map(Cell::get).collect())
}

fn data(slot: usize, shape: &[usize]) -> UOp {
    UOp::param(slot, DType::F32, shape)
}

fn product(n: usize) -> UOp {
    product_of([n, n, n], false, false)
}

/// `[m, k] x [k, n]`, from operands that lie transposed if so wanted.
fn product_of([m, k, n]: [usize; 3], ta: bool, tb: bool) -> UOp {
    let all = &[m, n, k][..];
    let turned = |slot, shape: [usize; 2], turn: bool| match turn {
        true => data(slot, &[shape[1], shape[0]]).permute(&[1, 0][..]),
        false => data(slot, &shape),
    };
    let a = turned(0, [m, k], ta).reshape(&[m, 1, k][..]).expand(all);
    let b = turned(1, [n, k], !tb).reshape(&[1, n, k][..]).expand(all);
    (a * b).reduce(ReduceOp::Add, &[2][..])
}

/// Of `channels` images of `n` x `n` with a border to as many, with windows of 3 x 3.
fn convolution(channels: usize, n: usize) -> UOp {
    let (pad, none) = (PadAxis { before: 1, between: 0, after: 1 }, PadAxis::default());
    let window = |axis| WindowArg { axis, len: n + 2, size: 3, stride: 1, dilation: 1 };
    let all = &[channels, channels, n, 3, n, 3][..];
    let x = data(0, &[channels, n, n]).pad(&[none, pad, pad]).window(window(1)).window(window(3));
    let x = x.reshape(&[1, channels, n, 3, n, 3][..]).expand(all);
    let k = data(1, &[channels, channels, 3, 3]);
    let k = k.reshape(&[channels, channels, 1, 3, 1, 3][..]).expand(all);
    (x * k).reduce(ReduceOp::Add, &[1, 3, 5][..])
}

fn softmax(rows: usize, n: usize) -> UOp {
    let x = data(0, &[rows, n]);
    let along = |x: UOp| x.reshape(&[rows, 1][..]).expand(&[rows, n][..]);
    let powers = UOp::unary(Op::Exp2, &(&x - &along(x.reduce(ReduceOp::Max, &[1][..]))));
    UOp::binary(Op::Div, &powers, &along(powers.reduce(ReduceOp::Add, &[1][..])))
}

fn sum(rows: usize, n: usize) -> UOp {
    data(0, &[rows, n]).reduce(ReduceOp::Add, &[1][..])
}

/// Each column's sum: neighbouring items have neighbouring columns.
fn columns(rows: usize, n: usize) -> UOp {
    data(0, &[rows, n]).reduce(ReduceOp::Add, &[0][..])
}

/// What a layer norm looks like: each row without its sum, divided by the sum of the squares.
fn normalized(rows: usize, n: usize) -> UOp {
    let x = data(0, &[rows, n]);
    let along = |x: UOp| x.reshape(&[rows, 1][..]).expand(&[rows, n][..]);
    let sum = |x: &UOp| along(x.reduce(ReduceOp::Add, &[1][..]));
    let centred = &x - &sum(&x);
    UOp::binary(Op::Div, &centred, &sum(&(&centred * &centred)))
}

fn transpose(rows: usize, n: usize) -> UOp {
    data(0, &[rows, n]).permute(&[1, 0][..]).contiguous()
}

/// The strategy's programs for a graph.
fn programs(root: &UOp) -> Vec<Program> {
    let schedule = pipeline::schedule(std::slice::from_ref(root), &target(), CHECKED);
    let kernels = schedule.unwrap_or_else(|bug| panic!("{bug}")).kernels.into_iter();
    kernels.map(|k| lower(&optimize(&k.ast, &target(), true).ast, &target())).collect()
}

fn chosen(root: &UOp) -> Counts {
    programs(root).iter().map(|p| run(p).0).reduce(plus).expect("a kernel")
}

fn plus(a: Counts, b: Counts) -> Counts {
    let traffic = |a: interp::Traffic, b: interp::Traffic| interp::Traffic {
        elements: a.elements + b.elements,
        bytes: a.bytes + b.bytes,
    };
    Counts {
        loads: traffic(a.loads, b.loads),
        stores: traffic(a.stores, b.stores),
        flops: a.flops + b.flops,
        lines: a.lines + b.lines,
        least_lines: a.least_lines + b.least_lines,
        bank_conflicts: a.bank_conflicts + b.bank_conflicts,
        barriers: a.barriers + b.barriers,
    }
}

fn row(name: &str, counts: Counts) -> String {
    let Counts { loads, stores, flops, lines, bank_conflicts, barriers, .. } = counts;
    let (loads, stores, unshared) = (loads.elements, stores.elements, counts.unshared_lines());
    let of_flops = loads as f64 / flops.max(1) as f64;
    let of_flops = if flops > 0 { format!("{of_flops:.3}") } else { "-".to_owned() };
    format!(
        "{name:<22}{flops:>9}{loads:>8}{of_flops:>7}{stores:>7}{lines:>8}{unshared:>9}{bank_conflicts:>6}{barriers:>6}\n"
    )
}

#[test]
fn kernels_for_groups_are_counted() {
    let mut table = format!(
        "{:<22}{:>9}{:>8}{:>7}{:>7}{:>8}{:>9}{:>6}{:>6}\n",
        "", "flops", "loads", "a flop", "stores", "lines", "unshared", "banks", "waits"
    );
    let mut add = |name: &str, root: UOp| table += &row(name, chosen(&root));
    for n in [32, 64, 75] {
        add(&format!("product {n}"), product(n));
    }
    add("product 128x8x128", product_of([128, 8, 128], false, false));
    for (channels, n) in [(8, 8), (16, 14), (32, 16)] {
        add(&format!("convolution {channels}x{n}x{n}"), convolution(channels, n));
    }
    for (rows, n) in [(64, 64), (16, 1000), (100, 100)] {
        add(&format!("softmax {rows}x{n}"), softmax(rows, n));
        add(&format!("sum {rows}x{n}"), sum(rows, n));
        add(&format!("normalized {rows}x{n}"), normalized(rows, n));
        add(&format!("columns {rows}x{n}"), columns(rows, n));
        add(&format!("transpose {rows}x{n}"), transpose(rows, n));
    }
    expect![[r#"
                                  flops   loads a flop stores   lines unshared banks waits
        product 32                65536    2048  0.031   1024     384        0     0     4
        product 64               524288    8192  0.016   4096    1536        0     0     8
        product 75              1474560   22500  0.015   5625    4959     1320     0    40
        product 128x8x128        262144   65536  0.250  16384    7168        0     0     0
        convolution 8x8x8         73728    1088  0.015    512     286       70  1152    16
        convolution 16x14x14    1032192   13696  0.013   3136    3624     1440     0   128
        convolution 32x16x16    4718592   48128  0.010   8192   11872     4608     0   256
        softmax 64x64            192512   12288  0.064   4096    2048        0     0   128
        sum 64x64                 12288    4096  0.333     64     544        0     0    64
        normalized 64x64          40960   12288  0.300   4096    2048        0     0   128
        columns 64x64              4096    4096  1.000     64     520        0     0     0
        transpose 64x64               0    4096      -   4096    1024        0     0     4
        softmax 16x1000          720768   48000  0.067  16000    8000        0     0    64
        sum 16x1000               32384   16000  0.494     16    2016        0     0    32
        normalized 16x1000       128768   48000  0.373  16000    8000        0     0    64
        columns 16x1000           16384   16000  0.977   1000    2125        0     0     0
        transpose 16x1000             0   16000      -  16000    4000        0     0    32
        softmax 100x100          455600   30000  0.066  10000    6400     1400     0   200
        sum 100x100               22800   10000  0.439    100    1650      350     0   100
        normalized 100x100        85600   30000  0.350  10000    6400     1400     0   200
        columns 100x100           10000   10000  1.000    100    1463      150     0     0
        transpose 100x100             0   10000      -  10000    2900      300     0    16
    "#]]
    .assert_eq(&table);
}

#[test]
fn operands_that_lie_transposed_cost_nothing_more() {
    let straight = chosen(&product(64));
    for (ta, tb) in [(true, false), (false, true), (true, true)] {
        assert_eq!(chosen(&product_of([64, 64, 64], ta, tb)), straight, "{ta} {tb}");
    }
}

#[test]
fn products_do_to_memory_what_one_by_hand_does() {
    for n in [64, 75, 128] {
        let ast = by_hand(n);
        spec::verify(&spec::KERNEL, &ast).expect("a kernel");
        let (hand, expected) = run(&lower(&kiln_ir::rules::simplify(&ast), &target()));
        let programs = programs(&product(n));
        assert_eq!(programs.len(), 1);
        let (own, found) = run(&programs[0]);
        assert!(expected == found, "{n}");
        let within = |what: &str, own: u64, hand: u64| {
            assert!(own as f64 <= 1.1 * hand as f64, "{n}: {what}: {own}, by hand {hand}");
        };
        within("loads", own.loads.elements, hand.loads.elements);
        within("stores", own.stores.elements, hand.stores.elements);
        within("flops", own.flops, hand.flops);
        within("lines", own.lines, hand.lines);
        within("unshared lines", own.unshared_lines(), hand.unshared_lines());
        within("bank conflicts", own.bank_conflicts, hand.bank_conflicts);
        within("barriers", own.barriers, hand.barriers);
    }
}
