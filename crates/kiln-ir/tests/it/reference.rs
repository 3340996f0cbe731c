//! The reference evaluator against numbers worked out by hand.

use kiln_ir::arg::{PadAxis, ReduceOp, SliceAxis};
use kiln_ir::reference::evaluate;
use kiln_ir::{Const, DType, Op, UOp};

fn ints(root: &UOp) -> Vec<i64> {
    let values = evaluate(root, &|_| panic!("no leaves"));
    values.iter().map(|c| c.as_i128().expect("integers") as i64).collect()
}

/// `[[0, 1, 2], [3, 4, 5]]`.
fn grid() -> UOp {
    UOp::iota(6, DType::I32).reshape([2, 3].as_slice())
}

fn slice(start: usize, step: isize, len: usize) -> SliceAxis {
    SliceAxis { start, step, len }
}

#[test]
fn movements_show_elements() {
    assert_eq!(ints(&grid().permute([1, 0].as_slice())), [0, 3, 1, 4, 2, 5]);
    assert_eq!(
        ints(&grid().reshape([3, 2].as_slice()).permute([1, 0].as_slice())),
        [0, 2, 4, 1, 3, 5]
    );
    assert_eq!(ints(&grid().slice(&[slice(1, -1, 2), slice(0, 2, 2)])), [3, 5, 0, 2]);
    let row = UOp::iota(2, DType::I32).reshape([1, 2].as_slice());
    assert_eq!(ints(&row.expand([2, 2].as_slice())), [0, 1, 0, 1]);
    let column = UOp::iota(2, DType::I32).reshape([2, 1].as_slice());
    assert_eq!(ints(&column.expand([2, 3].as_slice())), [0, 0, 0, 1, 1, 1]);
    let pad = [PadAxis { before: 1, between: 2, after: 1 }];
    assert_eq!(ints(&(UOp::iota(2, DType::I32) + 7).pad(&pad)), [0, 7, 0, 0, 8, 0]);
}

#[test]
fn reductions_drop_axes() {
    assert_eq!(ints(&grid().reduce(ReduceOp::Add, [0].as_slice())), [3, 5, 7]);
    assert_eq!(ints(&grid().reduce(ReduceOp::Max, [1].as_slice())), [2, 5]);
    assert_eq!(ints(&(grid() + 1).reduce(ReduceOp::Mul, [0, 1].as_slice())), [720]);
    assert_eq!(
        ints(
            &grid().slice(&[slice(0, 1, 0), slice(0, 1, 3)]).reduce(ReduceOp::Min, [0].as_slice())
        ),
        [i32::MAX as i64; 3]
    );
}

#[test]
fn constants_fit_any_shape() {
    let total = grid().reduce(ReduceOp::Add, [0, 1].as_slice());
    assert_eq!(ints(&(grid() * total + 1)), [1, 16, 31, 46, 61, 76]);
    assert_eq!(
        ints(&UOp::binary(Op::CmpLt, &grid(), &UOp::constant(2, DType::I32)).cast(DType::I32)),
        [1, 1, 0, 0, 0, 0]
    );
}

#[test]
fn updates_write_into_views() {
    let positions = UOp::positions(grid().shape().clone()).permute([1, 0].as_slice());
    let at = positions.slice(&[slice(2, -1, 2), slice(1, 1, 1)]);
    let value = (UOp::iota(2, DType::I32) + 10).reshape([2, 1].as_slice());
    assert_eq!(ints(&grid().update(&value, &at)), [0, 1, 2, 3, 11, 10]);
    assert_eq!(ints(&grid().update(&UOp::constant(9, DType::I32), &at)), [0, 1, 2, 3, 9, 9]);
}

#[test]
fn bitcasts_regroup_bytes() {
    let words = UOp::param(0, DType::U32, [2].as_slice());
    let leaf = |_: &UOp| vec![Const::UInt(0x0403_0201), Const::UInt(0x0807_0605)];
    let bytes = evaluate(&words.bitcast(DType::U8), &leaf);
    assert_eq!(bytes, (1..=8).map(Const::UInt).collect::<Vec<_>>());
    assert_eq!(evaluate(&words.bitcast(DType::U64), &leaf), [Const::UInt(0x0807_0605_0403_0201)]);
}
