//! Every optimizer and clipping, in f64.

use super::{GOLDEN, close, numbers};
use kiln::optim::*;
use kiln::{Error, Tensor, measure, s};

const START: [[f64; 2]; 3] = [[1.5, -2.0], [0.25, 3.0], [-0.75, 0.5]];

fn made(name: &str, w: &Tensor) -> Box<dyn Optimizer> {
    let betas = (0.8, 0.95);
    match name {
        "sgd" => Box::new(SGD::new([w], 0.02)),
        "sgd momentum" => Box::new(SGD::new([w], 0.02).momentum(0.7).weight_decay(0.1)),
        "sgd nesterov" => {
            Box::new(SGD::new([w], 0.02).momentum(0.7).weight_decay(0.1).nesterov(true))
        }
        "adam" => Box::new(Adam::new([w], 0.1).betas(betas).eps(1e-6).weight_decay(0.5)),
        "adamw" => Box::new(AdamW::new([w], 0.1).betas(betas).eps(1e-6).weight_decay(0.05)),
        "rmsprop" => Box::new(RMSprop::new([w], 0.05)),
        "rmsprop momentum" => {
            let opt = RMSprop::new([w], 0.05).alpha(0.9).eps(1e-6);
            Box::new(opt.momentum(0.5).weight_decay(0.1))
        }
        "rmsprop centered" => {
            Box::new(RMSprop::new([w], 0.05).alpha(0.9).momentum(0.5).centered(true))
        }
        "adagrad" => Box::new(Adagrad::new([w], 0.2).lr_decay(0.1).weight_decay(0.1).eps(1e-6)),
        "radam" => Box::new(RAdam::new([w], 0.1).betas(betas).eps(1e-6).weight_decay(0.1)),
        "nadam" => {
            let opt = NAdam::new([w], 0.1).betas(betas).eps(1e-6);
            Box::new(opt.weight_decay(0.1).momentum_decay(0.01))
        }
        "muon" => Box::new(Muon::new([w], 0.1)),
        "muon plain" => {
            let opt = Muon::new([w], 0.1).nesterov(false).momentum(0.8);
            Box::new(opt.weight_decay(0.01).steps(3))
        }
        "adam amsgrad" => {
            let opt = Adam::new([w], 0.1).betas(betas).eps(1e-6).weight_decay(0.5);
            Box::new(opt.amsgrad(true))
        }
        "adamax" => Box::new(Adamax::new([w], 0.1).betas(betas).eps(1e-6).weight_decay(0.1)),
        "adadelta" => Box::new(Adadelta::new([w], 0.7).rho(0.8).eps(1e-4).weight_decay(0.1)),
        "rprop" => Box::new(Rprop::new([w], 0.3).etas((0.4, 1.3)).step_sizes((0.01, 0.6))),
        "lion" => Box::new(Lion::new([w], 0.05).betas(betas).weight_decay(0.1)),
        "lars" => Box::new(LARS::new([w], 0.5).momentum(0.8).trust(0.05).weight_decay(0.1)),
        "asgd" => Box::new(ASGD::new([w], 0.2).lambd(0.1).alpha(0.6).t0(3.0).weight_decay(0.1)),
        "lamb" => Box::new(LAMB::new([w], 0.1).betas(betas).weight_decay(0.1)),
        other => panic!("{other} is not made here"),
    }
}

#[test]
fn ten_steps_are_those_of_pytorch() {
    let cases = GOLDEN["optimizers"].as_object().expect("by name");
    assert_eq!(cases.len(), 21);
    for (name, values) in cases {
        let w = Tensor::from(START).set_requires_grad(true);
        let opt = made(name, &w);
        for (i, want) in values.as_array().expect("steps").iter().enumerate() {
            opt.zero_grad();
            (w.pow(4) * 0.25 + &w).sum(..).backward().expect("a loss");
            opt.step().expect(name);
            let (got, want) = (w.to_vec::<f64>().expect(name), numbers(want));
            assert!(close(&got, &want), "{name}, step {i}: {got:?} {want:?}");
        }
    }
}

/// Kernels that are compiled in each step, at a rate that changes.
fn compiled(name: &str) -> Vec<u64> {
    let w = Tensor::from(START).set_requires_grad(true);
    w.realize().expect("computed");
    let opt = made(name, &w);
    let step = |i: u32| {
        opt.zero_grad();
        opt.set_lr(opt.lr() / f64::from(1 + i));
        (&w * &w).sum(..).backward().expect("a gradient");
        opt.step().expect("a step");
    };
    let counts = |i| measure(|| step(i)).1;
    (0..8).map(counts).map(|n| n.scheduled + n.compiled + n.loaded).collect()
}

#[test]
fn the_kernels_of_the_first_step_fit_all_steps() {
    for name in GOLDEN["optimizers"].as_object().expect("by name").keys() {
        let compiled = compiled(name);
        // the variance of the first steps of RAdam has no estimate: its rule is another one
        let again = if name == "radam" { 1 } else { 0 };
        let steps = compiled[1..].iter().filter(|&&n| n > 0).count();
        assert!(compiled[0] > 0 && steps <= again, "{name}: {compiled:?}");
    }
}

/// Two gradients of known values.
fn two() -> [Tensor; 2] {
    let wanted = [vec![3.0f64, -0.5], vec![0.25, 2.0, -4.0]];
    wanted.map(|grad| {
        let w = Tensor::zeros_with([grad.len()], kiln::DType::F64).set_requires_grad(true);
        (&w * Tensor::from(grad)).sum(..).backward().expect("a loss");
        w
    })
}

fn clipped(most: f64, p: f64) -> Vec<f64> {
    let parameters = two();
    let norm = clip_grad_norm_with(&parameters, most, p).expect("gradients");
    let grads =
        parameters.iter().flat_map(|w| w.grad().expect("one").to_vec::<f64>().expect("f64"));
    std::iter::once(norm.item::<f64>().expect("a norm")).chain(grads).collect()
}

#[test]
fn clipping_is_that_of_pytorch() {
    for case in GOLDEN["clipped"].as_array().expect("cases") {
        let (most, p) = (case[0].as_f64().expect("most"), case[1].as_f64().expect("p"));
        let (got, want) = (clipped(most, p), numbers(&case[2]));
        assert!(close(&got, &want), "{most} {p}: {got:?} {want:?}");
    }
    let want = numbers(&GOLDEN["clipped by the largest"]);
    assert!(close(&clipped(1.0, f64::INFINITY), &want), "{want:?}");
    let parameters = two();
    clip_grad_value(&parameters, 0.75).expect("gradients");
    assert_eq!(parameters[0].grad().expect("one").to_vec::<f64>().expect("f64"), [0.75, -0.5]);
    assert_eq!(
        parameters[1].grad().expect("one").to_vec::<f64>().expect("f64"),
        [0.25, 0.75, -0.75]
    );
    assert!(clip_grad_value(&parameters, f64::NAN).is_err());
    assert!(clip_grad_norm(&parameters, -1.0).is_err());
    let none = clip_grad_norm([Tensor::ones([1])], 1.0).expect_err("no gradient").to_string();
    assert!(none.contains("backward comes first") && none.contains("optimizers.rs"), "{none}");
}

#[test]
fn groups_have_numbers_of_their_own() {
    let w: Vec<Tensor> = (0..3).map(|_| Tensor::from([2.0f64]).set_requires_grad(true)).collect();
    let opt = SGD::new([&w[0]], 0.5)
        .weight_decay(0.25)
        .with_group(Group::new([&w[1]]).lr(0.125))
        .with_group(Group::new([&w[2]]).weight_decay(0.0));
    let step = || -> Vec<f64> {
        opt.zero_grad();
        (&w[0] + &w[1] + &w[2]).sum(..).backward().expect("a loss");
        opt.step().expect("a step");
        w.iter().map(|w| w.item::<f64>().expect("one")).collect()
    };
    assert_eq!(step(), [1.25, 1.8125, 1.5]);
    opt.set_lr(0.25);
    assert_eq!((opt.lr(), opt.group_lr(1), opt.group_lr(2)), (0.25, Some(0.125), Some(0.25)));
    assert_eq!(step(), [1.25 - 0.25 * 1.3125, 1.8125 - 0.125 * 1.453125, 1.25]);
    let twice = SGD::new([&w[0]], 0.1).with_group(Group::new([&w[0]]));
    assert!(twice.step().expect_err("in two").to_string().contains("two groups"));
    let wrong = SGD::new([&w[0]], 0.1).with_group(Group::new([&w[1]]).weight_decay(-1.0));
    assert!(wrong.step().expect_err("negative").to_string().contains("weight decay"));
}

#[test]
fn a_parameter_that_comes_late_starts_at_its_own_first_step() {
    let [early, late] = [(); 2].map(|()| Tensor::from([1.0f64]).set_requires_grad(true));
    let opt = Adam::new([&early, &late], 0.125);
    for parameters in [&[&early][..], &[&early, &late]] {
        opt.zero_grad();
        parameters.iter().for_each(|p| p.sum(..).backward().expect("a loss"));
        opt.step().expect("a step");
    }
    // a first step of Adam is as long as the learning rate, but for eps
    assert!((late.item::<f64>().expect("one") - 0.875).abs() < 1e-8);
}

/// A loop over whatever optimizer.
fn run(opt: &impl Optimizer, w: &Tensor) -> Result<f64, Error> {
    opt.zero_grad();
    w.square().sum(..).backward()?;
    opt.step()?;
    w.item()
}

#[test]
fn loops_are_generic_and_shared_by_threads() {
    let w = Tensor::from([1.0f64]).set_requires_grad(true);
    let opt = SGD::new([&w], 0.25);
    let got = std::thread::scope(|s| s.spawn(|| run(&opt, &w)).join().expect("no panic"));
    assert_eq!(got.expect("a step"), 0.5);
    let error = Muon::new([&w], 0.1).step().expect_err("no matrix").to_string();
    assert!(error.contains("Muon updates matrices, not a parameter of [1]"), "{error}");
}

#[test]
fn numbers_that_are_no_rule_are_refused() {
    let w = Tensor::from([[3.0f64]]).set_requires_grad(true);
    w.square().sum(..).backward().expect("has a gradient");
    let wrong = [
        (RMSprop::new([&w], 0.1).alpha(1.0).step(), "alpha"),
        (RMSprop::new([&w], 0.1).momentum(-0.1).step(), "momentum"),
        (Adagrad::new([&w], 0.1).lr_decay(-0.1).step(), "decay of the learning rate"),
        (RAdam::new([&w], 0.1).betas((0.5, 1.0)).step(), "second beta"),
        (NAdam::new([&w], 0.1).momentum_decay(-1.0).step(), "momentum decay"),
        (Lion::new([&w], 0.1).betas((1.0, 0.5)).step(), "first beta"),
        (LARS::new([&w], 0.1).trust(f64::NAN).step(), "trust"),
        (LAMB::new([&w], 0.1).eps(-1.0).step(), "eps"),
        (Muon::new([&w], 0.1).momentum(1.0).step(), "momentum"),
    ];
    for (result, named) in wrong {
        let error = result.expect_err(named).to_string();
        assert!(error.contains(named) && error.contains("optimizers.rs"), "{error}");
    }
    assert_eq!(w.item::<f64>().expect("unchanged"), 3.0);
}

/// Rosenbrock's function of neighbours.
fn valley(x: &Tensor) -> Tensor {
    let (a, b) = (x.get(s![..-1]), x.get(s![1..]));
    ((&b - a.square()).square() * 100.0 + (1.0 - a).square()).sum(..)
}

fn bowl(x: &Tensor) -> Tensor {
    (x.square().square() / 4.0 + x.sum(..).square()).sum(..)
}

/// The losses before each of three steps, and the parameters afterwards.
fn three_steps(x: &Tensor, opt: &LBFGS, f: fn(&Tensor) -> Tensor) -> (Vec<f64>, Vec<f64>) {
    let losses = (0..3).map(|_| opt.step(|| Ok(f(x))).expect("a step")).collect();
    (losses, x.to_vec().expect("f64"))
}

#[test]
fn lbfgs_is_that_of_pytorch() {
    // torch.optim.LBFGS 2.15 in f64
    let cases: [(f64, usize, usize, bool, [f64; 7]); 4] = [
        (
            1.0,
            100,
            4,
            true,
            [
                355.7,
                5.90601464338693,
                4.24192095183279,
                -1.0401142960061427,
                1.0811011013576386,
                1.1712838656373898,
                1.3831558567553326,
            ],
        ),
        (
            1.0,
            2,
            6,
            true,
            [
                355.7,
                4.3242844726126535,
                4.239080978791651,
                -1.0017527263805697,
                0.9967804733715968,
                1.0037427956889553,
                1.0022063776543646,
            ],
        ),
        (
            0.1,
            100,
            4,
            false,
            [
                25.944024999999996,
                13.964092709996223,
                6.889577693225155,
                -1.2400307913223534,
                0.5498824579888004,
                0.039737117211247355,
                1.3557997061206564,
            ],
        ),
        (
            0.01,
            3,
            5,
            true,
            [
                355.7,
                53.32761197136866,
                25.617628394362356,
                -1.0210339438785077,
                1.0257490381918961,
                1.1359032770231394,
                1.5940428044767367,
            ],
        ),
    ];
    for (lr, history, iterations, searches, want) in cases {
        let x = Tensor::from([-1.2f64, 1.0, 0.5, 2.0]).set_requires_grad(true);
        let opt =
            LBFGS::new([&x], lr).history_size(history).max_iter(iterations).strong_wolfe(searches);
        let (losses, at) = three_steps(&x, &opt, if searches { valley } else { bowl });
        let got = [losses, at].concat();
        let far = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(far < 1e-8, "{lr} {history} {iterations} {searches}: {got:?} {want:?}");
    }
}

#[test]
fn lbfgs_takes_parameters_of_any_dtype_and_leaves_what_is_not_read() {
    let w = Tensor::from([3.0f32, -1.0]).set_requires_grad(true);
    let b = Tensor::from([2.0f32]).bfloat16().set_requires_grad(true);
    let other = Tensor::from([7.0f32]).set_requires_grad(true);
    let opt = LBFGS::new([&w, &b, &other], 1.0).strong_wolfe(true);
    let target = Tensor::from([0.5f32, 0.25]);
    let loss = || Ok((&w - &target).square().sum(..) + (&b - 1.0).square().sum(..));
    let before = opt.step(loss).expect("a step");
    assert_eq!(before, 6.25 + 1.5625 + 1.0);
    let at = [w.to_vec::<f32>().expect("f32"), other.to_vec().expect("f32")].concat();
    assert!(at.iter().zip([0.5, 0.25, 7.0]).all(|(a, b)| (a - b).abs() < 1e-5), "{at:?}");
    assert_eq!(b.float().item::<f32>().expect("one"), 1.0);
    assert!(w.grad().is_none());
}

#[test]
fn lbfgs_stays_where_the_loss_is_no_number_and_says_what_is_wrong() {
    let w = Tensor::from([2.0f64]).set_requires_grad(true);
    let opt = LBFGS::new([&w], 1.0).strong_wolfe(true);
    assert!(opt.step(|| Ok((&w - 3.0).log().sum(..))).expect("NaN").is_nan());
    assert_eq!(w.item::<f64>().expect("one"), 2.0);
    // trials beyond 3 are NaN, so the search comes back
    let losses = [(); 2].map(|()| opt.step(|| Ok((3.0 - &w).sqrt().sum(..))).expect("a step"));
    assert!(losses[0] == 1.0 && losses[1] < 0.7, "{losses:?}");
    assert!(w.item::<f64>().expect("one") < 3.0);
    let unread = opt.step(|| Ok(Tensor::from(1.0f64))).expect_err("reads nothing").to_string();
    assert!(unread.contains("none of the parameters"), "{unread}");
    let failed = opt.step(|| w.matmul(&Tensor::ones([3])).backward().map(|()| w.clone()));
    assert_eq!(failed.expect_err("shapes").op(), "matmul");
    assert!(LBFGS::new([&w], f64::NAN).step(|| Ok(w.sum(..))).is_err());
}
