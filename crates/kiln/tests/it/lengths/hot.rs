//! A length that comes again and again gets code of its own, which gives the bits of the general code.

use super::with_lengths;
use kiln::Tensor;

/// The bits of some runs at each length, after others, and whether they are compiled as they should be: those after `general`
/// runs, when the length has become hot, and no others.
fn hot(run: impl Fn(usize) -> Tensor, seen: [usize; 4], lengths: &[usize], general: usize) {
    let run = |n| {
        kiln::measure(|| {
            let values = run(n).to_vec::<f32>().expect("computes");
            values.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
        })
    };
    with_lengths(1, || {
        seen.into_iter().for_each(|n| drop(run(n)));
        for &n in lengths {
            let (bits, compiled): (Vec<_>, Vec<_>) = (0..general + 4)
                .map(|_| run(n))
                .map(|(bits, counts)| (bits, counts.compiled + counts.loaded))
                .unzip();
            assert!(bits.iter().all(|other| *other == bits[0]), "{n}: {compiled:?}");
            assert_eq!(compiled[..general].iter().sum::<u64>(), 0, "{n}: {compiled:?}");
            assert!(compiled[general] > 0, "{n}: {compiled:?}");
            assert_eq!(compiled[general + 1..].iter().sum::<u64>(), 0, "{n}: {compiled:?}");
        }
    });
}

#[test]
fn a_product_of_a_hot_length_gets_code_with_the_same_bits() {
    let (x, weights) = (numbers(1024, 700), numbers(700, 500));
    let program = |n: usize| {
        let y = x.narrow(0, 0, n).matmul(&weights);
        let scores = (y.matmul(&y.t()) * (1.0 / 700.0)).softmax(-1);
        scores.matmul(&y).sum(0) + y.square().sum(0)
    };
    hot(program, [1001, 807, 959, 700], &[777, 1000], 16);
}

/// Code for one length alone would add up in another order.
#[test]
fn a_sum_over_a_hot_length_gets_code_with_the_same_bits() {
    let (a, b) = (numbers(4200, 1), numbers(1, 66_000));
    let program = |n: usize| (&a - b.narrow(1, 0, n)).abs().sum(1);
    hot(program, [65_001, 60_007, 50_003, 63_000], &[62_000, 64_512], 16);
}

/// A kernel of 150 million iterations is worth code of its own after 27 runs. Schedules are looked at after 16 runs and after 32.
#[test]
fn a_smaller_sum_is_hot_after_twice_as_many_runs() {
    let (a, b) = (numbers(2400, 1), numbers(1, 66_000));
    let program = |n: usize| (&a - b.narrow(1, 0, n)).abs().sum(1);
    hot(program, [65_001, 60_007, 50_003, 63_000], &[62_000], 32);
}

fn numbers(rows: usize, columns: usize) -> Tensor {
    let number = |i: usize| ((i * 2_654_435_761) % 1009) as f32 / 1009.0 - 0.5;
    let t =
        Tensor::from_vec((0..rows * columns).map(number).collect::<Vec<f32>>(), [rows, columns]);
    t.realize().expect("computes");
    t
}
