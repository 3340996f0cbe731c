//! Loops that a program unrolls. Their steps share kernels, and that changes no value: with `LENGTHS=0` each step has kernels of
//! its own. Numbers are small integers held as floats, so that every order of a sum gives the same bits.

use crate::fuzz::{Rng, seeds};
use kiln::nn::{LSTM, Module};
use kiln::{DType, Error, Tensor, no_grad, realize, s};

/// Rows and columns of what the steps read.
const N: usize = 24;

/// What a step does with the state, `[N]`.
const WAYS: usize = 10;

struct Data {
    rows: Tensor,
    weight: Tensor,
    line: Tensor,
}

impl Data {
    fn on(device: &str) -> Result<Data, Error> {
        let small = |shape: &[usize], n: i64| {
            let numbers = Tensor::arange(shape.iter().product::<usize>() as i64) * 5 % n - n / 2;
            numbers.cast(DType::F32).reshape(shape.to_vec()).to(device).contiguous()
        };
        let (rows, weight, line) = (small(&[N, N], 7), small(&[N, N], 3), small(&[2 * N], 11));
        realize([&rows, &weight, &line])?;
        Ok(Data { rows, weight, line })
    }

    fn step(&self, way: usize, state: &Tensor, i: i64) -> Tensor {
        let row = || self.rows.get(s![i]);
        match way {
            0 => state + row(),
            1 => state - self.rows.get(s![N as i64 - 1 - i]),
            2 => state.maximum(self.rows.get(s![i, ..;-1])),
            3 => state.unsqueeze(0).matmul(&self.weight).squeeze(0).clamp(-9.0, 9.0),
            4 => row().lt((i % 5) as f32).where_(state, state + 1.0),
            5 => state * ((i % 3) as f32 - 1.0),
            6 => state + self.line.get(s![i..i + N as i64]),
            7 => state.roll(i, 0),
            8 => state - self.rows.get(s![.., i]),
            _ => Tensor::cat([&state.get(s![i..]), &row().get(s![..i])], 0),
        }
    }

    /// The state after each of some steps, each of which does the same in another place.
    fn run(&self, rng: &mut Rng) -> Result<Vec<u32>, Error> {
        let (first, steps) = (rng.below(3) as i64, 4 + rng.below(N - 8) as i64);
        let ways: Vec<usize> = (0..1 + rng.below(4)).map(|_| rng.below(WAYS)).collect();
        let (stored, seen) = (rng.one_in(2), Tensor::zeros([N, N]).to(self.rows.device()));
        let mut state = self.rows.get(s![0]);
        for i in first..first + steps {
            state = ways.iter().fold(state, |state, &way| self.step(way, &state, i));
            state = state.clamp(-20.0, 20.0);
            if stored {
                state = state.contiguous();
            }
            seen.set(s![i], &state);
        }
        Ok(seen.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
    }
}

fn agree(device: &str, programs: u64) -> Result<(), Error> {
    let data = Data::on(device)?;
    for seed in seeds(programs) {
        let run = |lengths: i64| kiln::with([("LENGTHS", lengths)], || data.run(&mut Rng(seed)));
        let exact = run(0)??;
        assert_eq!(run(1)??, exact, "seed {seed} on {device}");
        assert_eq!(run(2)??, exact, "seed {seed} on {device}, LENGTHS=2");
    }
    Ok(())
}

#[test]
fn steps_have_the_values_of_kernels_of_their_own() -> Result<(), Error> {
    agree("CPU", 12)
}

#[test]
fn steps_have_the_values_of_kernels_of_their_own_on_the_interpreter() -> Result<(), Error> {
    agree("INTERP", 4)
}

/// In the backward steps some kernels have equal skeletons and are still no siblings: two of their expressions are one in others.
#[test]
fn backward_steps_have_the_gradients_of_kernels_of_their_own() -> Result<(), Error> {
    let gradients = || -> Result<Vec<Vec<u64>>, Error> {
        // a generator of its own: other tests draw from the shared one at the same time
        let random = kiln::Rng::new(1);
        let draw = |shape: &[usize]| random.randn_with(shape, (DType::F64, "INTERP"));
        let mut net = LSTM::deep(5, 23, 2);
        net.to((DType::F64, "INTERP"))?;
        let x = draw(&[9, 11, 5]);
        let parameters = net.parameters();
        no_grad(|| {
            for p in &parameters {
                p.assign(draw(p.shape()) * 0.2);
            }
        });
        realize(parameters.iter().chain([&x]))?;
        net.forward(&x, None).0.sin().mean(..).backward()?;
        let gradients: Vec<Tensor> = parameters.iter().map(|p| p.grad().expect("one")).collect();
        realize(&gradients)?;
        let bits = |g: &Tensor| Ok(g.to_vec::<f64>()?.into_iter().map(f64::to_bits).collect());
        gradients.iter().map(bits).collect()
    };
    let with = |lengths: i64| kiln::with([("LENGTHS", lengths)], gradients);
    let exact = with(0)??;
    assert_eq!(with(1)??, exact);
    assert_eq!(with(2)??, exact);
    Ok(())
}
