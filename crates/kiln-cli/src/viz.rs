//! `kiln viz`: a recorded run as a page on localhost.

mod files;
mod server;
mod sources;

use crate::outcome::{Failure, Outcome};
use clap::Args;
use files::FILES;
use kiln::record::Record;
use serde_json::{Value, json};
use server::Answer;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

#[derive(Args)]
pub(crate) struct Options {
    /// A record: what `VIZ=1` writes. With a program after `--`, where its record goes
    file: Option<PathBuf>,
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// A program to record first: `kiln viz -- cargo run --release`
    #[arg(last = true)]
    program: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let path = match (&options.file, &options.program[..]) {
        (None, []) => return Err(Failure::new("wants a record, or a program after --")),
        (file, []) => file.clone().expect("one of the two"),
        (file, program) => recorded(file.clone(), program)?,
    };
    let shown = Shown::new(Record::open(&path)?)?;
    let listener = TcpListener::bind(("127.0.0.1", options.port))?;
    let port = listener.local_addr()?.port();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} is shown at http://127.0.0.1:{port}/ until Ctrl-C", path.display())?;
    out.flush()?;
    server::serve(&listener, port, &|url| shown.answer(url));
    Ok(())
}

/// Runs a program with `VIZ`, and gives the file of its record.
fn recorded(file: Option<PathBuf>, program: &[String]) -> Outcome<PathBuf> {
    let path = file.unwrap_or_else(|| PathBuf::from(format!("kiln-{}.viz", std::process::id())));
    let status = Command::new(&program[0]).args(&program[1..]).env("VIZ", &path).status();
    let status = status.map_err(|why| Failure::new(format!("{}: {why}", program[0])))?;
    if !status.success() {
        writeln!(std::io::stderr(), "{} ended with {status}", program[0])?;
    }
    Ok(path)
}

/// What the page asks for.
struct Shown {
    record: Record,
    /// The record as JSON.
    text: String,
    /// What each pass leaves, as JSON.
    passes: String,
    /// Source files that it names.
    sources: HashSet<String>,
}

impl Shown {
    fn new(record: Record) -> Outcome<Shown> {
        let sources = sources::named(&record);
        let passes = kiln::passes().into_iter().map(|p| json!([p.stage, p.name, p.leaves]));
        let passes = Value::Array(passes.collect()).to_string();
        let text = serde_json::to_string(&record).map_err(Failure::new)?;
        Ok(Shown { record, text, passes, sources })
    }

    /// The loops of a kernel after each of its options, as JSON.
    fn options(&self, number: usize) -> Option<String> {
        let kernel = self.record.kernels.get(number)?;
        serde_json::to_string(&self.record.after_options(kernel)).ok()
    }

    /// The life of a node, as JSON: `schedule=3&step=0&node=17`, or `kernel=2&..`, by place in the record.
    fn life(&self, query: &str) -> Option<String> {
        let asked: HashMap<&str, usize> = query
            .split('&')
            .map(|pair| pair.split_once('=').and_then(|(k, v)| Some((k, v.parse().ok()?))))
            .collect::<Option<_>>()?;
        let steps = match (asked.get("schedule"), asked.get("kernel")) {
            (Some(&at), None) => &self.record.schedules.get(at)?.steps,
            (None, Some(&at)) => &self.record.kernels.get(at)?.steps,
            _ => return None,
        };
        let node = u32::try_from(*asked.get("node")?).ok()?;
        let life = self.record.lives(steps).of(*asked.get("step")?, node);
        serde_json::to_string(&life).ok()
    }

    fn answer(&self, url: &str) -> Answer<'_> {
        let nothing = ("404 Not Found", "text/plain", Cow::Borrowed("nothing is here"));
        let json = [("/record", &self.text), ("/passes", &self.passes)];
        if let Some((_, text)) = json.iter().find(|(address, _)| *address == url) {
            return ("200 OK", "application/json", Cow::Borrowed(text));
        }
        let options = |number: &str| self.options(number.parse().ok()?);
        let worked_out = url.strip_prefix("/options?kernel=").map(options);
        let worked_out = worked_out.or_else(|| Some(self.life(url.strip_prefix("/life?")?)));
        if let Some(text) = worked_out {
            return text.map_or(nothing, |t| ("200 OK", "application/json", Cow::Owned(t)));
        }
        if let Some(name) = url.strip_prefix("/source?file=") {
            let text = decoded(name).and_then(|name| sources::text(&self.sources, &name));
            return text
                .map_or(nothing, |t| ("200 OK", "text/plain; charset=utf-8", Cow::Owned(t)));
        }
        let file = FILES.iter().find(|(address, ..)| *address == url);
        file.map_or(nothing, |(_, kind, text)| ("200 OK", kind, Cow::Borrowed(text)))
    }
}

/// A value of an address without its escapes.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (bytes.next()? as char).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(plain).ok()
}
