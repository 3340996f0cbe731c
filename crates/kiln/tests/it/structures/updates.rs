//! Random loops of matrix updates, as decompositions and iterations are: reflections, rotations, powers, products. Values
//! that are asked for together are those that come when each step is computed by itself. On whole numbers, which wrap, so
//! that every order of a sum is exact.

use crate::fuzz::{Rng, seeds};
use kiln::{Tensor, s};

/// A matrix of numbers and a vector that goes along.
struct State {
    r: Tensor,
    q: Tensor,
    x: Tensor,
    n: usize,
}

impl State {
    fn new(rng: &mut Rng) -> State {
        let n = 2 + rng.below(5);
        let mut data = |len: usize| (0..len).map(|_| rng.below(7) as i32 - 3).collect::<Vec<_>>();
        let [r, x] = [Tensor::from_vec(data(n * n), [n, n]), Tensor::from_vec(data(n), [n, 1])];
        State { r, x, q: Tensor::eye_with(n, kiln::DType::I32), n }
    }

    fn step(&mut self, rng: &mut Rng, i: usize) {
        let (i, j) = (i % self.n, (i + 1) % self.n);
        match rng.below(5) {
            0 | 1 => self.reflect(rng, i),
            2 => self.rotate(i, j),
            3 => self.x = self.r.matmul(&self.x) * self.x.abs().max_keepdim(0),
            _ => self.r = self.r.matmul(&self.q) + self.q.transpose(0, 1).matmul(&self.r),
        }
    }

    /// By a vector made of a column and its norm.
    fn reflect(&mut self, rng: &mut Rng, i: usize) {
        let x = self.r.get(s![.., i]);
        let norm = match rng.below(3) {
            0 => x.sum_keepdim(0) + x.square().sum_keepdim(0),
            1 => x.square().sum_keepdim(0),
            _ => x.abs().max_keepdim(0),
        };
        let v = (&x * norm).unsqueeze(1);
        let turned = v.transpose(0, 1);
        self.r = &self.r - v.matmul(&turned.matmul(&self.r));
        self.q = &self.q - self.q.matmul(&v).matmul(&turned);
    }

    /// Two rows become sums of both.
    fn rotate(&mut self, i: usize, j: usize) {
        let (c, d) = (self.r.get(s![i, i]), self.r.get(s![j, i]));
        let (a, b) = (self.r.get(s![i]), self.r.get(s![j]));
        let next = self.r.copy();
        next.set(s![i], &a * &c + &b * &d);
        next.set(s![j], &b * &c - &a * &d);
        self.r = next;
    }

    fn values(&self) -> [&Tensor; 3] {
        [&self.q, &self.r, &self.x]
    }
}

/// What is left after some steps; each computed by itself, or all at once.
fn run(seed: u64, one_by_one: bool) -> Result<Vec<Vec<i32>>, kiln::Error> {
    let rng = &mut Rng(seed);
    let mut state = State::new(rng);
    let steps = 1 + rng.below(4);
    for i in 0..steps {
        state.step(rng, i);
        if one_by_one {
            state.values().into_iter().try_for_each(|t| t.realize().map(drop))?;
        }
    }
    kiln::realize(state.values())?;
    state.values().into_iter().map(Tensor::to_vec).collect()
}

#[test]
fn what_loops_of_matrix_updates_leave_does_not_depend_on_what_is_computed_together() {
    for seed in seeds(40) {
        let [together, alone] = [false, true].map(|one_by_one| run(seed, one_by_one));
        let together = together.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(together == alone.expect("computes"), "seed {seed}");
    }
}
