//! The file of a record, which grows by lines.

use super::bounded::Bounded;
use super::line::Line;
use super::parts::{Measured, Node, Rule};
use super::sites::Sites;
use super::units::Units;
use kiln_ir::observe::Event;
use kiln_ir::rewrite::{self, Ruled};
use kiln_ir::uop::toposort_all;
use kiln_ir::{UOp, text};
use kiln_runtime::peak::Peak;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::thread::{ThreadId, current};

/// What the first line says.
pub(super) const FORMAT: u32 = 3;

/// The file, and what is in it so far.
pub(super) struct State {
    out: Bounded,
    /// Nodes that are written, by hash. They are not held: a program may overwrite what nobody holds.
    nodes: FxHashMap<u128, u32>,
    threads: FxHashMap<ThreadId, u32>,
    sites: Sites,
    pub(super) units: Units,
    /// Numbers of threads of the devices that were opened.
    pub(super) speeds: BTreeSet<usize>,
}

impl State {
    /// A new file, with its first line.
    pub(super) fn create(path: &Path) -> io::Result<State> {
        let mut state = State {
            out: Bounded::create(path)?,
            nodes: FxHashMap::default(),
            threads: FxHashMap::default(),
            sites: Sites::default(),
            units: Units::default(),
            speeds: BTreeSet::new(),
        };
        let program = std::env::args().next().unwrap_or_default();
        state.line(&Line::Kiln { format: FORMAT, program });
        Ok(state)
    }

    /// Makes the file complete up to here, and gives the first failure.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.end(b"")
    }

    pub(super) fn line(&mut self, line: &Line) {
        if self.is_done() {
            return;
        }
        match serde_json::to_vec(line) {
            Ok(mut text) => {
                text.push(b'\n');
                self.out.put(&text, b"{\"full\":{}}\n");
            }
            Err(why) => self.out.fail(why.into()),
        }
    }

    /// Whether nothing more is written.
    pub(super) fn is_done(&self) -> bool {
        self.out.is_done()
    }

    /// The number of this thread, whose name is written when it comes for the first time.
    pub(super) fn thread(&mut self) -> u32 {
        let current = current();
        if let Some(&known) = self.threads.get(&current.id()) {
            return known;
        }
        let thread = self.threads.len() as u32;
        self.threads.insert(current.id(), thread);
        self.line(&Line::Thread { thread, name: current.name().unwrap_or_default().to_owned() });
        thread
    }

    /// The number of a launch's site, which is written when it comes for the first time.
    pub(super) fn site(&mut self, launched: &Event<'_>) -> Option<u32> {
        let (number, new) = self.sites.number(launched)?;
        if let Some(line) = new {
            self.line(&line);
        }
        Some(number)
    }

    /// Writes what is new of these graphs; gives the numbers of the roots.
    pub(super) fn graph(&mut self, roots: &[UOp]) -> Vec<u32> {
        for node in toposort_all(roots, |node| !self.nodes.contains_key(&node.hash())) {
            if self.nodes.contains_key(&node.hash()) {
                continue;
            }
            let id = self.nodes.len() as u32;
            self.nodes.insert(node.hash(), id);
            let sources = node.srcs().iter().map(|s| self.nodes[&s.hash()]).collect();
            let by = node.origin().map(str::to_owned);
            let (label, shape) = (text::label(&node), node.shape().to_vec());
            self.line(&Line::Node(Node { id, label, shape, sources, by }));
        }
        roots.iter().map(|root| self.nodes[&root.hash()]).collect()
    }

    /// The number of one graph.
    pub(super) fn node(&mut self, root: &UOp) -> u32 {
        self.graph(std::slice::from_ref(root))[0]
    }

    /// The number of a node that is written.
    pub(super) fn known(&self, hash: u128) -> Option<u32> {
        self.nodes.get(&hash).copied()
    }

    /// Writes what rules have done since the record began.
    pub(super) fn rules(&mut self, before: &[Ruled]) {
        let before: FxHashMap<_, _> = before.iter().copied().collect();
        for (place, now) in rewrite::totals() {
            let old = before.get(&place).copied().unwrap_or_default();
            let (rule, file, line) = (place.0.to_owned(), place.1.to_owned(), place.2);
            let (tried, fired) = (now.tried - old.tried, now.fired - old.fired);
            let took = (now.time.saturating_sub(old.time)).as_nanos() as f64 / 1e3;
            if tried > 0 {
                self.line(&Line::Rule(Rule { rule, file, line, tried, fired, took }));
            }
        }
    }

    /// Writes how fast this machine is, with as many threads as each device has.
    pub(super) fn measure(&mut self) {
        // loops that are built without optimization measure the build: then the description of each device stands
        if cfg!(debug_assertions) {
            return;
        }
        for threads in std::mem::take(&mut self.speeds) {
            if self.is_done() {
                return;
            }
            // without the memory for it there is no measurement
            let Ok(mut peak) = Peak::rough(threads) else { return };
            let (flops, bytes) = (peak.f32_flops(), peak.copy_bytes().max(peak.read_bytes()));
            self.line(&Line::Measured(Measured { threads, flops, bytes }));
        }
    }
}
