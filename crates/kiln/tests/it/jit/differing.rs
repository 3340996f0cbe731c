//! Calls that differ from an earlier one in something small: they are not what was recorded.

use super::{bits, both, ran, runs};
use kiln::nn::{self, Dropout, Linear};
use kiln::{DType, Error, Rng, Tensor, jit, no_grad, s};

fn numbers(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| (i * 5 % 7) as f32 - 3.0).collect(), [n])
}

fn plain(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i * 5 % 7) as f32 - 3.0).collect()
}

#[test]
fn exponents_that_are_almost_equal() -> Result<(), Error> {
    let power = jit(|x: &Tensor, e: f64| x.cast(DType::F64).pow(e));
    let whole = jit(|x: &Tensor, e: i64| x.pow(e));
    let x = Tensor::from([4.0f32, 0.25]);
    for _ in 0..3 {
        for e in [2.0, 3.0, 0.5, -1.0, 1.0, 0.0] {
            let wanted = [4.0f64, 0.25].map(|x| x.powf(e));
            assert_eq!(power(&x, e).to_vec::<f64>()?, wanted, "{e}");
        }
        let [square, more] = [2.0, 2.0 + f64::EPSILON * 64.0].map(|e| power(&x, e));
        assert_ne!(square.to_vec::<f64>()?, more.to_vec::<f64>()?);
        assert!(power(&x, f64::NAN).to_vec::<f64>()?.iter().all(|x| x.is_nan()));
        for e in [2, 3, -1] {
            assert_eq!(whole(&x, e).to_vec::<f32>()?, [4.0f32, 0.25].map(|x| x.powi(e as i32)));
        }
    }
    Ok(())
}

#[test]
fn nothing_is_dropped_with_a_chance_of_zero() -> Result<(), Error> {
    let by_value = jit(|x: &Tensor, p: f64| nn::train(|| x.dropout(p)));
    let by_layer = jit(|layer: &Dropout, x: &Tensor| nn::train(|| layer.forward(x)));
    let x = Tensor::ones([64]).contiguous();
    for round in 0..4 {
        for p in [0.0, 0.5, 0.0, 1.0] {
            let layer = Dropout::new(p);
            for result in [by_value(&x, p), by_layer(&layer, &x)] {
                let values = result.to_vec::<f32>()?;
                let dropped = values.iter().filter(|x| **x == 0.0).count();
                let kept = values.iter().filter(|x| f64::from(**x) == 1.0 / (1.0 - p)).count();
                assert_eq!(dropped + kept, 64, "{p} in round {round}");
                match p {
                    0.0 => assert_eq!(dropped, 0),
                    1.0 => assert_eq!(kept, 0),
                    _ => assert!(dropped > 0 && kept > 0),
                }
            }
        }
    }
    Ok(())
}

#[test]
fn places_that_turn_negative() -> Result<(), Error> {
    let row = jit(|x: &Tensor, at: i64| x.get(s![at]) * 2.0);
    let rest = jit(|x: &Tensor, at: i64| x.get(s![at..]).sum(..));
    let list = jit(|x: &Tensor, at: Vec<i64>| {
        let n = at.len();
        x.get(s![&Tensor::from_vec(at, [n])])
    });
    let (x, values) = (numbers(9), plain(9));
    let place = |at: i64| at.rem_euclid(9) as usize;
    for at in [0, 1, 2, -1, 3, -2, -9, 8, 0, -1] {
        assert_eq!(row(&x, at).item::<f32>()?, 2.0 * values[place(at)], "{at}");
        let sum = values[place(at)..].iter().sum::<f32>();
        assert_eq!(rest(&x, at).item::<f32>()?, sum, "from {at}");
        let wanted = [at, 4, -at - 1].map(|at| values[place(at)]);
        assert_eq!(list(&x, vec![at, 4, -at - 1]).to_vec::<f32>()?, wanted, "{at}");
    }
    assert!(row(&x, -10).error().is_some() && row(&x, 9).error().is_some());
    Ok(())
}

#[test]
fn places_in_memory_that_turn_negative_are_written() -> Result<(), Error> {
    let write = jit(|x: &Tensor, at: &Tensor, value: &Tensor| {
        x.set(s![at], value);
        x.get(s![at]).sum(..)
    });
    both(|| {
        let (x, mut values) = (numbers(6), plain(6));
        for at in [[0, 1], [2, 3], [-1, 0], [5, -6], [1, 1], [0, 7], [-2, -3]] {
            let sum = write(&x, &Tensor::from(at), &Tensor::from([7.0f32, 7.0])).item::<f32>();
            if at.contains(&7) {
                assert!(sum.is_err(), "{at:?}");
                // what a failed write leaves is not known
                x.assign(numbers(6));
                values = plain(6);
                continue;
            }
            assert_eq!(sum?, 14.0, "{at:?}");
            at.iter().for_each(|at| values[(at + 6) as usize % 6] = 7.0);
            assert_eq!(x.to_vec::<f32>()?, values, "{at:?}");
        }
        Ok(())
    })
}

#[test]
fn some_have_a_gradient_and_some_have_none() -> Result<(), Error> {
    let add = jit(|a: &Tensor, b: &Tensor, x: &Tensor| (a * x + b * x * x).sum(..).backward());
    both(|| {
        let [a, b] = [0, 1].map(|i| Tensor::from([i as f32; 3]).set_requires_grad(true));
        let (mut of_a, mut of_b) = ([0.0f32; 3], [0.0f32; 3]);
        for i in 0..9 {
            if i % 3 == 2 {
                a.zero_grad();
                of_a = [0.0; 3];
            }
            if i % 4 == 3 {
                b.zero_grad();
                of_b = [0.0; 3];
            }
            let x = [i as f32, 1.0, 2.0];
            add(&a, &b, &Tensor::from(x))?;
            (0..3).for_each(|k| {
                of_a[k] += x[k];
                of_b[k] += x[k] * x[k];
            });
            assert_eq!(a.grad().expect("reached").to_vec::<f32>()?, of_a, "{i}");
            assert_eq!(b.grad().expect("reached").to_vec::<f32>()?, of_b, "{i}");
        }
        Ok(())
    })
}

#[test]
fn a_state_with_a_history_goes_in_again() -> Result<(), Error> {
    let step = jit(|w: &Tensor, state: &Tensor, x: &Tensor| state * w + x);
    both(|| {
        let w = Tensor::from([2.0f32, -1.0]).set_requires_grad(true);
        for steps in 1..5usize {
            w.zero_grad();
            let start = Tensor::from([1.0f32, 3.0]);
            let xs = (0..steps).map(|i| Tensor::from([i as f32, 1.0]));
            let state = xs.fold(start, |state, x| step(&w, &state, &x));
            state.sum(..).backward()?;
            let slopes = w.grad().expect("reached").to_vec::<f32>()?;
            let slope = |w: f32, start: f32, x: fn(usize) -> f32| {
                let next = |(y, dy): (f32, f32), i| (y * w + x(i), dy * w + y);
                (0..steps).fold((start, 0.0), next).1
            };
            let wanted = [slope(2.0, 1.0, |i| i as f32), slope(-1.0, 3.0, |_| 1.0)];
            assert_eq!(slopes, wanted, "{steps} steps");
            // the same without
            no_grad(|| assert!(!step(&w, &state.detach(), &state).requires_grad()));
        }
        Ok(())
    })
}

#[test]
fn views_of_one_storage_overlap_or_do_not() -> Result<(), Error> {
    let step = jit(|x: &Tensor, y: &Tensor| {
        x.assign(x + y * 2.0);
        y.sum(..)
    });
    both(|| {
        let (whole, mut values) = (numbers(24), plain(24));
        for (a, b) in [(0, 12), (1, 13), (0, 2), (2, 0), (3, 3), (7, 8), (0, 12)] {
            let [x, y] = [a, b].map(|at: i64| whole.get(s![at..at + 8]));
            let sum = step(&x, &y).item::<f32>()?;
            let old = values.clone();
            let (a, b) = (a as usize, b as usize);
            (0..8).for_each(|i| values[a + i] = old[a + i] + 2.0 * old[b + i]);
            assert_eq!(whole.to_vec::<f32>()?, values, "{a} and {b}");
            assert_eq!(sum, values[b..b + 8].iter().sum::<f32>(), "{a} and {b}");
        }
        let square = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
        step(&square, &square.t());
        step(&square.get(s![0]), &square.get(s![.., 1]));
        square.to_vec::<f32>()
    })
    .map(drop)
}

#[test]
fn an_error_on_the_way_keeps_what_was_written() -> Result<(), Error> {
    let step = jit(|x: &Tensor, shape: usize| -> Result<Tensor, Error> {
        ran();
        x.assign(x + 1.0);
        let y = (x * 10.0).reshape([shape]);
        y.error().map_or(Ok(y), Err)
    });
    both(|| {
        let x = numbers(4);
        for (nth, shape) in [4, 3, 4, 3, 3, 4].into_iter().enumerate() {
            let (result, n) = runs(|| step(&x, shape));
            let wanted: Vec<f32> = plain(4).iter().map(|v| v + nth as f32 + 1.0).collect();
            assert_eq!(x.to_vec::<f32>()?, wanted, "call {nth}");
            assert_eq!(result.is_ok(), shape == 4);
            assert!(shape == 4 || n == 1);
            if let Ok(y) = result {
                let tens: Vec<f32> = wanted.iter().map(|v| v * 10.0).collect();
                assert_eq!(y.to_vec::<f32>()?, tens);
            }
        }
        Ok(())
    })
}

#[test]
fn what_another_thread_makes_or_computes_is_part_of_the_call() -> Result<(), Error> {
    let made_there = jit(|x: &Tensor| {
        let twice = joined(|| x * 2.0);
        x.assign(x + 1.0);
        twice
    });
    let computed_there = jit(|x: &Tensor| {
        let y = x * 3.0;
        joined(|| y.realize().map(drop)).expect("computes");
        y + x
    });
    let read_there = jit(|x: &Tensor| {
        let next = || (x.get(s![0]) + 1.0).item::<f32>().expect("a number");
        x * joined(next)
    });
    for i in 0..4 {
        let v = i as f32;
        let x = Tensor::from([v, 2.0]);
        assert_eq!(read_there(&x).to_vec::<f32>()?, [v * (v + 1.0), 2.0 * (v + 1.0)], "{i}");
        assert_eq!(computed_there(&x).to_vec::<f32>()?, [4.0 * v, 8.0], "{i}");
        assert_eq!(made_there(&x).to_vec::<f32>()?, [2.0 * v, 4.0], "{i}");
        assert_eq!(x.to_vec::<f32>()?, [v + 1.0, 3.0], "{i}");
    }
    Ok(())
}

#[test]
fn what_another_thread_draws_is_drawn_in_every_call() -> Result<(), Error> {
    static OWN: Rng = Rng::new(7);
    let shared = jit(|x: &Tensor| x + joined(|| Tensor::rand([2])));
    let own = jit(|x: &Tensor| x + joined(|| OWN.rand([2])));
    let realized = jit(|x: &Tensor| x + joined(|| computed(Tensor::rand([2]))));
    let x = Tensor::from([0.0, 0.0]);
    for f in [&shared as &dyn Fn(&Tensor) -> Tensor, &own, &realized] {
        let mut seen = Vec::new();
        for i in 0..4 {
            let bits = bits(&f(&x))?;
            assert!(!seen.contains(&bits), "call {i}");
            seen.push(bits);
        }
    }
    Ok(())
}

fn computed(x: Tensor) -> Tensor {
    x.realize().expect("computes");
    x
}

fn joined<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|threads| threads.spawn(f).join().expect("no panic"))
}

#[test]
fn lengths_that_vary_are_calls_of_their_own() -> Result<(), Error> {
    let f = jit(|x: &Tensor, y: &Tensor| {
        let n = x.shape()[0];
        let total = x.sum(..) / if n == 7 { 7.0 } else { 1.0 };
        (total, x.unsqueeze(1) * y.unsqueeze(0), y.cumsum(0).flip(0))
    });
    let all = |mode: i64| {
        kiln::with([("LENGTHS", mode)], || {
            both(|| {
                let mut found = Vec::new();
                for (n, m) in [(7, 7), (8, 8), (7, 9), (1, 5), (9, 2), (7, 7), (0, 3), (8, 8)] {
                    let (total, outer, sums) = f(&numbers(n), &numbers(m));
                    found.push([bits(&total)?, bits(&outer)?, bits(&sums)?]);
                }
                Ok(found)
            })
        })
    };
    let fixed = all(0)??;
    assert_eq!(all(1)??, fixed);
    assert_eq!(all(2)??, fixed);
    Ok(())
}

#[test]
fn a_cache_that_is_written_where_a_number_says() -> Result<(), Error> {
    let step = jit(|cache: &Tensor, weight: &Linear, x: &Tensor, at: usize| {
        no_grad(|| {
            cache.set(s![at..at + 1], weight.forward(x));
            cache.get(s![..at + 1]).sum(0)
        })
    });
    let weight = Linear::new(2, 2);
    weight.weight.detach().assign(Tensor::from([[1.0f32, 2.0], [3.0, -1.0]]));
    weight.bias.as_ref().expect("by default").detach().assign(Tensor::from([1.0f32, 0.0]));
    let all = |mode: i64| {
        kiln::with([("LENGTHS", mode)], || {
            both(|| {
                let cache = Tensor::zeros([40, 2]).contiguous();
                let mut rows = vec![[0.0f32; 2]; 40];
                // tokens, and a rewind
                for at in (0..24).chain(5..9).chain([30]) {
                    let x = [at as f32, 1.0];
                    rows[at] = [x[0] + 2.0 * x[1] + 1.0, 3.0 * x[0] - x[1]];
                    let sum = step(&cache, &weight, &Tensor::from([x]), at).to_vec::<f32>()?;
                    let wanted = [0, 1].map(|d| rows[..=at].iter().map(|row| row[d]).sum::<f32>());
                    assert_eq!(sum, wanted, "token {at}, LENGTHS={mode}");
                }
                cache.to_vec::<f32>()
            })
        })
    };
    let fixed = all(0)??;
    assert_eq!(all(1)??, fixed);
    assert_eq!(all(2)??, fixed);
    Ok(())
}
