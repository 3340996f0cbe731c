//! Training that stops and goes on.

use kiln::nn::{self, Module, StateDict, state};
use kiln::optim::*;
use kiln::{Tensor, measure};

struct Run {
    net: [nn::Linear; 2],
    opt: Box<dyn Optimizer>,
}

fn net() -> [nn::Linear; 2] {
    [nn::Linear::new(6, 5), nn::Linear::new(5, 3)]
}

fn batch(step: usize) -> Tensor {
    let numbers = (0..24).map(|i| ((i * (step + 3)) % 11) as f32 / 11.0).collect();
    Tensor::from_vec(numbers, [4, 6])
}

impl Run {
    /// Its weights are in memory, as those are that come from files: computed along with a step they would be another
    /// graph, whose sums may have another order. An optimizer need not store those that it does not train.
    fn new(make: Maker) -> Run {
        let net = net();
        net.parameters().iter().for_each(|p| _ = p.realize().expect("computes"));
        Run { opt: make(net.parameters()), net }
    }

    fn steps(&self, range: std::ops::Range<usize>) {
        for step in range {
            self.opt.set_lr(0.05 / (1.0 + (step % 3) as f64));
            self.opt.zero_grad();
            let y = self.net[1].forward(&self.net[0].forward(&batch(step)).tanh());
            (y - 0.3).square().mean(..).backward().expect("a loss");
            self.opt.step().expect("a step");
        }
    }

    fn bits(&self) -> Vec<u32> {
        let of = |p: Tensor| p.to_vec::<f32>().expect("values");
        self.net.parameters().into_iter().flat_map(of).map(f32::to_bits).collect()
    }
}

fn weights(parameters: Vec<Tensor>) -> Vec<Tensor> {
    parameters.into_iter().filter(|p| p.ndim() == 2).collect()
}

type Maker = fn(Vec<Tensor>) -> Box<dyn Optimizer>;

const MAKERS: [Maker; 14] = [
    |p| Box::new(SGD::new(p, 0.05).momentum(0.9)),
    |p| Box::new(Adam::new(p, 0.05)),
    |p| Box::new(AdamW::new(weights(p.clone()), 0.05).with_group(Group::new(biases(p)).lr(0.01))),
    |p| Box::new(RMSprop::new(p, 0.05).momentum(0.5).centered(true)),
    |p| Box::new(Adagrad::new(p, 0.05).lr_decay(0.1)),
    |p| Box::new(RAdam::new(p, 0.05).betas((0.9, 0.9))),
    |p| Box::new(NAdam::new(p, 0.05)),
    |p| Box::new(Lion::new(p, 0.05)),
    |p| Box::new(LAMB::new(p, 0.05)),
    |p| Box::new(Muon::new(weights(p), 0.05)),
    |p| Box::new(Adam::new(p, 0.05).amsgrad(true)),
    |p| Box::new(Adamax::new(p, 0.05)),
    |p| Box::new(Adadelta::new(p, 0.5)),
    |p| Box::new(Rprop::new(p, 0.01)),
];

fn biases(parameters: Vec<Tensor>) -> Vec<Tensor> {
    parameters.into_iter().filter(|p| p.ndim() == 1).collect()
}

#[test]
fn going_on_from_files_gives_the_bits_of_not_stopping() {
    for (i, make) in MAKERS.into_iter().enumerate() {
        // not by a seed: that of the process is other tests', too
        let (whole, first) = (Run::new(make), Run::new(make));
        first.net.load_state_dict(&whole.net.state_dict(), true).expect("fits");
        whole.steps(0..20);
        first.steps(0..10);
        let at = |name: &str| {
            let name = format!("kiln-resume-{}-{i}-{name}.safetensors", std::process::id());
            std::env::temp_dir().join(name)
        };
        state::save(at("net"), &first.net.state_dict()).expect("saved");
        state::save(at("opt"), &first.opt.state_dict()).expect("saved");
        let second = Run::new(make);
        second.net.load_state_dict(&state::load(at("net")).expect("there"), true).expect("fits");
        second.opt.load_state_dict(&state::load(at("opt")).expect("there")).expect("fits");
        assert_eq!(second.bits(), first.bits(), "optimizer {i}, as saved");
        second.steps(10..20);
        assert_eq!(second.bits(), whole.bits(), "optimizer {i}");
        assert_ne!(second.bits(), first.bits(), "optimizer {i}, it went on");
        ["net", "opt"]
            .into_iter()
            .for_each(|name| std::fs::remove_file(at(name)).expect("just written"));
    }
}

/// The variable that tells a child where the files are.
const FILES: &str = "KILN_TEST_RESUME";

#[test]
#[ignore = "run by the other tests, in a process of its own"]
#[allow(clippy::print_stderr)]
fn child() {
    let Ok(files) = std::env::var(FILES) else { return };
    // other numbers, which are replaced
    kiln::manual_seed(99);
    let run = Run::new(MAKERS[1]);
    let at = |name: &str| state::load(format!("{files}-{name}.safetensors")).expect("there");
    run.net.load_state_dict(&at("net"), true).expect("fits");
    run.opt.load_state_dict(&at("opt")).expect("fits");
    run.steps(10..20);
    eprintln!("BITS {:?}", run.bits());
}

#[test]
fn another_process_goes_on_with_the_same_bits() {
    kiln::manual_seed(4);
    let whole = Run::new(MAKERS[1]);
    whole.steps(0..10);
    let files = std::env::temp_dir().join(format!("kiln-process-{}", std::process::id()));
    let files = files.to_str().expect("a path of text");
    let at = |name: &str| format!("{files}-{name}.safetensors");
    state::save(at("net"), &whole.net.state_dict()).expect("saved");
    state::save(at("opt"), &whole.opt.state_dict()).expect("saved");
    let mut other = std::process::Command::new(std::env::current_exe().expect("this test"));
    let other = other.args(["--ignored", "--exact", "training::resume::child", "--nocapture"]);
    let output = other.env(FILES, files).output().expect("runs");
    ["net", "opt"].into_iter().for_each(|name| std::fs::remove_file(at(name)).expect("written"));
    whole.steps(10..20);
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains(&format!("BITS {:?}", whole.bits())), "{said}");
}

#[test]
fn states_that_do_not_fit_are_refused() {
    let w = Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    let opt = Adam::new([&w], 0.5);
    w.square().sum(..).backward().expect("a loss");
    opt.step().expect("a step");
    let good = opt.state_dict();
    let refused = |change: fn(&mut StateDict), why: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        let error = opt.load_state_dict(&bad).expect_err(why).to_string();
        assert!(error.contains(why) && error.contains("resume.rs"), "{error}");
    };
    let name = "state.0.exp_avg";
    let without = |s: &mut StateDict| drop(s.remove("state.0.exp_avg"));
    refused(without, "state.0.exp_avg is missing");
    refused(|s| drop(s.remove("groups.0.lr")), "groups.0.lr is missing");
    refused(|s| drop(s.insert("state.7.step".into(), Tensor::from(1i64))), "1 of the names");
    refused(
        |s| drop(s.insert("state.0.exp_avg".into(), Tensor::ones([3]))),
        "state.0.exp_avg is f32 [3], not f32 [2]",
    );
    refused(|s| drop(s.insert("state.0.step".into(), Tensor::from(-1i64))), "-1 steps");
    assert_eq!(good[name].to_vec::<f32>().expect("kept"), [0.2, 0.4]);
    // what was loaded is a copy
    let other = Adam::new([Tensor::from([1.0f32, 2.0])], 0.1);
    other.load_state_dict(&good).expect("fits");
    good[name].assign(7.0);
    assert_eq!(other.state_dict()[name].to_vec::<f32>().expect("kept"), [0.2, 0.4]);
}

/// Gradients of several backwards add up, and after the first round nothing is compiled.
#[test]
fn gradients_of_several_batches_add_up() {
    kiln::manual_seed(6);
    let net = net();
    let opt = AdamW::new(net.parameters(), 0.01);
    let loss = |i| net[1].forward(&net[0].forward(&batch(i)).tanh()).square().mean(..);
    for round in 0..5 {
        let ((), n) = measure(|| {
            opt.zero_grad();
            (0..4).for_each(|i| (loss(round * 4 + i) / 4.0).backward().expect("a loss"));
            opt.step().expect("a step");
        });
        if round >= 1 {
            assert_eq!((n.scheduled, n.compiled, n.loaded), (0, 0, 0), "round {round}");
        }
    }
    opt.zero_grad();
    (0..4).for_each(|i| (loss(i) / 4.0).backward().expect("a loss"));
    let apart = net[0].weight.grad().expect("one").to_vec::<f32>().expect("values");
    opt.zero_grad();
    let all = Tensor::cat((0..4).map(batch).collect::<Vec<_>>(), 0);
    let y = net[1].forward(&net[0].forward(&all).tanh());
    y.square().mean(..).backward().expect("a loss");
    let whole = net[0].weight.grad().expect("one").to_vec::<f32>().expect("values");
    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6;
    assert!(apart.iter().zip(&whole).all(near), "{apart:?} {whole:?}");
}
