//! Training and testing. Every step has the same shapes, so that all but the first compile nothing.

use super::data::{Images, Shuffle};
use super::model::Net;
use super::options::Options;
use crate::outcome::Outcome;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kiln::{Counts, DType};
use std::io::Write;
use std::time::{Duration, Instant};

/// What steps cost once everything is compiled.
#[derive(Default)]
pub(super) struct Cost {
    /// Kernels launched by the last step.
    pub(super) kernels: u64,
    /// The median time of a step; none without steps.
    pub(super) step: Option<Duration>,
}

/// Trains for as many epochs as the options say.
pub(super) fn train(
    net: &Net,
    images: &Images,
    options: &Options,
    out: &mut dyn Write,
) -> Outcome<Cost> {
    let batch = options.batch.min(images.len());
    // what is left of an epoch is dropped: another shape would be compiled for a single step
    let per_epoch = images.len() / batch;
    let steps = options.epochs() * per_epoch;
    let trainer = net.trainer(options.precision);
    let mut shuffle = Shuffle(options.seed);
    let mut order = Vec::new();
    let mut record = Record::new(steps, batch);
    for step in 0..steps {
        if step % per_epoch == 0 {
            order = shuffle.order(images.len());
        }
        let chosen = &order[step % per_epoch * batch..][..batch];
        let rate = options.lr * cosine(step, steps);
        let start = Instant::now();
        let (loss, counts) = kiln::measure(|| trainer.step(images.batch(chosen), rate));
        let loss = loss?;
        record.add(loss, start.elapsed(), counts);
        if options.losses {
            // the shortest text that reads back as the same bits
            writeln!(out, "loss {step} {loss:?}")?;
        }
    }
    Ok(record.finish())
}

/// From 1 at the first step to almost 0 at the last.
fn cosine(step: usize, steps: usize) -> f64 {
    let turn = std::f64::consts::PI * step as f64 / steps as f64;
    0.5 * (1.0 + turn.cos())
}

/// What happened so far, and the bar that shows it.
struct Record {
    bar: ProgressBar,
    batch: usize,
    started: Instant,
    times: Vec<Duration>,
    kernels: u64,
}

impl Record {
    fn new(steps: usize, batch: usize) -> Record {
        let style = "{bar:32} step {pos}/{len}  {msg}  {elapsed}";
        let style = ProgressStyle::with_template(style).expect("the template is right");
        // drawn where somebody sees it: on a terminal, and not for nothing
        let target = match steps {
            0 => ProgressDrawTarget::hidden(),
            _ => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target).with_style(style);
        Record { bar, batch, started: Instant::now(), times: Vec::new(), kernels: 0 }
    }

    fn add(&mut self, loss: f32, took: Duration, counts: Counts) {
        self.times.push(took);
        self.kernels = counts.kernels;
        let images = (self.times.len() * self.batch) as f64;
        let rate = images / self.started.elapsed().as_secs_f64();
        self.bar.set_message(format!("loss {loss:.4}  {rate:.0} images/s"));
        self.bar.inc(1);
    }

    fn finish(mut self) -> Cost {
        self.bar.finish_and_clear();
        self.times.sort_unstable();
        Cost { kernels: self.kernels, step: self.times.get(self.times.len() / 2).copied() }
    }
}

/// What the network takes each image for.
pub(super) fn predict(net: &Net, images: &Images, precision: DType) -> Outcome<Vec<i32>> {
    let all: Vec<usize> = (0..images.len()).collect();
    let (pixels, _) = images.batch(&all);
    let best = kiln::autocast(precision, || net.logits(&pixels).argmax(1));
    Ok(best.to_vec()?)
}
