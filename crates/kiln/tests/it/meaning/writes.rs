//! Writes: what fits into what, what an invalid one leaves behind, and empty regions.

use super::{filled, floats, ints, iota, why};
use half::f16;
use kiln::{DType, Tensor, s};

/// `test_setitem_dtype`
#[test]
fn a_scalar_takes_the_dtype_of_the_target() {
    for dtype in [DType::I32, DType::F32, DType::Bool, DType::U8, DType::F64] {
        let t = Tensor::zeros_with([3, 2], dtype).contiguous();
        t.set(s![0], 5.9);
        t.set(s![1], 5);
        t.set(s![2], true);
        assert_eq!(t.dtype(), dtype);
        let (float, int) = match dtype {
            DType::Bool => (1.0, 1.0),
            DType::F32 | DType::F64 => (5.9, 5.0),
            _ => (5.0, 5.0),
        };
        assert_eq!(floats(&t), [float, float, int, int, 1.0, 1.0]);
    }
}

/// `test_setitem_dtype_mismatch`, `test_assign_dtype_mismatch`: what promotion would widen goes in, nothing else.
#[test]
fn a_tensor_takes_the_dtype_of_the_target_only_if_that_is_wider() {
    let t = Tensor::from([0.0f32; 6]);
    t.set(s![2..4], Tensor::from([1, 2]));
    t.set(s![4..], Tensor::from([true, true]));
    assert_eq!(floats(&t), [0.0, 0.0, 1.0, 2.0, 1.0, 1.0]);
    let i = Tensor::from([0i32; 2]);
    for value in [
        Tensor::from([1.0f32, 2.0]),
        Tensor::from([1i64, 2]),
        Tensor::from([1u32, 2]),
        Tensor::from([f16::ONE, f16::ONE]),
    ] {
        let error = why(i.try_assign(&value));
        assert!(error.contains("does not go into i32"), "{error}");
        assert!(i.try_set(s![..], &value).is_err());
    }
    i.assign(&Tensor::from([-3i8, 4]));
    assert_eq!(ints(&i), [-3, 4]);
}

/// `test_setitem_half`
#[test]
fn halves_are_written() {
    let a = Tensor::full_with([8], 1.0, DType::F16).contiguous();
    let ret = a.get(s![..4]).assign(&Tensor::full_with([4], 2.0, DType::F16));
    assert_eq!(floats(&ret), [2.0; 4]);
    assert_eq!(floats(&a), [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
}

/// `test_assign_shape_broadcast`, `test_assign_shape_broadcast_2d`, `test_setitem_list`
#[test]
fn a_value_is_broadcast() {
    let row = [1.0f32, 2.0, 3.0, 4.0, 5.0];
    let a = filled(15, 0.0).reshape([3, 5]);
    a.assign(&Tensor::from(row));
    assert_eq!(floats(&a), row.repeat(3));
    a.assign(&Tensor::from([row]) * 2.0);
    assert_eq!(floats(&a), row.map(|x| 2.0 * x).repeat(3));
    a.set(s![.., 1..3], Tensor::from([[7.0f32], [8.0], [9.0]]));
    assert_eq!(floats(&a)[5..10], [2.0, 8.0, 8.0, 8.0, 10.0]);
    a.set(s![2], Tensor::from(0.5f32));
    assert_eq!(floats(&a)[10..], [0.5; 5]);
    let list = filled(8, 0.0);
    list.set(s![2..5], Tensor::from([1, 2, 3]));
    assert_eq!(floats(&list), [0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
    for value in [Tensor::ones([4]), Tensor::ones([2, 3, 5]), Tensor::ones([3, 1, 5])] {
        let error = why(a.try_assign(&value));
        assert!(error.contains("[3, 5]"), "{error}");
    }
}

#[test]
fn assign_gives_back_its_target() {
    let t = iota(4);
    let ret = t.get(s![..2]).assign(9.0);
    ret.set(s![1], 8.0);
    assert_eq!((floats(&ret), floats(&t)), (vec![9.0, 8.0], vec![9.0, 8.0, 2.0, 3.0]));
}

#[test]
fn a_value_that_aliases_its_target_is_read_first() {
    let t = iota(4);
    t.assign(&t);
    assert_eq!(floats(&t), [0.0, 1.0, 2.0, 3.0]);
    t.set(s![1..3], t.get(s![..2]));
    t.set(s![0], t.get(s![3]));
    assert_eq!(floats(&t), [3.0, 0.0, 1.0, 3.0]);
    let mut u = t.clone();
    u += t.flip(0);
    assert_eq!(floats(&t), [6.0, 1.0, 1.0, 6.0]);
}

#[test]
fn regions_of_no_elements_write_nothing() {
    let t = iota(4);
    t.set(s![2..2], 9.0);
    t.set(s![3..1], Tensor::zeros([0]));
    t.get(s![4..]).assign(7.0);
    assert_eq!((kiln::measure(|| floats(&t)).1.kernels, floats(&t)), (0, vec![0.0, 1.0, 2.0, 3.0]));
    let nothing = Tensor::zeros([0, 3]);
    nothing.set(s![.., 1], 2.0);
    nothing.assign(1.0);
    assert_eq!(floats(&nothing), [0.0f32; 0]);
    let error = why(t.try_set(s![2..2], Tensor::zeros([2])));
    assert!(error.contains("does not fit"), "{error}");
}

#[test]
fn a_scalar_tensor_is_a_target() {
    let x = Tensor::from(1.0f32);
    x.set(s![], 2.0);
    x.assign(&x * 3.0);
    assert_eq!(floats(&x), [6.0]);
}

/// What an invalid write leaves behind.
mod invalid {
    use super::*;

    #[test]
    fn the_data_stays_and_later_reads_return_the_error() {
        let t = Tensor::from([1, 2]);
        let (alias, before) = (t.flip(0), &t + 1);
        t.set(s![9], 0);
        for tensor in [&t, &alias, &(&t * 2), &alias.get(s![0])] {
            let error = why(tensor.to_vec::<i32>());
            assert!(error.starts_with("set: index 9 is out of range"), "{error}");
            assert!(error.contains("writes.rs"), "{error}");
        }
        assert_eq!(ints(&before), [2, 3]);
        // the second error is not the first
        t.assign(&Tensor::from([1.0f32, 2.0]));
        assert!(why(t.to_vec::<i32>()).starts_with("set: index 9"));
        t.clear_error();
        assert_eq!(ints(&alias), [2, 1]);
    }

    #[test]
    fn writes_to_part_of_it_are_lost_until_it_is_cleared() {
        let t = Tensor::from([1, 2]);
        t.set(s![9], 0);
        t.set(s![0], 5);
        assert!(t.error().is_some());
        t.clear_error();
        assert_eq!(ints(&t), [1, 2]);
    }

    #[test]
    fn assigning_all_of_it_ends_the_error() {
        for view in [|t: &Tensor| t.clone(), |t: &Tensor| t.reshape([2, 1]).flip(0)] {
            let t = Tensor::from([1, 2]);
            t.set(s![9], 0);
            view(&t).assign(7);
            assert_eq!(ints(&t), [7, 7]);
        }
    }

    #[test]
    fn try_changes_nothing() {
        let t = Tensor::from([1, 2]);
        assert!(t.try_set(s![2], 0).is_err());
        assert!(t.try_set(s![0, 0], 0).is_err());
        assert!(t.try_assign(&Tensor::zeros([3])).is_err());
        assert!(t.try_assign(&Tensor::from([1]).reshape([7])).is_err());
        assert!(t.error().is_none());
        assert!(t.try_set(s![1], 5).is_ok());
        assert_eq!(ints(&t), [1, 5]);
    }

    #[test]
    fn an_invalid_value_is_an_invalid_write() {
        let t = Tensor::from([1, 2]);
        t.set(s![0], Tensor::from([1, 2]).reshape([3]));
        assert!(why(t.to_vec::<i32>()).starts_with("reshape:"));
    }

    #[test]
    fn nothing_panics_on_a_tensor_that_carries_an_error() {
        let t = Tensor::from([[1, 2], [3, 4]]);
        t.set(s![5], 0);
        assert_eq!((t.shape(), t.dtype(), t.ndim()), (&[2, 2][..], DType::I32, 2));
        let broken = Tensor::from([1, 2]).reshape([3]);
        assert_eq!((broken.shape(), broken.dtype()), (&[][..], DType::F32));
        assert_eq!(broken.device(), &kiln::Device::default_device());
        broken.set(s![0], 1);
        broken.assign(2);
        broken.clear_error();
        assert!(broken.error().is_some());
        for bad in [&t, &broken] {
            assert!(bad.get(s![0]).permute([4, 5]).sum(9).backward().is_err());
            assert!(bad.realize().is_err() && bad.item::<i32>().is_err());
            assert!(format!("{bad} {bad:?}").len() > 2);
        }
    }
}
