//! A length that comes again and again gets code of its own, which gives the bits of the general code.

use super::with_lengths;
use kiln::Tensor;

/// A product, a softmax and sums over the length: large enough that code of their own is worth it after sixteen runs.
fn program(x: &Tensor, weights: &Tensor) -> Vec<u32> {
    let y = x.matmul(weights);
    let scores = (y.matmul(&y.t()) * (1.0 / 700.0)).softmax(-1);
    let z = scores.matmul(&y).sum(0) + y.square().sum(0);
    z.to_vec::<f32>().expect("computes").into_iter().map(f32::to_bits).collect()
}

#[test]
fn a_hot_length_gets_code_with_the_same_bits() {
    let weights = numbers(700, 500);
    let runs = |n: usize, times: usize| -> (Vec<Vec<u32>>, Vec<u64>) {
        let x = numbers(n, 700);
        let run = || kiln::measure(|| program(&x, &weights));
        let all = (0..times).map(|_| run());
        all.map(|(bits, counts)| (bits, counts.compiled + counts.loaded)).unzip()
    };
    with_lengths(1, || {
        [1001, 807, 959, 700].into_iter().for_each(|n| drop(runs(n, 1)));
        for n in [777, 903, 1024] {
            let (bits, compiled) = runs(n, 20);
            assert!(bits.iter().all(|other| *other == bits[0]), "{n}: {compiled:?}");
            assert_eq!(compiled[..16].iter().sum::<u64>(), 0, "{n}: {compiled:?}");
            assert!(compiled[16] > 0, "{n}: {compiled:?}");
            assert_eq!(compiled[17..].iter().sum::<u64>(), 0, "{n}: {compiled:?}");
        }
    });
}

fn numbers(rows: usize, columns: usize) -> Tensor {
    let number = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
    let t =
        Tensor::from_vec((0..rows * columns).map(number).collect::<Vec<f32>>(), [rows, columns]);
    t.realize().expect("computes");
    t
}
