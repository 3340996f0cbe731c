//! L-BFGS: steps that use how the gradient has changed, for functions whose gradients have no noise.
//!
//! The vectors are on the host, in f64: each trial's loss is read anyway, to decide where the next trial is, and the sums
//! over all parameters lose no digits.

use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Tensor};
use line_search::{Search, Value};
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::Mutex;
use vectors::{dot, largest, moved, scaled};

/// How far to go.
mod line_search;
/// Sums of vectors.
mod vectors;

/// L-BFGS (Liu and Nocedal, 1989), as PyTorch's `LBFGS`: each iteration goes along a direction that the last gradients and
/// changes of the parameters say. It needs far fewer iterations than Adam where the loss is a smooth function without
/// noise, such as that of a fit or of a physics-informed network on fixed points.
///
/// A step computes the loss several times, so it takes a function. The function gives the loss alone: the optimizer asks
/// for its gradients.
///
/// ```
/// use kiln::{Tensor, optim::LBFGS};
/// let x = Tensor::from([-1.2f64, 1.0]).set_requires_grad(true);
/// let (a, b) = (x.get(kiln::s![0]), x.get(kiln::s![1]));
/// let opt = LBFGS::new([&x], 1.0).strong_wolfe(true).max_iter(50);
/// let before = opt.step(|| Ok((1.0 - &a).square() + (&b - a.square()).square() * 100.0))?;
/// assert!((before - 24.2).abs() < 1e-9);
/// assert!(x.to_vec::<f64>()?.iter().all(|x| (x - 1.0).abs() < 1e-4));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct LBFGS {
    parameters: Vec<Tensor>,
    lr: f64,
    max_iter: usize,
    history_size: usize,
    tolerance_grad: f64,
    tolerance_change: f64,
    strong_wolfe: bool,
    memory: Mutex<Memory>,
}

/// What iterations know of those before.
#[derive(Debug, Default)]
struct Memory {
    has_started: bool,
    /// The last change of the parameters, and the gradient before it.
    last: Option<(Vec<f64>, Vec<f64>)>,
    /// Changes of the parameters and of the gradient, the oldest first.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
}

/// Changes of the gradient along the step that are no larger than this say nothing.
const LEAST_CURVATURE: f64 = 1e-10;

macro_rules! setters {
    ($($(#[$doc:meta])+ $name:ident: $type:ty = $example:expr;)*) => { $(
        $(#[$doc])+
        ///
        /// ```
        #[doc = concat!("let opt = kiln::optim::LBFGS::new([kiln::Tensor::ones([1])], 1.0).", stringify!($name), "(", stringify!($example), ");")]
        /// ```
        pub fn $name(self, $name: $type) -> LBFGS {
            LBFGS { $name, ..self }
        }
    )* };
}

impl LBFGS {
    /// With 20 iterations in a step, 100 changes that are remembered, and no line search: each iteration goes `lr` times the
    /// direction.
    ///
    /// ```
    /// let opt = kiln::optim::LBFGS::new([kiln::Tensor::ones([1])], 1.0);
    /// ```
    pub fn new<T: Borrow<Tensor>>(parameters: impl IntoIterator<Item = T>, lr: f64) -> LBFGS {
        LBFGS {
            parameters: parameters.into_iter().map(|p| p.borrow().clone()).collect(),
            lr,
            max_iter: 20,
            history_size: 100,
            tolerance_grad: 1e-7,
            tolerance_change: 1e-9,
            strong_wolfe: false,
            memory: Mutex::default(),
        }
    }

    setters! {
        /// With another number of iterations in a step. The loss is computed at most 5/4 times as often.
        max_iter: usize = 100;
        /// With another number of changes that are remembered.
        history_size: usize = 10;
        /// With another bound: a step ends where no element of the gradient is larger.
        tolerance_grad: f64 = 1e-5;
        /// With another bound: a step ends where neither parameters nor the loss change by more.
        tolerance_change: f64 = 1e-7;
        /// With a search along the direction for a point that is lower and flatter (the strong Wolfe conditions), or not.
        strong_wolfe: bool = true;
    }

    /// The parameters.
    ///
    /// ```
    /// assert_eq!(kiln::optim::LBFGS::new([kiln::Tensor::ones([1])], 1.0).parameters().len(), 1);
    /// ```
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// Goes on for some iterations, and gives the loss of before. `loss` is called for each trial. It gives a scalar of the
    /// parameters, and neither `backward` nor `zero_grad` is needed. What it gives must not differ between calls with the
    /// same parameters: no other batch, no dropout.
    ///
    /// Where the loss or a gradient is infinite or NaN at the start, the parameters stay as they are.
    ///
    /// # Errors
    /// Errors of `loss`; a loss of more than one element, of integers, or independent of all parameters; a negative, infinite or
    /// NaN learning rate; a failing device or compiler. The parameters have the values of the last trial then.
    #[track_caller]
    pub fn step(&self, mut loss: impl FnMut() -> Result<Tensor, Error>) -> Result<f64, Error> {
        at_caller("step", self.minimize(&mut loss))
    }

    #[track_caller]
    fn minimize(&self, f: &mut dyn FnMut() -> Result<Tensor, Error>) -> Result<f64, Fault> {
        if !self.lr.is_finite() || self.lr < 0.0 {
            return refuse!("a learning rate of {}", self.lr);
        }
        let memory = &mut *self.memory.lock().map_err(|_| "a step has panicked".to_owned())?;
        let mut x = self.place()?;
        let mut now = self.value(f)?;
        let (first, mut left) = (now.loss, (self.max_iter * 5 / 4).saturating_sub(1));
        for i in 1..=self.max_iter {
            if largest(&now.grad) <= self.tolerance_grad || !now.is_finite() {
                break;
            }
            let d = memory.direction(&now.grad, self.history_size);
            let t = self.rate(memory, &now.grad);
            if dot(&now.grad, &d) > -self.tolerance_change {
                break;
            }
            let is_last = i == self.max_iter;
            let (t, next) = self.advance(f, (&x, &now), &d, t, is_last, &mut left)?;
            x = moved(&x, t, &d);
            let change = scaled(&d, t);
            let Some(next) = next else {
                memory.last = Some((change, now.grad));
                break;
            };
            let past = std::mem::replace(&mut now, next);
            let is_done = largest(&change) <= self.tolerance_change
                || (now.loss - past.loss).abs() < self.tolerance_change;
            memory.last = Some((change, past.grad));
            if is_done || left == 0 {
                break;
            }
        }
        crate::realize(&self.parameters)?;
        Ok(first)
    }

    /// How far to go first. The first direction is the gradient's, whose length says nothing.
    fn rate(&self, memory: &mut Memory, grad: &[f64]) -> f64 {
        if std::mem::replace(&mut memory.has_started, true) {
            return self.lr;
        }
        self.lr * (1.0 / grad.iter().map(|g| g.abs()).sum::<f64>()).min(1.0)
    }

    /// Goes along `d`, and says how far; and the value there, if that is needed.
    #[track_caller]
    fn advance(
        &self,
        f: &mut dyn FnMut() -> Result<Tensor, Error>,
        (x, now): (&[f64], &Value),
        d: &[f64],
        t: f64,
        is_last: bool,
        left: &mut usize,
    ) -> Result<(f64, Option<Value>), Fault> {
        if !self.strong_wolfe {
            self.go(&moved(x, t, d))?;
            *left = left.saturating_sub(1);
            // the next step begins with the value here
            return Ok((t, if is_last { None } else { Some(self.value(f)?) }));
        }
        let before = *left;
        let mut try_at = |t| {
            *left = left.saturating_sub(1);
            self.go(&moved(x, t, d))?;
            self.value(f)
        };
        let least = self.tolerance_change;
        let search = Search { try_at: &mut try_at, start: now, d, left: before, least };
        let (t, value) = search.run(t)?;
        self.go(&moved(x, t, d))?;
        Ok((t, Some(value)))
    }

    /// The loss at the parameters' values, and its gradient.
    #[track_caller]
    fn value(&self, f: &mut dyn FnMut() -> Result<Tensor, Error>) -> Result<Value, Fault> {
        let loss = crate::enable_grad(f)?;
        let targets: Vec<&Tensor> = self.parameters.iter().collect();
        let grads = loss.gradients_if_read(&targets, None)?;
        if grads.iter().all(Option::is_none) {
            return refuse!("the loss reads none of the parameters");
        }
        let grads: Vec<Option<Tensor>> = grads.into_iter().map(|g| Some(wide(&g?))).collect();
        let loss = wide(&loss);
        crate::realize(grads.iter().flatten().chain([&loss]))?;
        let mut all = Vec::new();
        for (grad, p) in grads.iter().zip(&self.parameters) {
            match grad {
                Some(grad) => all.extend(numbers(grad)?),
                None => all.resize(all.len() + p.numel(), 0.0),
            }
        }
        Ok(Value { loss: numbers(&loss)?[0], grad: all })
    }

    /// The parameters' values.
    fn place(&self) -> Result<Vec<f64>, Fault> {
        let mut all = Vec::new();
        for p in &self.parameters {
            all.extend(numbers(&wide(&p.detach()))?);
        }
        Ok(all)
    }

    /// Gives the parameters other values.
    #[track_caller]
    fn go(&self, to: &[f64]) -> Result<(), Fault> {
        let mut rest = to;
        for p in &self.parameters {
            let (own, others) = rest.split_at(p.numel());
            p.detach().try_assign(tensor(own, p).cast(p.dtype()))?;
            rest = others;
        }
        Ok(())
    }
}

impl Memory {
    /// Where to go from a point with the gradient `grad`: its negative, times what is known of the inverse Hessian.
    fn direction(&mut self, grad: &[f64], most: usize) -> Vec<f64> {
        if let Some((step, before)) = self.last.take() {
            let change = moved(grad, -1.0, &before);
            if dot(&change, &step) > LEAST_CURVATURE && most > 0 {
                self.pairs.push_back((step, change));
            }
        }
        while self.pairs.len() > most {
            self.pairs.pop_front();
        }
        let mut d = scaled(grad, -1.0);
        let mut weights = Vec::new();
        for (s, y) in self.pairs.iter().rev() {
            let weight = dot(s, &d) / dot(s, y);
            d = moved(&d, -weight, y);
            weights.push(weight);
        }
        if let Some((s, y)) = self.pairs.back() {
            d = scaled(&d, dot(s, y) / dot(y, y));
        }
        for ((s, y), weight) in self.pairs.iter().zip(weights.iter().rev()) {
            d = moved(&d, weight - dot(y, &d) / dot(s, y), s);
        }
        d
    }
}

/// In a dtype whose numbers the host has.
fn wide(t: &Tensor) -> Tensor {
    match t.dtype() {
        DType::F64 => t.clone(),
        _ => t.cast(DType::F32),
    }
}

fn numbers(t: &Tensor) -> Result<Vec<f64>, Error> {
    match t.dtype() {
        DType::F64 => t.to_vec(),
        _ => Ok(t.to_vec::<f32>()?.into_iter().map(f64::from).collect()),
    }
}

/// These numbers, of the shape and on the device of `like`.
fn tensor(numbers: &[f64], like: &Tensor) -> Tensor {
    match like.dtype() {
        DType::F64 => Tensor::from_vec_on(numbers.to_vec(), like.shape(), like.device()),
        _ => {
            let narrow: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
            Tensor::from_vec_on(narrow, like.shape(), like.device())
        }
    }
}
