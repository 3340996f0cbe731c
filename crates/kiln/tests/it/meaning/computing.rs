//! Realizing: what happens together, what an error leaves behind, and threads.

use super::{floats, iota, item, kernels};
use kiln::{Tensor, measure, nn, realize, s, testing};

#[test]
fn a_write_runs_nothing_until_somebody_reads() {
    let t = iota(8);
    let ((), n) = measure(|| {
        t.set(s![0], 5.0);
        t.get(s![2..4]).assign(&t.get(s![4..6]));
        let mut u = t.clone();
        u += 1.0;
    });
    assert_eq!((n.kernels, n.compiled, n.scheduled), (0, 0, 0));
    assert_eq!(floats(&t), [6.0, 2.0, 5.0, 6.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn what_is_computed_is_not_computed_again() {
    let t = iota(8);
    t.set(s![1..3], 9.0);
    assert_eq!(kernels([&t]) > 0, kernels([&t]) == 0);
    assert_eq!(measure(|| floats(&t)).1.kernels, 0);
}

#[test]
fn an_error_before_the_launch_changes_nothing_and_may_be_repeated() {
    let w = Tensor::from(vec![1.0f32; 77]);
    let (mut alias, held) = (w.clone(), &w * 3.0);
    alias += 1.25;
    w.set(s![5], -4.5);
    testing::break_next_kernel();
    // with a kernel for many lengths nothing would be compiled
    assert!(kiln::with([("LENGTHS", 0)], || w.realize().is_err()).expect("a setting"));
    assert!(w.error().is_none());
    let expected: Vec<f32> = (0..77).map(|i| if i == 5 { -4.5 } else { 2.25 }).collect();
    assert_eq!(floats(&w), expected);
    assert_eq!(floats(&held), [3.0; 77]);
    w.realize().unwrap();
    assert_eq!(floats(&alias), expected);
}

#[test]
fn an_update_in_place_never_runs_twice() {
    for _ in 0..5 {
        let w = iota(4096);
        let mut alias = w.clone();
        for _ in 0..4 {
            alias += 1.0;
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| w.realize().map(drop).unwrap());
                }
            });
        }
        assert_eq!(floats(&w)[..3], [4.0, 5.0, 6.0]);
    }
}

#[test]
fn threads_wait_for_one_computation() {
    let y = (iota(4096) * 1.25).sum(..);
    let total: u64 = std::thread::scope(|scope| {
        let reader = || measure(|| item(&y)).1.kernels;
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(reader)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(total <= 4, "{total} kernels, one computation and a cast each at most");
}

#[test]
fn writes_of_many_threads_to_parts_are_all_there() {
    let t = Tensor::from(vec![0.0f32; 64]);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let t = &t;
            scope.spawn(move || {
                for i in 0..16usize {
                    t.set(s![thread * 16 + i], (thread * 16 + i) as f32);
                    if i % 5 == 0 {
                        t.realize().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(floats(&t), floats(&iota(64)));
}

#[test]
fn several_tensors_are_computed_as_of_one_moment() {
    let w = iota(8);
    let before = &w * 2.0;
    w.set(s![0], 50.0);
    let after = &w * 2.0;
    w.assign(&w + 1.0);
    realize([&after, &w, &before]).unwrap();
    assert_eq!([&before, &after, &w].map(|t| floats(t)[0]), [0.0, 100.0, 51.0]);
}

/// `TestBatchNormRunningStats.test_running_stats_are_realized`
#[test]
fn batch_norm_statistics_are_computed_with_the_forward() {
    let norm = nn::BatchNorm::new(2);
    let x = iota(16).reshape([2, 2, 2, 2]);
    for step in 1..4 {
        let y = nn::train(|| norm.forward(&x));
        let loss = y.square().mean(..);
        loss.realize().unwrap();
        let (stats, n) = measure(|| {
            let read = |t: &Tensor| t.to_vec::<f32>().unwrap();
            (read(&norm.running_mean), read(&norm.running_var))
        });
        assert_eq!(n.kernels, 0, "step {step}");
        // means 5.5 and 9.5; a weight of 0.1 at each step
        let kept = 0.9f32.powi(step);
        assert!((stats.0[0] - 5.5 * (1.0 - kept)).abs() < 1e-4, "{stats:?}");
        assert!((stats.0[1] - 9.5 * (1.0 - kept)).abs() < 1e-4, "{stats:?}");
    }
}

#[test]
fn dropping_what_was_never_read_costs_nothing() {
    let ((), n) = measure(|| {
        let t = iota(16);
        t.set(s![3], 1.0);
        let _unread = (&t * 2.0).sum(..);
    });
    assert_eq!(n.kernels, 0);
}
