//! Tensor graphs through the whole compiler, run by INTERP.

use crate::stages::schedule;
use kiln_compile::schedule::{BufferRef, Schedule, ScheduledKernel};
use kiln_compile::target::{Costs, Target};
use kiln_ir::arg::{PadAxis, ReduceOp, SliceAxis, WindowArg};
use kiln_ir::spec;
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};
use kiln_runtime::interp;
use std::cell::Cell;

/// Runs the roots on i32 inputs and gives each root's values; checks optimized against plain kernels.
pub(super) fn run(roots: &[UOp], inputs: &[&[i32]]) -> (Schedule, Vec<Vec<i32>>) {
    let schedule = schedule(roots);
    let plain = execute(&schedule, roots, inputs, false);
    let optimized = execute(&schedule, roots, inputs, true);
    assert_eq!(plain, optimized);
    (schedule, plain)
}

fn execute(
    schedule: &Schedule,
    roots: &[UOp],
    inputs: &[&[i32]],
    optimized: bool,
) -> Vec<Vec<i32>> {
    let cells = |bytes: Vec<u8>| bytes.into_iter().map(Cell::new).collect::<Vec<_>>();
    let params: Vec<_> =
        inputs.iter().map(|i| cells(i.iter().flat_map(|x| x.to_ne_bytes()).collect())).collect();
    let outputs: Vec<_> =
        roots.iter().map(|r| cells(vec![0; r.numel() * r.dtype().size()])).collect();
    let arena = cells(vec![0; schedule.arena_bytes]);
    let target = Target {
        costs: Costs::CPU,
        vector_bytes: 32,
        vector_registers: 16,
        masks: true,
        threads: 2,
        ..Target::interp()
    };
    for kernel in &schedule.kernels {
        spec::verify(&spec::KERNEL, &kernel.ast).expect("scheduled");
        let ast = crate::stages::optimize(&kernel.ast, &target, optimized).ast;
        spec::verify(&spec::KERNEL, &ast).expect("optimized");
        let program = crate::stages::lower(&ast, &target);
        spec::verify_program(&program.ops).expect("lowered");
        let buffer = |r: &BufferRef| match *r {
            BufferRef::Param(p) => &params[p][..],
            BufferRef::Output(o) => &outputs[o][..],
            BufferRef::Temp(t) => {
                let temp = schedule.temps[t];
                &arena[temp.offset..temp.offset + temp.len * temp.dtype.size()]
            }
        };
        let buffers: Vec<_> = kernel.args.iter().map(buffer).collect();
        interp::run(&program, &buffers, &[]).expect("runs");
    }
    let ints = |b: &Vec<Cell<u8>>| {
        let bytes: Vec<u8> = b.iter().map(Cell::get).collect();
        bytes.chunks_exact(4).map(|c| i32::from_ne_bytes(c.try_into().expect("4 bytes"))).collect()
    };
    outputs.iter().map(ints).collect()
}

fn param(slot: usize, shape: &[usize]) -> UOp {
    UOp::param(slot, DType::I32, shape)
}

#[test]
fn add_is_one_kernel() {
    let (s, out) = run(&[param(0, &[3]) + 2], &[&[1, 2, 3]]);
    assert_eq!(out, [[3, 4, 5]]);
    assert_eq!(s.kernels.len(), 1);
    let ast = crate::stages::optimize(&s.kernels[0].ast, &Target::interp(), true).ast;
    assert!(kiln_ir::text::print(&ast).contains("E_3"), "{}", kiln_ir::text::print(&ast));
}

#[test]
fn matmul_is_one_kernel() {
    const N: usize = 16;
    let (a, b) = (param(0, &[N, N]), param(1, &[N, N]));
    let a3 = a.reshape(&[N, 1, N][..]).expand(&[N, N, N][..]);
    let b3 = b.permute(&[1, 0][..]).reshape(&[1, N, N][..]).expand(&[N, N, N][..]);
    let c = (&a3 * &b3).reduce(ReduceOp::Add, &[2][..]);
    let x: Vec<i32> = (0..256).map(|i| i % 7 - 3).collect();
    let y: Vec<i32> = (0..256).map(|i| i % 5 - 2).collect();
    let (s, out) = run(&[c], &[&x, &y]);
    assert_eq!(s.kernels.len(), 1);
    let expect = |i: usize, j: usize| (0..N).map(|k| x[i * N + k] * y[k * N + j]).sum::<i32>();
    assert_eq!(out[0], (0..N * N).map(|e| expect(e / N, e % N)).collect::<Vec<_>>());
}

#[test]
fn softmax_shape_is_one_kernel() {
    let x = param(0, &[8, 32]);
    let wide = |r: UOp| r.reshape(&[8, 1][..]).expand(&[8, 32][..]);
    let centered = &x - wide(x.reduce(ReduceOp::Max, &[1][..]));
    let out = &centered * wide(centered.reduce(ReduceOp::Add, &[1][..]));
    let data: Vec<i32> = (0..256).map(|i| (i * 37) % 11).collect();
    let (s, got) = run(&[out], &[&data]);
    assert_eq!(s.kernels.len(), 1);
    for (row, got) in data.chunks(32).zip(got[0].chunks(32)) {
        let max = row.iter().max().expect("a row");
        let sum: i32 = row.iter().map(|x| x - max).sum();
        assert_eq!(got, row.iter().map(|x| (x - max) * sum).collect::<Vec<_>>());
    }
}

#[test]
fn a_large_reduction_to_few_elements_goes_in_blocks() {
    // 66 * 62 + 1 rows: one is left over
    let shape = [4093, 130];
    let data: Vec<i32> = (0..shape[0] * shape[1]).map(|i| (i * 37 % 1001) as i32 - 500).collect();
    let x = param(0, &shape);
    let (s, got) = run(&[x.reduce(ReduceOp::Add, &[0, 1][..])], &[&data]);
    assert_eq!(s.kernels.len(), 2);
    assert_eq!(got[0], [data.iter().sum::<i32>()]);
    let (_, got) = run(&[x.reduce(ReduceOp::Min, &[0, 1][..])], &[&data]);
    assert_eq!(got[0], [-500]);
    // rows enough to fill the threads stay as they are
    let (s, _) = run(&[x.reduce(ReduceOp::Add, &[1][..])], &[&data]);
    assert_eq!(s.kernels.len(), 1);
}

#[test]
fn a_row_times_a_matrix_follows_the_rows() {
    for (k, n) in [(67, 4096), (64, 2048), (100, 1000), (3, 4096)] {
        let row: Vec<i32> = (0..k).map(|i| (i * 5 % 17) as i32 - 8).collect();
        let data: Vec<i32> = (0..k * n).map(|i| (i * 37 % 1001) as i32).collect();
        let spread = param(0, &[k]).reshape(&[k, 1][..]).expand(&[k, n][..]);
        let product = (spread * param(1, &[k, n])).reduce(ReduceOp::Add, &[0][..]);
        let (s, got) = run(&[product], &[&row, &data]);
        assert_eq!(s.kernels.len(), 1);
        let sum = |c: usize| row.iter().zip(data.chunks(n)).map(|(x, row)| x * row[c]).sum();
        assert_eq!(got[0], (0..n).map(sum).collect::<Vec<i32>>(), "{k} x {n}");
    }
}

#[test]
fn sums_across_memory_are_carried_row_by_row() {
    for shape in [[67, 4096], [64, 2048], [100, 1000], [3, 4096], [70, 40]] {
        let data: Vec<i32> = (0..shape[0] * shape[1]).map(|i| (i * 37 % 1001) as i32).collect();
        let (s, got) = run(&[param(0, &shape).reduce(ReduceOp::Add, &[0][..])], &[&data]);
        assert_eq!(s.kernels.len(), 1);
        let sum = |c: usize| data.chunks(shape[1]).map(|row| row[c]).sum();
        assert_eq!(got[0], (0..shape[1]).map(sum).collect::<Vec<i32>>(), "{shape:?}");
    }
}

/// `sum over c of where(label == c, (x[i, c] - y[i]) * c', 0)`, along the axis that labels lack.
fn picked(x: &UOp, y: &UOp, labels: &UOp, axis: usize) -> UOp {
    let shape = x.shape().clone();
    let (mut single, mut numbers) = (shape.clone(), shape.clone());
    single[axis] = 1;
    numbers.iter_mut().enumerate().for_each(|(i, n)| *n = if i == axis { *n } else { 1 });
    let along = |t: &UOp| t.reshape(single.clone()).expand(shape.clone());
    let number = UOp::iota(shape[axis], DType::I32).reshape(numbers).expand(shape.clone());
    let hit = along(labels).eq_(&number);
    let value = (x - along(y)) * (&number + 1);
    hit.where_(&value, &value.const_like(0)).reduce(ReduceOp::Add, [axis].as_slice())
}

#[test]
fn a_sum_of_which_one_term_counts_has_no_loop() {
    let data: Vec<i32> = (0..12).map(|i| i * i - 30).collect();
    for (axis, labels) in [(1, vec![3, -1, 0]), (1, vec![4, 2, 1]), (0, vec![2, 0, 3, 1])] {
        let others = labels.len();
        let (x, y, l) = (param(0, &[3, 4]), param(1, &[others]), param(2, &[others]));
        let y_data: Vec<i32> = (0..others as i32).map(|i| 7 * i + 1).collect();
        let root = picked(&x, &y, &l, axis);
        let (s, values) = run(&[root], &[&data, &y_data, &labels]);
        let term = |i: usize, label: i32| {
            let c = usize::try_from(label).ok().filter(|&c| c < [3, 4][axis])?;
            let at = if axis == 1 { 4 * i + c } else { 4 * c + i };
            Some((data[at] - y_data[i]) * (label + 1))
        };
        let right: Vec<i32> =
            labels.iter().enumerate().map(|(i, &l)| term(i, l).unwrap_or(0)).collect();
        assert_eq!(values, [right]);
        assert_eq!(s.kernels.len(), 1);
        assert!(!kiln_ir::text::print(&s.kernels[0].ast).contains("reduce"));
    }
}

#[test]
fn pads_flips_and_steps_are_one_kernel() {
    let x = param(0, &[5]);
    let padded = x.pad(&[PadAxis { before: 2, between: 1, after: 1 }]);
    let flipped = padded.slice(&[SliceAxis { start: 11, step: -1, len: 12 }]);
    let every = flipped.slice(&[SliceAxis { start: 1, step: 3, len: 4 }]);
    let (s, out) = run(&[every + 0, flipped + 1], &[&[1, 2, 3, 4, 5]]);
    // padded: 0 0 1 0 2 0 3 0 4 0 5 0
    assert_eq!(out[1], [1, 6, 1, 5, 1, 4, 1, 3, 1, 2, 1, 1]);
    assert_eq!(out[0], [5, 0, 2, 0]);
    assert!(s.kernels.len() <= 2);
}

#[test]
fn several_outputs_share_a_kernel() {
    let (w, g, m) = (param(0, &[64]), param(1, &[64]), param(2, &[64]));
    let m2 = &m * 2 + &g;
    let w2 = &w - &m2;
    let data: Vec<i32> = (0..64).collect();
    let (s, out) = run(&[m2, w2], &[&data, &data, &data]);
    assert_eq!(s.kernels.len(), 1);
    assert_eq!(out[0][10], 30);
    assert_eq!(out[1][10], -20);
    assert!(!s.kernels[0].may_alias.is_empty());
}

#[test]
fn a_sum_beside_several_outputs_may_overwrite_only_what_it_does_not_read() {
    let (a, b) = (param(0, &[6, 5]), param(1, &[5, 6]));
    let (old, other) = (param(2, &[6, 6]), param(3, &[6, 6]));
    let of = |x: &UOp, y: &UOp| {
        let x = x.reshape(&[6, x.shape()[1], 1][..]).expand(&[6, x.shape()[1], 6][..]);
        let y = y.reshape(&[1, y.shape()[0], 6][..]).expand(&[6, y.shape()[0], 6][..]);
        (x * y).reduce(ReduceOp::Add, &[1][..]).reshape(&[6, 6][..])
    };
    let data: Vec<i32> = (0..36).collect();
    let pairs = |product: UOp| {
        let new = &old + &product;
        let roots = [new.clone(), &other * &new];
        let (s, _) = run(&roots, &[&data[..30], &data[..30], &data, &data]);
        let may = s
            .kernels
            .iter()
            .flat_map(|k| k.may_alias.iter().map(|&(_, read)| k.args[read]).collect::<Vec<_>>());
        let may: Vec<BufferRef> = may.collect();
        (s.kernels.len(), [2, 3].map(|slot| may.contains(&BufferRef::Param(slot))))
    };
    assert_eq!(pairs(of(&a, &b)), (1, [true, true]));
    assert_eq!(pairs(of(&old, &old)), (1, [false, true]));
}

#[test]
fn what_waits_for_nothing_is_stored_when_it_is_needed() {
    // what is turned has a kernel of its own
    let turned = |x: &UOp| x.permute(&[1, 0][..]);
    let last = (0..4).fold(param(0, &[8, 8]), |x, _| (turned(&x) * 2).contiguous());
    let filler = UOp::iota(64, DType::I32).reshape(&[8, 8][..]).contiguous();
    let (s, out) = run(&[turned(&filler) + turned(&last)], &[&[1; 64]]);
    assert_eq!(out[0][..3], [16, 24, 32]);
    let used: Vec<(usize, usize)> = s.temps.iter().map(|t| t.used).collect();
    assert_eq!(used, [(0, 1), (1, 2), (2, 3), (3, 5), (4, 5)]);
}

#[test]
fn what_reads_memory_before_it_is_overwritten_does_not_wait() {
    let turned = |x: &UOp| x.permute(&[1, 0][..]);
    let (x, y) = (param(0, &[8, 8]), param(1, &[8, 8]));
    let old = (turned(&x) * 2).contiguous();
    let value = (turned(&y) * 3).contiguous();
    let at = UOp::iota(64, DType::Index).reshape(&[8, 8][..]);
    let new = x.update(&value, &turned(&at));
    let (s, out) = run(&[new.clone(), turned(&old) + turned(&new)], &[&[1; 64], &[5; 64]]);
    assert_eq!((out[0][3], out[1][3]), (15, 17));
    let reads = |k: &ScheduledKernel| k.args.contains(&BufferRef::Param(0));
    let writes = |k: &ScheduledKernel| k.starts_from == Some(BufferRef::Param(0));
    let (last, write) = (s.kernels.iter().rposition(reads), s.kernels.iter().position(writes));
    assert!(last.is_some() && write.is_some() && last <= write, "{last:?} {write:?}");
}

#[test]
fn what_is_less_its_largest_has_a_bound() {
    let bounds = |x: &UOp, y: &UOp| {
        let largest = y.reduce(ReduceOp::Max, &[1][..]).reshape(&[8, 1][..]);
        let exps = UOp::unary(Op::Exp, &(x - largest.expand(&[8, 32][..])));
        let kernels = schedule(&[exps]).kernels;
        kernels.iter().any(|k| toposort(&k.ast).iter().any(|n| n.op() == Op::Min))
    };
    let [x, y] = [0, 1].map(|slot| UOp::param(slot, DType::F32, &[8, 32][..]));
    assert!(bounds(&x, &x));
    assert!(!bounds(&x, &y));
}

/// The product of two matrices with `n` rows and columns.
fn product(a: &UOp, b: &UOp, n: usize) -> UOp {
    let a = a.reshape(&[n, n, 1][..]).expand(&[n, n, n][..]);
    let b = b.reshape(&[1, n, n][..]).expand(&[n, n, n][..]);
    (&a * &b).reduce(ReduceOp::Add, &[1][..])
}

/// Windows with a step of 2 read each element of a product about twice. What is done with the sum is done in the kernel that
/// computes it, where it takes no memory, and not at each reading.
#[test]
fn the_epilogue_of_a_product_is_stored_in_its_place() {
    const N: usize = 64;
    let (a, b) = (param(0, &[N, N]), param(1, &[N, N]));
    let scaled = product(&a, &b, N) * 3 + 1;
    let window = |axis| WindowArg { axis, len: N, size: 3, stride: 2, dilation: 1 };
    let windows = scaled.window(window(0)).window(window(2));
    let root = windows.reduce(ReduceOp::Max, &[1, 3][..]);
    let data: Vec<i32> = (0..(N * N) as i32).map(|i| i * 7 % 11 - 5).collect();
    let (schedule, _) = run(&[root], &[&data, &data]);
    let multiplies = |k: &ScheduledKernel| {
        let is_scale = |n: &UOp| n.op() == Op::Mul && n.dtype() == DType::I32;
        toposort(&k.ast).iter().filter(|n| is_scale(n)).count()
    };
    // the product's own, and the scale
    assert_eq!(schedule.kernels.iter().map(multiplies).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn products_that_share_a_factor_stay_apart() {
    const N: usize = 8;
    let [a, b, c] = [0, 1, 2].map(|slot| param(slot, &[N, N]));
    let data: Vec<i32> = (0..64).map(|i| i % 7 - 3).collect();
    let roots = [product(&a, &b, N), product(&a.permute(&[1, 0][..]), &c, N)];
    let (s, out) = run(&roots, &[&data, &data, &data]);
    assert_eq!(s.kernels.len(), 2);
    let sum = |i: usize, j: usize| (0..N).map(|k| data[k * N + i] * data[k * N + j]).sum::<i32>();
    assert_eq!(out[1], (0..N * N).map(|e| sum(e / N, e % N)).collect::<Vec<_>>());
    // sums of rows are not done in tiles: what both read is read once
    let sums = [&a * &b, &a * &c].map(|x| x.reduce(ReduceOp::Add, &[1][..]));
    assert_eq!(run(&sums, &[&data, &data, &data]).0.kernels.len(), 1);
}

#[test]
fn a_sum_that_both_sides_of_a_comparison_need_is_computed_once() {
    let (n, k) = (5, 3);
    let x = UOp::param(0, DType::F32, &[n, k][..]);
    let row = |sum: &UOp| sum.reshape(&[n, 1][..]).expand(&[n, k][..]);
    let scaled = &x * row(&x.reduce(ReduceOp::Add, &[1][..]));
    let largest = scaled.reduce(ReduceOp::Max, &[1][..]);
    // like the gradient of a largest element, which is computed beside it
    let is_largest = |largest: &UOp| scaled.eq_(&row(largest)).cast(DType::F32);
    let sums = |roots: &[UOp]| {
        let schedule = schedule(roots);
        let sums = |kernel: &ScheduledKernel| {
            let nodes = toposort(&kernel.ast).into_iter();
            nodes
                .filter(|n| n.op() == Op::Reduce && n.arg().reduce_op() == Some(ReduceOp::Add))
                .count()
        };
        schedule.kernels.iter().map(sums).sum::<usize>()
    };
    assert_eq!(sums(&[largest.clone(), is_largest(&largest)]), 1);
    // one side alone makes nothing of how the sum rounds
    let other = UOp::param(1, DType::F32, &[n][..]);
    assert_eq!(sums(&[largest, is_largest(&other)]), 2);
}

#[test]
fn reduce_of_reduce() {
    let x = param(0, &[4, 6]);
    let rows = x.reduce(ReduceOp::Add, &[1][..]);
    let total = (&rows * &rows).reduce(ReduceOp::Max, &[0][..]);
    let data: Vec<i32> = (0..24).collect();
    let (_, out) = run(&[total], &[&data]);
    assert_eq!(out[0], [(18 + 19 + 20 + 21 + 22 + 23) * (18 + 19 + 20 + 21 + 22 + 23)]);
}

#[test]
fn a_long_chain_is_cut() {
    let mut x = param(0, &[4]);
    for i in 0..2000 {
        x = UOp::binary(kiln_ir::Op::Xor, &(&x + i), &param(0, &[4]));
    }
    let (s, _) = run(&[x], &[&[1, 2, 3, 4]]);
    assert!((4..40).contains(&s.kernels.len()), "{}", s.kernels.len());
}

#[test]
fn doubling_is_linear() {
    let mut x = param(0, &[4]);
    for _ in 0..1000 {
        x = &x + &x;
    }
    run(&[x], &[&[1, 2, 3, 4]]);
}

/// `[n, c, h, w]` with `[o, c, size, size]`, without padding.
fn convolution(x: &UOp, k: &UOp) -> UOp {
    let [n, c, h, w] = x.shape()[..] else { panic!("an image") };
    let [o, _, size, _] = k.shape()[..] else { panic!("windows") };
    let window = |axis, len| WindowArg { axis, len, size, stride: 1, dilation: 1 };
    let (rows, columns) = (h + 1 - size, w + 1 - size);
    let all = &[n, o, c, rows, size, columns, size][..];
    let x = x.window(window(2, h)).window(window(4, w));
    let x = x.reshape(&[n, 1, c, rows, size, columns, size][..]).expand(all);
    let k = k.reshape(&[1, o, c, 1, size, 1, size][..]).expand(all);
    (x * k).reduce(ReduceOp::Add, &[2, 4, 6][..])
}

#[test]
fn between_convolutions_channels_are_neighbours() {
    let x = UOp::param(0, DType::I32, &[2, 3, 7, 8][..]);
    let first = UOp::param(1, DType::I32, &[8, 3, 3, 3][..]);
    let second = UOp::param(2, DType::I32, &[8, 8, 3, 3][..]);
    let root = convolution(&convolution(&x, &first), &second);
    let data = |n: usize, by: usize| (0..n).map(|i| (i * by % 11) as i32 - 5).collect::<Vec<_>>();
    let (schedule, _) = run(&[root], &[&data(336, 3), &data(216, 5), &data(576, 7)]);
    assert_eq!(schedule.kernels.len(), 2);
    // the temporary's channels (axis 1) are not scaled, the output's are
    assert_eq!(scaled_channels(&schedule), [false, true]);
}

/// Convolutions of 1 x 1 read and write the same pixels, so both sides end with channels.
#[test]
fn convolutions_of_single_pixels_pass_the_layout_on() {
    let x = UOp::param(0, DType::I32, &[2, 3, 10, 10][..]);
    let kernel = |slot, c, size| UOp::param(slot, DType::I32, &[8, c, size, size][..]);
    let image = convolution(&convolution(&x, &kernel(1, 3, 1)), &kernel(2, 8, 3));
    let root = convolution(&convolution(&image, &kernel(3, 8, 1)), &kernel(4, 8, 1));
    let data = |n: usize, by: usize| (0..n).map(|i| (i * by % 11) as i32 - 5).collect::<Vec<_>>();
    let inputs = [data(600, 3), data(24, 5), data(576, 7), data(64, 2), data(64, 4)];
    let inputs: Vec<&[i32]> = inputs.iter().map(Vec::as_slice).collect();
    let (schedule, _) = run(&[root], &inputs);
    assert_eq!(scaled_channels(&schedule), [false, false, false, true]);
}

/// What is joined along the channels is read at other channels, and still in a row.
#[test]
fn channels_that_are_joined_are_neighbours_in_all_parts() {
    let x = UOp::param(0, DType::I32, &[2, 3, 7, 8][..]);
    let kernel = |slot, c| UOp::param(slot, DType::I32, &[8, c, 3, 3][..]);
    let part = |slot, before| {
        let part = convolution(&x, &kernel(slot, 3)).contiguous();
        let pad = |before, after| PadAxis { before, between: 0, after };
        part.pad(&[pad(0, 0), pad(before, 8 - before), pad(0, 0), pad(0, 0)])
    };
    let root = convolution(&(part(1, 0) + part(2, 8)), &kernel(3, 16));
    let data = |n: usize, by: usize| (0..n).map(|i| (i * by % 11) as i32 - 5).collect::<Vec<_>>();
    let inputs = [data(336, 3), data(216, 5), data(216, 7), data(1152, 2)];
    let inputs: Vec<&[i32]> = inputs.iter().map(Vec::as_slice).collect();
    let (schedule, _) = run(&[root], &inputs);
    assert_eq!(scaled_channels(&schedule), [false, false, true]);
}

/// Of `x` and `x < 0`, only `x` is read. So it is no gain to store what was compared, and the sum beside it.
#[test]
fn between_convolutions_a_kernel_stores_what_the_next_one_reads() {
    let x = UOp::param(0, DType::F32, &[1, 64, 20, 20][..]);
    let weights = |slot| UOp::param(slot, DType::F32, &[64, 64, 3, 3][..]);
    let sum = convolution(&x, &weights(1));
    let zero = UOp::constant(0.0, DType::F32).reshape(&[1; 4][..]).expand(sum.shape().clone());
    let is_negative = UOp::binary(Op::Or, &sum.lt(&zero), &UOp::binary(Op::CmpEq, &sum, &zero));
    let root = convolution(&is_negative.where_(&zero, &sum), &weights(2));
    let count = |kernel: &ScheduledKernel, op| {
        toposort(&kernel.ast).iter().filter(|n| n.op() == op && n.dtype() != DType::Index).count()
    };
    let counts: Vec<[usize; 2]> = schedule(&[root])
        .kernels
        .iter()
        .map(|kernel| [Op::Store, Op::CmpEq].map(|op| count(kernel, op)))
        .collect();
    assert_eq!(counts, [[1, 1], [1, 0]]);
}

/// For each kernel, whether it stores its channels, axis 1, apart from each other.
fn scaled_channels(schedule: &Schedule) -> Vec<bool> {
    let stores = schedule.kernels.iter().map(|k| {
        let nodes = kiln_ir::uop::toposort(&k.ast);
        let store = nodes.into_iter().find(|n| n.op() == kiln_ir::Op::Store).expect("stores");
        kiln_ir::text::print(store.src(1)).replace('\n', " ")
    });
    stores.map(|at| at.contains("axis=1 loop 8 %3 = mul")).collect()
}

#[test]
fn between_convolutions_of_each_channel_rows_are_neighbours_as_they_are_in_the_image() {
    let x = UOp::param(0, DType::I32, &[2, 8, 7, 8][..]);
    let each_channel = |x: &UOp, slot: usize| {
        let [n, c, h, w] = x.shape()[..] else { panic!("an image") };
        let window = |axis, len| WindowArg { axis, len, size: 3, stride: 1, dilation: 1 };
        let x = x.window(window(2, h)).window(window(4, w));
        let k = UOp::param(slot, DType::I32, &[8, 3, 3][..]).reshape(&[1, c, 1, 3, 1, 3][..]);
        let k = k.expand(&[n, c, h - 2, 3, w - 2, 3][..]);
        (x * k).reduce(ReduceOp::Add, &[3, 5][..])
    };
    let root = each_channel(&each_channel(&x, 1).contiguous(), 2);
    let data = |n: usize, by: usize| (0..n).map(|i| (i * by % 11) as i32 - 5).collect::<Vec<_>>();
    let (schedule, _) = run(&[root], &[&data(896, 3), &data(72, 5), &data(72, 7)]);
    assert_eq!(scaled_channels(&schedule), [true, true]);
}

#[test]
fn what_is_read_in_steps_lies_like_what_it_is_read_with() {
    let x = UOp::param(0, DType::I32, &[2, 3, 8, 8][..]);
    let kernel = |slot| UOp::param(slot, DType::I32, &[8, 3, 3, 3][..]);
    let image = convolution(&x, &kernel(1)).contiguous();
    // each of 3 x 3 is for 2 x 2 of the image, as in the gradient of a pooling
    let weights = UOp::param(2, DType::I32, &[2, 72][..]).reshape(&[2, 8, 3, 3][..]);
    let coarse = (&weights + &weights).contiguous();
    let fine = coarse.reshape(&[2, 8, 3, 1, 3, 1][..]).expand(&[2, 8, 3, 2, 3, 2][..]);
    let product = (image * fine.reshape(&[2, 8, 6, 6][..])).contiguous();
    let root = convolution(&product, &UOp::param(3, DType::I32, &[8, 8, 3, 3][..]));
    let data = |n: usize, by: usize| (0..n).map(|i| (i * by % 11) as i32 - 5).collect::<Vec<_>>();
    let inputs = [data(384, 3), data(216, 5), data(144, 2), data(576, 7)];
    let inputs: Vec<&[i32]> = inputs.iter().map(Vec::as_slice).collect();
    let (schedule, _) = run(&[root], &inputs);
    assert_eq!(scaled_channels(&schedule).iter().filter(|scaled| **scaled).count(), 1);
}

/// `n` kernels of two inputs each, the second of which is the first of the next if they are `linked`.
fn sums(n: usize, len: usize, linked: bool) -> Vec<UOp> {
    let slot = |i: usize, which: usize| if linked { i + which } else { 2 * i + which };
    (0..n).map(|i| param(slot(i, 0), &[len]) * 3 + param(slot(i, 1), &[len])).collect()
}

#[test]
fn small_kernels_that_are_alike_are_put_together() {
    let data: Vec<Vec<i32>> = (0..86).map(|i| (0..5).map(|j| i * 10 + j).collect()).collect();
    let inputs: Vec<&[i32]> = data.iter().map(Vec::as_slice).collect();
    let (s, out) = run(&sums(43, 5, false), &inputs);
    for (i, out) in out.iter().enumerate() {
        let sum = |j: usize| data[2 * i][j] * 3 + data[2 * i + 1][j];
        assert_eq!(*out, (0..5).map(sum).collect::<Vec<_>>());
    }
    // 16, 16, 8, 2 and 1 of them, and what serves one group serves the other
    assert_eq!(s.kernels.len(), 5);
    let sizes: Vec<usize> = s.kernels.iter().map(|k| k.ast.srcs().len()).collect();
    let full = s.kernels.iter().filter(|k| k.ast.srcs().len() == 16).collect::<Vec<_>>();
    assert_eq!(sizes.iter().sum::<usize>(), 43, "{sizes:?}");
    assert!(full.len() == 2 && full[0].ast == full[1].ast, "{sizes:?}");
    // each may still be written over what it alone reads
    assert!(s.kernels.iter().all(|k| k.may_alias.len() == 2 * k.ast.srcs().len()));
}

#[test]
fn large_kernels_and_those_that_wait_for_each_other_stay_apart() {
    assert_eq!(schedule(&sums(8, 100_000, false)).kernels.len(), 8);
    // what shares an input is one kernel for eight outputs; both may write over the input that they share
    assert_eq!(schedule(&sums(16, 5, true)).kernels.len(), 2);
    let (first, second) = (param(0, &[5]) * 3, param(1, &[5]));
    let first = first.contiguous();
    let (s, out) = run(&[&first * 3, first, &second * 3], &[&[1; 5], &[2; 5]]);
    assert_eq!(out, [[9; 5], [3; 5], [6; 5]]);
    assert!(s.kernels.len() >= 2);
}

#[test]
fn sums_across_memory_to_few_results_are_taken_in_blocks() {
    let count = |shape: &[usize], axes: &[usize]| {
        schedule(&[param(0, shape).reduce(ReduceOp::Add, axes)]).kernels.len()
    };
    assert_eq!(count(&[128, 32, 20, 20], &[0, 2, 3]), 2);
    assert_eq!(count(&[1, 40_000, 32], &[1]), 2);
    // threads share what is left of these: rows one after the other, long rows, or too little
    assert_eq!(count(&[32, 40_000], &[1]), 1);
    assert_eq!(count(&[40_000, 128], &[0]), 1);
    assert_eq!(count(&[20_000, 32], &[0]), 1);
}

#[test]
fn few_sums_of_products_of_much_are_taken_in_blocks() {
    // the gradient of a convolution for its weights
    let of = |images: usize, channels: usize, dtype: DType, wide: DType| {
        let (o, h) = (32, 20);
        let param = |slot, shape: &[usize]| UOp::param(slot, dtype, shape);
        let window = |axis| WindowArg { axis, len: h, size: 3, stride: 1, dilation: 1 };
        let all = &[images, o, channels, h - 2, 3, h - 2, 3][..];
        let dy = param(0, &[images, o, h - 2, h - 2]);
        let dy = dy.reshape(&[images, o, 1, h - 2, 1, h - 2, 1][..]).expand(all);
        let x = param(1, &[images, channels, h, h]).window(window(2)).window(window(4));
        let x = x.reshape(&[images, 1, channels, h - 2, 3, h - 2, 3][..]).expand(all);
        let products = dy.cast(wide) * x.cast(wide);
        schedule(&[products.cast(DType::F32).reduce(ReduceOp::Add, &[0, 3, 5][..])]).kernels.len()
    };
    let count = |images, channels| of(images, channels, DType::F32, DType::F32);
    assert_eq!(count(128, 1), 2);
    for narrow in [DType::F16, DType::BF16] {
        assert_eq!([DType::F32, narrow].map(|wide| of(128, 1, narrow, wide)), [2, 2]);
    }
    // enough results, or little to read
    assert_eq!(count(128, 8), 1);
    assert_eq!(count(32, 1), 1);
}

/// The sum over `b` of `x1[b, i] * y1[b, j] + x2[b, i] * y2[b, j] + ..` for so many pairs, all from parameters, plus `more`.
fn sum_of_products(pairs: usize, rows: usize, n: usize, more: Option<&UOp>) -> UOp {
    let all = &[rows, n, n][..];
    let factor = |slot, shape: &[usize]| param(slot, &[rows, n]).reshape(shape).expand(all);
    let product = |i| factor(2 * i, &[rows, n, 1]) * factor(2 * i + 1, &[rows, 1, n]);
    let products = (0..pairs).map(product).chain(more.map(|m| m.expand(all)));
    products.reduce(|a, b| a + b).expect("a pair").reduce(ReduceOp::Add, &[0][..])
}

#[test]
fn many_products_are_added_up_a_few_at_a_time() {
    let (rows, n) = (3, 32);
    let data = |slot: usize| -> Vec<i32> {
        (0..rows * n).map(|i| (i * (slot + 2) % 11) as i32 - 5).collect()
    };
    for (pairs, kernels) in [(1, 1), (4, 1), (5, 2), (13, 4)] {
        let inputs: Vec<Vec<i32>> = (0..=2 * pairs).map(data).collect();
        let inputs: Vec<&[i32]> = inputs.iter().map(Vec::as_slice).collect();
        let more = param(2 * pairs, &[rows, n]).reshape(&[rows, n, 1][..]);
        for more in [None, Some(&more)] {
            let (s, out) = run(&[sum_of_products(pairs, rows, n, more)], &inputs);
            let term = |b: usize, i: usize, j: usize| -> i32 {
                let pair = |p: usize| inputs[2 * p][b * n + i] * inputs[2 * p + 1][b * n + j];
                let more = more.map_or(0, |_| inputs[2 * pairs][b * n + i]);
                (0..pairs).map(pair).sum::<i32>() + more
            };
            let sum = |at| (0..rows).map(|b| term(b, at / n, at % n)).sum::<i32>();
            assert_eq!(out[0], (0..n * n).map(sum).collect::<Vec<_>>(), "{pairs}");
            // what is no product is one group more
            let group = usize::from(more.is_some() && pairs > 4);
            assert!(
                (kernels..=kernels + group).contains(&s.kernels.len()),
                "{pairs}: {}",
                s.kernels.len()
            );
        }
    }
}

/// `x @ a + y @ b`, of `n` rows and columns, where the sums are over `p` and `q` products.
fn two_sums(n: usize, [p, q]: [usize; 2]) -> UOp {
    let float = |slot, shape: [usize; 2]| UOp::param(slot, DType::F32, &shape[..]);
    let of = |slot, terms: usize| {
        let x = float(slot, [n, terms]).reshape(&[n, 1, terms][..]).expand(&[n, n, terms][..]);
        let a = float(slot + 1, [n, terms]).reshape(&[1, n, terms][..]);
        (x * a.expand(&[n, n, terms][..])).reduce(ReduceOp::Add, &[2][..])
    };
    of(0, p) + of(2, q)
}

/// Two sums of products share registers and caches. If there is much to add up, one of them is stored first.
#[test]
fn long_sums_of_products_have_kernels_of_their_own() {
    let kernels = |n, terms| schedule(&[two_sums(n, terms)]).kernels.len();
    assert_eq!(kernels(256, [1024, 512]), 2);
    assert_eq!(kernels(256, [8, 1024]), 1, "a short sum is unrolled");
    assert_eq!(kernels(64, [32, 48]), 1, "a launch costs more");
}

/// A cell's memory, which the next cell needs beside what the output became, is stored with the output and not computed again.
#[test]
fn what_a_later_kernel_needs_is_stored_along_the_way() {
    let n = 64;
    let float = |slot| UOp::param(slot, DType::F32, &[n, n][..]);
    let weight = float(0);
    let (mut memory, mut output) = (float(1), float(2));
    for _ in 0..5 {
        let gate = product(&output, &weight, n);
        let costly = |x: &UOp| UOp::unary(Op::Exp, &UOp::unary(Op::Sin, &UOp::unary(Op::Exp, x)));
        memory = &memory * costly(&gate) + UOp::unary(Op::Sin, &memory);
        output = UOp::unary(Op::Exp, &memory);
    }
    let s = schedule(&[output]);
    let is_costly = |node: &&UOp| matches!(node.op(), Op::Exp | Op::Sin);
    let costly: Vec<usize> =
        s.kernels.iter().map(|k| toposort(&k.ast).iter().filter(is_costly).count()).collect();
    assert_eq!(costly.iter().sum::<usize>(), 5 * 5, "{costly:?}");
}
