//! What a record costs: three programs, each in processes of its own, in turn without and with `VIZ`. Prints the medians of
//! the first step, in which everything is compiled, as nothing is kept on disk, and the record's size. Later steps are compared
//! in one process, a few with a record and a few without it in turn: other work on the machine then falls on both.
//! Run with `cargo bench -p kiln --bench recording`, or with `-- decode 9` for nine rounds of one of them.
#![allow(clippy::print_stdout)]

#[path = "../convnet/model.rs"]
mod model;

mod decoder;
mod digits;

use decoder::Decoder;
use digits::Digits;
use kiln::nn::{Module, train};
use kiln::optim::Adam;
use kiln::{Error, Tensor, no_grad};
use model::Convnet;
use std::process::Command;
use std::time::Instant;

const PROGRAMS: [&str; 3] = ["digits", "convnet", "decode"];

/// Processes of each kind, by default.
const ROUNDS: usize = 5;

/// Steps of a program.
const STEPS: usize = 60;

/// The variable by which a child knows its program.
const PROGRAM: &str = "RECORDING_PROGRAM";

fn main() -> Result<(), Error> {
    if let Ok(program) = std::env::var(PROGRAM) {
        return child(&program);
    }
    let rounds = std::env::args().filter_map(|n| n.parse().ok()).next().unwrap_or(ROUNDS);
    let named: Vec<String> = std::env::args().filter(|a| PROGRAMS.contains(&&a[..])).collect();
    let is_asked = |program: &&str| named.is_empty() || named.iter().any(|name| name == program);
    PROGRAMS.into_iter().filter(is_asked).for_each(|program| compare(program, rounds));
    Ok(())
}

/// What a process took in milliseconds: the first step, and the medians of later ones without and with a record.
type Took = [f64; 3];

/// Steps in a row without a record, or with one.
const IN_A_ROW: usize = 5;

fn compare(program: &str, rounds: usize) {
    let path = std::env::temp_dir().join(format!("kiln-recording-{}.viz", std::process::id()));
    let (mut without, mut with): (Vec<Took>, Vec<Took>) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        without.push(run(program, "0"));
        with.push(run(program, path.to_str().expect("text")));
    }
    let bytes = std::fs::metadata(&path).expect("a record").len() as f64 / 1e6;
    std::fs::remove_file(&path).expect("it is there");
    let of = |all: &[Took], at: usize| median(all.iter().map(|took| took[at]).collect());
    let row =
        |a: f64, b: f64| format!("{a:9.3} ms, with a record {b:9.3} ms, {:.3} times that", b / a);
    println!("{program}: first step  {}", row(of(&without, 0), of(&with, 0)));
    println!("{program}: later steps {}", row(of(&without, 1), of(&without, 2)));
    println!("{program}: the record of {STEPS} steps has {bytes:.1} MB");
}

fn run(program: &str, viz: &str) -> Took {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(PROGRAM, program).env("VIZ", viz).env("KILN_CACHE", "none");
    let output = command.output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    let numbers = numbers.try_into();
    numbers.unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn child(program: &str) -> Result<(), Error> {
    kiln::manual_seed(1);
    let mut step: Step = match program {
        "digits" => {
            let net = Digits::new();
            training(net.parameters(), [64, 1, 8, 8], move |x| net.forward(x))?
        }
        "convnet" => {
            let net = Convnet::new();
            training(net.parameters(), [128, 1, 28, 28], move |x| net.forward(x))?
        }
        _ => {
            let mut decoder = Decoder::new()?;
            Box::new(move |at| no_grad(|| decoder.step(at)))
        }
    };
    let mut timed = |at: usize| -> Result<f64, Error> {
        let start = Instant::now();
        step(at)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    };
    let first = timed(0)?;
    (1..IN_A_ROW).try_for_each(|at| timed(at).map(drop))?;
    let is_recorded = std::env::var("VIZ").is_ok_and(|viz| viz != "0");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let path = std::env::temp_dir().join(format!("kiln-steps-{}.viz", std::process::id()));
    for at in (IN_A_ROW..STEPS).step_by(IN_A_ROW) {
        let mut steps = || (at..at + IN_A_ROW).map(&mut timed).collect::<Result<Vec<f64>, Error>>();
        match is_recorded || at % (2 * IN_A_ROW) == 0 {
            true => without.extend(steps()?),
            false => with.extend(kiln::record(&path, steps)??),
        }
    }
    // it is there unless the process has a record of its own
    let _ = std::fs::remove_file(path);
    with.extend(without.first().filter(|_| is_recorded));
    println!("{first} {} {}", median(without), median(with));
    Ok(())
}

type Step = Box<dyn FnMut(usize) -> Result<(), Error>>;

fn training(
    parameters: Vec<Tensor>,
    shape: [usize; 4],
    forward: impl Fn(&Tensor) -> Tensor + 'static,
) -> Result<Step, Error> {
    let (x, y) = (Tensor::randn(shape), Tensor::randint(0, 10, [shape[0]]));
    kiln::realize([&x, &y])?;
    kiln::realize(&parameters)?;
    let optimizer = Adam::new(parameters, 1e-3);
    Ok(Box::new(move |_| {
        train(|| {
            let loss = forward(&x).cross_entropy(&y);
            optimizer.zero_grad();
            loss.backward()?;
            optimizer.step()?;
            loss.item::<f32>().map(drop)
        })
    }))
}
