//! `cargo run -p kiln-book -- CHAPTER NUMBER [PART ..]`: runs a program of the book, and prints the part that a block shows:
//! to stderr, since the program itself prints to stdout.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use kiln_book::show;
use std::error::Error;
use std::process::ExitCode;

type Program = fn() -> Result<(), Box<dyn Error>>;

include!(concat!(env!("OUT_DIR"), "/programs.rs"));

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(text) => {
            eprint!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The text of the part; nothing if none is asked for.
fn run(args: &[String]) -> Result<String, Box<dyn Error>> {
    let [chapter, number, part @ ..] = args else {
        return Err("usage: kiln-book CHAPTER NUMBER [PART ..]".into());
    };
    let number: usize = number.parse()?;
    let found = PROGRAMS.iter().find(|(c, n, _)| c == chapter && *n == number);
    let (_, _, program) = found.ok_or("there is no such program")?;
    match part {
        [] => program().map(|()| String::new()),
        part => show::shown(&part.join(" "), program),
    }
}
