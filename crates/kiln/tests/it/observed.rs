//! What observers see of whole programs: rewrites that replay, decisions, launches, copies and allocations.

use kiln::nn::{Conv2d, Linear, Module};
use kiln::optim::AdamW;
use kiln::{Error, Tensor};
use kiln_ir::observe::{self, Event, Kind, Log, Observer, Seen};
use std::sync::{Arc, Mutex};

/// The network of `kiln digits`, for images of 8 x 8.
#[derive(Module)]
struct Net {
    conv1: Conv2d,
    conv2: Conv2d,
    linear: Linear,
}

impl Net {
    fn loss(&self, pixels: &Tensor, labels: &Tensor) -> Tensor {
        let x = self.conv1.forward(pixels).relu();
        let x = self.conv2.forward(&x).relu().max_pool2d(2);
        self.linear.forward(&x.flatten_from(1)).cross_entropy(labels)
    }
}

/// A step with a batch of a size that no other test has, so that nothing is compiled already.
pub(crate) fn training_step(batch: usize) -> Result<f32, Error> {
    let net = Net {
        conv1: Conv2d::new(1, 16, 3).padding(1),
        conv2: Conv2d::new(16, 32, 3).padding(1),
        linear: Linear::new(32 * 4 * 4, 10),
    };
    let optimizer = AdamW::new(net.parameters(), 1e-3);
    let pixels = Tensor::rand([batch, 1, 8, 8]);
    let labels = Tensor::arange(batch).modulo(10);
    let loss = net.loss(&pixels, &labels);
    loss.backward()?;
    optimizer.step()?;
    loss.item()
}

#[test]
fn the_rewrites_of_a_training_step_replay() {
    let log = Arc::new(Log::default());
    let observer: Arc<dyn Observer> = log.clone();
    // the passes are those of the CPU
    let on_cpu = || kiln::with([("DEV", "CPU")], || training_step(13)).expect("settings");
    let loss = observe::with(Some(observer), on_cpu);
    assert!(loss.expect("computes").is_finite());
    let replay = log.replay().expect("rewrites give the graphs that were seen");
    assert!(replay.sets > 100 && replay.rewrites > 1000, "{replay:?}");
    let seen = log.seen();
    for pass in ["prepare", "memory", "choose", "trim", "vector", "linearize", "render"] {
        let is_it = |s: &Seen| matches!(s, Seen::Pass { name, .. } if *name == pass);
        assert!(seen.iter().any(is_it), "{pass}");
    }
    assert!(seen.iter().any(|s| matches!(s, Seen::Decision(text) if text.contains("memory"))));
}

/// Sees what runs, and checks the clocks.
#[derive(Default)]
struct Runs(Mutex<Vec<String>>);

impl Observer for Runs {
    fn see(&self, event: &Event<'_>) {
        let line = match *event {
            Event::Launched { program, methods, start, end, .. } => {
                assert!(start <= end);
                format!("launch {} by {}", program.name, methods.join(", "))
            }
            Event::Copied { bytes, start, end, .. } => {
                assert!(start <= end);
                format!("copy {bytes}")
            }
            Event::Allocated { bytes, start, end, .. } => {
                assert!(start <= end);
                format!("allocate {bytes}")
            }
            Event::Freed { .. } => "free".to_owned(),
            _ => panic!("{:?} was not wanted", event.kind()),
        };
        self.0.lock().expect("no panic").push(line);
    }

    fn wants(&self, kind: Kind) -> bool {
        kind == Kind::Runs
    }
}

fn runs(program: impl FnOnce() -> Result<(), Error>) -> Vec<String> {
    let runs = Arc::new(Runs::default());
    // the name of a general kernel depends on what other tests have run
    let program = || kiln::with([("LENGTHS", 0)], program).expect("a setting");
    observe::with(Some(runs.clone()), program).expect("computes");
    let seen = runs.0.lock().expect("no panic");
    seen.clone()
}

#[test]
fn launches_copies_and_allocations_are_seen() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]);
    let seen = runs(|| (&x + 1).realize().map(|_| ()));
    assert_eq!(seen[0], "allocate 12");
    assert!(seen[1].starts_with("launch E_3 by "), "{seen:?}");
    assert_eq!(seen[2..], ["free"], "the sum is dropped");
    // `before` still needs the old values, so the write begins with a copy of them
    let y = Tensor::zeros([1000]).contiguous();
    y.realize().expect("computes");
    let before = &y + 1;
    let seen = runs(|| {
        y.set(kiln::s![1], 7);
        y.realize().map(|_| ())
    });
    assert_eq!(seen[..2], ["allocate 4000", "copy 4000"], "{seen:?}");
    assert!(seen[2].starts_with("launch ") && seen.len() == 3, "{seen:?}");
    assert_eq!(before.sum(..).item::<f32>().expect("computes"), 1000.0);
    // without an observer nothing is made
    assert!(!observe::is_wanted(Kind::Runs));
}
