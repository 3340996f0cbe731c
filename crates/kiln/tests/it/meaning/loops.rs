//! Loops of writes: many writes to one storage are one kernel, whatever is read in between.

use super::{floats, ints, iota, item, kernels};
use kiln::{DType, Tensor, measure, realize, s};

type Base = fn(usize, DType) -> Tensor;

/// What a loop may write into.
const BASES: [(&str, Base); 4] = [
    ("empty", |n, dtype| Tensor::empty_with([n], dtype)),
    ("zeros", |n, dtype| Tensor::zeros_with([n], dtype)),
    ("realized", |n, dtype| {
        let t = Tensor::full_with([n], 7, dtype).contiguous();
        t.realize().unwrap();
        t
    }),
    ("computed", |n, dtype| Tensor::from(vec![3i32; n]).cast(dtype) * 2 + 1),
];

fn each(check: impl Fn(&str, &Tensor, DType)) {
    for dtype in [DType::F32, DType::I32] {
        for n in [10, 1000] {
            for (name, base) in BASES {
                check(&format!("{name} {dtype} {n}"), &base(n, dtype), dtype);
            }
        }
    }
}

fn set_each(c: &Tensor) {
    for i in 0..c.numel() {
        c.set(s![i], i);
    }
}

/// `TestSetitemLoop.test_arange`
#[test]
fn arange() {
    each(|name, c, _| {
        set_each(c);
        assert_eq!(ints(c), (0..c.numel() as i32).collect::<Vec<_>>(), "{name}");
    });
}

/// No other test writes these numbers: what another thread has computed needs no kernel.
#[test]
fn arange_is_one_kernel() {
    each(|name, c, _| {
        let (built, building) = measure(|| (0..c.numel()).for_each(|i| c.set(s![i], i + 100)));
        assert_eq!(((), 0), (built, building.kernels), "{name}");
        assert_eq!(kernels([c]), 1, "{name}");
    });
}

/// What a run covers wholly is not filled first: each element is written once, and nothing is read.
#[test]
fn what_is_covered_is_not_filled() {
    let c = Tensor::empty([1000]);
    set_each(&c);
    let (done, n) = measure(|| c.realize().map(drop));
    done.unwrap();
    assert!(n.bytes <= 2 * 4000, "{} bytes", n.bytes);
}

#[test]
fn arange_over_part_keeps_the_rest() {
    each(|name, c, _| {
        let before = ints(c);
        for i in (1..c.numel() - 2).step_by(3) {
            c.set(s![i], -(i as i64));
        }
        let written = |i: usize| i % 3 == 1 && i < c.numel() - 2;
        let expected = |i: usize| if written(i) { -(i as i32) } else { before[i] };
        assert_eq!(ints(c), (0..c.numel()).map(expected).collect::<Vec<_>>(), "{name}");
    });
}

#[test]
fn overlapping_writes_of_a_loop() {
    let c = Tensor::empty_with([100], DType::I32);
    let mut expected = vec![0; 100];
    for i in 0..97 {
        let at = i * 37 % 97;
        c.set(s![at..at + 3], i);
        expected[at..at + 3].fill(i as i32);
    }
    assert_eq!(ints(&c), expected);
}

#[test]
fn rows_and_columns_of_a_matrix() {
    let m = Tensor::empty_with([20, 30], DType::I32);
    let mut expected = vec![0; 600];
    for i in 0..20 {
        m.set(s![i], i);
        m.set(s![.., i], Tensor::arange(20) + 100 * i as i32);
        expected[i * 30..(i + 1) * 30].fill(i as i32);
        (0..20).for_each(|r| expected[r * 30 + i] = (r + 100 * i) as i32);
    }
    assert_eq!(ints(&m), expected);
}

#[test]
fn values_of_a_loop_may_be_tensors() {
    let c = Tensor::empty([64]);
    let x = iota(64) * 3.0;
    for i in 0..64 {
        c.set(s![i], x.get(s![63 - i]) + i as f32);
    }
    assert_eq!(floats(&c), (0..64).map(|i| (3 * (63 - i) + i) as f32).collect::<Vec<_>>());
}

fn running_count(n: usize) -> Tensor {
    let c = Tensor::empty([n]);
    c.set(s![0], 0.0);
    for i in 1..n {
        c.set(s![i], c.get(s![i - 1]) + 1.0);
    }
    c
}

#[test]
fn each_from_the_one_before() {
    for n in [2, 10, 200, 1000] {
        let expected: Vec<f32> = (0..n).map(|i| i as f32).collect();
        assert_eq!(floats(&running_count(n)), expected, "{n}");
    }
    let c = Tensor::from([1, 1, 0, 0, 0, 0, 0, 0]);
    for i in 2..8usize {
        c.set(s![i], c.get(s![i - 1]) + c.get(s![i - 2]));
    }
    assert_eq!(ints(&c), [1, 1, 2, 3, 5, 8, 13, 21]);
}

#[test]
fn each_from_the_one_before_is_linear() {
    let cost = |n: usize| {
        let c = running_count(n);
        let (done, counts) = measure(|| c.realize().map(drop));
        done.unwrap();
        (counts.kernels, counts.bytes + counts.flops, counts.visited)
    };
    let (small, large) = (cost(250), cost(500));
    assert!(large.0 <= 2 * small.0 + 4, "{small:?} {large:?}");
    assert!(large.2 <= 2 * small.2 + 100, "{small:?} {large:?}");
    assert!(large.1 <= 3 * small.1 + 1000, "{small:?} {large:?}");
}

fn with_snapshots(n: usize) -> (Tensor, Vec<Tensor>) {
    let c = Tensor::empty([n]);
    let mut snaps = Vec::new();
    for i in 0..n {
        c.set(s![i], i);
        snaps.push(c.get(s![i]) * 1.0);
        c.set(s![i], i + 1);
    }
    (c, snaps)
}

#[test]
fn snapshots_of_a_loop() {
    for all_at_once in [false, true] {
        let (c, snaps) = with_snapshots(50);
        if all_at_once {
            realize(snaps.iter().chain([&c])).unwrap();
        }
        for (i, snap) in snaps.iter().enumerate().rev() {
            assert_eq!(item(snap), i as f32);
        }
        assert_eq!(floats(&c), (1..=50).map(|i| i as f32).collect::<Vec<_>>());
    }
}

#[test]
fn snapshots_of_a_loop_are_linear() {
    let cost = |n: usize| {
        let (c, snaps) = with_snapshots(n);
        let (done, counts) = measure(|| realize(snaps.iter().chain([&c])));
        done.unwrap();
        (counts.kernels, counts.bytes, counts.visited)
    };
    let (small, large) = (cost(100), cost(200));
    assert!(large.0 <= 2 * small.0 + 4 && large.1 <= 3 * small.1, "{small:?} {large:?}");
    assert!(large.2 <= 2 * small.2 + 100, "{small:?} {large:?}");
}

/// A read that no write of the run touches reads the base; one inside a write reads its value.
#[test]
fn reads_are_forwarded() {
    let c = iota(1 << 12);
    for i in 0..50usize {
        c.set(s![i], -1.0);
    }
    let (untouched, written) = (c.get(s![70]) * 2.0, c.get(s![20]) * 2.0);
    let (values, n) = measure(|| (item(&untouched), item(&written)));
    assert_eq!(values, (140.0, -2.0));
    // at most the values of the run, never the base
    assert!(n.bytes <= 50 * 4 + 100, "{} bytes", n.bytes);
}

#[test]
fn a_long_run_to_one_element() {
    let c = Tensor::from([0, 0]);
    for i in 0..3000 {
        c.set(s![1], i);
    }
    assert_eq!(ints(&c), [0, 2999]);
}

#[test]
fn a_run_is_read_as_a_whole_and_in_part() {
    let c = Tensor::empty([4, 4]);
    for i in 0..4 {
        c.set(s![i, i], 1.0);
        c.set(s![i, 3 - i], 2.0);
    }
    let (flat, row, sum) = (c.permute([1, 0]).reshape([16]), c.get(s![2]), c.sum(..));
    assert_eq!(floats(&row), [0.0, 2.0, 1.0, 0.0]);
    assert_eq!(item(&sum), 12.0);
    let rows =
        [[1.0, 0.0, 0.0, 2.0], [0.0, 1.0, 2.0, 0.0], [0.0, 2.0, 1.0, 0.0], [2.0, 0.0, 0.0, 1.0]];
    assert_eq!(floats(&flat), rows.concat());
}

/// `lazy_setitem` of the project's seed: the same by hand, with masks.
#[test]
fn masks_by_hand() {
    let mut a = Tensor::empty([6]);
    for i in 0..6 {
        a = Tensor::arange(6).eq(i).where_(i as f32, &a);
    }
    assert_eq!(kernels([&a]), 1);
    assert_eq!(floats(&a), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn a_loop_that_reads_a_growing_value_is_linear() {
    let mut x = iota(16);
    let (_, n) = measure(|| {
        for _ in 0..100 {
            x = &x * 0.5 + 1.0;
            item(&x.sum(..));
        }
    });
    assert!(n.kernels <= 300 && n.bytes <= 100 * 16 * 4 * 8, "{n:?}");
    assert!((item(&x.get(s![3])) - 2.0).abs() < 1e-6);
}

/// Reading what was written piece by piece does not go through all that was written for every piece: after the second, it
/// is in memory, also where it is made of constants alone, and for every device by itself.
#[test]
fn pieces_of_a_run_are_read_from_memory() {
    for device in ["CPU", "INTERP"] {
        let options = (DType::F32, kiln::Device::parse(device).unwrap());
        let c = Tensor::zeros_with([200], options);
        (0..200).for_each(|i| c.set(s![i], i * i));
        let (found, counts) =
            measure(|| (0..200).map(|i| item(&(c.get(s![i]) + 0.5))).collect::<Vec<_>>());
        assert_eq!(found, (0..200).map(|i| (i * i) as f32 + 0.5).collect::<Vec<_>>());
        assert!(counts.bytes < 200 * 32, "{counts:?}");
        assert!(counts.kernels > 190, "the run is in memory, and read from there: {counts:?}");
    }
}
