//! Pictures and texts of tensor graphs and schedules: what `GRAPH` writes.

mod kind;
mod layout;
mod svg;

use super::ending::Ending;
use kiln_ir::observe::{Event, Kind, Observer, Planned};
use kiln_ir::uop::toposort_all;
use kiln_ir::{UOp, text};
use kind::BoxKind;
use layout::{Boxed, Drawing};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// So many schedules are drawn.
const MOST_SCHEDULES: usize = 256;

/// A graph of more nodes is written as text alone.
const MOST_DRAWN: usize = 3000;

/// Draws each new schedule and its graph.
pub(crate) struct Pictures {
    folder: PathBuf,
    state: Mutex<(usize, Option<io::Error>)>,
}

impl Pictures {
    /// Draws into a folder, which is made.
    pub(crate) fn create(folder: &Path) -> io::Result<Pictures> {
        fs::create_dir_all(folder)?;
        Ok(Pictures { folder: folder.to_owned(), state: Mutex::default() })
    }

    /// Draws a schedule, the n-th.
    fn draw(&self, n: usize, roots: &[UOp], kernels: &[Planned]) -> io::Result<()> {
        let file = |name: &str| self.folder.join(format!("{n:03}-{name}"));
        fs::write(file("graph.txt"), text::tree(roots, usize::MAX))?;
        if let Some(drawing) = of_graph(roots) {
            fs::write(file("graph.svg"), svg::svg(&drawing))?;
        }
        let drawing = of_schedule(kernels);
        fs::write(file("schedule.txt"), listed(kernels))?;
        if drawing.boxes.len() <= MOST_DRAWN {
            fs::write(file("schedule.svg"), svg::svg(&drawing))?;
        }
        Ok(())
    }
}

impl Observer for Pictures {
    fn wants(&self, kind: Kind) -> bool {
        kind == Kind::News
    }

    fn see(&self, event: &Event<'_>) {
        let Event::Scheduled { roots, plan, took: Some(_), .. } = *event else { return };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0 < MOST_SCHEDULES && state.1.is_none() {
            state.0 += 1;
            state.1 = self.draw(state.0, roots, &plan().0).err();
        }
    }
}

impl Ending for Pictures {
    fn end(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1.take().map_or(Ok(()), Err)
    }
}

/// A tensor graph; none if it is too large to look at.
fn of_graph(roots: &[UOp]) -> Option<Drawing> {
    let nodes = toposort_all(roots, |_| true);
    if nodes.len() > MOST_DRAWN {
        return None;
    }
    let numbers: HashMap<usize, usize> = nodes.iter().zip(0..).map(|(n, i)| (n.id(), i)).collect();
    let mut drawing = Drawing::default();
    for (at, node) in nodes.iter().enumerate() {
        let shape = format!("{:?}", node.shape().as_slice());
        let maker = node.origin().map(str::to_owned);
        let lines = [text::label(node), shape].into_iter().chain(maker).collect();
        drawing.boxes.push(Boxed { kind: BoxKind::of(node), lines });
        let edges = node.srcs().iter().map(|s| (numbers[&s.id()], at, String::new()));
        drawing.edges.extend(edges);
    }
    Some(drawing)
}

/// What a kernel is, in a picture and in text.
fn described(kernel: &Planned) -> Vec<String> {
    let methods = kernel.methods.iter().map(|method| (*method).to_owned());
    std::iter::once(format!("kernel {:08x}", kernel.kernel >> 96)).chain(methods).collect()
}

/// Kernels, with the values between them and their bytes.
fn of_schedule(kernels: &[Planned]) -> Drawing {
    let mut drawing = Drawing::default();
    // by value: the box that has it
    let mut places: HashMap<&str, usize> = HashMap::new();
    for kernel in kernels {
        for (name, bytes) in kernel.arguments.iter().filter(|(name, _)| name.starts_with("input")) {
            places.entry(name).or_insert_with(|| {
                let lines = vec![name.clone(), format!("{bytes} B")];
                drawing.boxes.push(Boxed { kind: BoxKind::Data, lines });
                drawing.boxes.len() - 1
            });
        }
    }
    for kernel in kernels {
        let at = drawing.boxes.len();
        drawing.boxes.push(Boxed { kind: BoxKind::Kernel, lines: described(kernel) });
        for (name, bytes) in &kernel.arguments {
            // the first kernel that names a value writes it
            let from = *places.entry(name).or_insert(at);
            if from != at {
                drawing.edges.push((from, at, format!("{bytes} B")));
            }
        }
    }
    drawing
}

/// The kernels as text.
fn listed(kernels: &[Planned]) -> String {
    let mut out = String::new();
    for (at, kernel) in kernels.iter().enumerate() {
        let arguments = kernel.arguments.iter().map(|(name, bytes)| format!("{name} ({bytes} B)"));
        let arguments: Vec<String> = arguments.collect();
        let (what, arguments) = (described(kernel).join(", "), arguments.join(", "));
        writeln!(out, "{:>4}: {what}\n      {arguments}", at + 1).expect("write to a string");
    }
    out
}
