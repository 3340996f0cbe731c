//! Sums of products that a target adds up several at once give what the plain loops give.

use crate::options::kernel_of;
use crate::stages::{lower, optimize};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::render::render;
use kiln_compile::target::{Costs, Dot, Language, Target};
use kiln_ir::arg::{PadAxis, RangeKind, ReduceOp, WindowArg};
use kiln_ir::eval::{from_bits, to_bits};
use kiln_ir::program::Program;
use kiln_ir::{Const, DType, Op, UOp, spec};
use kiln_runtime::interp;
use std::cell::Cell;

/// Types of two factors, and of their products' sum.
pub(crate) type Types = ([DType; 2], DType);

pub(crate) const BF16: Types = ([DType::BF16; 2], DType::F32);
pub(crate) const BYTES: Types = ([DType::U8, DType::I8], DType::I32);

fn factors(([a, b], sum): Types, x: &[usize], y: &[usize]) -> [UOp; 2] {
    [UOp::param(0, a, x).cast(sum), UOp::param(1, b, y).cast(sum)]
}

/// `[m, k] x [k, n]`, or x `[n, k]` transposed.
pub(crate) fn product(types: Types, [m, k, n]: [usize; 3], transposed: bool) -> UOp {
    let right = if transposed { [n, k] } else { [k, n] };
    let [a, b] = factors(types, &[m, k], &right);
    let b = if transposed { b } else { b.permute(&[1, 0][..]) };
    let a = a.reshape(&[m, 1, k][..]).expand(&[m, n, k][..]);
    let b = b.reshape(&[1, n, k][..]).expand(&[m, n, k][..]);
    (b * a).reduce(ReduceOp::Add, &[2][..])
}

/// A convolution of `c` channels to 4 over padded images.
pub(crate) fn convolution(types: Types, c: usize) -> UOp {
    let (o, h, w) = (4, 5, 8);
    let pad = PadAxis { before: 1, between: 0, after: 1 };
    let none = PadAxis::default();
    let window = |axis, len| WindowArg { axis, len, size: 3, stride: 1, dilation: 1 };
    let [x, k] = factors(types, &[c, h, w], &[o, c, 3, 3]);
    let x = x.pad(&[none, pad, pad]).window(window(1, h + 2)).window(window(3, w + 2));
    let x = x.reshape(&[1, c, h, 3, w, 3][..]).expand(&[o, c, h, 3, w, 3][..]);
    let k = k.reshape(&[o, c, 1, 3, 1, 3][..]).expand(&[o, c, h, 3, w, 3][..]);
    (x * k).reduce(ReduceOp::Add, &[1, 3, 5][..])
}

fn kernels(types: Types) -> Vec<UOp> {
    vec![
        product(types, [8, 16, 16], false),
        product(types, [7, 13, 18], false),
        product(types, [12, 32, 20], true),
        product(types, [6, 31, 37], true),
        product(types, [40, 3, 16], false),
        product(types, [32, 40, 48], false),
        product(types, [37, 33, 50], true),
        convolution(types, 4),
        convolution(types, 3),
    ]
}

/// A processor with these instructions (all that are known, or none) and caches so small that everything is staged.
pub(crate) fn target(has_dots: bool) -> Target {
    Target {
        costs: Costs::CPU,
        language: Language::Llvm,
        vector_bytes: 64,
        vector_registers: 32,
        masks: true,
        threads: 2,
        cache_bytes: [64, 512, 2048],
        groups: false,
        dots: Dot::of(|_| has_dots),
        ..Target::interp()
    }
}

/// On small whole numbers, whose sums no order can round.
pub(crate) fn run(program: &Program) -> Vec<Const> {
    spec::verify_program(&program.ops).expect("a program");
    let value =
        |slot: usize, i: usize| (i * (7 + 4 * slot) % 13) as i64 - if slot == 1 { 0 } else { 6 };
    let memory = |slot: usize, len: usize, dtype: DType| -> Vec<Cell<u8>> {
        let bytes = |i: usize| {
            let bits = to_bits(Const::Int(value(slot, i)).cast(dtype), dtype).to_ne_bytes();
            bits.into_iter().take(dtype.size()).map(Cell::new)
        };
        (0..len).flat_map(bytes).collect()
    };
    let params = program.params.iter().enumerate();
    let buffers: Vec<_> = params.map(|(slot, p)| memory(slot, p.len, p.dtype)).collect();
    let views: Vec<&[Cell<u8>]> = buffers.iter().map(|b| b.as_slice()).collect();
    interp::run(program, &views, &[]).expect("runs");
    let bytes: Vec<u8> = buffers[0].iter().map(Cell::get).collect();
    let words = bytes.chunks_exact(4).map(|c| u32::from_ne_bytes(c.try_into().expect("4")));
    words.map(|bits| from_bits(bits as u64, program.params[0].dtype)).collect()
}

pub(crate) fn plain(kernel: &UOp) -> Vec<Const> {
    run(&lower(&apply(kernel, &[]).expect("nothing to apply").ast, &Target::interp()))
}

/// The lanes of the program's dot products.
fn lanes(program: &Program) -> Vec<u16> {
    program.ops.iter().filter(|n| n.op() == Op::Dot).map(UOp::lanes).collect()
}

#[test]
fn the_heuristic_packs_what_the_target_multiplies_in_packs() {
    for types in [BF16, BYTES] {
        for (i, root) in kernels(types).iter().enumerate() {
            let kernel = kernel_of(root);
            let optimized = optimize(&kernel, &target(true), true);
            let program = lower(&optimized.ast, &target(true));
            let packs = matches!(optimized.applied[0], Opt::Dot { .. });
            assert_eq!(packs, !lanes(&program).is_empty(), "{i}");
            assert!(packs || ![5, 6].contains(&i), "{i} {types:?}: {:?}", optimized.applied);
            assert!(run(&program) == plain(&kernel), "{i} {types:?}: {:?}", optimized.applied);
        }
    }
}

#[test]
fn packs_alone_and_with_tiles_change_nothing() {
    let split = |kind, axis, by| Opt::Split { kind, axis, by };
    for types in [BF16, BYTES] {
        for root in &kernels(types)[..4] {
            let kernel = kernel_of(root);
            let expected = plain(&kernel);
            let dot = Opt::Dot { axis: kernel_reduction(&kernel), parts: types.0 };
            for options in [
                vec![dot],
                vec![dot, split(RangeKind::Upcast, 0, 3), split(RangeKind::Vector, 1, 4)],
                vec![
                    dot,
                    split(RangeKind::Vector, 1, 8),
                    Opt::Stage { operand: 1, depth: 0, lanes: 8 },
                ],
                vec![dot, Opt::Stage { operand: 0, depth: 1, lanes: 4 }],
            ] {
                let optimized = apply(&kernel, &options).expect("legal");
                spec::verify(&spec::KERNEL, &optimized.ast).expect("a kernel");
                for target in [target(true), target(false), Target::interp()] {
                    let program = lower(&optimized.ast, &target);
                    assert!(run(&program) == expected, "{types:?}: {options:?}");
                }
            }
        }
    }
}

pub(crate) fn kernel_reduction(kernel: &UOp) -> u32 {
    let nodes = kiln_ir::uop::toposort(kernel);
    let reduce = nodes.iter().find(|n| n.op() == Op::Reduce).expect("a reduction");
    reduce.src(1).arg().range().expect("a range").0
}

#[test]
fn what_a_target_lacks_is_taken_apart() {
    let kernel = kernel_of(&product(BF16, [8, 16, 16], false));
    let packed = optimize(&kernel, &target(true), true).ast;
    assert!(lanes(&lower(&packed, &target(false))).is_empty());
    assert!(lanes(&lower(&packed, &target(true))).iter().all(|&n| n == 16));
}

#[test]
fn the_instruction_is_called_by_its_name() {
    for (types, name) in [
        (BF16, "call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float> "),
        (BYTES, "call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> "),
    ] {
        let kernel = kernel_of(&product(types, [64, 64, 64], false));
        let program = lower(&optimize(&kernel, &target(true), true).ast, &target(true));
        let text = render(&program, &target(true));
        assert!(text.contains(name), "{text}");
    }
}

#[test]
fn other_sums_are_left_alone() {
    let [a, b] = [DType::F16, DType::F32].map(|d| ([d; 2], DType::F32));
    for types in [a, b] {
        let kernel = kernel_of(&product(types, [16, 32, 32], false));
        let applied = optimize(&kernel, &target(true), true).applied;
        assert!(!applied.iter().any(|o| matches!(o, Opt::Dot { .. })), "{applied:?}");
    }
}

#[test]
fn options_are_read_as_they_are_written_and_refused_where_they_do_not_fit() {
    for types in [BF16, BYTES] {
        let kernel = kernel_of(&product(types, [8, 16, 16], false));
        let axis = kernel_reduction(&kernel);
        let dot = Opt::Dot { axis, parts: types.0 };
        assert_eq!(dot.to_string().parse(), Ok(dot));
        let split = Opt::Split { kind: RangeKind::Upcast, axis: 0, by: 2 };
        let other = Opt::Dot { axis, parts: [DType::U8; 2] };
        for wrong in [
            vec![split, dot],
            vec![dot, dot],
            vec![other],
            vec![Opt::Dot { axis: 0, parts: types.0 }],
        ] {
            assert!(apply(&kernel, &wrong).is_err(), "{wrong:?}");
        }
    }
}
