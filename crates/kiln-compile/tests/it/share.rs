//! Operands that are shared by the work-items of a group, on INTERP. INTERP refuses races, and a barrier that only some items
//! reach.

use crate::option_kinds::random_kernels;
use crate::options::{
    Dice, axes, check, is_counted, kernel_of, kernels, param, plain, product, run, seed,
};
use crate::stages::{lower, optimize};
use kiln_compile::optimize::{Opt, apply};
use kiln_compile::target::{Groups, Target};
use kiln_ir::arg::{PadAxis, RangeKind, ReduceOp, SliceAxis};
use kiln_ir::uop::toposort;
use kiln_ir::{DType, Op, UOp};

fn split(kind: RangeKind, axis: u32, by: usize) -> Opt {
    Opt::Split { kind, axis, by }
}

fn barriers(kernel: &UOp) -> usize {
    toposort(kernel).iter().filter(|n| n.op() == Op::Barrier).count()
}

#[test]
fn sharing_changes_nothing() {
    let mut legal = 0;
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        let (loops, sums) = (axes(&kernel, RangeKind::Loop), axes(&kernel, RangeKind::Reduce));
        for (axis, items) in loops.iter().flat_map(|axis| [2, 3].map(|items| (*axis, items))) {
            for (operand, depth) in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)] {
                let share = Opt::Share { operand, depth, banks: 4 };
                let local = split(RangeKind::Local, axis, items);
                legal += usize::from(check(name, &kernel, &[local, share]));
                let sum = split(RangeKind::Reduce, sums[0], 2);
                legal += usize::from(check(name, &kernel, &[sum, local, share]));
            }
        }
    }
    assert!(legal > 300, "{legal}");
}

/// Kernels without a reduction that read across how they write: alone, added to what is not, in a batch, with a border.
fn copies() -> Vec<(&'static str, UOp)> {
    let across = |slot, [m, n]: [usize; 2]| param(slot, &[n, m]).permute(&[1, 0][..]);
    let added = across(0, [7, 9]) + param(1, &[7, 9]) + across(2, [7, 9]);
    let border = PadAxis { before: 1, between: 0, after: 2 };
    let batch = param(0, &[3, 5, 6]).permute(&[0, 2, 1][..]);
    let product = across(0, [6, 5])
        * across(1, [6, 5]).pad(&[border; 2]).slice(&[
            SliceAxis { start: 0, step: 1, len: 6 },
            SliceAxis { start: 2, step: 1, len: 5 },
        ]);
    vec![
        ("across", across(0, [12, 8]).contiguous()),
        ("across, ragged", across(0, [11, 7]).contiguous()),
        ("across and along", added),
        ("batch", batch.contiguous()),
        ("border", product),
    ]
}

fn turned([m, n]: [usize; 2]) -> UOp {
    param(0, &[n, m]).permute(&[1, 0][..]).contiguous()
}

#[test]
fn copies_through_scratch_change_nothing() {
    let (mut dice, mut shared) = (Dice(seed(13)), 0);
    let fixed: Vec<UOp> = copies().iter().map(|(_, root)| kernel_of(root)).collect();
    let sums = |kernel: &UOp| axes(kernel, RangeKind::Reduce).is_empty();
    for kernel in fixed.into_iter().chain(random_kernels(40).into_iter().filter(sums)) {
        for _ in 0..60 {
            let options = random_options(&kernel, &mut dice);
            let shares = options.iter().any(|o| matches!(o, Opt::Share { .. }));
            shared += usize::from(check("copy", &kernel, &options) && shares);
        }
    }
    assert!(shared > 150 || !is_counted(), "{shared} are legal and share");
}

/// Tiles, items and groups, the reduction in blocks, and one operand or both shared.
fn random_options(kernel: &UOp, dice: &mut Dice) -> Vec<Opt> {
    let (loops, sums) = (axes(kernel, RangeKind::Loop), axes(kernel, RangeKind::Reduce));
    let mut options = Vec::new();
    for &axis in &loops {
        let mut own = Vec::new();
        if dice.below(2) == 0 {
            own.push(split(RangeKind::Local, axis, 2 + dice.below(4)));
        }
        if dice.below(3) == 0 {
            own.push(split(RangeKind::Upcast, axis, 2 + dice.below(2)));
        }
        if dice.below(5) == 0 {
            own.push(split(RangeKind::Vector, axis, 4));
        }
        if dice.below(2) == 0 {
            own.reverse();
        }
        options.extend(own);
    }
    for &axis in &loops {
        if dice.below(3) > 0 {
            options.push(split(RangeKind::Global, axis, 1));
        }
    }
    for &axis in &sums {
        if dice.below(3) == 0 {
            let kind = [RangeKind::Reduce, RangeKind::Reduce, RangeKind::Unroll][dice.below(3)];
            options.push(split(kind, axis, 2 + dice.below(3)));
        }
    }
    let depth = dice.below(4);
    for operand in 0..2 {
        if dice.below(3) > 0 {
            let depth = if dice.below(4) == 0 { dice.below(4) } else { depth };
            options.push(Opt::Share { operand, depth, banks: [1, 4, 32][dice.below(3)] });
        }
    }
    options
}

#[test]
fn sharing_together_with_all_else_changes_nothing() {
    let (mut dice, mut shared) = (Dice(seed(3)), 0);
    for (name, root) in kernels() {
        let kernel = kernel_of(&root);
        for _ in 0..100 {
            let options = random_options(&kernel, &mut dice);
            let shares = options.iter().any(|o| matches!(o, Opt::Share { .. }));
            shared += usize::from(check(name, &kernel, &options) && shares);
        }
    }
    assert!(shared > 300 || !is_counted(), "{shared} are legal and share");
}

#[test]
fn what_the_strategy_for_groups_chooses_changes_nothing() {
    let ragged = |ta, tb| product([37, 50, 33], ta, tb);
    let more = [
        ("even", product([64, 32, 48], false, false)),
        ("ragged", ragged(false, false)),
        ("left transposed", ragged(true, false)),
        ("right transposed", ragged(false, true)),
        ("both transposed", ragged(true, true)),
        ("few rows", product([5, 64, 40], false, true)),
        ("transpose", turned([64, 96])),
        ("transpose, ragged", turned([37, 53])),
        ("transpose of few rows", turned([16, 90])),
        ("transpose of few columns", turned([90, 20])),
    ];
    let mut shared = 0;
    for (name, root) in kernels().into_iter().chain(copies()).chain(more) {
        let kernel = kernel_of(&root);
        let expected = run(&plain(&kernel), &Target::interp());
        // with room for panels of 16 terms, of fewer, and of none
        for (items, bytes) in [(256, 48 << 10), (64, 4 << 10), (16, 64)] {
            let target =
                Target::opencl(Groups { most_items: items, shared_bytes: bytes, subgroup: 1 });
            let optimized = optimize(&kernel, &target, true);
            assert!(run(&optimized.ast, &target) == expected, "{name}: {:?}", optimized.applied);
            assert!(lower(&optimized.ast, &target).scratch_bytes <= bytes, "{name}");
            shared += usize::from(barriers(&optimized.ast) > 0);
        }
    }
    assert!(shared > 15, "{shared}");
}

#[test]
fn operands_are_filled_between_the_same_barriers() {
    let kernel = kernel_of(&kernels().remove(1).1);
    let (loops, sums) = (axes(&kernel, RangeKind::Loop), axes(&kernel, RangeKind::Reduce));
    let items = [split(RangeKind::Local, loops[0], 2), split(RangeKind::Local, loops[1], 4)];
    let share = |operand, depth| Opt::Share { operand, depth, banks: 32 };
    let groups: Vec<Opt> = loops.iter().map(|axis| split(RangeKind::Global, *axis, 1)).collect();
    let shared = |depths: [usize; 2]| {
        let sum = [split(RangeKind::Reduce, sums[0], 3)];
        let panels = [share(0, depths[0]), share(1, depths[1])];
        barriers(
            &apply(&kernel, &[&sum[..], &items, &groups, &panels].concat()).expect("legal").ast,
        )
    };
    // one before they are filled again, and one before they are read
    assert_eq!(shared([1, 1]), 2);
    assert_eq!(shared([0, 1]), 3);
    assert_eq!(shared([0, 0]), 1);
}

/// A kernel for many lengths has loops up to a large bound.
#[test]
fn loops_may_have_more_iterations_than_a_number_holds() {
    let i = UOp::range(0, RangeKind::Loop, 1 << 16);
    let sums: Vec<UOp> = (1..6).map(|axis| UOp::range(axis, RangeKind::Reduce, 1 << 16)).collect();
    let place = sums.iter().fold(i.clone(), |place, r| place + r);
    let x = UOp::load(&UOp::param(1, DType::I32, [1 << 20].as_slice()), &place);
    let y = UOp::load(&UOp::param(2, DType::I32, [1 << 20].as_slice()), &sums[0]);
    let sum = (x * y).reduce_ranges(ReduceOp::Add, sums);
    let store = UOp::store(&UOp::param(0, DType::I32, [1 << 16].as_slice()), &i, &sum, None);
    let kernel = UOp::kernel([store.end([i])], "long");
    let groups = Groups { most_items: 256, shared_bytes: 1 << 14, subgroup: 1 };
    assert!(optimize(&kernel, &Target::opencl(groups), true).applied.len() > 1);
}
