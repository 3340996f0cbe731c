//! Plan, claim, allocate, launch, commit.
//!
//! A short lock covers planning and binding: looking through what is computed, promising what will be, and taking
//! memory that nobody needs any more. Scheduling, compiling and launching happen outside it. An error before the
//! first launch changes nothing.

use super::bind::{self, Bound};
use super::cache::{self, Ready};
use super::close::{self, Busy, Closed};
use super::device::{self, Opened};
use super::leaf::{self, Latch, Slot};
use super::measure::count;
use super::{Failure, debug};
use crate::Device;
use kiln_ir::{Op, UOp};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Plans and claims exclude each other.
static PLANNING: Mutex<()> = Mutex::new(());

/// Computes the nodes; afterwards each has a leaf.
pub(super) fn realize(mut nodes: Vec<UOp>, device: &Device) -> Result<(), Failure> {
    loop {
        nodes.retain(|n| n.op() != Op::Buffer && leaf::computed(n).is_none());
        if nodes.is_empty() {
            return Ok(());
        }
        let latch = Arc::new(Latch::default());
        match claim(&nodes, &latch) {
            Ok(closed) => {
                let promise = Promise {
                    roots: closed.roots.iter().map(|&r| closed.nodes[r].clone()).collect(),
                    latch,
                };
                drop(std::mem::take(&mut nodes));
                return compute(closed, promise, device);
            }
            Err(Busy(other)) => other.wait(),
        }
    }
}

/// Closes the graph and promises its roots.
fn claim(nodes: &[UOp], latch: &Arc<Latch>) -> Result<Closed, Busy> {
    let _planning = PLANNING.lock().expect("planning lock");
    let mut closed = close::close(nodes)?;
    let again = passed_again(&closed);
    if !again.is_empty() {
        closed = close::close(&[nodes, &again].concat())?;
    }
    for &root in &closed.roots {
        if closed.nodes[root].op() != Op::Buffer && !closed.is_computed(root) {
            leaf::set_slot(&closed.nodes[root], Some(Slot::Pending(latch.clone())));
        }
    }
    Ok(closed)
}

/// The topmost nodes that an earlier realize walked without storing them. They are stored now, and the others are
/// remembered as walked: a loop that reads something small of a growing value computes each part twice at most.
fn passed_again(closed: &Closed) -> Vec<UOp> {
    let mut again = Vec::new();
    let filler = fillers(closed);
    // a node is topmost if something asks for it that was not walked before
    let mut asked = vec![false; closed.nodes.len()];
    for (at, node) in closed.nodes.iter().enumerate().rev() {
        let is_root = closed.roots.contains(&at);
        let trivial = filler[at] || node.op().is_movement() || closed.is_computed(at);
        if !is_root && !asked[at] {
            continue;
        }
        if !is_root && !trivial && matches!(leaf::slot(node).as_deref(), Some(Slot::Seen)) {
            again.push(node.clone());
            continue;
        }
        closed.sources(at).iter().for_each(|&s| asked[s] = true);
        if !is_root && !trivial {
            leaf::set_seen(node);
        }
    }
    again
}

/// Which nodes are sources, or are made of constants only: never worth memory, and shared by graphs (and by kernels in
/// the cache) that have nothing else to do with each other.
fn fillers(closed: &Closed) -> Vec<bool> {
    let mut filler = vec![false; closed.nodes.len()];
    let mut constant = filler.clone();
    for (at, node) in closed.nodes.iter().enumerate() {
        let sources = closed.sources(at);
        constant[at] = match sources.is_empty() {
            true => node.op() == Op::Const,
            false => sources.iter().all(|&s| constant[s]),
        };
        filler[at] = constant[at] || node.srcs().is_empty();
    }
    filler
}

/// Roots that this thread has promised. However the computation ends, nobody waits for ever.
struct Promise {
    roots: Vec<UOp>,
    latch: Arc<Latch>,
}

impl Promise {
    fn keep(self, leaves: Vec<UOp>) {
        for (root, leaf) in self.roots.iter().zip(leaves) {
            if root.op() != Op::Buffer {
                leaf::set_slot(root, Some(Slot::Computed(leaf)));
            }
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        for root in &self.roots {
            if matches!(leaf::slot(root).as_deref(), Some(Slot::Pending(_))) {
                leaf::set_slot(root, None);
            }
        }
        self.latch.open();
    }
}

fn compute(closed: Closed, promise: Promise, device: &Device) -> Result<(), Failure> {
    let opened = device::open(device)?;
    let ready = cache::ready(&closed, device.name(), &opened)?;
    let scalars = ready.scalars(&closed);
    let bound = {
        let _planning = PLANNING.lock().expect("planning lock");
        bind::bind(&closed, &ready, &opened)?
    };
    launch(&ready, &bound, &scalars, device, &opened)?;
    promise.keep(commit(&closed, &ready, bound, device));
    Ok(())
}

fn launch(
    ready: &Ready,
    bound: &Bound,
    scalars: &[i64],
    device: &Device,
    opened: &Opened,
) -> Result<(), Failure> {
    for (i, kernel) in ready.kernels.iter().enumerate() {
        let program = &kernel.code.compiled.program;
        // arguments that were simplified away are no arguments if they were the last
        let mut buffers = bound.arguments(ready, i)?;
        buffers.truncate(program.params.len());
        let vars = kernel.plan.vars.iter().take(program.vars.len());
        let vars: Vec<i64> = vars.map(|&v| scalars[v]).collect();
        let start = Instant::now();
        kernel.code.kernel.launch(&buffers, &vars).map_err(|e| e.to_string())?;
        let took = start.elapsed();
        count(|c| {
            c.kernels += 1;
            c.bytes += program.bytes;
            c.flops += program.flops;
            c.kernel_ns += took.as_nanos() as u64;
        });
        debug::launched(device, kernel, took, opened);
    }
    debug::warnings();
    Ok(())
}

/// New leaves for the roots. A root that is a leaf's own value, unchanged, shares that leaf.
fn commit(closed: &Closed, ready: &Ready, bound: Bound, device: &Device) -> Vec<UOp> {
    let mut leaves: Vec<UOp> = Vec::new();
    for (root, ((dtype, shape), buffer)) in ready.roots.iter().zip(bound.outputs).enumerate() {
        use kiln_compile::schedule::BufferRef;
        leaves.push(match ready.schedule.outputs[root] {
            BufferRef::Param(slot) => closed.nodes[closed.leaves[slot]].clone(),
            BufferRef::Output(first) if first < root => leaves[first].clone(),
            _ => leaf::new(buffer, *dtype, shape.clone(), device),
        });
    }
    leaves
}

/// Computes a node and copies it out, row-major.
pub(super) fn read(node: &UOp, device: &Device) -> Result<Vec<u8>, Failure> {
    let leaf = match node.op() {
        Op::Buffer => node.clone(),
        _ => {
            realize(vec![node.clone()], device)?;
            leaf::computed(node).ok_or("the value was computed and lost")?
        }
    };
    let buffer = leaf::buffer(&leaf);
    let mut bytes = vec![0; leaf.numel() * leaf.dtype().size()];
    buffer.read(&mut bytes).map_err(|e| e.to_string())?;
    Ok(bytes)
}
