//! Functions that are one node of a graph. A known one is walked as one node, and each step keeps its own numbers.

use crate::fuzz::{Rng, seeds};
use kiln::{Tensor, measure, s};

fn data(shape: &[usize]) -> Tensor {
    let t =
        Tensor::arange(shape.iter().product::<usize>() as i64).to(kiln::DType::F32).reshape(shape);
    let t = (t * 0.37).sin();
    t.realize().expect("realizes");
    t
}

/// The product, from elements.
fn product(x: &Tensor, w: &Tensor) -> Vec<f32> {
    let (m, k, n) = (x.shape()[0], x.shape()[1], w.shape()[1]);
    let (x, w) = (x.to_vec::<f32>().expect("f32"), w.to_vec::<f32>().expect("f32"));
    let element = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * w[l * n + j]).sum();
    (0..m).flat_map(|i| (0..n).map(move |j| (i, j))).map(|(i, j)| element(i, j)).collect()
}

fn assert_near(a: &[f32], b: &[f32]) {
    let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
    assert!(a.len() == b.len() && a.iter().zip(b).all(is_near), "{a:?}\n{b:?}");
}

#[test]
fn what_a_known_function_is_made_of_is_not_walked() {
    let w = data(&[5, 7]);
    let step = |x: Tensor| measure(|| x.matmul(&w).softmax(-1).realize().map(drop)).1;
    let (first, second) = (step(data(&[3, 5])), step(data(&[3, 5]) * 2.0));
    assert_eq!(second.kernels, first.kernels);
    let (third, fourth) = (step(data(&[3, 5])), step(data(&[3, 5])));
    assert_eq!((third.scheduled, fourth.scheduled), (0, 0));
    // x, w, the product, the softmax
    assert_eq!(fourth.visited, 4, "{fourth:?}");
}

/// A graph that is new in each step is captured once: written out.
#[test]
fn graphs_of_growing_lengths_are_walked_once() {
    let (all, w) = (data(&[40, 5]), data(&[5, 7]));
    let step = |n: usize| {
        let y = all.get(s![..n, ..]).contiguous().matmul(&w).softmax(-1).sum(..);
        measure(|| y.realize().map(drop)).1.visited
    };
    let visited: Vec<u64> = (3..40).map(step).collect();
    let (first, last) = (visited[0], visited[36]);
    // it is looked for whole, and then written out
    let whole = first - last;
    assert!(whole > 0 && whole < last, "{visited:?}");
    assert!(visited[1..].iter().all(|n| *n == last), "{visited:?}");
    // the first step of lengths that are known is captured as before, and the next ones whole
    let again: Vec<u64> = (36..40).map(step).collect();
    assert_eq!(again[0], last);
    assert!(again[1] > last, "{again:?}");
}

#[test]
fn constants_below_a_product_are_those_of_each_step() {
    let (x, w) = (data(&[3, 4]), data(&[4, 2]));
    for i in 1..9 {
        let scaled = &x * (i as f32 * 0.5);
        scaled.realize().expect("realizes");
        assert_near(
            &(&x * (i as f32 * 0.5)).matmul(&w).to_vec::<f32>().expect("f32"),
            &product(&scaled, &w),
        );
        let full = Tensor::full([3, 4], i as f32);
        assert_near(&full.matmul(&w).to_vec::<f32>().expect("f32"), &product(&full, &w));
        let column = Tensor::full([4, 1], i as f32);
        assert_near(&x.matmul(&column).to_vec::<f32>().expect("f32"), &product(&x, &column));
    }
}

/// Many numbers at one place of equal expressions are launch-time scalars from the first step on.
#[test]
fn many_constants_below_products_are_those_of_each_step() {
    let w = data(&[1, 2]);
    for step in 0..3 {
        let full = |i: usize| Tensor::full([1, 1], (i + step * i) as f32);
        let all = (0..70).map(|i| full(i).matmul(&w)).reduce(|a, b| a + b).expect("products");
        let sum = (0..70).map(|i| i + step * i).sum::<usize>() as f32;
        let expected = product(&Tensor::full([1, 1], sum), &w);
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * sum;
        let all = all.to_vec::<f32>().expect("f32");
        assert!(all.iter().zip(&expected).all(is_near), "{all:?}\n{expected:?}");
    }
}

#[test]
fn starts_of_slices_below_a_product_are_those_of_each_step() {
    let (x, w) = (data(&[6, 4]), data(&[4, 2]));
    for start in 0..5 {
        let part = x.get(s![start..start + 2, ..]);
        assert_near(&part.matmul(&w).to_vec::<f32>().expect("f32"), &product(&part, &w));
        let turned = x.permute([1, 0]).get(s![.., start..start + 2]);
        assert_near(
            &w.t().matmul(&turned).to_vec::<f32>().expect("f32"),
            &product(&w.t(), &turned),
        );
    }
}

/// Writes of numbers become one constant, which a product then has for an operand.
#[test]
fn writes_that_are_folded_stay_operands() {
    let w = data(&[4, 2]);
    for fill in [1.0f32, 2.0, 3.0] {
        let x = Tensor::zeros([3, 4]);
        (0..3).for_each(|row| x.set(s![row, ..], fill));
        let expected = product(&Tensor::full([3, 4], fill), &w);
        assert_near(&x.matmul(&w).to_vec::<f32>().expect("f32"), &expected);
    }
}

/// A view that is read and written between the call of a function and its computation.
#[test]
fn an_operand_is_what_it_was_at_the_call() {
    let (x, w) = (data(&[4, 3]), data(&[4, 2]));
    let before = product(&x.reshape([3, 4]), &w);
    let view = x.reshape([3, 4]);
    let y = view.matmul(&w);
    view.realize().expect("realizes");
    x.set(s![..], &x * 2.0 + 1.0);
    x.realize().expect("realizes");
    assert_near(&y.to_vec::<f32>().expect("f32"), &before);
}

/// The gradient of a softmax reads the result that is there.
#[test]
fn a_computed_softmax_is_not_computed_again() {
    let x = data(&[8, 16]).set_requires_grad(true);
    let (y, weights) = (x.softmax(-1), data(&[8, 16]));
    y.realize().expect("realizes");
    (&y * &weights).sum(..).backward().expect("a gradient");
    let gradient = x.grad().expect("it has one");
    let (_, counts) = measure(|| gradient.realize().map(drop));
    assert_eq!(counts.kernels, 1);
    let (ys, ws) = (y.to_vec::<f32>().expect("f32"), weights.to_vec::<f32>().expect("f32"));
    let expected = ys.chunks(16).zip(ws.chunks(16)).flat_map(|(y, w)| {
        let mean: f32 = y.iter().zip(w).map(|(y, w)| y * w).sum();
        y.iter().zip(w).map(move |(y, w)| y * (w - mean)).collect::<Vec<_>>()
    });
    assert_near(&gradient.to_vec::<f32>().expect("f32"), &expected.collect::<Vec<_>>());
}

/// A random program in which constants and starts depend on the step. `is_written_out` spells functions by hand.
fn program(seed: u64, step: usize, is_written_out: bool) -> Tensor {
    let mut rng = Rng(seed);
    let inputs: Vec<Tensor> =
        (0..3).map(|i| data(&[6, 6]) * (1.0 + (step * i) as f32 * 0.25)).collect();
    inputs.iter().filter(|_| rng.one_in(2)).for_each(|x| x.realize().map(drop).expect("realizes"));
    let mut values = inputs;
    for _ in 0..6 {
        let [x, y] = [0, 1].map(|_| values[rng.below(values.len())].clone());
        let y = match rng.below(5) {
            0 => y.permute([1, 0]),
            1 => Tensor::full([6, 6], step as f32 * 0.5),
            2 => y.reshape([3, 12]).reshape([6, 6]),
            _ => y,
        };
        values.push(match rng.below(6) {
            0 | 1 if is_written_out => (x.reshape([6, 6, 1]) * y.reshape([1, 6, 6])).sum(1) * 0.2,
            0 | 1 => x.matmul(&y) * 0.2,
            2 if is_written_out => {
                let exps = (&x - x.max_keepdim(-1)).exp();
                &exps / exps.sum_keepdim(-1)
            }
            2 => x.softmax(-1),
            3 => x * (step as f32 * 0.1) + y,
            4 => {
                let start = (step + 1) % 3;
                x.get(s![start..start + 3, ..]).matmul(&y).pad([(start, 3 - start), (0, 0)])
            }
            _ => {
                x.set(s![step % 6, ..], step as f32);
                x
            }
        });
    }
    values.pop().expect("it has values")
}

/// Each step after the first finds a schedule that is known.
#[test]
fn random_programs_are_those_that_are_written_out() {
    for seed in seeds(60) {
        for step in 0..4 {
            let [whole, written_out] = [false, true].map(|is_written_out| {
                let value = program(seed, step, is_written_out);
                value.to_vec::<f32>().expect("f32")
            });
            let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * (1.0 + b.abs());
            assert!(whole.iter().zip(&written_out).all(is_near), "seed {seed} step {step}");
        }
    }
}
