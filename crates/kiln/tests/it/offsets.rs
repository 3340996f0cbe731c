//! Where a slice starts is a constant like any other: a loop over offsets compiles each kernel at most twice.

use kiln::{Counts, DType, Tensor, measure, realize, s};

/// What a device computes, and what it took to.
const DEVICES: [&str; 3] = ["CPU:LLVM", "CPU:C", "INTERP"];

/// The numbers from 0 on a device.
fn numbers(shape: &[usize], device: &str) -> Tensor {
    let t = Tensor::arange(shape.iter().product::<usize>() as i64).cast(DType::F32);
    let t = t.reshape(shape.to_vec()).to(device).contiguous();
    t.realize().expect("realizes");
    t
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("computes")
}

#[track_caller]
fn two_variants(n: &Counts, kernels: u64) {
    assert!(n.scheduled <= 2, "{n:?}");
    assert!(n.compiled + n.loaded <= 2 * kernels, "{n:?}");
}

#[test]
fn a_loop_over_rows_compiles_two_variants() {
    for device in DEVICES {
        let data = numbers(&[3200], device);
        let ((), n) = measure(|| {
            for i in 0..100i64 {
                let sum = data.get(s![i * 32..(i + 1) * 32]).sum(..);
                let expected = (0..32).map(|k| (i * 32 + k) as f32).sum::<f32>();
                assert_eq!(sum.item::<f32>().expect("computes"), expected, "{device} {i}");
            }
        });
        two_variants(&n, 1);
        assert_eq!(n.kernels, 100);
    }
}

#[test]
fn so_does_a_loop_over_single_elements() {
    let t = numbers(&[9, 5], "CPU");
    let ((), n) = measure(|| {
        for i in 0..45 {
            assert_eq!((t.get(s![i / 5, i % 5]) + 1.0).item::<f32>().unwrap(), i as f32 + 1.0);
        }
    });
    // a row that stays, a column that stays, and both that move
    assert!(n.scheduled <= 3, "{n:?}");
}

#[test]
fn steps_backward_start_anywhere() {
    for device in DEVICES {
        let t = numbers(&[40, 3], device);
        let ((), n) = measure(|| {
            for i in 10..40i64 {
                let seen = floats(&(t.get(s![i..i - 9; -2, 1..]) * 1.0));
                let expected = (0..5).flat_map(|k| {
                    let row = 3 * (i - 2 * k);
                    [row as f32 + 1.0, row as f32 + 2.0]
                });
                assert_eq!(seen, expected.collect::<Vec<_>>(), "{device} {i}");
            }
        });
        two_variants(&n, 1);
    }
}

#[test]
fn minibatches_of_data_and_labels_share_their_kernels() {
    for device in DEVICES {
        let (data, labels) = (numbers(&[64, 6], device), numbers(&[64], device));
        let w = numbers(&[6, 2], device);
        let ((), n) = measure(|| {
            for i in 0..8i64 {
                let (from, to) = (i * 8, i * 8 + 8);
                let y = data.get(s![from..to]).matmul(&w).sum(1);
                let loss = (y - labels.get(s![from..to])).sum(..);
                let row = |r: i64| (0..6).map(|k| ((r * 6 + k) * (4 * k + 1)) as f32).sum::<f32>();
                let expected = (from..to).map(|r| row(r) - r as f32).sum::<f32>();
                assert_eq!(loss.item::<f32>().expect("computes"), expected, "{device} {i}");
            }
        });
        assert!(n.scheduled <= 2, "{n:?}");
    }
}

#[test]
fn starts_that_meet_by_chance_are_still_two() {
    let t = numbers(&[50], "CPU");
    let ((), n) = measure(|| {
        for i in 0..20i64 {
            let (a, b) = (t.get(s![i..i + 8]), t.get(s![19 - i..29 - i]));
            let sum = a.sum(..) * b.sum(..);
            let sums = |from: i64, to: i64| (from..to).sum::<i64>() as f32;
            assert_eq!(sum.item::<f32>().unwrap(), sums(i, i + 8) * sums(19 - i, 29 - i));
        }
    });
    assert!(n.scheduled <= 2, "{n:?}");
}

#[test]
fn writes_at_offsets_are_in_place() {
    for device in DEVICES {
        let t = numbers(&[1 << 14], device);
        let ((), n) = measure(|| {
            for i in 0..30i64 {
                t.set(s![i * 7..i * 7 + 4], -(i as f32));
                t.realize().expect("realizes");
            }
        });
        two_variants(&n, 1);
        assert_eq!(n.kernels, 30, "{device}");
        assert!(n.peak_memory < 1 << 14, "{device}: {} bytes", n.peak_memory);
        let expected = |k: i64| if k % 7 < 4 && k < 210 { -((k / 7) as f32) } else { k as f32 };
        assert_eq!(floats(&t), (0..1 << 14).map(expected).collect::<Vec<_>>(), "{device}");
    }
}

#[test]
fn adding_to_a_region_reads_where_it_writes() {
    let t = numbers(&[64, 8], "CPU");
    let ((), n) = measure(|| {
        for i in 0..20i64 {
            t.set(s![i..i + 3, 2..], t.get(s![i..i + 3, 2..]) + 100.0);
            t.realize().expect("realizes");
        }
    });
    two_variants(&n, 1);
    assert_eq!(n.kernels, 20, "one kernel a step");
    let times = |row: i64| (0..20).filter(|i| (*i..i + 3).contains(&row)).count() as f32;
    let value = |k: i64| k as f32 + if k % 8 >= 2 { 100.0 * times(k / 8) } else { 0.0 };
    assert_eq!(floats(&t), (0..512).map(value).collect::<Vec<_>>());
}

/// Overlapping regions whose starts are not known: what is read is the old value.
#[test]
fn moving_a_region_reads_before_it_writes() {
    for device in DEVICES {
        let t = numbers(&[40], device);
        let mut model: Vec<f32> = (0..40).map(|i| i as f32).collect();
        for i in 0..12 {
            let (from, to) = (i as usize, (i * 5 % 7) as usize);
            t.set(s![to..to + 20], t.get(s![from..from + 20]) * 1.0);
            t.realize().expect("realizes");
            model.copy_within(from..from + 20, to);
            assert_eq!(floats(&t), model, "{device} {i}");
        }
    }
}

#[test]
fn slices_of_paddings_meet_the_edges() {
    for device in DEVICES {
        let t = numbers(&[10], device);
        let padded = t.pad([(4, 4)]);
        let ((), n) = measure(|| {
            for i in 0..15i64 {
                let seen = floats(&(padded.get(s![i..i + 4]) + 1.0));
                let at = |k: i64| if (0..10).contains(&(k - 4)) { (k - 4) as f32 } else { 0.0 };
                assert_eq!(seen, (i..i + 4).map(|k| at(k) + 1.0).collect::<Vec<_>>(), "{device}");
            }
        });
        two_variants(&n, 1);
    }
}

#[test]
fn a_step_that_is_the_same_keeps_its_constants() {
    let t = numbers(&[32, 4], "CPU");
    let step = || {
        let (a, b) = (t.get(s![..16]), t.get(s![16..]));
        let (x, y) = (&a + &b, &a - &b);
        realize([&x, &y]).expect("realizes");
    };
    step();
    let ((), n) = measure(|| (0..5).for_each(|_| step()));
    assert_eq!((n.scheduled, n.compiled + n.loaded), (0, 0));
}
/// Nobody wants the written storage itself: a reader chooses at every element.
#[test]
fn a_read_through_a_write_makes_no_copy() {
    for device in DEVICES {
        let t = numbers(&[40, 3], device);
        let mut model = floats(&t);
        let mut step = |i: usize| {
            t.set(s![i as i64 + 6..i as i64;-2, 1..2], -5.0);
            (0..3).for_each(|k| model[(i + 6 - 2 * k) * 3 + 1] = -5.0);
            let (sum, expected) = (t.sum(..), model.iter().sum::<f32>());
            assert_eq!(sum.item::<f32>().expect("computes"), expected, "{device} {i}");
        };
        (0..2).for_each(&mut step);
        let ((), n) = measure(|| step(5));
        assert!(n.peak_memory < 480, "{device}: {} bytes", n.peak_memory);
    }
}

#[test]
fn steps_of_an_unrolled_loop_share_a_kernel() {
    let (steps, width) = (14, 40);
    for device in DEVICES {
        // small integers, so that every order of a sum gives the same bits
        let small = |shape: &[usize], n: f32| {
            let t = numbers(shape, device);
            let t = (&t - (&t / n).floor() * n).contiguous();
            t.realize().expect("realizes");
            t
        };
        let (rows, weight) = (small(&[steps, 1, width], 7.0), small(&[width, width], 3.0));
        let last = || {
            let state = |state: Tensor, i: i64| {
                let next = state.matmul(&weight) - rows.get(s![i]);
                next.clamp(-9.0, 9.0).contiguous()
            };
            floats(&(0..steps as i64).fold(rows.get(s![0]), state))
        };
        let (seen, n) = measure(|| kiln::with([("LENGTHS", 1)], last).expect("a setting"));
        assert_eq!(n.kernels, steps as u64, "{device}");
        // the first row is where the memory begins
        assert!(n.compiled + n.loaded <= 2, "{device}: {n:?}");
        let exact = kiln::with([("LENGTHS", 0)], last).expect("a setting");
        assert_eq!(seen, exact, "{device}");
    }
}
