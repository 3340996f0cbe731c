//! Connectionist temporal classification (Graves et al., 2006): labels in order, each over any number of steps, and blanks
//! between them. The states of a sequence are its labels with blanks around and between; a path stays in its state, goes on
//! to the next one, or leaves out a blank between different labels.

use super::Reduce;
use crate::Tensor;
use crate::error::{Fault, refuse};
use crate::origin::outermost;
use crate::tensor::autocast::full;
use crate::tensor::broadcast::one_device;
use kiln_ir::DType;

const NEVER: f64 = f64::NEG_INFINITY;

/// What [`Tensor::ctc_loss`] is told.
///
/// ```
/// use kiln::CtcLoss;
/// let options = CtcLoss { zero_infinity: true, ..CtcLoss::default() };
/// assert_eq!(options.blank, 0);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct CtcLoss {
    /// What becomes of the losses of all sequences. The mean is of losses that are divided by their numbers of labels.
    pub reduce: Reduce,
    /// The class that is no label.
    pub blank: usize,
    /// Whether the loss of labels that do not fit into their steps is 0, without a gradient, instead of infinite.
    pub zero_infinity: bool,
}

/// Sequences with their labels.
struct Sequences {
    /// The logarithms of the probabilities, `[steps, batch, classes]`.
    logs: Tensor,
    /// The class of each state, `[batch, states]`.
    classes: Tensor,
    /// Whether a path comes to a state also from the one before the last, `[batch, states]`.
    leaps: Tensor,
    /// How many steps and labels there are, `[batch]`.
    steps: Tensor,
    labels: Tensor,
}

impl Sequences {
    /// `targets` are `[batch, labels]`; what is past a sequence's labels can be anything.
    fn new(logs: &Tensor, targets: &Tensor, [steps, labels]: [Tensor; 2], blank: usize) -> Self {
        let (batch, n) = (targets.shape()[0], targets.shape()[1]);
        let is_label = numbers(n, logs).lt(labels.unsqueeze(1));
        let targets = is_label.where_(targets, blank as i64).unsqueeze(2);
        let blanks = Tensor::full_like(&targets, blank as i64);
        let pairs = Tensor::cat([&blanks, &targets], 2).reshape([batch, 2 * n]);
        let classes = pairs.pad_with([(0, 0), (0, 1)], blank as i64);
        let before = shifted_with(&classes, 2, blank as f64);
        let leaps = classes.ne(&before) & classes.ne(blank as i64);
        Sequences { logs: logs.clone(), classes, leaps, steps, labels }
    }

    fn states(&self) -> usize {
        self.classes.shape()[1]
    }

    /// The same for every step.
    fn along(&self, t: &Tensor) -> Tensor {
        let [steps, batch] = [self.logs.shape()[0], t.shape()[0]];
        t.unsqueeze(0).expand([steps, batch, self.states()])
    }

    /// The logarithm of the probability of each state at each step.
    fn emitted(&self) -> Vec<Tensor> {
        self.logs.gather(2, &self.along(&self.classes)).unbind(0)
    }

    /// At each step, what all paths from the start to a state come to.
    fn forward(&self) -> Tensor {
        let emitted = self.emitted();
        let is_start = numbers(self.states(), &self.logs).lt(2);
        let mut rows = vec![is_start.where_(&emitted[0], NEVER)];
        for own in &emitted[1..] {
            let from = |rows: &[Tensor], by| shifted(&rows[rows.len() - 1], by);
            let leap = self.leaps.where_(from(&rows, 2), NEVER);
            rows.push(log_sum(&[from(&rows, 0), from(&rows, 1), leap]) + own);
        }
        Tensor::stack(rows, 0)
    }

    /// At each step, what all paths from a state to the end come to, without the state itself.
    fn backward(&self) -> Tensor {
        let emitted = self.emitted();
        let state = numbers(self.states(), &self.logs);
        let last = self.labels.unsqueeze(1) * 2;
        let end = (state.le(&last) & state.ge(last - 1)).where_(self.zeros(), NEVER);
        let ends_at = |t: usize| self.steps.eq(t as i64 + 1).unsqueeze(1);
        let leaps = shifted_with(&self.leaps.cast(DType::U8), -2, 0.0).ne(0);
        let mut row = ends_at(emitted.len() - 1).where_(&end, NEVER);
        let mut rows = vec![row.clone()];
        for t in (0..emitted.len() - 1).rev() {
            let next = row + &emitted[t + 1];
            let leap = leaps.where_(shifted(&next, -2), NEVER);
            let onward = log_sum(&[next.clone(), shifted(&next, -1), leap]);
            row = ends_at(t).where_(&end, onward);
            rows.push(row.clone());
        }
        rows.reverse();
        Tensor::stack(rows, 0)
    }

    fn zeros(&self) -> Tensor {
        Tensor::zeros_with(self.classes.shape(), (self.logs.dtype(), self.logs.device()))
    }

    /// The loss of each sequence, out of what [`forward`](Sequences::forward) gives.
    fn losses(&self, forward: &Tensor) -> Tensor {
        let fits = self.labels.le(&self.steps);
        let (some, many) = (self.steps.gt(0), self.labels.gt(0));
        let at = some.where_(&self.steps - 1, 0).unsqueeze(1).expand(self.classes.shape());
        let row = forward.gather(0, &at.unsqueeze(0)).squeeze(0);
        let pick = |state: Tensor| row.gather(1, &state.unsqueeze(1)).squeeze(1);
        let last = fits.where_(&self.labels * 2, 0);
        let (blank, label) = (pick(last.clone()), pick((&fits & &many).where_(last - 1, 0)));
        let loss = log_sum(&[blank, many.where_(label, NEVER)]).neg();
        let without = many.where_(f64::INFINITY, 0.0).cast(loss.dtype());
        fits.where_(some.where_(loss, without), f64::INFINITY)
    }

    /// PyTorch's gradient of the losses, which takes the logarithms for those of a softmax: in every step the
    /// probabilities of the classes, less those given the labels.
    fn slope(&self, forward: &Tensor, losses: &Tensor, g: &Tensor, otherwise: f64) -> Tensor {
        let steps = numbers(self.logs.shape()[0], &self.logs).reshape([-1, 1, 1]);
        let each = |t: &Tensor| t.reshape([1, -1, 1]);
        let given = (forward + self.backward() + each(losses)).exp();
        let classes = self.along(&self.classes);
        let given = self.logs.zeros_like().scatter_reduce(2, &classes, given, "sum", true);
        let slope = each(losses).isinf().where_(otherwise, self.logs.exp() - given);
        let is_step = steps.lt(each(&self.steps));
        let counts = is_step & (each(g).ne(0.0) | each(losses).isfinite());
        counts.where_(slope * each(g), 0.0)
    }
}

/// 0 up to `n`.
fn numbers(n: usize, on: &Tensor) -> Tensor {
    Tensor::arange_with(n as i64, (DType::I32, on.device()))
}

/// Rows whose states are `by` places further on, with `fill` where none came from.
fn shifted_with(rows: &Tensor, by: i64, fill: f64) -> Tensor {
    // of a single state nothing can be taken off before something is added
    let longer = rows.pad_with([(0, 0), (by.max(0), (-by).max(0))], fill);
    longer.narrow(1, (-by).max(0), rows.shape()[1])
}

fn shifted(rows: &Tensor, by: i64) -> Tensor {
    shifted_with(rows, by, NEVER)
}

/// The logarithm of the sum of exponentials; of none it is -infinity, with a gradient of 0.
fn log_sum(terms: &[Tensor]) -> Tensor {
    let top = terms.iter().cloned().reduce(|a, b| a.maximum(b)).expect("a term").detach();
    let is_none = top.eq(NEVER);
    let base = is_none.where_(0.0, &top);
    let sum = terms.iter().map(|t| (t - &base).exp()).reduce(|a, b| a + b).expect("a term");
    is_none.where_(NEVER, is_none.where_(1.0, sum).log() + base)
}

/// Targets of all sequences one after the other, as `[batch, n]`.
fn padded(targets: &Tensor, labels: &Tensor, n: usize) -> Tensor {
    let start = (labels.cumsum(0) - labels).unsqueeze(1);
    let at = numbers(n, targets);
    let at = at.lt(labels.unsqueeze(1)).where_(start + at, 0).cast(DType::I32);
    match targets.numel() {
        0 => Tensor::zeros_with(at.shape(), (DType::I32, targets.device())),
        _ => targets.take(&at),
    }
}

impl CtcLoss {
    /// The losses `[batch]`, and the numbers of labels, of what was checked.
    fn losses(&self, logs: &Tensor, targets: &Tensor, lengths: [&Tensor; 2]) -> (Tensor, Tensor) {
        let batched = logs.ndim() == 3;
        let logs = if batched { logs.clone() } else { logs.unsqueeze(1) };
        let [steps, labels] = lengths.map(|t| t.cast(DType::I32).reshape([-1]));
        let targets = targets.cast(DType::I32);
        // more labels than steps have no path
        let n = targets.shape().last().copied().unwrap_or(0).min(logs.shape()[0]);
        let targets = match targets.ndim() {
            1 if batched => padded(&targets, &labels, n),
            1 => targets.narrow(0, 0, n).unsqueeze(0),
            _ => targets.narrow(1, 0, n),
        };
        let all = Sequences::new(&logs, &targets, [steps, labels.clone()], self.blank);
        let forward = all.forward();
        let losses = all.losses(&forward);
        let otherwise = if self.zero_infinity { 0.0 } else { f64::NAN };
        let value = losses
            .detach()
            .with_gradient([&logs], |g| [all.slope(&forward, &losses, g, otherwise)]);
        let value = match self.zero_infinity {
            true => losses.eq(f64::INFINITY).where_(0.0, value),
            false => value,
        };
        (value, labels)
    }

    fn check(&self, logs: &Tensor, targets: &Tensor, lengths: [&Tensor; 2]) -> Result<(), Fault> {
        Tensor::all_valid([logs, targets].into_iter().chain(lengths))?;
        one_device([logs, targets].into_iter().chain(lengths))?;
        let (a, b, batched) = (logs.shape(), targets.shape(), logs.ndim() == 3);
        if !logs.dtype().is_float() || !(2..=3).contains(&a.len()) || a[0] == 0 {
            return refuse!(
                "wants floats of [steps, batch, classes] or [steps, classes], not {} {a:?}",
                logs.dtype()
            );
        }
        let batch = if batched { a[1] } else { 1 };
        if !(b.len() == 1 || (b.len() == 2 && batched && b[0] == batch)) {
            return refuse!("targets {b:?} do not belong to {a:?}");
        }
        let whole = |t: &&Tensor| t.dtype().is_int() && t.dtype() != DType::Bool;
        if let Some(t) = [targets].into_iter().chain(lengths).find(|t| !whole(t)) {
            return refuse!("wants integers as targets and lengths, not {}", t.dtype());
        }
        if let Some(t) = lengths.into_iter().find(|t| t.numel() != batch || t.ndim() > 1) {
            return refuse!("wants {batch} lengths, not {:?}", t.shape());
        }
        match a[a.len() - 1] {
            n if self.blank < n => Ok(()),
            n => refuse!("the blank {} is none of {n} classes", self.blank),
        }
    }
}

/// Losses of sequences.
impl Tensor {
    /// The negative logarithm of the probability of label sequences that are spread over more steps, with blanks between
    /// them. This has the logarithms of the classes' probabilities, as [`log_softmax`](Tensor::log_softmax) gives them,
    /// `[steps, batch, classes]`. Targets are integers `[batch, labels]`, where what is past a sequence's labels can be
    /// anything, or those of all sequences one after the other, which takes more work. `steps` and `labels` are the lengths
    /// of the sequences and of their targets, `[batch]`. Without a batch they are `[steps, classes]`, `[labels]` and scalars.
    ///
    /// The gradient is PyTorch's, which takes the input for the output of a log-softmax. It is 0 for impossible classes.
    /// Graves et al., "Connectionist temporal classification", 2006.
    ///
    /// ```
    /// use kiln::{CtcLoss, Tensor};
    /// // two steps of one half each: a label alone may be (1, blank), (blank, 1) or (1, 1)
    /// let logs = Tensor::zeros([2, 1, 2]).log_softmax(2);
    /// let (targets, steps, labels) = (Tensor::from([[1]]), Tensor::from([2]), Tensor::from([1]));
    /// let loss: f32 = logs.ctc_loss(&targets, &steps, &labels, CtcLoss::default()).item()?;
    /// assert!((loss + 0.75f32.ln()).abs() < 1e-6);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// Shapes that do not belong together, no steps, other dtypes than floats and integers, a blank that is no class, other
    /// devices. When it is computed: a label that is no class, lengths past what is there.
    #[must_use]
    #[track_caller]
    pub fn ctc_loss(
        &self,
        targets: &Tensor,
        steps: &Tensor,
        labels: &Tensor,
        options: CtcLoss,
    ) -> Tensor {
        let _method = outermost("ctc_loss");
        if let Err(fault) = options.check(self, targets, [steps, labels]) {
            return Tensor::broken(fault.at("ctc_loss"));
        }
        let dtype = full(self.dtype());
        let logs = self.cast(dtype.accumulator());
        let (losses, counts) = options.losses(&logs, targets, [steps, labels]);
        let losses = match options.reduce {
            Reduce::Mean => losses / counts.maximum(1),
            Reduce::None if self.ndim() == 2 => losses.squeeze(0),
            _ => losses,
        };
        options.reduce.of(&losses).cast(dtype)
    }
}
