//! Writes through every kind of target: parts of all shapes, views of views, values that nobody has computed yet.

use super::{elsewhere, floats, ints, iota, item};
use kiln::{DType, Indices, Tensor, s};

/// What a plain loop would write: `value(k)` to the flat positions that `index` picks.
fn check(shape: &[usize], index: Indices, value: impl Fn(&Tensor) -> Tensor, scalar: Option<f32>) {
    let n: usize = shape.iter().product();
    let positions = ints(&Tensor::arange(n).reshape(shape).copy().get(index.clone()));
    for base in 0..3 {
        let t = match base {
            0 => Tensor::zeros(shape),
            1 => Tensor::from(vec![0.0f32; n]).reshape(shape),
            _ => Tensor::from(vec![1.0f32; n]).reshape(shape) - 1.0,
        };
        let target = t.get(index.clone());
        let value = value(&target);
        let written = floats(&value.expand(target.shape()));
        match scalar {
            Some(x) => t.set(index.clone(), x),
            None => t.set(index.clone(), &value),
        }
        let mut expected = vec![0.0; n];
        positions.iter().zip(written).for_each(|(&at, x)| expected[at as usize] = x);
        assert_eq!(floats(&t), expected, "{index:?} of {shape:?}");
    }
}

fn numbers(index: Indices, shape: &[usize]) {
    check(shape, index, |target| iota(target.numel()).reshape(target.shape()) + 1.0, None);
}

fn scalar(index: Indices, shape: &[usize]) {
    check(shape, index, |_| Tensor::from(4.0f32), Some(4.0));
}

/// `test_simple_setitem`
#[test]
fn parts_of_every_shape() {
    numbers(s![2..4, 3..5], &[6, 6]);
    check(&[6, 6], s![2..4, 3..5], |_| Tensor::from([1.0f32, 2.0]), None);
    check(&[6, 6], s![2..4, 3..5], |_| Tensor::from([[1.0f32], [2.0]]), None);
    scalar(s![2..4, 3..5], &[6, 6]);
    scalar(s![3, 4], &[6, 6]);
    scalar(s![3, NewAxis, 4, NewAxis], &[6, 6]);
    check(&[4, 4, 4, 4], s![..., 1..3, ..], |_| Tensor::from(4.0f32), None);
    scalar(s![..., 1..3], &[4, 4, 4, 4]);
    scalar(s![2, 1..3, NewAxis, 1], &[4, 4, 4, 4]);
    numbers(s![1..3, .., 0..4;2], &[4, 4, 4, 4]);
    numbers(s![1..3, .., .., 0..3], &[4, 4, 4, 4]);
    numbers(s![1..5;2, 0..5;3], &[6, 6]);
    numbers(s![5..1;-2, 5..0;-3], &[6, 6]);
    numbers(s![..;-1], &[5, 2]);
    numbers(s![-3..-1, -1], &[5, 2]);
    numbers(s![3..3], &[5]);
    numbers(s![...], &[2, 3]);
}

/// `test_padded_setitem`
#[test]
fn a_negative_step_of_a_counting_tensor() {
    let t = Tensor::arange(10);
    t.set(s![4..1;-2], 11);
    assert_eq!(ints(&t), [0, 1, 11, 3, 11, 5, 6, 7, 8, 9]);
}

/// `test_setitem_inplace_mul`, `test_setitem_inplace_operator`, `test_setitem_consecutive_inplace_operator`
#[test]
fn operators_write_to_parts() {
    let t = Tensor::arange(10);
    t.realize().unwrap();
    let mut head = t.get(s![..3]);
    head *= 10;
    assert_eq!(ints(&t), [0, 10, 20, 3, 4, 5, 6, 7, 8, 9]);
    let row = |change: fn(Tensor)| {
        let t = Tensor::arange_with(4, DType::F32).reshape([2, 2]).contiguous();
        change(t.get(s![1]));
        floats(&t)
    };
    assert_eq!(row(|mut r| r += 2), [0.0, 1.0, 4.0, 5.0]);
    assert_eq!(row(|mut r| r -= 1), [0.0, 1.0, 1.0, 2.0]);
    assert_eq!(row(|mut r| r *= 2), [0.0, 1.0, 4.0, 6.0]);
    assert_eq!(row(|mut r| r /= 2), [0.0, 1.0, 1.0, 1.5]);
    assert_eq!(row(|r| drop(r.assign(r.pow(2)))), [0.0, 1.0, 4.0, 9.0]);
    let both = row(|mut r| {
        r += 2;
        r -= 1;
    });
    assert_eq!(both, [0.0, 1.0, 3.0, 4.0]);
    let t = Tensor::arange(4).reshape([2, 2]).contiguous();
    let mut last = t.get(s![1]);
    last ^= 5;
    assert_eq!(ints(&t), [0, 1, 7, 6]);
}

/// `test_setitem_chained_indexing`, `test_setitem_detach`, `test_setitem_permute`, `test_setitem_flip`
#[test]
fn views_of_views_are_targets() {
    let t = Tensor::from([[0.0f32; 3]; 2]);
    t.get(s![1]).set(s![2], 5.0);
    t.detach().set(s![0, 0], 6.0);
    t.permute([1, 0]).set(s![1, 0], 7.0);
    t.flip([0, 1]).set(s![0, 1], 8.0);
    t.reshape([3, 2]).get(s![1]).reshape([2, 1]).set(s![0, 0], 9.0);
    t.get(s![.., ..;-1]).get(s![1..]).get(s![0, ..;2]).set(s![1], 4.0);
    assert_eq!(floats(&t), [6.0, 7.0, 9.0, 4.0, 8.0, 5.0]);
}

/// Seed of the project: what is written through a permutation is read through it, in either order.
#[test]
fn assign_through_a_permutation() {
    for base_first in [false, true] {
        for empty in [false, true] {
            let a = if empty { Tensor::empty([4, 4]) } else { iota(16).reshape([4, 4]) };
            let b = iota(16).reshape([4, 4]) * 10.0;
            let ret = a.permute([1, 0]).assign(&b);
            let transposed = floats(&b.permute([1, 0]));
            if base_first {
                assert_eq!(floats(&a), transposed);
            }
            assert_eq!(floats(&ret), floats(&b));
            assert_eq!(floats(&a), transposed);
        }
    }
}

/// `test_assign_permuted_view_constant`, `test_assign_shrink_view_constant`
#[test]
fn assign_to_views_of_data() {
    let t = iota(6).reshape([2, 3]);
    t.permute([1, 0]).assign(&Tensor::from([[5.0f32, 6.0], [7.0, 8.0], [9.0, 10.0]]));
    assert_eq!(floats(&t), [5.0, 7.0, 9.0, 6.0, 8.0, 10.0]);
    let t = iota(9).reshape([3, 3]);
    t.get(s![1..3, 1..3]).assign(&Tensor::ones([2, 2]));
    assert_eq!(floats(&t), [0.0, 1.0, 2.0, 3.0, 1.0, 1.0, 6.0, 1.0, 1.0]);
}

/// `test_assign_bitcast`
#[test]
fn assign_through_a_bitcast() {
    let bits = [0x4080_0000u32, 0x4040_0000, 0x4000_0000, 0x3f80_0000];
    let start = || Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let a = start();
    a.bitcast(DType::U32).assign(&Tensor::from(bits));
    assert_eq!(floats(&a), [4.0, 3.0, 2.0, 1.0]);
    let b = start();
    b.bitcast(DType::U32).bitcast(DType::I32).assign(&Tensor::from(bits.map(|b| b as i32)));
    assert_eq!(floats(&b), [4.0, 3.0, 2.0, 1.0]);
    let c = start();
    c.get(s![0..2]).bitcast(DType::U32).assign(&Tensor::from([bits[0], bits[1]]));
    assert_eq!(floats(&c), [4.0, 3.0, 3.0, 4.0]);
    let d = start();
    d.bitcast(DType::U32).get(s![..;-3]).assign(&Tensor::from([bits[1], bits[3]]));
    assert_eq!(floats(&d), [1.0, 2.0, 3.0, 3.0]);
}

/// What is read and what is written are of different sizes: it is bytes that overlap.
#[test]
fn assign_through_a_bitcast_what_is_read_beside() {
    let v = Tensor::from([[8, -2], [7, 9]]);
    v.bitcast(DType::U8).set(s![1.., -4..0;-1], v.reshape([1, 4]).cast(DType::U8));
    assert_eq!(ints(&v), [8, -2, i32::from_le_bytes([7, 9, 7, 254]), 8]);
}

/// `test_assign_bitcast_different_size`
#[test]
fn assign_through_a_bitcast_of_different_size() {
    let a = Tensor::from([0u8; 8]);
    a.bitcast(DType::I64).assign(&Tensor::from([12345i64]));
    assert_eq!(ints(&a), [0x39, 0x30, 0, 0, 0, 0, 0, 0]);
    a.bitcast(DType::U16).set(s![1..3], 0x0102);
    assert_eq!(ints(&a), [0x39, 0x30, 2, 1, 2, 1, 0, 0]);
    let wide = Tensor::from([-1i64, 0]);
    wide.bitcast(DType::U8).reshape([2, 8]).set(s![.., 1], 0);
    assert_eq!(wide.to_vec::<i64>().unwrap(), [-1 - 0xff00, 0]);
    let part = Tensor::from([0u8; 12]);
    part.get(s![2..10]).bitcast(DType::U32).set(s![1], 0x0403_0201);
    assert_eq!(ints(&part), [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0]);
}

fn column_of_ones(t: &Tensor) -> Vec<i32> {
    t.get(s![.., 1..2]).assign(&Tensor::from([[1], [1]]));
    ints(t)
}

/// `TestAssignToUnrealizedView`, but for the constant, which is in `views`.
mod unrealized_view {
    use super::*;

    fn square() -> Tensor {
        Tensor::from([[1, 2], [3, 4]])
    }

    #[test]
    fn copy() {
        assert_eq!(column_of_ones(&square().to(&elsewhere()).to(square().device())), [1, 1, 3, 1]);
        let original = square();
        assert_eq!(column_of_ones(&original.copy()), [1, 1, 3, 1]);
        assert_eq!(ints(&original), [1, 2, 3, 4]);
    }

    #[test]
    fn contiguous() {
        assert_eq!(column_of_ones(&square().permute([1, 0]).contiguous()), [1, 1, 2, 1]);
    }

    /// `test_contiguous_partial_assign_realize`
    #[test]
    fn contiguous_with_partial_assigns_and_realizes() {
        let y = (Tensor::from([1.0f32, 2.0]) + 1.0).contiguous();
        for value in [9.0, 7.0] {
            y.get(s![..1]).assign(value);
            y.realize().unwrap();
            assert_eq!(floats(&y), [value, 3.0]);
        }
    }

    /// `test_contiguous_backward`: here there is one kind only.
    #[test]
    fn contiguous_of_something_contiguous() {
        let original = square();
        assert_eq!(column_of_ones(&original.contiguous()), [1, 1, 3, 1]);
        assert_eq!(ints(&original), [1, 2, 3, 4]);
    }

    #[test]
    fn detach_copy() {
        assert_eq!(column_of_ones(&square().copy().detach()), [1, 1, 3, 1]);
    }

    #[test]
    fn detach_contiguous() {
        assert_eq!(column_of_ones(&square().permute([1, 0]).contiguous().detach()), [1, 1, 2, 1]);
    }

    #[test]
    fn alu() {
        let (a, b) = (Tensor::from([1, 2, 3, 4]), Tensor::from([5, 6, 7, 8]));
        let c = &a + &b;
        c.get(s![..2]).assign(&Tensor::from([99, 99]));
        assert_eq!(ints(&c), [99, 99, 10, 12]);
        assert_eq!(ints(&(&a + &b)), [6, 8, 10, 12]);
    }

    #[test]
    fn reduce() {
        let r = square().sum(0);
        r.get(s![..1]).assign(&Tensor::from([99]));
        assert_eq!(ints(&r), [99, 6]);
    }

    #[test]
    fn cast() {
        let c = Tensor::from([1, 2, 3, 4]).cast(DType::F32);
        c.get(s![..2]).assign(&Tensor::from([99.0f32, 99.0]));
        assert_eq!(floats(&c), [99.0, 99.0, 3.0, 4.0]);
    }
}

/// `TestPartialAssignToSharedBuffer`
#[test]
fn many_views_of_one_storage_are_updated() {
    let shapes = [[3usize, 4], [4, 6], [6, 4], [2, 5], [4, 3]];
    let big = Tensor::from(vec![0.0f32; 100]);
    let mut at = 0;
    let views = shapes.map(|shape| {
        let n = shape[0] * shape[1];
        at += n;
        big.get(s![at - n..at]).reshape(shape)
    });
    for (i, v) in views.iter().enumerate() {
        v.assign(v + (i + 1));
    }
    kiln::realize(&views).unwrap();
    for (i, v) in views.iter().enumerate() {
        assert_eq!(floats(v), vec![(i + 1) as f32; v.numel()]);
    }
    let sum: usize = shapes.iter().enumerate().map(|(i, s)| (i + 1) * s[0] * s[1]).sum();
    assert_eq!(item(&big.sum(..)), sum as f32);
}
