//! Attention: one kernel, no scores in memory, and the values and gradients of arithmetic in f64.

use crate::fuzz::{Rng, seeds};
use kiln::{Device, Tensor, manual_seed, measure, realize};

const NO: f64 = f64::NEG_INFINITY;

fn data(shape: &[usize], device: &str) -> Tensor {
    let t = Tensor::randn(shape).to(device);
    t.realize().expect("realizes");
    t
}

fn wide(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f32>().expect("readable").into_iter().map(f64::from).collect()
}

/// A matrix of each head, row-major.
#[derive(Clone)]
struct Matrices {
    heads: usize,
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrices {
    fn of(t: &Tensor) -> Matrices {
        let [.., rows, columns] = t.shape()[..] else { panic!("two axes") };
        let values = wide(t);
        Matrices { heads: values.len() / (rows * columns), rows, columns, values }
    }

    fn make(
        heads: usize,
        rows: usize,
        columns: usize,
        f: impl Fn(usize, usize, usize) -> f64,
    ) -> Matrices {
        let at = |i: usize| f(i / (rows * columns), i / columns % rows, i % columns);
        let values = (0..heads * rows * columns).map(at).collect();
        Matrices { heads, rows, columns, values }
    }

    fn at(&self, head: usize, row: usize, column: usize) -> f64 {
        self.values[(head * self.rows + row) * self.columns + column]
    }

    fn turned(&self) -> Matrices {
        Matrices::make(self.heads, self.columns, self.rows, |h, i, j| self.at(h, j, i))
    }

    fn times(&self, other: &Matrices) -> Matrices {
        Matrices::make(self.heads, self.rows, other.columns, |h, i, j| {
            (0..self.columns).map(|k| self.at(h, i, k) * other.at(h, k, j)).sum()
        })
    }

    fn row_sums(&self, f: impl Fn(usize, usize, usize) -> f64) -> Matrices {
        Matrices::make(self.heads, self.rows, 1, |h, i, _| {
            (0..self.columns).map(|j| f(h, i, j)).sum()
        })
    }

    fn softmax(&self) -> Matrices {
        let most = Matrices::make(self.heads, self.rows, 1, |h, i, _| {
            (0..self.columns).map(|j| self.at(h, i, j)).fold(NO, f64::max)
        });
        let exp = |h, i, j| (self.at(h, i, j) - most.at(h, i, 0)).exp();
        let sums = self.row_sums(exp);
        // a row of which nothing is seen has no weights
        Matrices::make(self.heads, self.rows, self.columns, |h, i, j| match most.at(h, i, 0) {
            NO => 0.0,
            _ => exp(h, i, j) / sums.at(h, i, 0),
        })
    }
}

/// The weights of attention; `mask` is what is added to the scores.
fn weights(q: &Tensor, k: &Tensor, mask: impl Fn(usize, usize) -> f64) -> Matrices {
    let (q, k) = (Matrices::of(q), Matrices::of(k));
    let scale = 1.0 / (q.columns as f64).sqrt();
    let scores = q.times(&k.turned());
    let scores = Matrices::make(scores.heads, scores.rows, scores.columns, |h, i, j| {
        scores.at(h, i, j) * scale + mask(i, j)
    });
    scores.softmax()
}

fn close(what: &str, got: &Tensor, expected: &Matrices) {
    let got = wide(got);
    assert_eq!(got.len(), expected.values.len(), "{what}");
    for (i, (a, b)) in got.iter().zip(&expected.values).enumerate() {
        assert!((a - b).abs() <= 2e-5 * (1.0 + b.abs()), "{what}, element {i}: {a} is not {b}");
    }
}

/// One kernel that says what attention is.
fn check(what: &str, expected: &Matrices, f: impl Fn() -> Tensor) {
    let (out, n) = measure(|| {
        let out = f();
        out.realize().expect("realizes");
        out
    });
    assert_eq!(n.kernels, 1, "{what}");
    close(what, &out, expected);
}

#[test]
fn attention_is_one_kernel() {
    manual_seed(1);
    let small = (&[2, 2, 37, 8][..], 170);
    let large = [(&[4, 96, 16][..], 96), (&[1, 131, 9], 200), small];
    for (device, shapes) in [("CPU", &large[..]), ("INTERP", &[small])] {
        for &(shape, keys) in shapes {
            let [lead @ .., rows, width] = shape else { panic!("two axes") };
            let others = [lead, &[keys, *width]].concat();
            let [q, k, v] = [shape, &others, &others].map(|s| data(s, device));
            let what = format!("{device} {shape:?} {keys}");
            let values = Matrices::of(&v);
            let plain = weights(&q, &k, |_, _| 0.0).times(&values);
            check(&what, &plain, || q.scaled_dot_product_attention(&k, &v, None, false));
            let scale = 1.0 / (*width as f64).sqrt();
            check(&what, &plain, || {
                (q.matmul(&k.transpose(-2, -1)) * scale).softmax(-1).matmul(&v)
            });
            let causal = weights(&q, &k, |i, j| if j <= i { 0.0 } else { NO }).times(&values);
            check(&what, &causal, || q.scaled_dot_product_attention(&k, &v, None, true));
            let mask = data(&[*rows, keys], device);
            let added = Matrices::of(&mask);
            let masked = weights(&q, &k, |i, j| added.at(0, i, j)).times(&values);
            check(&what, &masked, || q.scaled_dot_product_attention(&k, &v, Some(&mask), false));
            let some = mask.gt(1.5);
            some.realize().expect("realizes");
            let seen: Vec<bool> = some.to_vec().expect("readable");
            let hidden = |i, j| if seen[i * keys + j] { 0.0 } else { NO };
            let hidden = weights(&q, &k, hidden).times(&values);
            check(&what, &hidden, || q.scaled_dot_product_attention(&k, &v, Some(&some), false));
        }
    }
}

#[test]
fn memory_for_attention_grows_with_the_sequence_only() {
    let (heads, n, width) = (12, 4096, 64);
    let [q, k, v] = [0; 3].map(|_| data(&[heads, n, width], "CPU"));
    // its first schedule, which is for these lengths alone
    let (out, counts) = measure(|| {
        let out = q.scaled_dot_product_attention(&k, &v, None, false);
        kiln::with([("LENGTHS", 1)], || out.realize().map(drop))
            .expect("a setting")
            .expect("realizes");
        out
    });
    assert_eq!(counts.kernels, 1);
    let bytes = (4 * heads * n * width) as u64;
    assert!(counts.peak_memory <= bytes + 4096, "{} bytes", counts.peak_memory);
    // a few rows, worked out
    let rows = 2;
    let part = |t: &Tensor, n: usize| t.get(kiln::s![.., ..n as i64]);
    let expected = weights(&part(&q, rows), &k, |_, _| 0.0).times(&Matrices::of(&v));
    close("long", &part(&out, rows), &expected);
}

/// A mask that hides all keys from every third query, and the same as numbers that are added.
fn hides_rows(rows: usize, keys: usize) -> (Vec<bool>, [Tensor; 2]) {
    let seen: Vec<bool> = (0..rows * keys)
        .map(|i| i / keys % 3 != 1 && !(i / keys + i % keys).is_multiple_of(4))
        .collect();
    let added: Vec<f32> = seen.iter().map(|&s| if s { 0.0 } else { f32::NEG_INFINITY }).collect();
    let masks = [Tensor::from(seen.as_slice()), Tensor::from(added)];
    (seen, masks.map(|t| t.reshape([rows, keys])))
}

fn check_gradients([heads, rows, keys, width]: [usize; 4], causal: bool, mask: Option<usize>) {
    let (seen, masks) = hides_rows(rows, keys);
    let hidden = |i: usize, j: usize| {
        let hides = (causal && j > i) || (mask.is_some() && !seen[i * keys + j]);
        if hides { NO } else { 0.0 }
    };
    let own = Device::default_device();
    let q = data(&[heads, rows, width], own.name());
    let [k, v] = [0; 2].map(|_| data(&[heads, keys, width], own.name()));
    let ahead = data(&[heads, rows, width], own.name());
    [&q, &k, &v].into_iter().for_each(|t| _ = t.set_requires_grad(true));
    let out = q.scaled_dot_product_attention(&k, &v, mask.map(|m| &masks[m]), causal);
    let loss = (&out * &ahead).sum(..);
    loss.backward().expect("has gradients");
    let [gq, gk, gv] = [&q, &k, &v].map(|t| t.grad().expect("reached"));
    realize([&loss, &gq, &gk, &gv]).expect("realizes");

    let (p, g) = (weights(&q, &k, hidden), Matrices::of(&ahead));
    let gp = g.times(&Matrices::of(&v).turned());
    let mean = p.row_sums(|h, i, j| p.at(h, i, j) * gp.at(h, i, j));
    let scale = 1.0 / (width as f64).sqrt();
    let gs = Matrices::make(heads, rows, keys, |h, i, j| {
        p.at(h, i, j) * (gp.at(h, i, j) - mean.at(h, i, 0)) * scale
    });
    close("out", &out, &p.times(&Matrices::of(&v)));
    close("value", &gv, &p.turned().times(&g));
    close("query", &gq, &gs.times(&Matrices::of(&k)));
    close("key", &gk, &gs.turned().times(&Matrices::of(&q)));
}

#[test]
fn gradients_of_attention_are_right() {
    manual_seed(2);
    for shape in [[3, 64, 80, 16], [1, 67, 150, 8]] {
        [false, true].into_iter().for_each(|causal| check_gradients(shape, causal, None));
    }
}

/// Nor is anything of it NaN, in the value or in a gradient; and where one key is seen, its weight is 1.
#[test]
fn a_query_that_sees_no_key_gives_zeros() {
    manual_seed(4);
    for (shape, causal) in [([2, 33, 40, 8], false), ([2, 33, 40, 8], true), ([1, 7, 3, 4], false)]
    {
        [0, 1].into_iter().for_each(|mask| check_gradients(shape, causal, Some(mask)));
    }
}

/// Few keys and queries, so that masks leave one key, or none, or all.
#[test]
fn masks_of_any_rows() {
    for seed in seeds(6) {
        let rng = &mut Rng(seed);
        manual_seed(seed);
        let shape = [1 + rng.below(3), 1 + rng.below(9), 1 + rng.below(9), 1 + rng.below(8)];
        check_gradients(shape, rng.one_in(3), Some(rng.below(2)));
    }
}

#[test]
fn keys_that_a_causal_mask_hides_have_no_part() {
    manual_seed(3);
    for device in ["CPU", "INTERP"] {
        let (rows, keys) = (70, 90);
        let q = data(&[2, rows, 8], device);
        let [k, v] = [0; 2].map(|_| data(&[2, keys, 8], device));
        let expected = weights(&q, &k, |i, j| if j <= i { 0.0 } else { NO });
        let expected = expected.times(&Matrices::of(&v));
        let from = 40;
        k.set(kiln::s![.., from..], f32::INFINITY);
        v.set(kiln::s![.., from..], f32::NAN);
        let out = q.scaled_dot_product_attention(&k, &v, None, true);
        let before = Matrices::make(2, from as usize, 8, |h, i, j| expected.at(h, i, j));
        close(device, &out.get(kiln::s![.., ..from]), &before);
    }
}
