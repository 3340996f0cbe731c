//! Sums of products that a matrix unit computes give what the plain loops give.

use crate::dots::{self, BF16, BYTES, Types, convolution, kernel_reduction, plain, product, run};
use crate::options::kernel_of;
use crate::stages::{lower, optimize};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::render::render;
use kiln_compile::target::{Mma, Target};
use kiln_ir::arg::{Arg, RangeKind};
use kiln_ir::program::Program;
use kiln_ir::uop::{substitute, toposort};
use kiln_ir::{DType, Op, UOp, spec};
use rustc_hash::FxHashMap;

pub(crate) const SIGNED: Types = ([DType::I8; 2], DType::I32);
const BYTES_SWAPPED: Types = ([DType::I8, DType::U8], DType::I32);

/// A processor with matrix units, and caches of a few kilobytes.
pub(crate) fn target(has_units: bool) -> Target {
    let cache_bytes = [1 << 10, 8 << 10, 32 << 10];
    Target { cache_bytes, mmas: Mma::of(|_| has_units), ..dots::target(has_units) }
}

fn products(program: &Program) -> usize {
    program.ops.iter().filter(|n| n.op() == Op::Mma).count()
}

fn split(kind: RangeKind, axis: u32, by: usize) -> Opt {
    Opt::Split { kind, axis, by }
}

/// What a plan for a matrix unit is made of, in several mixtures. Axis 0 is the rows', 1 the columns'.
fn plans(kernel: &UOp, parts: [DType; 2]) -> Vec<Vec<Opt>> {
    let depth = kernel_reduction(kernel);
    let dot = Opt::Dot { axis: depth, parts };
    let mma = Opt::Mma { axes: [0, depth, 1], by: [16; 3] };
    let swapped = Opt::Mma { axes: [1, depth, 0], by: [16; 3] };
    let stage = |depth| [0, 1].map(|operand| Opt::Stage { operand, depth, lanes: 16 });
    let tile = [split(RangeKind::Upcast, 1, 2), split(RangeKind::Upcast, 0, 2)];
    vec![
        [&[dot, mma][..], &stage(0)].concat(),
        [&[dot, swapped][..], &stage(0)].concat(),
        [&[dot, mma], &tile[..], &stage(1)].concat(),
        [&[dot, mma, tile[0], split(RangeKind::Thread, 0, 1)], &stage(1)[..]].concat(),
        [&[dot, mma, tile[0], Opt::Block { axis: 0, by: 2 }], &stage(2)[..]].concat(),
        [&[dot, mma, Opt::Block { axis: depth, by: 1 }], &stage(1)[..]].concat(),
    ]
}

/// What the plans leave, on targets that have the units, that lack them, and that have nothing.
fn check(types: Types, root: &UOp, plans_of: impl Fn(&UOp) -> Vec<Vec<Opt>>) {
    let kernel = kernel_of(root);
    let expected = plain(&kernel);
    for options in plans_of(&kernel) {
        let optimized = apply(&kernel, &options).expect("legal");
        spec::verify(&spec::KERNEL, &optimized.ast).expect("a kernel");
        for target in [target(true), target(false), Target::interp()] {
            let program = lower(&optimized.ast, &target);
            assert_eq!(products(&program) > 0, !target.mmas.is_empty(), "{options:?}");
            assert!(run(&program) == expected, "{types:?}: {options:?}");
        }
    }
}

#[test]
fn matrices_alone_and_with_tiles_change_nothing() {
    for (shape, transposed) in [([32, 64, 32], false), ([20, 75, 37], false), ([37, 33, 20], true)]
    {
        check(BF16, &product(BF16, shape, transposed), |kernel| plans(kernel, BF16.0));
    }
    for types in [BYTES, SIGNED, BYTES_SWAPPED] {
        let root = product(types, [20, 75, 37], false);
        check(types, &root, |kernel| plans(kernel, types.0)[..3].to_vec());
    }
}

/// Another kernel's effect, with arguments from slot `slots` on, and loops and memories of its own.
fn moved(effect: &UOp, slots: usize) -> UOp {
    let (mut map, more) = (FxHashMap::default(), 100 * slots as u32);
    for node in toposort(effect) {
        let new = match (node.op(), node.arg()) {
            (_, Arg::Param { slot, shape }) => {
                UOp::param(slot + slots, node.dtype(), shape.clone())
            }
            (_, &Arg::Range { axis, kind }) => {
                UOp::range(axis + more, kind, node.max() as usize + 1)
            }
            (Op::Local, &Arg::Memory { space, id, len }) => {
                UOp::local(space, id + more, len, node.dtype(), node.lanes())
            }
            _ => continue,
        };
        map.insert(node, new);
    }
    substitute(std::slice::from_ref(effect), &map).remove(0)
}

#[test]
fn products_of_one_kernel_share_the_registers() {
    let kernel = kernel_of(&product(BF16, [32, 64, 32], false));
    let expected = plain(&kernel);
    let plans = plans(&kernel, BF16.0);
    // a product takes three of the eight registers, or all of them for four
    for (plan, units) in [(&plans[0], 2), (&plans[2], 4)] {
        let optimized = apply(&kernel, plan).expect("legal").ast;
        for slots in [[0, 3], [3, 0]] {
            let both = slots.map(|slots| moved(optimized.src(0), slots));
            let both = UOp::new(
                Op::Sink,
                DType::Void,
                1,
                both.into_iter().collect(),
                optimized.arg().clone(),
            );
            let program = lower(&both, &target(true));
            assert_eq!(products(&program), units, "{plan:?}");
            assert!(render(&program, &target(true)).contains("tdpbf16ps"));
            assert!(run(&program) == expected, "{plan:?}");
        }
    }
}

#[test]
fn the_heuristic_takes_the_units_where_they_gain() {
    let tall = |types| product(types, [64, 256, 64], false);
    for (i, (types, root, gains)) in [
        (BF16, tall(BF16), true),
        (BYTES, tall(BYTES), true),
        (SIGNED, tall(SIGNED), true),
        (BF16, product(BF16, [70, 250, 75], true), true),
        (BF16, product(BF16, [1, 256, 64], false), false),
        (BF16, product(BF16, [4, 6, 4], false), false),
        (([DType::F32; 2], DType::F32), tall(([DType::F32; 2], DType::F32)), false),
        (BF16, convolution(BF16, 8), false),
    ]
    .into_iter()
    .enumerate()
    {
        let kernel = kernel_of(&root);
        let optimized = optimize(&kernel, &target(true), true);
        let takes = optimized.applied.iter().any(|o| matches!(o, Opt::Mma { .. }));
        let program = lower(&optimized.ast, &target(true));
        assert_eq!((takes, products(&program) > 0), (gains, gains), "{i}: {:?}", optimized.applied);
        assert!(run(&program) == plain(&kernel), "{i} {types:?}: {:?}", optimized.applied);
        assert!(!optimize(&kernel, &target(false), true).applied.iter().any(is_mma));
    }
}

fn is_mma(opt: &Opt) -> bool {
    matches!(opt, Opt::Mma { .. })
}

#[test]
fn options_for_units_are_read_as_they_are_written_and_refused_where_they_do_not_fit() {
    let kernel = kernel_of(&product(BF16, [32, 64, 32], false));
    let depth = kernel_reduction(&kernel);
    let dot = Opt::Dot { axis: depth, parts: BF16.0 };
    let mma = |axes| Opt::Mma { axes, by: [16; 3] };
    let right = mma([0, depth, 1]);
    assert_eq!(right.to_string().parse(), Ok(right));
    for wrong in [
        vec![right],
        vec![dot, right, right],
        vec![dot, split(RangeKind::Upcast, 0, 2), right],
        vec![dot, mma([0, 1, depth])],
        vec![dot, mma([0, depth, 0])],
        vec![dot, mma([0, depth, 7])],
        vec![dot, right, split(RangeKind::Vector, 1, 2)],
        vec![dot, right, Opt::Keep { bytes: 1 << 10 }],
        vec![dot, Opt::Mma { axes: [0, depth, 1], by: [16, 16, 12] }],
    ] {
        assert!(apply(&kernel, &wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn more_matrices_than_registers_are_left_to_loops() {
    let kernel = kernel_of(&product(BF16, [48, 32, 48], false));
    let depth = kernel_reduction(&kernel);
    let mut options = plans(&kernel, BF16.0)[0].clone();
    for (axis, by) in [(0, 3), (1, 3)] {
        options.insert(2, split(RangeKind::Upcast, axis, by));
    }
    assert_eq!(options[0], Opt::Dot { axis: depth, parts: BF16.0 });
    let program = lower(&apply(&kernel, &options).expect("legal").ast, &target(true));
    assert_eq!(products(&program), 0);
    assert!(run(&program) == plain(&kernel));
}
