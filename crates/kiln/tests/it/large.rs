//! Outputs and sums of tens of megabytes: written past the caches where the device does so, and reduced in blocks.

use kiln::{DType, Tensor, s};

/// More than most last caches hold.
const N: usize = (40 << 20) / 4;

#[test]
fn what_is_written_past_the_caches_is_there() -> Result<(), kiln::Error> {
    let x = Tensor::arange(N).cast(DType::F32);
    x.realize()?;
    let y = (&x * 0.5 + 1.0).to_vec::<f32>()?;
    let wrong = (0..N).find(|&i| y[i] != i as f32 * 0.5 + 1.0);
    assert_eq!(wrong, None);
    Ok(())
}

#[test]
fn sums_of_everything_are_close_and_the_same_each_time() -> Result<(), kiln::Error> {
    let x = (Tensor::arange(N) % 1021).cast(DType::F32);
    x.realize()?;
    let wanted: f64 = (0..N).map(|i| (i % 1021) as f64).sum();
    let sums = [0; 3].map(|_| x.copy().sum(..).item::<f32>());
    let first = sums[0].clone()?;
    // a sum of n terms in blocks is off by no more than the blocks are long
    assert!((f64::from(first) - wanted).abs() <= wanted * 1e-5, "{first} is not {wanted}");
    assert!(sums.into_iter().all(|s| s.is_ok_and(|s| s.to_bits() == first.to_bits())));
    Ok(())
}

/// A draw may be longer than one word counts: its numbers are those of as many draws of any length.
#[test]
fn draws_go_past_32_bits() {
    let long = kiln::Rng::new(7).rand([(1usize << 32) + 8]);
    let next = kiln::Rng::new(7);
    let first: Vec<f32> = next.rand([1usize << 32]).get(s![..4]).to_vec().expect("computes");
    let second: Vec<f32> = next.rand([8]).to_vec().expect("computes");
    let part = |range: std::ops::Range<i64>| -> Vec<f32> {
        long.get(s![range]).to_vec().expect("computes a part")
    };
    assert_eq!(part(0..4), first);
    assert_eq!(part(1 << 32..(1 << 32) + 8), second);
    let small: Vec<f32> = kiln::Rng::new(7).rand([4]).to_vec().expect("computes");
    assert_eq!(first, small);
    assert_ne!(first[..4], second[..4]);
}
