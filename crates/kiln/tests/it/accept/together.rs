//! Threads at once: graphs of their own and a shared one.

use kiln::{DType, Tensor, s};
use std::sync::Barrier;

const THREADS: usize = 8;

/// A graph that no other thread builds, and its value.
fn own(i: usize) -> (Tensor, Vec<f32>) {
    let n = i + 2;
    let x = Tensor::arange(n).cast(DType::F32) + i as f32;
    let y = (&x * x.unsqueeze(1)).sum(0);
    let total: f32 = (0..n).map(|k| (k + i) as f32).sum();
    (y, (0..n).map(|k| (k + i) as f32 * total).collect())
}

#[test]
fn threads_build_and_realize_at_once() {
    let shared = Tensor::arange(1000).cast(DType::F32).reshape([10, 100]).softmax(-1);
    let sums = shared.sum(1) + 1.0;
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for i in 0..THREADS {
            let (shared, sums, start) = (&shared, &sums, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..3 {
                    let (mine, wanted) = own(i + round * THREADS);
                    assert_eq!(mine.to_vec::<f32>().expect("computes"), wanted);
                    let two = sums.to_vec::<f32>().expect("computes");
                    assert!(two.iter().all(|x| (x - 2.0).abs() < 1e-5));
                    let row = shared.get(s![i]).sum(..).item::<f32>().expect("computes");
                    assert!((row - 1.0).abs() < 1e-5);
                }
            });
        }
    });
}

#[test]
fn every_write_to_a_row_of_ones_own_arrives() {
    let t = Tensor::zeros([THREADS, 4]);
    std::thread::scope(|scope| {
        for i in 0..THREADS {
            let row = t.get(s![i]);
            scope.spawn(move || {
                for step in 0..5 {
                    row.assign(&row + 1.0);
                    if step % 2 == 0 {
                        row.realize().expect("computes");
                    }
                }
            });
        }
    });
    assert_eq!(t.to_vec::<f32>().expect("computes"), [5.0; THREADS * 4]);
}
