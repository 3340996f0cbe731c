//! Lengths that a program names: the second one is neither scheduled nor compiled.

use super::{floats, numbers, with_lengths};
use crate::fuzz::Rng;
use kiln::{DType, Length, Tensor, Variable, measure, s};

/// A program over one length.
type Program = fn(Length) -> Tensor;

fn total(n: Length) -> Tensor {
    numbers(&[300, 4]).get(s![..n]).sum(0)
}

fn padded(n: Length) -> Tensor {
    let rows = usize::from(n);
    let batch = Tensor::from_vec(vec![2.0f32; rows * 6], (n, 6));
    let mask = Tensor::arange(64).lt(rows as i32).reshape([64, 1]);
    let wide = batch.pad([(Length::from(0), 64 - n), (0.into(), 0.into())]);
    mask.where_(wide.matmul(&numbers(&[6, 5])), -1.0)
}

fn padded_to(n: Length) -> Tensor {
    let batch = Tensor::from_vec(vec![2.0f32; usize::from(n) * 6], (n, 6));
    batch.pad_to([64, -1]).matmul(&numbers(&[6, 5])) + 1.0
}

const PROGRAMS: &[(&str, Program)] = &[
    ("a sum", total),
    ("the rest", |n| numbers(&[300, 4]).get(s![n..]).max(0)),
    ("a padded batch", padded),
    ("padded to a length", padded_to),
    ("filled", |n| Tensor::full((n, 8), 3.0).sum(1) + Tensor::ones(n)),
    ("counted", |n| Tensor::arange(n).cast(DType::F32).reshape((n, 1)) * numbers(&[1, 5])),
    ("heads", |n| {
        let x = numbers(&[300, 12]).narrow(0, 0, n);
        let heads = x.reshape((n, 3, 4)).permute([1, 0, 2]);
        heads.matmul(&heads.transpose(-1, -2)).sum(1)
    }),
    ("flat", |n| numbers(&[2, 300, 4]).get(s![.., ..n]).contiguous().flatten() * 2.0),
    ("turned", |n| numbers(&[3, 300]).get(s![.., ..n]).flip(1).contiguous() * 2.0),
    ("cut", |n| numbers(&[300]).get(s![..n]).get(s![1..]) * 2.0),
    ("the last", |n| numbers(&[300, 4]).get(s![..n]).get(s![-1]) * 2.0),
    ("the last three", |n| numbers(&[300, 4]).get(s![..n]).get(s![-3..]) * 2.0),
    ("the last three of what is computed", |n| {
        let x = numbers(&[300, 4]).get(s![..n]);
        (x.cast(DType::F64) * 2.0).contiguous().get(s![-3..]).sum(0).cast(DType::F32)
    }),
    ("differences", |n| {
        let x = numbers(&[300]).shrink_to(n);
        x.get(s![1..]) - x.get(s![..n - 1])
    }),
    ("expanded", |n| numbers(&[1, 4]).expand((n, 4)).contiguous() + numbers(&[4])),
    ("written", |n| {
        let t = numbers(&[300, 4]);
        t.set(s![n, ..], 7.0);
        t.set(s![..n, 2], 9.0);
        t.sum(0)
    }),
    ("a mean", |n| numbers(&[300, 8]).get(s![..n]).mean(0) * usize::from(n) as f32),
    ("the rows of a mask", |n| {
        let x = numbers(&[300, 5]).get(s![..n]);
        let at = Tensor::arange(300).reshape([300, 1]);
        let mask = at.lt(usize::from(n) as i32).where_(&numbers(&[300, 5]), 0.5);
        mask.sum(0) + x.sum(0)
    }),
    ("pairs", |n| {
        let x = numbers(&[300]).get(s![..2 * n]);
        x.reshape((n, 2)).sum(1)
    }),
    ("gradients", |n| {
        let x = numbers(&[300, 4]).set_requires_grad(true);
        let loss = (x.get(s![..n]).matmul(&numbers(&[4, 3])) * 2.0).sum(..);
        loss.gradient([&x]).expect("reached").remove(0)
    }),
];

/// The numbers, and how often the program was scheduled and compiled for them.
fn run(program: impl Fn() -> Tensor) -> (Vec<f32>, u64, u64) {
    let (found, counts) = measure(|| floats(&program()));
    (found, counts.scheduled, counts.compiled + counts.loaded)
}

#[test]
fn the_second_length_of_a_variable_is_neither_scheduled_nor_compiled() {
    for (name, program) in PROGRAMS {
        let variable = Variable::new(name, 1, 128);
        let fixed = |n: usize| with_lengths(0, || floats(&program(variable.bind(n))));
        for (nth, n) in [20, 7, 33, 60].into_iter().enumerate() {
            let (found, scheduled, compiled) =
                with_lengths(1, || run(|| program(variable.bind(n))));
            assert_eq!(found, fixed(n), "{name} at {n}");
            let is_made = (scheduled > 0, compiled > 0);
            assert!(nth == 0 || is_made == (false, false), "{name} at {n}: {is_made:?}");
        }
    }
}

/// One token of attention over a cache.
fn decoded(cache: &[Tensor; 2], pos: Length, token: &Tensor) -> Tensor {
    let [keys, values] = cache;
    keys.set(s![.., pos..pos + 1], token);
    values.set(s![.., pos..pos + 1], token * 2.0);
    let (k, v) = (keys.get(s![.., ..pos + 1]), values.get(s![.., ..pos + 1]));
    let scores = (token.matmul(&k.transpose(-1, -2)) * 0.01).softmax(-1);
    scores.matmul(&v)
}

#[test]
fn decoding_compiles_one_step() {
    let decode = |mode: usize| {
        let pos = Variable::new("pos", 0, 63);
        let cache = [0; 2].map(|_| Tensor::zeros([2, 64, 8]));
        kiln::realize(&cache).expect("computes");
        let step = |p: usize| {
            let token = numbers(&[2, 1, 8]);
            token.realize().expect("computes");
            run(|| decoded(&cache, pos.bind(p), &token))
        };
        with_lengths(mode, || (0..60).map(step).collect::<Vec<_>>())
    };
    let (fixed, named) = (decode(0), decode(1));
    for (p, ((wanted, ..), (found, ..))) in fixed.iter().zip(&named).enumerate() {
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(found.iter().zip(wanted).all(close), "token {p}: {found:?} {wanted:?}");
    }
    let made: Vec<_> = named.iter().map(|(_, s, c)| (*s, *c)).collect();
    // the first token attends to one key, which is a graph of its own
    assert!(made[2..].iter().all(|made| *made == (0, 0)), "{made:?}");
}

/// Real numbers, whose sum depends on the order.
fn reals(n: usize) -> Tensor {
    let mut rng = Rng(7);
    let values: Vec<f32> = (0..n).map(|_| rng.below(1_000_000) as f32 / 999_983.0).collect();
    Tensor::from_vec(values, [n])
}

#[test]
fn numbers_of_a_variable_have_no_history() {
    let x = reals(256);
    let sums = |name: &str, lengths: &[usize]| {
        let n = Variable::new(name, 2, 256);
        let sum = |&len: &usize| {
            let part = x.get(s![..n.bind(len)]);
            floats(&(part.exp().sum(0) / part.sqrt().sum(0)))[0].to_bits()
        };
        let mut found: Vec<_> = lengths.iter().map(|len| (*len, sum(len))).collect();
        found.sort_unstable();
        found
    };
    with_lengths(1, || {
        let up = sums("up", &[3, 16, 64, 100, 101, 250]);
        assert_eq!(up, sums("down", &[250, 101, 100, 64, 16, 3]));
        assert_eq!(up, sums("mixed", &[64, 250, 3, 101, 16, 100]));
    });
}

#[test]
fn two_variables_and_two_values_of_one() {
    let [a, b] = ["a", "b"].map(|name| Variable::new(name, 1, 100));
    let outer = |n: Length, m: Length| {
        (numbers(&[100]).get(s![..n]).unsqueeze(1) - numbers(&[100]).get(s![..m]).unsqueeze(0))
            .sum(1)
    };
    let lengths = [(8, 8), (9, 4), (30, 41), (5, 5)];
    for (n, m) in lengths {
        let wanted = with_lengths(0, || floats(&outer(a.bind(n), b.bind(m))));
        let found = with_lengths(1, || floats(&outer(a.bind(n), b.bind(m))));
        assert_eq!(found, wanted, "{n} and {m}");
        let found = with_lengths(1, || floats(&outer(a.bind(n), a.bind(m))));
        assert_eq!(found, wanted, "{n} and {m} of one name");
    }
}

#[test]
fn a_value_outside_of_its_bounds_is_an_error_of_each_operation() {
    let n = Variable::new("rows", 2, 8).bind(9);
    let x = numbers(&[20, 4]);
    let results = [
        x.get(s![..n]),
        x.get(s![n]),
        x.narrow(0, 0, n),
        x.pad([(Length::from(0), n), (0.into(), 0.into())]),
        x.shrink_to((n, 4)),
        Tensor::zeros((n, 2)),
        Tensor::arange(n),
        Tensor::rand(n),
        Tensor::from_vec(vec![0.0f32; 9], n),
        x.get(s![..9]).reshape((n, 4)),
        x.get(s![..1]).expand((n, 4)),
        x.get(s![..n - 1]),
    ];
    for (nth, result) in results.iter().enumerate() {
        let why = result.error().expect("an error").to_string();
        assert!(why.contains("variable rows is bound to 9, outside of 2 to 8"), "{nth}: {why}");
        assert!(why.contains("variables.rs"), "{nth}: {why}");
    }
    let t = numbers(&[20]);
    t.set(s![..n], 0.0);
    assert!(t.to_vec::<f32>().is_err());
}

#[test]
fn lengths_are_numbers() {
    let n = Variable::new("n", -5, 100).bind(7);
    let all = [n, n + 1, 1 + n, n - 2, 10 - n, n * 3, 2 * n + 1, 3 - n];
    assert_eq!(all.map(usize::from), [7, 8, 8, 5, 3, 21, 15, 0]);
    assert_eq!(format!("{} {:?}", n * 2, n), "14 7");
    assert_eq!(usize::from(n * i64::MAX), usize::try_from(i64::MAX).expect("64 bits"));
    assert_eq!(Tensor::zeros((n, -1 + n, 3u32)).shape(), [7, 6, 3]);
    assert_eq!(Tensor::zeros([n, n]).shape(), [7, 7]);
    let x = numbers(&[20]);
    assert_eq!(x.get(s![n..=n + 3]).shape(), [4]);
    assert_eq!(x.get(s![..=n]).shape(), [8]);
    assert_eq!(x.get(s![n..]).shape(), [13]);
    assert_eq!(x.get(s![n - 8..]).shape(), [1]);
}

#[test]
fn lengths_from_none_to_more_than_the_bound() {
    let variable = Variable::new("a side", 0, 16);
    let square = |n: usize| {
        let n = variable.bind(n);
        let side = Tensor::arange(n).cast(DType::F32) * 3.0;
        side.reshape((n, 1)) + side.reshape((1, n))
    };
    for n in [5, 1, 0, 2, 16, 17, 5, 15] {
        let [fixed, named] = [0, 1].map(|mode| with_lengths(mode, || square(n).to_vec::<f32>()));
        match n {
            17 => assert!(fixed.is_err() && named.is_err()),
            _ => assert_eq!(fixed.expect("computes"), named.expect("computes"), "{n}"),
        }
    }
}

#[test]
fn threads_run_one_schedule_at_several_lengths() {
    let sum = |n: usize| floats(&total(Variable::new("of threads", 1, 128).bind(n)));
    let wanted: Vec<Vec<f32>> =
        (2..66).map(|n| with_lengths(0, || floats(&numbers(&[n, 4]).sum(0)))).collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let wanted = &wanted;
            scope.spawn(move || {
                for turn in 0..64 {
                    let at = (turn * 7 + thread * 16) % 64;
                    assert_eq!(sum(at + 2), wanted[at], "{}", at + 2);
                }
            });
        }
    });
}

/// Expressions that are small at this value and at no other.
#[test]
fn factors_as_large_as_numbers_are() {
    let n = Variable::new("none", 0, 9).bind(0);
    for times in [i64::MAX, i64::MIN + 1] {
        let [many, few] = [n * times + 5, 3 - n].map(|n| Tensor::ones(n).sum(..));
        assert_eq!((many + few).item::<f32>().expect("computes"), 8.0);
    }
}

/// Schedules are made for the largest value, but not at any price.
#[test]
fn bounds_may_be_as_large_as_numbers_are() {
    for max in [1 << 40, 1 << 60, i64::MAX] {
        let n = Variable::new("huge", 1, max);
        for rows in 5..8 {
            let sum = (Tensor::ones((n.bind(rows), 8)) * 2.0).sum(..);
            assert_eq!(sum.item::<f32>().expect("computes"), 16.0 * rows as f32);
        }
    }
}
