//! The `kiln` command. Each subcommand is a module; all of them write to one place and fail in one way.

/// What a subcommand returns.
mod outcome;
/// Handwritten digits, from file to accuracy.
mod digits;
/// What this machine computes with.
mod devices;
/// The environment variables.
mod env;
/// The compiler's passes.
mod passes;
/// The description of this machine.
mod calibrate;
/// What programs take, and what a search finds.
mod bench;
/// What took the time in a recorded run.
mod explain;
/// The kernels of two recorded runs.
mod compare;
/// A recorded run as a page.
mod viz;
/// Language models from files.
mod language;

use clap::{Parser, Subcommand};
use outcome::{Failure, Outcome};
use std::process::ExitCode;

/// Tensors with generated kernels.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a small convolutional network on handwritten digits.
    Digits(digits::Options),
    /// Go on with a text: GPT-2 from the files that it is published as.
    Gpt2(language::gpt2::Options),
    /// Write a vector for each text: sentence embeddings from the files of a BERT.
    Embed(language::embed::Options),
    /// List the devices, with the compiler of each or what is missing.
    Devices,
    /// Time a few programs; with --beam, search for faster kernels and show what was found.
    Bench(bench::Options),
    /// List the environment variables that kiln reads.
    Env,
    /// List the passes of the compiler, with what holds after each.
    Passes,
    /// Show a recorded run in the browser: VIZ=1 records, or `kiln viz -- PROGRAM`.
    Viz(viz::Options),
    /// Say what took the time in a recorded run, and why: VIZ=1 records.
    Explain(explain::Options),
    /// Say which kernels differ between two recorded runs of a program.
    Compare(compare::Options),
    /// List what the compiler supposes that things cost, with sources, and measure this machine.
    Calibrate,
}

fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Digits(options) => digits::run(&options),
        Command::Gpt2(options) => language::gpt2::run(&options),
        Command::Embed(options) => language::embed::run(&options),
        Command::Devices => devices::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Env => env::run(),
        Command::Passes => passes::run(),
        Command::Viz(options) => viz::run(&options),
        Command::Explain(options) => explain::run(&options),
        Command::Compare(options) => compare::run(&options),
        Command::Calibrate => calibrate::run(),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Said(why)) => {
            // nobody is left to tell if this fails too
            let _ =
                std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("kiln: {why}\n"));
            ExitCode::FAILURE
        }
    }
}
