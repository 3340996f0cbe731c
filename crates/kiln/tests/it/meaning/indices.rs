//! Indices that are tensors or lists: what they pick is a value, what is written to them is written last to first.

use super::{filled, floats, ints, iota, item, kernels, why};
use kiln::{DType, Tensor, s};

/// An index tensor whose numbers only computing tells.
fn unknown(numbers: &[i32]) -> Tensor {
    Tensor::from(numbers) * 2 - Tensor::from(numbers)
}

#[test]
fn setitem_overlapping_indices() {
    for value in [[5, 6], [0, 1], [1, 0]] {
        let t = Tensor::from([1, 2, 3, 4]);
        t.set(s![[1, 1]], Tensor::from(value));
        assert_eq!(ints(&t), [1, value[1], 3, 4]);
        t.set(s![unknown(&[3, 0, 3])], Tensor::from([7, 8, 9]));
        assert_eq!(ints(&t), [8, value[1], 3, 9]);
    }
}

#[test]
fn the_last_of_many_equal_positions_wins() {
    let t = Tensor::zeros_with([3], DType::I32);
    let at: Vec<i32> = (0..1000).map(|i| i % 3).collect();
    t.set(s![unknown(&at)], Tensor::arange(1000));
    assert_eq!(ints(&t), [999, 997, 998]);
}

#[test]
fn setitem_with_1_in_shape() {
    let t = Tensor::from([[1], [2], [3]]);
    t.set(s![[0, 0]], Tensor::from([[1], [2]]));
    assert_eq!(ints(&t), [2, 2, 3]);
}

#[test]
fn fancy_setitem() {
    let t = Tensor::zeros([6, 6]);
    t.set(s![[1, 2], [3, 2]], 3);
    let mut expected = [0.0; 36];
    (expected[9], expected[14]) = (3.0, 3.0);
    assert_eq!(floats(&t), expected);
}

#[test]
fn setitem_big() {
    for realized in [false, true] {
        let t = Tensor::arange(257);
        let at = Tensor::arange(256);
        if realized {
            kiln::realize([&t, &at]).unwrap();
        }
        t.set(s![&at], 4);
        let mut expected = vec![4; 256];
        expected.push(256);
        assert_eq!(ints(&t), expected);
    }
}

#[test]
fn setitem_big_is_one_kernel() {
    let (t, at) = (Tensor::from(vec![0; 257]), Tensor::from((0..256).collect::<Vec<i32>>()));
    t.set(s![&at], 4);
    assert_eq!(kernels([&t]), 1);
}

#[test]
fn setitem_2d_tensor_indexing() {
    let t = Tensor::zeros_with([2], DType::I32);
    t.set(s![Tensor::from([[0, 1], [1, 0]])], Tensor::arange(4).reshape([2, 2]));
    assert_eq!(ints(&t), [3, 2]);
}

/// Two index tensors with a slice between them: their common shape comes first.
#[test]
fn setitem_advanced_indexing() {
    let shape = [3usize, 9, 2, 6, 4];
    let (first, second) = ([5usize, 3, 7, 8], [[[0usize], [1], [2]], [[3], [4], [5]]]);
    let v = Tensor::arange(2 * 3 * 4 * 3 * 2 * 4).reshape([2, 3, 4, 3, 2, 4]);
    let t = Tensor::zeros_with(shape, DType::I32);
    let as_i32 = |x: &[usize]| x.iter().map(|&i| i as i32).collect::<Vec<_>>();
    let at1 = Tensor::from(as_i32(&first));
    let at2 = Tensor::from(as_i32(second.as_flattened().as_flattened())).reshape([2, 3, 1]);
    t.set(s![.., &at1, .., &at2, ..], &v);
    let mut expected = vec![0; shape.iter().product()];
    let (mut k, lines) = (0, second.iter().flatten().map(|line| line[0]));
    for (d, b) in lines.flat_map(|d| first.map(|b| (d, b))) {
        for (a, c) in (0..3).flat_map(|a| (0..2).map(move |c| (a, c))) {
            for e in 0..4 {
                expected[(((a * 9 + b) * 2 + c) * 6 + d) * 4 + e] = k;
                k += 1;
            }
        }
    }
    assert_eq!(ints(&t), expected);
    assert_eq!(ints(&t.get(s![.., &at1, .., &at2, ..])), ints(&v));
}

#[test]
fn setitem_fancy_on_unrealized_view() {
    let base = Tensor::arange_with(20, DType::F32).reshape([4, 5]);
    let part = base.get(s![1..3]);
    let flat = part.reshape([10]).contiguous();
    flat.set(s![Tensor::from([0, 3, 7, 9])], Tensor::from([99.0f32, 98.0, 97.0, 96.0]));
    part.assign(flat.reshape([2, 5]));
    assert_eq!(floats(&part), [99.0, 6.0, 7.0, 98.0, 9.0, 10.0, 11.0, 97.0, 13.0, 96.0]);
    assert_eq!(floats(&base)[4..7], [4.0, 99.0, 6.0]);
}

#[test]
fn writes_by_index_go_through_views() {
    let t = iota(6).reshape([2, 3]);
    t.permute([1, 0]).flip(0).set(s![[0, 2]], Tensor::from([[20.0f32, 50.0], [0.5, 30.0]]));
    assert_eq!(floats(&t), [0.5, 1.0, 20.0, 30.0, 4.0, 50.0]);
    let wide = Tensor::from([1, 2, 3]).expand([4, 3]);
    assert!(wide.try_set(s![[0, 1]], 0).is_err());
}

#[test]
fn what_an_index_picks_is_a_value() {
    let t = iota(4);
    let picked = t.get(s![[3, 1]]);
    let masked = t.get(s![t.gt(1.0)]);
    t.assign(9.0);
    picked.set(s![0], -1.0);
    assert_eq!((floats(&picked), floats(&masked)), (vec![-1.0, 1.0], vec![2.0, 3.0]));
    assert_eq!(floats(&t), [9.0; 4]);
}

#[test]
fn an_index_is_read_when_its_line_runs() {
    let (t, at) = (Tensor::from([0; 4]), Tensor::from([1, 2]));
    t.set(s![&at], 5);
    at.assign(3);
    t.set(s![&at], 7);
    at.assign(0);
    assert_eq!(ints(&t), [0, 5, 5, 7]);
    // the target, the index and the value are one storage
    let p = Tensor::from([2, 0, 1]);
    p.set(s![&p], &p);
    assert_eq!(ints(&p), [0, 1, 2]);
}

#[test]
fn lazy_sums_between_writes_by_index() {
    let t = filled(6, 0.0);
    let s0 = t.sum(..);
    t.set(s![unknown(&[0, 1, 2])], 1.0);
    let s1 = t.sum(..);
    t.set(s![t.eq(0.0)], 2.0);
    let s2 = t.sum(..);
    t.set(s![[5, 4]], Tensor::from([10.0f32, 20.0]));
    assert_eq!([item(&s2), item(&s1), item(&s0)], [9.0, 3.0, 0.0]);
    assert_eq!(floats(&t), [1.0, 1.0, 1.0, 2.0, 20.0, 10.0]);
}

#[test]
fn a_loop_of_writes_by_index() {
    let t = Tensor::empty_with([30], DType::I32);
    let mut expected = vec![0; 30];
    for i in 0..20 {
        let at = [i, i * 7 % 30, 29 - i];
        t.set(s![at], Tensor::from([i, 100 + i, 200 + i]));
        (0..3).for_each(|k| expected[at[k] as usize] = k as i32 * 100 + i);
    }
    assert_eq!(ints(&t), expected);
}

/// Positions that are not there.
mod out_of_range {
    use super::*;

    #[test]
    fn known_ones_are_an_error_at_their_line() {
        let t = iota(3);
        for index in [s![[0, 3]], s![[-4]], s![Tensor::from([1, 7])]] {
            let error = why(t.try_set(index.clone(), 9.0));
            assert!(error.contains("out of range") && error.contains("indices.rs"), "{error}");
            assert!(t.get(index).error().is_some());
        }
        assert_eq!(floats(&t), [0.0, 1.0, 2.0]);
        t.set(s![[-1]], 5.0);
        assert_eq!(floats(&t), [0.0, 1.0, 5.0]);
    }

    #[test]
    fn unknown_ones_are_an_error_where_they_are_computed() {
        let t = iota(3);
        t.set(s![unknown(&[1, 3])], 9.0);
        assert!(t.realize().is_err());
        let read = iota(3).get(s![unknown(&[0, -4])]);
        assert!(read.to_vec::<f32>().is_err());
        // neighbours in memory are as they were
        let (a, b) = (iota(3), iota(3));
        a.set(s![unknown(&[1 << 20, -(1 << 20)])], 9.0);
        assert!(a.realize().is_err());
        assert_eq!(floats(&b), [0.0, 1.0, 2.0]);
    }
}

#[test]
fn gradients_go_to_the_last_of_equal_positions() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]).set_requires_grad(true);
    let base = Tensor::from([5.0f32; 4]).set_requires_grad(true);
    let z = &base * 1.0;
    z.set(s![unknown(&[2, 0, 2])], &x);
    (&z * &iota(4)).sum(..).backward().unwrap();
    assert_eq!(floats(&x.grad().unwrap()), [0.0, 0.0, 2.0]);
    assert_eq!(floats(&base.grad().unwrap()), [0.0, 1.0, 0.0, 3.0]);
    let table = iota(3).set_requires_grad(true);
    table.get(s![[1, 1, 2]]).sum(..).backward().unwrap();
    assert_eq!(floats(&table.grad().unwrap()), [0.0, 2.0, 1.0]);
}

/// Of writes to one place the last counts, and has the gradient, however short the axis is and whoever says the places.
#[test]
fn the_last_of_equal_positions_has_the_gradient() {
    for (len, places) in [(1, [0, 0, 0]), (1, [0, -1, 0]), (2, [1, 1, 1]), (4, [3, 1, 3])] {
        let last = |i: usize| {
            let place = |p: i32| p.rem_euclid(len as i32);
            !places[i + 1..].iter().any(|&p| place(p) == place(places[i]))
        };
        let expected: Vec<f32> = (0..3).flat_map(|i| [f32::from(last(i)); 2]).collect();
        let index = Tensor::from(places);
        let known = |base: &Tensor, x: &Tensor| base.set(s![places.to_vec()], x);
        let data = |base: &Tensor, x: &Tensor| base.set(s![&index], x);
        let computed = |base: &Tensor, x: &Tensor| base.set(s![&index * 1], x);
        let across = |base: &Tensor, x: &Tensor| {
            base.transpose(0, 1).set(s![.., &index], x.transpose(0, 1));
        };
        let scattered = |base: &Tensor, x: &Tensor| {
            let at = index.unsqueeze(1).expand([3, 2]);
            base.assign(base.scatter(0, &at, x));
        };
        type Way<'a> = &'a dyn Fn(&Tensor, &Tensor);
        let ways: [Way<'_>; 5] = [&known, &data, &computed, &across, &scattered];
        for (way, write) in ways.iter().enumerate() {
            let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]).set_requires_grad(true);
            let w = Tensor::from(vec![7.0f32; 2 * len]).reshape([len, 2]).set_requires_grad(true);
            let base = &w * 1.0;
            write(&base, &x);
            let grads = base.sum(..).gradient([&x, &w]).expect("reached");
            assert_eq!(floats(&grads[0]), expected, "{places:?} along {len}, way {way}");
            let overwritten =
                |i: &usize| places.iter().any(|p| p.rem_euclid(len as i32) == *i as i32);
            let kept: Vec<f32> = (0..len).flat_map(|i| [f32::from(!overwritten(&i)); 2]).collect();
            assert_eq!(floats(&grads[1]), kept, "{places:?} along {len}, way {way}");
            let values = floats(&base);
            let at = |i: usize| 2 * places[i].rem_euclid(len as i32) as usize;
            assert_eq!(values[at(2)..at(2) + 2], [5.0, 6.0], "{places:?} along {len}, way {way}");
        }
    }
}
