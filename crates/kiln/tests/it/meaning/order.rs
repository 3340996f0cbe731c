//! Reads and writes in their order, whichever is computed first: the rows in which lazy frameworks give another value
//! than their eager selves, or refuse.

use super::{filled, floats, ints, iota, item, kernels};
use kiln::{DType, Tensor, realize, s};

#[test]
fn lazy_sum_between_writes() {
    let t = Tensor::zeros([6]).contiguous();
    t.realize().unwrap();
    let s0 = t.sum(..);
    t.get(s![..3]).assign(1.0);
    let s1 = t.sum(..);
    t.get(s![3..]).assign(2.0);
    let s2 = t.sum(..);
    assert_eq!([item(&s0), item(&s1), item(&s2)], [0.0, 3.0, 9.0]);
}

#[test]
fn cross_assign_independence() {
    let (a, b) = (iota(4), iota(4) + 4.0);
    let (new_a, new_b) = (&a + &b, &a * 2.0);
    a.assign(&new_a);
    b.assign(&new_b);
    assert_eq!(floats(&a), [4.0, 6.0, 8.0, 10.0]);
    assert_eq!(floats(&b), [0.0, 2.0, 4.0, 6.0]);
}

#[test]
fn write_read_write_chain() {
    let t = filled(4, 0.0);
    t.assign(Tensor::ones([4]) * 3.0);
    let middle = t.sum(..);
    t.assign(Tensor::ones([4]) * 5.0);
    let last = t.sum(..);
    // the last one first
    assert_eq!(item(&last), 20.0);
    assert_eq!(item(&middle), 12.0);
}

#[test]
fn read_between_writes() {
    let t = filled(4, 0.0);
    t.assign(1.0);
    let r1 = t.sum(..);
    r1.realize().unwrap();
    t.assign(2.0);
    let r2 = t.sum(..);
    assert_eq!([item(&r1), item(&r2)], [4.0, 8.0]);
}

#[test]
fn swap_slices() {
    for (now, between) in [(false, false), (true, false), (false, true), (true, true)] {
        let t = Tensor::from([1, 2, 3, 4, 5, 6, 7, 8]);
        let (left, right) = (t.get(s![..4]).copy(), t.get(s![4..]).copy());
        if now {
            realize([&left, &right]).unwrap();
        }
        t.get(s![..4]).assign(&right);
        if between {
            t.realize().unwrap();
        }
        t.get(s![4..]).assign(&left);
        assert_eq!(ints(&t), [5, 6, 7, 8, 1, 2, 3, 4]);
    }
}

/// Without copies the second write reads what the first has written, as eager code does: `test_setitem_swap_rows`.
#[test]
fn swap_rows_through_a_view() {
    let t = iota(6).reshape([3, 2]);
    let row = t.get(s![0]);
    t.set(s![0], t.get(s![1]));
    t.set(s![2], &row);
    assert_eq!(floats(&t), [2.0, 3.0, 2.0, 3.0, 2.0, 3.0]);
}

#[test]
fn war_reader_already_depends_on_write() {
    let (x, y) = (filled(1, 1.0), filled(1, 2.0));
    let before = &x + 10.0;
    x.assign(&x * 2.0);
    y.assign(&y + &x);
    let z = &y + &before;
    realize([&x, &y, &z]).unwrap();
    assert_eq!([item(&x), item(&y), item(&z)], [2.0, 4.0, 15.0]);
}

/// tinygrad issue 17074.
#[test]
fn a_reader_from_before_a_slice_assign() {
    for realized in [false, true] {
        let x = Tensor::from([1, 2]);
        let reader = &x + 10;
        x.get(s![..1]).assign(&Tensor::from([9]));
        if realized {
            x.realize().unwrap();
        }
        assert_eq!((ints(&reader), ints(&x)), (vec![11, 12], vec![9, 2]));
    }
}

#[test]
fn assign_diamond_cycle() {
    let a = filled(4, 1.0);
    let triple = &a * 3.0;
    a.assign(Tensor::full([4], 2.0).contiguous());
    let new = &a + (&triple - 1.0);
    assert_eq!(floats(&new), [4.0; 4]);
}

#[test]
fn assign_diamond_contiguous_cycle() {
    let a = filled(4, 1.0);
    let triple = &a * 3.0;
    a.assign(Tensor::full([4], 2.0));
    assert_eq!(floats(&(a.contiguous() + &triple - 1.0)), [4.0; 4]);
    let b = filled(4, 1.0);
    let triple = &b * 3.0;
    b.assign(Tensor::full([4], 2.0));
    assert_eq!(floats(&(b.contiguous() + (&triple - 1.0).contiguous())), [4.0; 4]);
}

#[test]
fn assign_diamond_alt() {
    let a = filled(4, 1.0);
    a.assign(Tensor::full([4], 2.0).contiguous());
    let triple = &a * 3.0;
    assert_eq!(floats(&(&a + &triple)), [8.0; 4]);
}

#[test]
fn crossunder_assign() {
    let (mut a, mut b) = (filled(4, 2.0), filled(4, 3.0));
    let c = &a + 9.0;
    a += &b;
    b += &c;
    realize([&a, &b]).unwrap();
    assert_eq!((floats(&a), floats(&b)), (vec![5.0; 4], vec![14.0; 4]));
}

#[test]
fn crossover_assign() {
    let (mut a, mut b) = (filled(4, 2.0), filled(4, 3.0));
    a += &b;
    b += &a;
    realize([&a, &b]).unwrap();
    assert_eq!((floats(&a), floats(&b)), (vec![5.0; 4], vec![8.0; 4]));
}

#[test]
fn assign_double_diamond() {
    let (mut a, mut b) = (filled(4, 2.0), filled(4, 3.0));
    let (a_before, b_before) = (&a * 4.0, &b + 3.0);
    b += a_before.contiguous();
    a += b_before.contiguous();
    realize([&a, &b]).unwrap();
    assert_eq!((floats(&a), floats(&b)), (vec![8.0; 4], vec![11.0; 4]));
}

#[test]
fn assign_double_diamond_reduce() {
    let matrix = |x: f32| filled(256, x).reshape([16, 16]);
    let (a0, a1, b0, b1) = (matrix(10.0), matrix(20.0), filled(16, 1.0), filled(16, 2.0));
    let r0 = (&a0 - b1.contiguous()).sum(1);
    let r1 = (&a1 - b0.contiguous()).sum(1);
    b0.assign(&r0 * &b0);
    b1.assign(&r1 * &b1);
    realize([&b0, &b1]).unwrap();
    assert_eq!((floats(&b0), floats(&b1)), (vec![128.0; 16], vec![608.0; 16]));
}

#[test]
fn two_buffers_cross_assign() {
    let (a, b) = (Tensor::from([1, 2, 3, 4]), Tensor::from([10, 20, 30, 40]));
    let (sum, product) = ((&a + &b).contiguous(), (&a * &b).contiguous());
    a.assign(&sum);
    b.assign(&product);
    realize([&a, &b]).unwrap();
    assert_eq!((ints(&a), ints(&b)), (vec![11, 22, 33, 44], vec![10, 40, 90, 160]));
}

#[test]
fn three_buffer_chain() {
    let (a, b) = (Tensor::from([0; 4]), Tensor::from([1, 2, 3, 4]));
    b.assign(&b + &Tensor::from([10; 4]));
    a.assign(&a + &b);
    realize([&a, &b]).unwrap();
    assert_eq!((ints(&a), ints(&b)), (vec![11, 12, 13, 14], vec![11, 12, 13, 14]));
}

#[test]
fn interleaved_assign_read_patterns() {
    let (a, b) = (Tensor::from([0; 4]), Tensor::from([0; 4]));
    a.assign(&Tensor::from([1, 2, 3, 4]));
    b.assign(&a);
    a.assign(&Tensor::from([5, 6, 7, 8]));
    let sum = b.sum(..);
    assert_eq!(sum.item::<i32>().unwrap(), 10);
    assert_eq!((ints(&a), ints(&b)), (vec![5, 6, 7, 8], vec![1, 2, 3, 4]));
}

#[test]
fn read_before_two_assigns() {
    let g = filled(2, 4.0);
    let before = &g + 1.0;
    g.assign(0.0);
    g.assign(&g + 4.0);
    assert_eq!(floats(&(&before + &g)), [9.0; 2]);
}

#[test]
fn read_between_two_assigns() {
    let (a, b) = (filled(4, 1.0), filled(4, 10.0));
    a.assign(&b + 1.0);
    let v = &a * 3.0;
    a.assign(&b + 100.0);
    assert_eq!(floats(&(&a + &v)), [143.0; 4]);
}

#[test]
fn two_reads_between_three_assigns() {
    let a = filled(4, 0.0);
    let first = &a + 100.0;
    a.assign(&Tensor::from([1.0f32, 2.0, 0.0, 0.0]));
    let second = &a + 0.0;
    a.assign(&a + 10.0);
    assert_eq!(floats(&(&first + &second + &a)), [112.0, 114.0, 110.0, 110.0]);
}

#[test]
fn read_before_slice_assign() {
    let a = filled(4, 1.0);
    let before = &a * 3.0;
    a.get(s![0..2]).assign(&Tensor::full([2], 2.0));
    assert_eq!(floats(&(&a + (&before - 1.0))), [4.0, 4.0, 3.0, 3.0]);
}

#[test]
fn read_before_assign_survives_a_realize() {
    let a = filled(4, 1.0);
    let before = &a * 3.0;
    a.assign(&Tensor::full([4], 5.0));
    a.realize().unwrap();
    assert_eq!((floats(&before), floats(&a)), (vec![3.0; 4], vec![5.0; 4]));
}

#[test]
fn slice_read_then_full_write() {
    let t = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let part = t.get(s![0..2]).sum(..);
    t.assign(Tensor::ones([4]) * 10.0);
    let full = t.sum(..);
    assert_eq!([item(&part), item(&full)], [3.0, 40.0]);
}

#[test]
fn overlapping_slice_assigns() {
    for reverse in [false, true] {
        let t = filled(8, 0.0);
        let write = |from: usize, value: f32| t.set(s![from..from + 4], Tensor::full([4], value));
        if reverse {
            write(2, 2.0);
            write(0, 1.0);
            assert_eq!(floats(&t), [1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 0.0, 0.0]);
        } else {
            write(0, 1.0);
            write(2, 2.0);
            assert_eq!(floats(&t), [1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]);
        }
    }
}

#[test]
fn reductions_after_a_partial_assign() {
    let t = filled(16, 0.0).reshape([4, 4]);
    t.set(s![0..2], Tensor::ones([2, 4]));
    assert_eq!(item(&t.sum(..)), 8.0);
    t.assign(iota(16).reshape([4, 4]));
    let (rows, columns, all) = (t.sum(1), t.sum(0), t.sum(..));
    assert_eq!(floats(&rows), [6.0, 22.0, 38.0, 54.0]);
    assert_eq!(floats(&columns), [24.0, 28.0, 32.0, 36.0]);
    assert_eq!(item(&all), 120.0);
}

/// The pattern of a language model's caches, layer after layer.
#[test]
fn chained_assign_slice_then_read() {
    let caches = [1.0, 2.0, 3.0].map(|x| {
        let cache = Tensor::zeros([8, 4]).contiguous();
        cache.set(s![..3], x);
        cache.realize().unwrap();
        cache
    });
    let mut x = Tensor::ones([1, 4]) * 10.0;
    for cache in &caches {
        cache.get(s![3..4]).assign(&x);
        x = cache.get(s![..4]).sum_keepdim(0);
    }
    // 3 + 10, 6 + 13, 9 + 19
    assert_eq!(floats(&x), [28.0; 4]);
}

#[test]
fn multi_step_assign_read_write_same_buffer() {
    let (mut b, m, p) = (filled(1, 0.5), filled(1, 0.0), filled(1, 1.0));
    let mut expected = (0.5f64, 0.0, 1.0);
    for _ in 0..10 {
        m.assign(&m * 0.9 + 0.1);
        p.assign(&p - &m / (1.0 - &b));
        b *= 0.9;
        realize([&p, &m, &b]).unwrap();
        expected.1 = 0.9 * expected.1 + 0.1;
        expected.2 -= expected.1 / (1.0 - expected.0);
        expected.0 *= 0.9;
    }
    assert!((f64::from(item(&p)) - expected.2).abs() < 1e-5);
}

#[test]
fn assign_add() {
    for steps in [1, 2, 10, 100] {
        let mut x = Tensor::from([0]);
        for _ in 0..steps {
            x += 1;
        }
        assert_eq!(ints(&x), [steps]);
        let y = Tensor::from([0, 0]);
        for _ in 0..steps {
            let mut first = y.get(s![0]);
            first += 1;
        }
        assert_eq!(ints(&y), [steps, 0]);
    }
}

#[test]
fn assign_zeros() {
    let zeros = || Tensor::zeros([10, 10]).contiguous();
    let a = zeros();
    a.assign(Tensor::ones([10, 10]));
    let b = zeros();
    a.realize().unwrap();
    assert_eq!(floats(&b), [0.0; 100]);
    let (c, d) = (zeros(), zeros());
    c.assign(Tensor::ones([10, 10]));
    c.realize().unwrap();
    assert_eq!((floats(&c), floats(&d)), (vec![1.0; 100], vec![0.0; 100]));
}

/// `test_assign_changes`, `test_assign_changes_alt`, `test_assign_changes_realized_alt`,
/// `test_assign_changes_buffer_alt`
#[test]
fn assign_changes() {
    let a = filled(4, 1.0);
    let old = a.clone();
    a.assign(Tensor::full([4], 2.0).contiguous());
    assert_eq!(floats(&(&a + &old)), [4.0; 4]);
    let c = Tensor::from(0);
    for value in [1, 2] {
        let b = c.contiguous();
        b.assign(value);
        b.realize().unwrap();
        assert_eq!((ints(&b), ints(&c)), (vec![value], vec![0]));
    }
}

#[test]
fn assign_from_unrealized_tensor_does_not_alias() {
    let (a, b) = (filled(4, 7.0), Tensor::ones([4]) * 1.0);
    b.assign(&a);
    b.set(s![0], 3.0);
    b.realize().unwrap();
    b.assign(0.0);
    b.realize().unwrap();
    assert_eq!((floats(&a), floats(&b)), (vec![7.0; 4], vec![0.0; 4]));
}

#[test]
fn detach_assignment_preserves_earlier_update() {
    let (x, state) = (Tensor::from([1.0f32, 2.0]).detach(), filled(2, 0.0).detach());
    state.assign(&state + &x * 2.0);
    let result = &state + 1.0;
    x.assign(&x + 1.0);
    realize([&x, &state, &result]).unwrap();
    assert_eq!(floats(&x), [2.0, 3.0]);
    assert_eq!(floats(&state), [2.0, 4.0]);
    assert_eq!(floats(&result), [3.0, 5.0]);
}

/// A value that reads elements that its own write has moved past.
mod self_reading {
    use super::*;

    #[test]
    fn permuted_assignment() {
        let (a, b) = (iota(1600).reshape([40, 40]), iota(1600).reshape([40, 40]));
        let expected: Vec<f32> = (0..1600).map(|i| (i + i % 40 * 40 + i / 40) as f32).collect();
        let mut t = a.permute([1, 0]);
        t += &b;
        assert_eq!(floats(&t), expected);
        assert_eq!(floats(&a.permute([1, 0])), expected);
    }

    #[test]
    fn post_permuted_and_flipped_assignments() {
        let changes: [fn(&Tensor) -> Tensor; 4] = [
            |a| a.permute([1, 0]),
            |a| a.flip(0),
            |a| a.flip(1),
            |a| a.reshape([-1]).reshape([40, 40]),
        ];
        for change in changes {
            let (a, b) = (iota(1600).reshape([40, 40]), iota(1600).reshape([40, 40]) * 3.0);
            let new = floats(&(change(&a) + &b));
            a.assign(change(&a) + &b);
            assert_eq!(floats(&a), new);
        }
    }

    #[test]
    fn permuted_reduceop_child_dual_use() {
        let a = Tensor::arange(512).reshape([8, 8, 8]);
        let b = Tensor::arange(64).reshape([8, 8]).copy();
        let expected = ints(&(a.sum(1) + b.permute([1, 0])));
        b.assign(a.sum(1) + b.permute([1, 0]));
        assert_eq!(ints(&b), expected);
    }

    #[test]
    fn permuted_reduceop_multioutput_dual_use() {
        for contiguous in [false, true] {
            let a = Tensor::arange(512).reshape([8, 8, 8]);
            let (b, c) = (Tensor::arange(64).reshape([8, 8]).copy(), Tensor::from([[2; 8]; 8]));
            let r = a.sum(1);
            let old = b.permute([1, 0]);
            let (new_b, new_c) = (ints(&(&r + &b)), ints(&(&r + &old)));
            // the view follows its storage; contiguous fixes what it showed
            let old = if contiguous { old.contiguous() } else { old };
            b.assign(&r + &b);
            c.assign(&r + &old);
            realize([&b, &c]).unwrap();
            assert_eq!(ints(&b), new_b);
            if contiguous {
                assert_eq!(ints(&c), new_c);
            } else {
                assert_eq!(ints(&c), ints(&(&r + b.permute([1, 0]))));
            }
        }
    }

    #[test]
    fn permuted_assignment_masked_view() {
        for permuted in [false, true] {
            let a = filled(16, 1.0).reshape([4, 4]);
            let b = a.get(s![.., ..2]).pad_with([(0, 0), (0, 2)], 2.0);
            let b = if permuted { b.permute([1, 0]) } else { b };
            a.assign(&a + &b);
            let halves = [2.0, 2.0, 3.0, 3.0];
            let expected = |i: usize| halves[if permuted { i / 4 } else { i % 4 }];
            assert_eq!(floats(&a), (0..16).map(expected).collect::<Vec<f32>>());
        }
    }

    #[test]
    fn overlapping_shrink_assignments() {
        const N: usize = 20_000;
        const SHIFT: usize = 700;
        let start: Vec<f32> = (0..N).map(|i| i as f32).collect();
        let (forward, mut expected) = (iota(N), start.clone());
        forward.set(s![..N - SHIFT], forward.get(s![SHIFT..]));
        expected.copy_within(SHIFT.., 0);
        assert!(floats(&forward) == expected);
        let (backward, mut expected) = (iota(N), start);
        backward.set(s![SHIFT..], backward.get(s![..N - SHIFT]));
        expected.copy_within(..N - SHIFT, SHIFT);
        assert!(floats(&backward) == expected);
    }

    /// `test_setitem_overlapping_inplace1` and 2.
    #[test]
    fn setitem_overlapping_inplace() {
        let t = Tensor::from([[3.0f32], [2.0], [1.0]]);
        t.set(s![1..], t.get(s![..-1]));
        assert_eq!(floats(&t), [3.0, 3.0, 2.0]);
        t.set(s![..-1], t.get(s![1..]));
        assert_eq!(floats(&t), [3.0, 2.0, 2.0]);
        t.assign(t.flip(0));
        assert_eq!(floats(&t), [2.0, 2.0, 3.0]);
    }

    #[test]
    fn chained_slice_copies() {
        let t = Tensor::from([1, 2, 3, 4, 5, 6, 7, 8]);
        t.set(s![4..], t.get(s![..4]).contiguous());
        assert_eq!(ints(&t), [1, 2, 3, 4, 1, 2, 3, 4]);
    }

    #[test]
    fn nonoverlapping_shrink_assignment() {
        let t = iota(100);
        t.set(s![..10], t.get(s![50..60]));
        let expected: Vec<f32> = (0..100).map(|i| if i < 10 { i + 50 } else { i } as f32).collect();
        assert_eq!(floats(&t), expected);
    }

    #[test]
    fn softmax_of_itself() {
        let x = iota(12).reshape([3, 4]) * 0.5;
        let expected = floats(&x.softmax(-1));
        x.assign(x.softmax(-1));
        assert_eq!(floats(&x), expected);
        let y = iota(12).reshape([3, 4]) * 0.5;
        y.realize().unwrap();
        y.assign(y.softmax(-1));
        assert_eq!(floats(&y), expected);
    }

    #[test]
    fn a_product_with_itself() {
        let x = Tensor::from([[1.0f32, 1.0], [1.0, 0.0]]);
        for _ in 0..5 {
            x.assign(x.matmul(&x));
        }
        // Fibonacci numbers 33, 32, 31
        assert_eq!(floats(&x), [3_524_578.0, 2_178_309.0, 2_178_309.0, 1_346_269.0]);
    }
}

#[test]
fn pad_reduce_unsafe_multiview_st() {
    let mut p = Tensor::ones([3, 3]).contiguous();
    let sums = p.sum_keepdim(1);
    p /= &sums;
    let row = p.get(s![0]).pad([(1, 0)]).repeat([2]);
    let third = 1.0 / 3.0;
    assert_eq!(floats(&row), [0.0, third, third, third, 0.0, third, third, third]);
}

#[test]
fn simple_assignment_multioutput() {
    let a = Tensor::arange_with(1024, DType::F32).reshape([32, 32]).contiguous();
    let (b, c, d) = (filled(32, 1.0), filled(32, 2.0), filled(32, 3.0));
    let r = a.sum(1);
    let sums = floats(&r);
    for t in [&b, &c, &d] {
        t.assign(&r + t);
    }
    realize([&b, &c, &d]).unwrap();
    for (t, plus) in [(&b, 1.0), (&c, 2.0), (&d, 3.0)] {
        assert_eq!(floats(t), sums.iter().map(|s| s + plus).collect::<Vec<f32>>());
    }
}

#[test]
fn nested_after_contiguous_store() {
    let base = Tensor::empty_with([3], DType::I64);
    base.assign(&Tensor::from([1i64, 2, 3]));
    let other = base.contiguous();
    other.assign(&Tensor::from([1i64, 4, 3]));
    base.assign(&other);
    assert_eq!(base.to_vec::<i64>().unwrap(), [1, 4, 3]);
    other.assign(0);
    assert_eq!(base.to_vec::<i64>().unwrap(), [1, 4, 3]);
}

/// How many kernels the rows take for which it is known.
mod counts {
    use super::*;

    #[test]
    fn nonoverlapping_shrink_assignment_is_one_kernel() {
        let t = iota(100);
        t.set(s![..10], t.get(s![50..60]));
        assert_eq!(kernels([&t]), 1);
    }

    #[test]
    fn nested_after_contiguous_store_is_one_kernel() {
        let base = Tensor::empty_with([3], DType::I64);
        let new = Tensor::from([1i64, 4, 3]);
        base.assign(&Tensor::from([1i64, 2, 3]));
        let other = base.contiguous();
        other.assign(&new);
        base.assign(&other);
        assert!(kernels([&base]) <= 1);
    }

    #[test]
    fn pad_reduce_unsafe_multiview_st_is_three_kernels() {
        let mut p = Tensor::ones([3, 3]).contiguous();
        let sums = p.sum_keepdim(1);
        p /= &sums;
        assert!(kernels([&p.get(s![0]).pad([(1, 0)]).repeat([2])]) <= 3);
    }

    #[test]
    fn three_assigns_that_share_a_sum_are_one_kernel() {
        let a = iota(1024).reshape([32, 32]);
        let all = [filled(32, 1.0), filled(32, 2.0), filled(32, 3.0)];
        let r = a.sum(1);
        all.iter().for_each(|t| drop(t.assign(&r + t)));
        assert_eq!(kernels(&all), 1);
    }

    #[test]
    fn permuted_reduceop_multioutput_dual_use_possible_is_three_kernels() {
        let a = iota(32 * 32 * 32).reshape([32, 32, 32]);
        let (b, c) = (iota(1024).reshape([32, 32]), iota(1024).reshape([32, 32]));
        let r = a.sum(1);
        let old = b.permute([1, 0]).contiguous();
        b.assign(&r + &b);
        c.assign(&r + &old);
        // the copy of what `b` was, and the sum with each
        assert!(kernels([&b, &c]) <= 3);
    }

    #[test]
    fn permuted_assignment_masked_view_possible_is_one_kernel() {
        let a = filled(16, 1.0).reshape([4, 4]);
        a.assign(&a + a.get(s![.., ..2]).pad_with([(0, 0), (0, 2)], 2.0));
        assert_eq!(kernels([&a]), 1);
    }

    #[test]
    fn double_assign_from_const_is_one_kernel() {
        let a = Tensor::empty([2]);
        a.assign(1.0);
        a.assign(1.0);
        assert!(kernels([&a]) <= 1);
        assert_eq!(floats(&a), [1.0; 2]);
    }

    #[test]
    fn chained_assigns_to_caches_are_at_most_two_kernels_each() {
        let caches: Vec<Tensor> = (0..5).map(|_| filled(32, 0.0).reshape([8, 4])).collect();
        let mut x = Tensor::ones([1, 4]) * 10.0;
        for cache in &caches {
            cache.set(s![0..1], &x);
            x = cache.get(s![..1]).sum_keepdim(0);
        }
        assert!(kernels(caches.iter().chain([&x])) <= 10);
        assert_eq!(floats(&x), [10.0; 4]);
    }

    #[test]
    fn shared_computation_of_caches_does_not_escalate() {
        const LAYERS: usize = 8;
        let caches: Vec<Tensor> = (0..LAYERS).map(|_| filled(64, 0.0).reshape([4, 16])).collect();
        let weights: Vec<Tensor> =
            (0..LAYERS).map(|_| filled(512, 0.01).reshape([16, 32])).collect();
        let mut x = filled(16, 1.0).reshape([1, 16]);
        for (cache, w) in caches.iter().zip(&weights) {
            let both = x.matmul(w).contiguous();
            cache.set(s![0..1], both.get(s![.., ..16]));
            x = both.get(s![.., 16..]) + cache.get(s![..1]);
        }
        let count = kernels(caches.iter().chain([&x]));
        assert!(count <= 2 * LAYERS as u64 + 1, "{count} kernels");
        let expected = (0..LAYERS).fold(1.0f32, |x, _| x * 16.0 * 0.01 * 2.0);
        assert!(floats(&x).iter().all(|y| (y - expected).abs() < 1e-6));
    }
}
