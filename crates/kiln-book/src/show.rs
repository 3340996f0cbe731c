//! What a block can show of a program: `PART [kernel=N] [from=WORD] [to=WORD]`.
//!
//! | part | what is shown |
//! |---|---|
//! | `output` | what the program prints |
//! | `captured` | each graph that was scheduled, as it was captured |
//! | `decisions` | choices by price |
//! | `kernels` | a line a kernel: its name and options |
//! | `scheduled`, `optimized` | kernels as they left these stages |
//! | `list`, `source`, `machine` | kernels as a list of ops, as text for a compiler, as machine code |
//! | `passes` | a line for each pass that changed a kernel or a graph: how many nodes there were before and after |
//! | `after:PASS` | what a pass left |
//! | `rewrites`, `rewrites:PASS` | a line for each rewrite (of that pass): rule, node before, node after |
//! | `launches` | a line for each launch and copy |
//!
//! `kernel=N` keeps the kernel of that number, `paragraph=N` that paragraph of the output. `from=` and `to=` cut: they name beginnings of lines, without their
//! indentation, of which the last is shown too. `lines=N` keeps as many lines at most. `llvm=N` marks the text of LLVM N: it is not compared with
//! what others make.

use kiln_ir::observe::{self, Compilation, Event, Kind, Observer};
use kiln_ir::{UOp, text, uop};
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs a program and gives the part of what was seen.
///
/// # Errors
/// The program's, or the request makes no sense.
pub fn shown(
    request: &str,
    program: impl FnOnce() -> Result<(), Box<dyn Error>>,
) -> Result<String, Box<dyn Error>> {
    let request = Request::parse(request)?;
    let watcher = Arc::new(Watcher { part: request.part.clone(), ..Watcher::default() });
    let observer: Option<Arc<dyn Observer>> = match request.part.as_str() {
        "output" => None,
        _ => Some(watcher.clone()),
    };
    observe::with(observer, program)?;
    Ok(request.cut(&watcher.in_order()))
}

/// The part of what a program has printed.
///
/// # Errors
/// The request makes no sense.
pub fn printed(request: &str, output: &str) -> Result<String, String> {
    let paragraphs: Vec<String> = output.split("\n\n").map(|text| format!("{text}\n")).collect();
    match Request::parse(request)? {
        request if request.number.is_some() => Ok(request.cut(&paragraphs)),
        request => Ok(request.cut(&[output.to_owned()])),
    }
}

/// A request, parsed.
struct Request {
    part: String,
    number: Option<usize>,
    from: Option<String>,
    to: Option<String>,
    lines: usize,
}

impl Request {
    fn parse(text: &str) -> Result<Request, String> {
        let mut words = text.split_whitespace();
        let part = words.next().ok_or("no part is named")?.to_owned();
        let mut out = Request { part, number: None, from: None, to: None, lines: usize::MAX };
        let bad = |n| format!("{n} is no number");
        for word in words {
            match word.split_once('=') {
                Some(("kernel" | "paragraph", n)) => {
                    out.number = Some(n.parse().map_err(|_| bad(n))?);
                }
                Some(("from", start)) => out.from = Some(start.to_owned()),
                Some(("llvm", _)) => {}
                Some(("to", start)) => out.to = Some(start.to_owned()),
                Some(("lines", n)) => out.lines = n.parse().map_err(|_| bad(n))?,
                _ => return Err(format!("{word} is no part of a request")),
            }
        }
        Ok(out)
    }

    /// Of what was seen, what the request asks for.
    fn cut(&self, seen: &[String]) -> String {
        let all = match self.number {
            Some(n) => seen.get(n.wrapping_sub(1)).cloned().unwrap_or_default(),
            None => seen.concat(),
        };
        let starts = |line: &str, word: &str| line.trim_start().starts_with(word);
        let is_before = |line: &&str| self.from.as_ref().is_some_and(|word| !starts(line, word));
        let mut out = String::new();
        for line in all.lines().skip_while(is_before).take(self.lines) {
            out += line.trim_end();
            out.push('\n');
            if self.to.as_ref().is_some_and(|word| starts(line, word)) {
                break;
            }
        }
        out.truncate(out.trim_end().len());
        out + "\n"
    }
}

/// Keeps, of each event, the text that a part shows.
#[derive(Default)]
struct Watcher {
    part: String,
    /// Texts; those of compiled kernels with the kernel's hash.
    seen: Mutex<Vec<(u128, String)>>,
    /// The kernels of all schedules. They are compiled on several threads, in any order.
    planned: Mutex<Vec<u128>>,
}

impl Watcher {
    /// The texts, kernels in the order of their schedules.
    fn in_order(&self) -> Vec<String> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        seen.sort_by_key(|(kernel, _)| planned.iter().position(|planned| planned == kernel));
        seen.into_iter().map(|(_, text)| text).collect()
    }
}

impl Observer for Watcher {
    fn wants(&self, kind: Kind) -> bool {
        kind == match self.part.as_str() {
            "decisions" => Kind::Decisions,
            "launches" => Kind::Runs,
            "captured" | "kernels" | "scheduled" | "optimized" | "list" | "source" | "machine" => {
                Kind::News
            }
            _ => Kind::Steps,
        }
    }

    fn see(&self, event: &Event<'_>) {
        let part = self.part.as_str();
        let mut kernel = 0;
        let text = match *event {
            Event::Decision(decision) => Some(format!("{decision}\n")),
            Event::Launched { .. } | Event::Copied { .. } => ran(event),
            Event::Scheduled { roots, .. } if part == "captured" => Some(graphs(roots)),
            Event::Scheduled { plan, .. } => {
                let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
                planned.extend(plan().0.into_iter().map(|planned| planned.kernel));
                None
            }
            Event::Compiled(compilation) => {
                kernel = compilation.scheduled.hash();
                compiled(part, compilation)
            }
            Event::Pass { pass, before, after, .. } => passed(part, pass, before, after),
            Event::Rewrite { rule, before, after, .. } if part == "rewrites" => {
                let (before, after) = (text::describe(before), text::expr(after));
                Some(format!("{rule}: {before} -> {after}\n"))
            }
            _ => None,
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(text.map(|text| (kernel, text)));
    }
}

fn graphs(roots: &[UOp]) -> String {
    roots.iter().map(text::print).collect()
}

/// A launch or a copy, without times.
fn ran(event: &Event<'_>) -> Option<String> {
    match *event {
        Event::Launched { device, program, methods, .. } => {
            let device = kind(device);
            Some(format!("{device} {} [{}]\n", program.name, methods.join(", ")))
        }
        Event::Copied { device, from, bytes, .. } => {
            let (device, from) = (kind(device), kind(from));
            Some(format!("{device} copy of {bytes} bytes from {from}\n"))
        }
        _ => None,
    }
}

/// A device without what writes its kernels.
fn kind(device: &str) -> &str {
    device.split(":LLVM").next().unwrap_or(device)
}

fn compiled(part: &str, kernel: &Compilation<'_>) -> Option<String> {
    match part {
        "kernels" => Some(format!("{}: [{}]\n", kernel.program.name, kernel.options.join(", "))),
        "scheduled" => Some(text::print(kernel.scheduled)),
        "optimized" => Some(text::print(kernel.optimized)),
        "list" => Some(text::print_list(&kernel.program.ops)),
        "source" => Some(kernel.program.source.clone()),
        "machine" => (kernel.disassemble)().map(|code| code.text),
        _ => None,
    }
}

fn passed(part: &str, pass: &str, before: &[UOp], after: &[UOp]) -> Option<String> {
    let count = |graph: &[UOp]| uop::toposort_all(graph, |_| true).len();
    match part.strip_prefix("after:") {
        Some(wanted) if wanted == pass => Some(match after {
            [root] => text::print(root),
            list => text::print_list(list),
        }),
        None if part == "passes" && before != after => {
            Some(format!("{pass}: {} -> {}\n", count(before), count(after)))
        }
        _ => None,
    }
}
