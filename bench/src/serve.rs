//! kiln's side of the conversation: a process that loads a workload, computes what it is told to, and says how long it
//! took. `peers.py` answers the same requests for the others.
//!
//! | request | answer |
//! |---|---|
//! | | `hello VERSION` |
//! | `load NAME` | `ready FIRST LATER SAMPLES..`: seconds of the first call, of the third, and what it computed |
//! | `turn CALLS` | `took SECONDS`, of one call on average |
//! | `peak` | `peak BYTES`: the most memory during a call, beyond what the process took before it had a workload |
//! | `drop` | `gone` |
//!
//! Whatever fails is answered by `lacks WHY`.

use crate::data;
use crate::failure::Failure;
use crate::memory;
use crate::workloads::{self, Run};
use kiln::{DType, Tensor};
use std::io::{BufRead, Write};
use std::time::Instant;

/// Answers requests until there are no more.
pub(crate) fn serve() -> Result<(), Failure> {
    answer(&format!("hello kiln {}", env!("CARGO_PKG_VERSION")))?;
    let mut running: Option<Run> = None;
    let idle = memory::resident();
    for request in std::io::stdin().lock().lines() {
        let request = request.map_err(|e| e.to_string())?;
        let (verb, argument) = request.split_once(' ').unwrap_or((&request, ""));
        let said = match verb {
            "load" => load(argument).map(|(run, said)| {
                running = Some(run);
                said
            }),
            "turn" => turn(running.as_mut(), argument),
            "peak" => peak(running.as_mut(), &idle),
            _ => {
                running = None;
                Ok("gone".to_owned())
            }
        };
        answer(&said.unwrap_or_else(|why| format!("lacks {}", why.replace('\n', "; "))))?;
    }
    Ok(())
}

fn answer(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| e.to_string())
}

/// A workload after three calls: the first compiles, and the second may, as constants become arguments.
fn load(name: &str) -> Result<(Run, String), Failure> {
    let case = workloads::find(name).ok_or("no such workload")?;
    let mut run = case.build.run().map_err(|e| e.to_string())?;
    let mut call = || -> Result<(f64, Option<Tensor>), Failure> {
        let start = Instant::now();
        let result = run().map_err(|e| e.to_string())?;
        Ok((start.elapsed().as_secs_f64(), result))
    };
    let (first, _) = call()?;
    call()?;
    let (later, result) = call()?;
    let samples = match result {
        Some(tensor) => {
            let values = tensor.cast(DType::F64).to_vec::<f64>().map_err(|e| e.to_string())?;
            data::samples(&values)
        }
        None => Vec::new(),
    };
    let samples: String = samples.iter().map(|x| format!(" {x:e}")).collect();
    Ok((run, format!("ready {first} {later}{samples}")))
}

fn turn(running: Option<&mut Run>, calls: &str) -> Result<String, Failure> {
    let run = running.ok_or("nothing is loaded")?;
    let calls: u32 = calls.parse().map_err(|_| format!("{calls} calls"))?;
    let start = Instant::now();
    for _ in 0..calls {
        run().map_err(|e| e.to_string())?;
    }
    Ok(format!("took {}", start.elapsed().as_secs_f64() / f64::from(calls)))
}

fn peak(running: Option<&mut Run>, idle: &Result<u64, Failure>) -> Result<String, Failure> {
    let run = running.ok_or("nothing is loaded")?;
    let most = memory::most_during(|| run().map(drop).map_err(|e| e.to_string()))?;
    Ok(format!("peak {}", most.saturating_sub(idle.clone()?)))
}

/// The shortest program.
pub(crate) fn start() -> Result<(), Failure> {
    let sum = Tensor::from([1.0f32, 2.0, 3.0]) + Tensor::from([4.0f32, 5.0, 6.0]);
    println!("{:?}", sum.to_vec::<f32>().map_err(|e| e.to_string())?);
    Ok(())
}
