//! Lines become schedules, kernels and launches that belong together.

use super::line::Line;
use super::parts::{Block, Kernel, Launch, Node, OpenDevice, Record, Schedule, Site, Step};
use std::collections::HashMap;
use std::sync::Arc;

/// A record so far.
pub(super) struct Placing {
    record: Record,
    /// By thread: steps that belong to the schedule or kernel that comes next.
    steps: HashMap<u32, Vec<Step>>,
    /// By number: where a site is in the list.
    sites: HashMap<u32, usize>,
    /// Blocks that are in use, by number: where they are in the list.
    blocks: HashMap<u64, usize>,
    /// Nodes that may be missing.
    missing: usize,
}

/// No line of a node is shorter.
const LEAST_NODE: usize = 40;

impl Placing {
    /// A record of this program.
    pub(super) fn of(program: String) -> Placing {
        let record = Record { program, ..Record::default() };
        let (steps, sites, blocks) = (HashMap::new(), HashMap::new(), HashMap::new());
        Placing { record, steps, sites, blocks, missing: 0 }
    }

    /// What was read.
    pub(super) fn record(self) -> Record {
        self.record
    }

    /// A line of so many bytes cannot be read, or makes no sense.
    pub(super) fn damaged(&mut self, bytes: usize) {
        self.record.damaged += 1;
        self.missing += (bytes >= LEAST_NODE) as usize;
    }

    pub(super) fn add(&mut self, line: Line) {
        match line {
            Line::Node(node) => self.node(node),
            Line::Pass { .. } | Line::Rules { .. } | Line::Done { .. } | Line::Rewrite { .. } => {
                self.step(line);
            }
            Line::Decision { .. } => self.decision(line),
            Line::Scheduled(schedule) => self.scheduled(schedule),
            Line::Compiled(kernel) => self.compiled(kernel),
            Line::Site { .. } | Line::Launch { .. } => self.launch(line),
            Line::Copy(copy) => self.record.copies.push(copy),
            Line::Alloc { .. } | Line::Free { .. } => self.memory(line),
            _ => self.about(line),
        }
    }

    /// What is known of the program, its devices and the compiler.
    fn about(&mut self, line: Line) {
        match line {
            Line::Thread { thread, name } => self.thread(thread as usize, name),
            Line::Opened { device: name, backend, compiler, speed } => {
                self.record.devices.push(OpenDevice { name, backend, compiler, speed });
            }
            Line::Measured(measured) => self.record.measured.push(measured),
            Line::Found(found) => self.record.found.push(found),
            Line::Rule(rule) => self.record.rules.push(rule),
            Line::Full {} => self.record.is_full = true,
            // a second first line, which is no node
            _ => self.damaged(0),
        }
    }

    fn thread(&mut self, thread: usize, name: String) {
        let threads = &mut self.record.threads;
        // those before it may have been damaged
        if thread > threads.len() + self.record.damaged {
            return self.damaged(0);
        }
        if thread >= threads.len() {
            threads.resize(thread + 1, String::new());
        }
        threads[thread] = name;
    }

    /// A node in its place. What comes before it and is missing was damaged.
    fn node(&mut self, mut node: Node) {
        let nodes = &mut self.record.nodes;
        let at = node.id as usize;
        if at < nodes.len() || at > nodes.len() + self.missing {
            return self.damaged(LEAST_NODE);
        }
        self.missing -= at - nodes.len();
        while nodes.len() < at {
            let (id, none) = (nodes.len() as u32, String::new());
            nodes.push(Node { id, label: none, shape: vec![], sources: vec![], by: None });
        }
        // sources come first, so that no walk of a graph is without end
        node.sources.retain(|&source| (source as usize) < at);
        nodes.push(node);
    }

    /// A step of a stage, which belongs to what comes next on its thread.
    fn step(&mut self, line: Line) {
        let (thread, step) = match line {
            Line::Pass { thread, stage, pass, before, after } => {
                let (before, after) = (self.known(before), self.known(after));
                (thread, Step::Pass { stage, pass, before, after })
            }
            Line::Rules { thread, set, roots } => {
                (thread, Step::Rules { set, roots: self.known(roots) })
            }
            Line::Done { thread, roots } => (thread, Step::Done { roots: self.known(roots) }),
            Line::Rewrite { thread, rule, file, line, before, after }
                if self.is_known(before) && self.is_known(after) =>
            {
                (thread, Step::Rewrite { rule, file, line, before, after })
            }
            _ => return self.damaged(0),
        };
        self.steps.entry(thread).or_default().push(step);
    }

    fn decision(&mut self, line: Line) {
        match line {
            Line::Decision { thread, about, node, alternatives, unit, chosen, note }
                if chosen < alternatives.len() =>
            {
                let node = node.filter(|&node| self.is_known(node));
                let step = Step::Decision { about, node, alternatives, unit, chosen, note };
                self.steps.entry(thread).or_default().push(step);
            }
            _ => self.damaged(0),
        }
    }

    /// A schedule, with what its stage did on its thread.
    fn scheduled(&mut self, mut schedule: Schedule) {
        // steps are lines of their own
        schedule.steps = match schedule.took {
            Some(_) => self.steps.remove(&schedule.thread).unwrap_or_default(),
            None => Vec::new(),
        };
        schedule.roots = self.known(schedule.roots);
        for temporary in &mut schedule.temporaries {
            temporary.value = temporary.value.filter(|&node| self.is_known(node));
        }
        self.record.schedules.push(schedule);
    }

    /// A kernel, with what its stages did on its thread.
    fn compiled(&mut self, mut kernel: Kernel) {
        kernel.steps = self.steps.remove(&kernel.thread).unwrap_or_default();
        if !kernel.graphs.iter().all(|&graph| self.is_known(graph)) {
            return self.damaged(0);
        }
        self.record.kernels.push(kernel);
    }

    /// A launch, or what launches of one site have in common.
    fn launch(&mut self, line: Line) {
        match line {
            Line::Site { site, kernel, name, device, work, methods } => {
                self.sites.insert(site, self.record.sites.len());
                let site = Site { kernel, name, device, work, methods };
                self.record.sites.push(Arc::new(site));
            }
            Line::Launch { thread, site, at, took, memory } => match self.sites.get(&site) {
                Some(&site) => {
                    let of = self.record.sites[site].clone();
                    self.record.launches.push(Launch { thread, site, at, took, memory, of });
                }
                None => self.damaged(0),
            },
            _ => {}
        }
    }

    /// Memory that came or went.
    fn memory(&mut self, line: Line) {
        match line {
            Line::Alloc { device, block, bytes, holder, reused, at, took } => {
                self.blocks.insert(block, self.record.blocks.len());
                let (is_reused, freed) = (reused, None);
                let block = Block { device, bytes, holder, is_reused, at, took, freed };
                self.record.blocks.push(block);
            }
            // what was given before the record began is not in it
            Line::Free { block, at, .. } => {
                if let Some(place) = self.blocks.remove(&block) {
                    self.record.blocks[place].freed = Some(at);
                }
            }
            _ => {}
        }
    }

    fn is_known(&self, node: u32) -> bool {
        (node as usize) < self.record.nodes.len()
    }

    /// The numbers that name nodes.
    fn known(&self, mut numbers: Vec<u32>) -> Vec<u32> {
        numbers.retain(|&node| self.is_known(node));
        numbers
    }
}
