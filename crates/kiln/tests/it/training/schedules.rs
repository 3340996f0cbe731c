//! Learning rates of schedules.

use super::{GOLDEN, close, numbers};
use kiln::optim::*;

fn made(name: &str) -> Box<dyn Schedule> {
    match name {
        "step" => Box::new(StepLR::new(0.2, 3, 0.5)),
        "multistep" => Box::new(MultiStepLR::new(0.2, [4, 5, 11], 0.3)),
        "exponential" => Box::new(ExponentialLR::new(0.2, 0.9)),
        "linear" => Box::new(LinearLR::new(0.2, 0.25, 0.75, 6)),
        "cosine" => Box::new(CosineAnnealingLR::new(0.2, 12).eta_min(0.01)),
        "one cycle" => {
            let schedule = OneCycleLR::new(0.4, 20).pct_start(0.35);
            Box::new(schedule.div_factor(10.0).final_div_factor(50.0))
        }
        "sequential" => {
            let first: Box<dyn Schedule> = Box::new(ConstantLR::new(0.2, 0.1, 100));
            let then = [
                Box::new(ExponentialLR::new(0.2, 0.9)) as _,
                Box::new(StepLR::new(0.2, 2, 0.5)) as _,
            ];
            Box::new(SequentialLR::new([first].into_iter().chain(then).collect::<Vec<_>>(), [4, 9]))
        }
        "constant" => Box::new(ConstantLR::new(0.2, 0.25, 5)),
        "polynomial" => Box::new(PolynomialLR::new(0.2, 12, 2.0)),
        "restarts" => Box::new(CosineAnnealingWarmRestarts::new(0.2, 3, 2).eta_min(0.01)),
        "restarts alike" => Box::new(CosineAnnealingWarmRestarts::new(0.2, 4, 1)),
        "cyclic" => Box::new(CyclicLR::new(0.1, 0.4, 4).down(3)),
        "cyclic halved" => Box::new(CyclicLR::new(0.1, 0.4, 3).halved()),
        "cyclic falling" => Box::new(CyclicLR::new(0.1, 0.4, 3).falling(0.9)),
        "lambda" => Box::new(LambdaLR::new(0.2, |t| 1.0 / (1 + t) as f64)),
        other => panic!("{other} is not made here"),
    }
}

#[test]
fn rates_are_those_of_pytorch() {
    let cases = GOLDEN["schedules"].as_object().expect("by name");
    assert_eq!(cases.len(), 15);
    for (name, want) in cases {
        let schedule = made(name);
        let got: Vec<f64> = (0..20).map(|step| schedule.lr(step)).collect();
        assert!(close(&got, &numbers(want)), "{name}: {got:?} {want}");
    }
}

#[test]
fn a_plateau_is_that_of_pytorch() {
    let measured = numbers(&GOLDEN["measured"]);
    let schedule = || ReduceLROnPlateau::new(0.2).factor(0.5).patience(2).cooldown(1).min_lr(0.02);
    let (mut falling, mut rising) = (schedule(), schedule().rising(true));
    let got: Vec<f64> = measured.iter().map(|&m| falling.lr(m)).collect();
    assert_eq!(got, numbers(&GOLDEN["plateau"]));
    let got: Vec<f64> = measured.iter().map(|&m| rising.lr(4.0 - m)).collect();
    assert_eq!(got, numbers(&GOLDEN["plateau rising"]));
}

#[test]
fn a_function_is_a_schedule() {
    let warmup = |step: u64| 0.1 * (step as f64 / 4.0).min(1.0);
    let schedules: [&dyn Schedule; 2] = [&warmup, &LinearLR::new(0.1, 0.0, 1.0, 4)];
    for schedule in schedules {
        assert_eq!((schedule.lr(0), schedule.lr(2), schedule.lr(9)), (0.0, 0.05, 0.1));
    }
}
