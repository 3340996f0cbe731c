//! Random numbers: where they lie, how often, and that the same seed gives the same. Bounds are five standard errors.

use kiln::{DType, Rng, Tensor};

const N: usize = 40_000;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("floats")
}

/// Mean and standard deviation.
fn moments(t: &Tensor) -> (f64, f64) {
    let x = floats(t);
    let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / x.len() as f64;
    let square = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
    (mean, (square / x.len() as f64).sqrt())
}

/// Whether all lie inside the bound, and some near it.
fn fills(t: &Tensor, bound: f32) -> bool {
    let x = floats(t);
    let most = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let (mean, std) = moments(t);
    let error = f64::from(bound) / 3f64.sqrt() / (x.len() as f64).sqrt();
    (0.99 * bound..=bound).contains(&most)
        && mean.abs() < 5.0 * error
        && (std - f64::from(bound) / 3f64.sqrt()).abs() < 5.0 * error
}

#[test]
fn uniform_numbers_fill_their_bounds() {
    let rng = Rng::new(3);
    let shifted = rng.uniform(1.0, 5.0, [N]);
    assert!(floats(&shifted).iter().all(|x| (1.0..=5.0).contains(x)));
    assert!(fills(&(shifted - 3.0), 2.0));
    assert!(fills(&rng.scaled_uniform([200, 200]), 0.005));
    assert!(fills(&rng.glorot_uniform([100, 20, 20]), (6.0f32 / 500.0).sqrt()));
    assert!(fills(&rng.kaiming_uniform(0.0, [100, 20, 20]), (6.0f32 / 400.0).sqrt()));
    assert!(fills(&rng.kaiming_uniform(2.0, [100, 400]), (0.4f32 * 3.0 / 400.0).sqrt()));
    assert!(rng.uniform_with(0.0, 1.0, [2], DType::I32).error().is_some());
}

#[test]
fn normal_numbers_have_their_moments() {
    let rng = Rng::new(4);
    for (t, mean, std) in [
        (rng.normal(3.0, 0.5, [N]), 3.0, 0.5),
        (rng.glorot_normal([100, 20, 20]), 0.0, (2.0f64 / 500.0).sqrt()),
        (rng.kaiming_normal(0.0, [100, 400]), 0.0, (2.0f64 / 400.0).sqrt()),
        (rng.kaiming_normal(1.0, [100, 20, 20]), 0.0, (1.0f64 / 400.0).sqrt()),
    ] {
        let (m, s) = moments(&t);
        let error = std / (N as f64).sqrt();
        assert!((m - mean).abs() < 5.0 * error && (s - std).abs() < 5.0 * error, "{m} {s}");
    }
}

#[test]
fn integers_are_equally_likely() {
    // of 2^32 numbers the remainders below 2^30 would come twice as often as the others
    let below = 3i64 << 30;
    let x = Rng::new(5).randint_with(0, below, [N], DType::I64);
    let low = x.lt(1i64 << 30).cast(DType::F32);
    let (share, _) = moments(&low);
    assert!((share - 1.0 / 3.0).abs() < 5.0 * (2.0f64 / 9.0 / N as f64).sqrt(), "{share}");
    let x = Rng::new(5).randint(-3, 5, [N]);
    assert_eq!(x.unique().to_vec::<i32>().expect("integers"), (-3..5).collect::<Vec<_>>());
}

#[test]
fn bernoulli_follows_probabilities() {
    let p = Tensor::from([0.0f32, 0.25, 1.0, f32::NAN]).unsqueeze(1).expand([4, N]);
    let shares = Rng::new(6).bernoulli(&p).mean(1);
    let shares = floats(&shares);
    assert_eq!((shares[0], shares[2], shares[3]), (0.0, 1.0, 0.0));
    assert!((f64::from(shares[1]) - 0.25).abs() < 5.0 * (0.1875 / N as f64).sqrt());
    assert!(Rng::new(6).bernoulli(&Tensor::from([1])).error().is_some());
}

#[test]
fn multinomial_follows_weights() {
    let rng = Rng::new(7);
    let weights = Tensor::from([[1.0f32, 0.0, 3.0, 0.0], [2.0, 2.0, 0.0, 4.0]]);
    let picked = rng.multinomial(&weights, N, true);
    assert_eq!((picked.shape(), picked.dtype()), (&[2, N][..], DType::I32));
    for (row, want) in [[0.25, 0.0, 0.75, 0.0], [0.25, 0.25, 0.0, 0.5]].into_iter().enumerate() {
        let counts: Vec<i64> = picked.select(0, row).bincount(4).to_vec().expect("counts");
        for (count, want) in counts.into_iter().zip(want) {
            let error = (want * (1.0 - want) / N as f64).sqrt();
            assert!((count as f64 / N as f64 - want).abs() <= 5.0 * error, "{count} {want}");
        }
    }
}

#[test]
fn what_is_picked_without_replacement_differs() {
    let rng = Rng::new(8);
    let weights = Tensor::from([3.0f32, 1.0, 0.0, 2.0]).expand([2000, 4]);
    let picked: Vec<i32> = rng.multinomial(&weights, 3, false).to_vec().expect("positions");
    let mut first = 0;
    for row in picked.chunks(3) {
        let mut sorted = row.to_vec();
        sorted.sort();
        assert_eq!(sorted, [0, 1, 3]);
        first += usize::from(row[0] == 0);
    }
    assert!((first as f64 / 2000.0 - 0.5).abs() < 5.0 * (0.25f64 / 2000.0).sqrt(), "{first}");
    assert!(rng.multinomial(&weights, 5, false).error().is_some());
}

#[test]
fn permutations_have_every_number_and_every_order() {
    let rng = Rng::new(9);
    let mut order: Vec<i32> = rng.randperm(1000).to_vec().expect("integers");
    assert!(order.windows(2).any(|w| w[0] > w[1]));
    order.sort();
    assert_eq!(order, (0..1000).collect::<Vec<_>>());
    let mut counts = [0; 6];
    for _ in 0..600 {
        let order: Vec<i32> = rng.randperm(3).to_vec().expect("integers");
        counts[(order[0] * 2 + i32::from(order[1] > order[2])) as usize] += 1;
    }
    assert!(counts.iter().all(|&n| (n as f64 - 100.0).abs() < 5.0 * 9.2), "{counts:?}");
    assert_eq!(rng.randperm(0).shape(), [0]);
}

#[test]
fn gumbel_softmax_picks_by_share_and_passes_gradients() {
    kiln::manual_seed(10);
    let logits = Tensor::from([0.0f32, 3.0f32.ln()]).expand([N / 10, 2]).copy();
    logits.set_requires_grad(true);
    let hard = logits.gumbel_softmax(0.5, true, -1);
    let share = hard.mean(0).to_vec::<f32>().expect("shares");
    assert!((share[1] - 0.75).abs() < 5.0 * (0.1875f32 / (N / 10) as f32).sqrt(), "{share:?}");
    let soft = logits.gumbel_softmax(0.5, false, 1).sum(1);
    assert!(floats(&soft).iter().all(|x| (x - 1.0).abs() < 1e-5));
    let slopes = hard.get(kiln::s![.., 0]).sum(..).gradient([&logits]).expect("slopes");
    assert!(floats(&slopes[0]).iter().any(|x| *x > 0.01));
}

#[test]
fn a_seed_gives_the_same_again() {
    let draw = |rng: Rng| {
        let t =
            [rng.uniform(0.0, 2.0, [5]), rng.normal(0.0, 1.0, [5]), rng.kaiming_normal(0.0, [5])];
        (t.map(|t| floats(&t)), rng.randperm(9).to_vec::<i32>().expect("integers"))
    };
    assert_eq!(draw(Rng::new(1)), draw(Rng::new(1)));
    assert_ne!(draw(Rng::new(1)), draw(Rng::new(2)));
}

#[test]
fn weights_that_nothing_can_be_picked_by_are_errors() {
    let why = |rows: [[f64; 3]; 2], n: usize, replace: bool| {
        let picked = Rng::new(7).multinomial(&Tensor::from(rows), n, replace);
        picked.to_vec::<i32>().map_err(|error| error.to_string())
    };
    let fine = [1.0, 2.0, 0.0];
    for replace in [false, true] {
        assert_eq!(why([fine, fine], 2, replace).expect("positions").len(), 4);
        for wrong in [f64::NAN, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
            let text = why([fine, [1.0, wrong, 1.0]], 1, replace).expect_err("is no weight");
            assert!(text.contains("`multinomial`") && text.contains("a weight is"), "{text}");
        }
    }
    let text = why([fine, [0.0; 3]], 1, true).expect_err("all are 0");
    assert!(text.contains("`multinomial`") && text.contains("add up to 0"), "{text}");
    assert!(why([fine, [f64::MAX; 3]], 1, true).is_err());
    let text = why([fine, [0.0, 1.0, 0.0]], 2, false).expect_err("one is above 0");
    assert!(text.contains("`multinomial`") && text.contains("fewer than 2"), "{text}");
    // the caller's line
    assert!(text.contains("draws.rs"), "{text}");
    // a replay
    let pick = kiln::jit(|x: &Tensor| Rng::new(7).multinomial(x, 1, true));
    let picked = |x: [f64; 3]| pick(&Tensor::from(x)).to_vec::<i32>();
    (0..3).for_each(|_| assert_eq!(picked(fine).expect("a position").len(), 1));
    assert!(picked([1.0, f64::NAN, 1.0]).is_err());
}

#[test]
fn a_sequence_goes_on_where_another_was() {
    let (a, b) = (Rng::new(u64::MAX - 5), Rng::new(1));
    let _ = (a.rand([7]), a.randn([3, 5]), b.randperm(9));
    let here = a.state();
    let draw = |rng: &Rng| {
        let drawn = [rng.rand([4]), rng.randn([3]), rng.bernoulli(&Tensor::full([6], 0.5))];
        Tensor::cat(drawn, 0).to_vec::<f32>().expect("f32")
    };
    let want = draw(&a);
    b.set_state(here);
    assert_eq!(draw(&b), want);
    assert_eq!(a.state(), b.state());
    assert_ne!(draw(&b), want);
}
