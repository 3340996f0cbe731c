//! What is not computing: launching, updating what is small, starting a process.

use super::case::{Build, Case, Run, Tolerance, Work};
use crate::data::{floats, scaled};
use crate::options::START;
use kiln::optim::AdamW;
use kiln::{Error, Tensor};
use std::process::{Command, Stdio};

/// Kernels of one schedule.
const LAUNCHES: usize = 100;
/// Parameters, and elements of each.
const PARAMETERS: usize = 200;
const ELEMENTS: usize = 256;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "launch",
        what: "100 products of 16 x 16, each of the one before; the time is that of one",
        work: Work::NONE,
        tolerance: Tolerance::f32(16 * LAUNCHES),
        goal: 0.0,
        pieces: LAUNCHES as u32,
        build: Build::By(|| launches(None)),
    },
    Case {
        name: "host",
        what: "the same on NULL, which launches nothing: what `launch` takes beside its kernels",
        work: Work::NONE,
        tolerance: Tolerance::f32(1),
        goal: 0.0,
        pieces: LAUNCHES as u32,
        build: Build::By(|| launches(Some("NULL"))),
    },
    Case {
        name: "optimizer",
        what: "AdamW step of 200 parameters of 256 elements, with the gradients of a dot product",
        work: Work::NONE,
        tolerance: Tolerance::f32(16),
        goal: 0.0,
        pieces: 1,
        build: Build::By(optimizer),
    },
    Case {
        name: "start",
        what: "a process that adds two small tensors, from its start to its end, warm caches",
        work: Work::NONE,
        tolerance: Tolerance::f32(1),
        goal: 0.0,
        pieces: 1,
        build: Build::By(|| Ok(Box::new(|| start().map(|()| None)))),
    },
];

/// A chain in which every value is a sum that the next asks for many times, so that each is a kernel. On a device of its
/// own nothing is compared: there may be nothing to see.
fn launches(device: Option<&'static str>) -> Result<Run, Error> {
    let (mut x, mut w) = (floats(1, &[16, 16])?, scaled(2, &[16, 16], 0.25)?);
    if let Some(device) = device {
        (x, w) = (x.to(device), w.to(device));
        kiln::realize([&x, &w])?;
    }
    Ok(Box::new(move || {
        let product = (0..LAUNCHES).fold(x.clone(), |x, _| x.matmul(&w));
        product.realize()?;
        Ok(device.is_none().then_some(product))
    }))
}

fn optimizer() -> Result<Run, Error> {
    let (mut parameters, mut slopes) = (Vec::new(), Vec::new());
    for i in 0..PARAMETERS as u32 {
        parameters.push(floats(i, &[ELEMENTS])?.set_requires_grad(true));
        slopes.push(scaled(1000 + i, &[ELEMENTS], 0.1)?);
    }
    let optimizer = AdamW::new(&parameters, 1e-3);
    let terms = move |parameters: &[Tensor]| {
        let products = parameters.iter().zip(&slopes).map(|(p, s)| (p * s).sum(..));
        products.reduce(|a, b| a + b).expect("there are parameters")
    };
    Ok(Box::new(move || {
        optimizer.zero_grad();
        terms(&parameters).backward()?;
        optimizer.step()?;
        Ok(Some(parameters[0].clone()))
    }))
}

/// This program, adding two small tensors.
fn start() -> Result<(), Error> {
    let program = std::env::current_exe().expect("this program has a path");
    let status = Command::new(program).arg(START).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|s| s.success()), "the process that adds two tensors failed");
    Ok(())
}
