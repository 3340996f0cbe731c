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
//! `kernel=N` keeps the kernel of that number. `from=` and `to=` cut: they name beginnings of lines, without their
//! indentation, of which the last is shown too. `llvm=N` says that the text is that of LLVM N: it is not compared with
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

/// A request, parsed.
struct Request {
    part: String,
    kernel: Option<usize>,
    from: Option<String>,
    to: Option<String>,
}

impl Request {
    fn parse(text: &str) -> Result<Request, String> {
        let mut words = text.split_whitespace();
        let part = words.next().ok_or("no part is named")?.to_owned();
        let mut out = Request { part, kernel: None, from: None, to: None };
        for word in words {
            match word.split_once('=') {
                Some(("kernel", n)) => {
                    out.kernel = Some(n.parse().map_err(|_| format!("{n} is no number"))?);
                }
                Some(("from", start)) => out.from = Some(start.to_owned()),
                Some(("llvm", _)) => {}
                Some(("to", start)) => out.to = Some(start.to_owned()),
                _ => return Err(format!("{word} is no part of a request")),
            }
        }
        Ok(out)
    }

    /// Of what was seen, what the request asks for.
    fn cut(&self, seen: &[String]) -> String {
        let kept: Vec<&str> = match self.kernel {
            Some(n) => seen.get(n - 1).map(String::as_str).into_iter().collect(),
            None => seen.iter().map(String::as_str).collect(),
        };
        let all = kept.join("");
        let starts = |line: &str, word: &Option<String>| {
            word.as_ref().is_some_and(|word| line.trim_start().starts_with(word.as_str()))
        };
        let mut out = String::new();
        for line in all.lines().skip_while(|line| self.from.is_some() && !starts(line, &self.from))
        {
            out += line.trim_end();
            out.push('\n');
            if starts(line, &self.to) {
                break;
            }
        }
        out
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
                planned.extend(plan().into_iter().map(|planned| planned.kernel));
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
        "machine" => (kernel.disassemble)(),
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
