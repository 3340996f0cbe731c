//! Values, versions and leaves: what a handle holds, and what never changes behind it.

use super::{elsewhere, filled, floats, ints, iota, item};
use kiln::{DType, Device, Tensor, measure, realize, s};

#[test]
fn clone_is_an_alias_and_copy_is_not() {
    let a = Tensor::from([1, 2, 3]);
    let (alias, copied) = (a.clone(), a.copy());
    a.set(s![0], 9);
    assert_eq!((ints(&alias), ints(&copied)), (vec![9, 2, 3], vec![1, 2, 3]));
    alias.set(s![1], 8);
    copied.set(s![2], 7);
    assert_eq!((ints(&a), ints(&copied)), (vec![9, 8, 3], vec![1, 2, 7]));
}

#[test]
fn operators_with_equals_write_through_for_all_aliases() {
    let a = Tensor::from([12, 5, 6]);
    let (alias, flipped) = (a.clone(), a.flip(0));
    let mut b = a.clone();
    b += 4;
    b -= 1;
    b *= &Tensor::from([2, 2, 2]);
    b %= 7;
    b ^= 1;
    b |= 4;
    b &= 6;
    b <<= 2;
    b >>= 1;
    let plain = |x: i32| ((((((x + 4 - 1) * 2) % 7) ^ 1) | 4) & 6) << 2 >> 1;
    assert_eq!(ints(&a), [12, 5, 6].map(plain));
    assert_eq!(ints(&alias), ints(&a));
    assert_eq!(ints(&flipped), [6, 5, 12].map(plain));
    let mut half = filled(2, 3.0);
    let kept = half.clone();
    half /= 2.0;
    assert_eq!(floats(&kept), [1.5; 2]);
}

#[test]
fn an_assignment_to_the_variable_is_no_write() {
    let mut a = filled(2, 1.0);
    let alias = a.clone();
    a = &a + 1.0;
    assert_eq!((floats(&a), floats(&alias)), (vec![2.0; 2], vec![1.0; 2]));
}

#[test]
fn an_expression_over_overwritten_memory_is_computed_anew() {
    let b = iota(4);
    assert_eq!(floats(&(&b + 1.0)), [1.0, 2.0, 3.0, 4.0]);
    let mut c = b.clone();
    c += 1.0;
    b.realize().unwrap();
    assert_eq!(floats(&(&b + 1.0)), [2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_computed_value_is_fixed_when_its_line_runs() {
    let a = iota(3);
    let twice = &a * 2.0;
    a.assign(100.0);
    a.realize().unwrap();
    assert_eq!(floats(&twice), [0.0, 2.0, 4.0]);
    assert_eq!(floats(&(&a * 2.0)), [200.0; 3]);
}

#[test]
fn a_computed_node_remembers_its_leaf() {
    let a = iota(64);
    let y = (&a * 3.0).exp();
    y.realize().unwrap();
    let again = (&a * 3.0).exp();
    let (sum, n) = measure(|| item(&again.sum(..)));
    assert!(sum > 0.0);
    // 4 bytes a number of `y` and the result: `a` is not read again
    assert!(n.bytes <= 64 * 4 + 64, "{} bytes", n.bytes);
}

#[test]
fn old_inputs_are_freed() {
    const N: usize = 1 << 14;
    let mut x = iota(N);
    let ((), n) = measure(|| {
        for _ in 0..10 {
            x = &x + 1.0;
            x.realize().unwrap();
        }
    });
    assert_eq!(n.kernels, 10);
    assert!(n.peak_memory <= 2 * 4 * N as u64, "{} bytes", n.peak_memory);
    assert_eq!(x.get(s![5]).item::<f32>().unwrap(), 15.0);
}

/// tinygrad issue 4562.
#[test]
fn two_zeros_are_independent() {
    let makers: [fn() -> Tensor; 5] = [
        || Tensor::zeros([2]),
        || Tensor::zeros([2]).contiguous(),
        || Tensor::full([2], 0.0),
        || Tensor::empty([2]),
        || Tensor::from([0.0f32, 0.0]),
    ];
    for make in makers {
        for first in [false, true] {
            let (a, b) = (make(), make());
            if first {
                realize([&a, &b]).unwrap();
            }
            a.set(s![0], 1.0);
            a.realize().unwrap();
            let c = b.clone();
            b.set(s![1], 2.0);
            assert_eq!((floats(&a), floats(&c)), (vec![1.0, 0.0], vec![0.0, 2.0]));
        }
    }
}

/// `test_times_2_not_unique`, and what follows from sharing.
#[test]
fn of_two_equal_expressions_one_is_written_to() {
    for computed_first in [false, true] {
        let a = iota(4);
        let (b, c) = (&a * 2.0, &a * 2.0);
        if computed_first {
            realize([&b, &c]).unwrap();
        }
        let mut d = b.clone();
        d += 1.0;
        realize([&b, &c]).unwrap();
        assert_eq!(floats(&b), [1.0, 3.0, 5.0, 7.0]);
        assert_eq!(floats(&c), [0.0, 2.0, 4.0, 6.0]);
        b.set(s![0], 100.0);
        c.set(s![3], -1.0);
        assert_eq!(floats(&b), [100.0, 3.0, 5.0, 7.0]);
        assert_eq!(floats(&c), [0.0, 2.0, 4.0, -1.0]);
    }
}

#[test]
fn a_copy_of_a_realized_tensor_is_independent_of_it() {
    let a = iota(4);
    let (b, c) = (a.copy(), a.copy());
    realize([&a, &b, &c]).unwrap();
    for (i, t) in [&a, &b, &c].into_iter().enumerate() {
        t.set(s![i], 10.0);
    }
    realize([&a, &b, &c]).unwrap();
    assert_eq!(floats(&a), [10.0, 1.0, 2.0, 3.0]);
    assert_eq!(floats(&b), [0.0, 10.0, 2.0, 3.0]);
    assert_eq!(floats(&c), [0.0, 1.0, 10.0, 3.0]);
}

#[test]
fn a_cast_is_another_storage() {
    let a = iota(2);
    let (same, other) = (a.cast(DType::F32), a.cast(DType::I32));
    a.assign(5.0);
    same.set(s![0], 7.0);
    assert_eq!(
        (floats(&a), floats(&same), ints(&other)),
        (vec![5.0; 2], vec![7.0, 1.0], vec![0, 1])
    );
}

#[test]
fn another_device_is_another_storage() {
    let a = iota(2);
    let there = a.to(&elsewhere());
    a.assign(5.0);
    there.set(s![0], 7.0);
    assert_eq!((floats(&a), floats(&there)), (vec![5.0; 2], vec![7.0, 1.0]));
    let error = super::why(a.try_assign(&there));
    assert!(error.contains(elsewhere().name()), "{error}");
}

#[test]
fn an_empty_tensor_reads_as_zeros_and_keeps_its_contents() {
    let e = Tensor::empty([4]);
    assert_eq!(floats(&e), [0.0; 4]);
    e.set(s![1], 3.0);
    assert_eq!(floats(&e), [0.0, 3.0, 0.0, 0.0]);
    assert_eq!(floats(&(&e + 1.0)), [1.0, 4.0, 1.0, 1.0]);
    assert_eq!(floats(&e), [0.0, 3.0, 0.0, 0.0]);
}

#[test]
fn the_same_seed_gives_the_same_numbers_everywhere() {
    let draw = |device: &str| {
        let rng = kiln::Rng::new(7);
        let device = Device::parse(device).unwrap();
        let (a, b) = (rng.rand_with([5], &device), rng.randn_with([5], &device));
        // in the other order than they were asked for
        let b = b.to_vec::<f32>().unwrap();
        (a.to_vec::<f32>().unwrap(), b)
    };
    let here = draw("CPU");
    assert_eq!(here, draw("INTERP"));
    assert_eq!(here, draw("CPU"));
}

/// `test_rand_realized_out_of_order`
#[test]
fn random_numbers_are_those_of_their_line() {
    let draws = || {
        let rng = kiln::Rng::new(1);
        [(); 4].map(|()| rng.rand([4]))
    };
    let (a, b) = (draws(), draws());
    let last = floats(&a[3]);
    let in_order: Vec<_> = b.iter().map(floats).collect();
    assert_eq!(a.iter().map(floats).collect::<Vec<_>>(), in_order);
    assert_eq!(last, in_order[3]);
}
