//! `kiln viz`: a recorded run as a page on localhost.

use crate::outcome::{Failure, Outcome};
use clap::Args;
use kiln::record::Record;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use tiny_http::{Header, Request, Response, Server};

/// The page: one file, without anything from elsewhere.
const PAGE: &str = include_str!("viz/page.html");

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
    let record = Record::open(&path)?;
    let data = serde_json::to_string(&record).map_err(Failure::new)?;
    let server = Server::http(("127.0.0.1", options.port)).map_err(Failure::new)?;
    let port = server.server_addr().to_ip().map_or(options.port, |address| address.port());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} is shown at http://127.0.0.1:{port}/ until Ctrl-C", path.display())?;
    out.flush()?;
    for request in server.incoming_requests() {
        answer(request, port, &data);
    }
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

/// Answers one request. A page of another site must not read the record, so requests by another name are refused.
fn answer(request: Request, port: u16, data: &str) {
    let names = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    let host = request.headers().iter().find(|header| header.field.equiv("Host"));
    let is_ours = host.is_some_and(|header| names.iter().any(|name| header.value == name.as_str()));
    let (status, kind, text) = match request.url() {
        _ if !is_ours => (403, "text/plain", "this page has another name"),
        "/" => (200, "text/html; charset=utf-8", PAGE),
        "/record" => (200, "application/json", data),
        _ => (404, "text/plain", "nothing is here"),
    };
    let header = |name: &str, value: &str| {
        Header::from_bytes(name.as_bytes(), value.as_bytes()).expect("letters alone")
    };
    let response = Response::from_string(text)
        .with_status_code(status)
        .with_header(header("Content-Type", kind))
        .with_header(header("Cache-Control", "no-store"))
        .with_header(header("X-Content-Type-Options", "nosniff"))
        .with_header(header("Content-Security-Policy", POLICY));
    // whoever asked may have left
    let _ = request.respond(response);
}

/// The page runs its own script alone, and asks nobody but this server.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'";
