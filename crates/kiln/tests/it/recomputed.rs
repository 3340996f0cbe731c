//! Checkpoints: the same bits with less memory.

use kiln::nn::{Module, train};
use kiln::{Rng, Tensor, checkpoint, measure, realize};

const ROWS: usize = 512;
const WIDTH: usize = 64;

/// Layers of `tanh(x w)`.
struct Deep {
    weights: Vec<Tensor>,
}

impl Deep {
    fn new(layers: usize) -> Deep {
        let rng = Rng::new(7);
        let weight = |_| {
            let scale = 1.5 / (WIDTH as f64).sqrt();
            (rng.randn([WIDTH, WIDTH]) * scale).realize().expect("random").set_requires_grad(true)
        };
        Deep { weights: (0..layers).map(weight).collect() }
    }

    fn plain(x: &Tensor, weights: &[Tensor]) -> Tensor {
        weights.iter().fold(x.clone(), |x, w| x.matmul(w).tanh())
    }

    fn in_parts(&self, x: &Tensor, part: usize) -> Tensor {
        let parts = self.weights.chunks(part);
        parts.fold(x.clone(), |x, part| checkpoint(|[x]| Deep::plain(x, part), [&x]))
    }

    /// The loss and the gradients, as bits, with the peak of what computes them.
    fn gradients(&self, loss: Tensor) -> (Vec<Vec<u32>>, u64) {
        self.weights.iter().for_each(Tensor::zero_grad);
        loss.backward().expect("a loss");
        let grads = self.weights.iter().map(|w| w.grad().expect("reached"));
        let all: Vec<Tensor> = [loss].into_iter().chain(grads).collect();
        let ((), counts) = measure(|| realize(&all).expect("computed"));
        (all.iter().map(bits).collect(), counts.peak_memory)
    }
}

fn bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().expect("f32").into_iter().map(f32::to_bits).collect()
}

fn images() -> Tensor {
    Rng::new(3).randn([ROWS, WIDTH]).realize().expect("random").clone()
}

#[test]
fn a_deep_network_keeps_the_starts_of_its_parts() {
    let (x, deep) = (images(), Deep::new(24));
    let (plain, most) = deep.gradients(Deep::plain(&x, &deep.weights).square().mean(..));
    let (parts, less) = deep.gradients(deep.in_parts(&x, 4).square().mean(..));
    assert_eq!(parts, plain);
    let activation = (ROWS * WIDTH * 4) as u64;
    let weights = 24 * (WIDTH * WIDTH * 4) as u64;
    // all activations; or the starts of 6 parts, the 4 inside of one, and a few that are being computed
    assert!(most >= 23 * activation + weights, "{most}");
    assert!(less <= (6 + 4 + 4) * activation + weights, "{less} of {most}");
}

#[test]
fn random_numbers_are_the_same_again() {
    let x = images();
    let w = Deep::new(1).weights.remove(0);
    let grad = |checkpointed: bool| {
        w.zero_grad();
        kiln::manual_seed(5);
        let f = |x: &Tensor| train(|| x.matmul(&w).tanh().dropout(0.5).softmax(1).matmul(&w));
        let y = if checkpointed { checkpoint(|[x]| f(x), [&x]) } else { f(&x) };
        y.square().sum(..).backward().expect("a loss");
        bits(&w.grad().expect("reached"))
    };
    assert_eq!(grad(true), grad(false));
}

/// Of an input without a mark, of both orders, through parts inside of parts.
#[test]
fn gradients_of_gradients_are_the_same() {
    let x = Tensor::from([0.3f64, -1.2, 0.7]);
    let f = |x: &Tensor| (x.square() + x.sin()).exp() * x;
    let within = |x: &Tensor| checkpoint(|[x]| f(&checkpoint(|[x]| f(x), [x])), [x]);
    let grads = |y: Tensor| {
        let first = y.sum(..).gradient([&x]).expect("first").remove(0);
        let second = first.square().sum(..).gradient([&x]).expect("second").remove(0);
        (first.to_vec::<f64>().expect("f64"), second.to_vec::<f64>().expect("f64"))
    };
    assert_eq!(grads(within(&x)), grads(f(&f(&x))));
}

#[test]
fn captured_weights_and_whole_numbers_count_too() {
    let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).set_requires_grad(true);
    let rows = Tensor::from([1, 0, 1]);
    let lookup = || checkpoint(|[rows]| w.get(kiln::s![rows]).square(), [&rows]);
    lookup().sum(..).backward().expect("a loss");
    assert_eq!(w.grad().expect("reached").to_vec::<f32>().expect("f32"), [2.0, 4.0, 12.0, 16.0]);
    let broken = checkpoint(|[x]| x.matmul(&w), [&Tensor::ones([3])]);
    assert!(broken.error().is_some());
    let nothing = checkpoint(|[x]| x + 1.0, [&Tensor::ones([3])]);
    assert_eq!(nothing.to_vec::<f32>().expect("f32"), [2.0; 3]);
}

#[test]
fn training_steps_compile_nothing_new() {
    let (x, deep) = (images(), Deep::new(4));
    let opt = kiln::optim::SGD::new(&deep.weights, 0.1);
    let mut last = f32::INFINITY;
    for step in 0..6 {
        opt.zero_grad();
        let loss = deep.in_parts(&x, 2).square().mean(..);
        loss.backward().expect("a loss");
        let (stepped, counts) = measure(|| opt.step());
        stepped.expect("a step");
        assert!(step < 3 || counts.compiled + counts.loaded == 0, "step {step}");
        let now = loss.item::<f32>().expect("f32");
        assert!(now < last, "step {step}: {now} after {last}");
        last = now;
    }
    assert_eq!(deep.weights.parameters().len(), 4);
}

/// Each part is looked into once, not once for each part after it.
#[test]
fn many_parts_cost_as_much_as_they_are() {
    let x = Tensor::from([0.5f32]).set_requires_grad(true);
    let visited = |parts: usize| {
        let part = |y: Tensor, _| checkpoint(|[y]| y.tanh() * 1.5, [&y]);
        let y = (0..parts).fold(&x * 1.0, part);
        let grad = y.sum(..).gradient([&x]).expect("a gradient").remove(0);
        measure(|| grad.item::<f32>().expect("f32")).1.visited
    };
    let (few, many) = (visited(50), visited(200));
    assert!(many <= 5 * few, "{many} and {few}");
}
