//! Copies from one device to another. A graph over several devices is cut at them: what is copied is computed first, on
//! its own device, and then the copy is a leaf like any other.

use super::device::memory_of;
use super::history::has_gradient;
use super::leaf::{self, Claim, Value};
use super::parallel::in_parallel;
use super::sharded::gathered;
use super::walk::Walk;
use super::{Failure, Few};
use crate::device::Device;
use kiln_ir::observe::{self, Event, Kind};
use kiln_ir::{Op, UOp};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// A copy that is to be made, and the device that its source is on.
pub(super) struct Crossing {
    copy: UOp,
    from: Device,
    /// The most copies that are made before it, one after the other.
    depth: usize,
}

impl Crossing {
    /// Which copy it is.
    pub(super) fn copy_id(&self) -> usize {
        self.copy.id()
    }
}

/// The copies of a graph whose sources lie on other devices. Other copies say on which device something made of constants
/// is, and copy nothing. Copies to a set of devices are made when that is asked for the value.
pub(super) fn crossings(walk: &Walk) -> Vec<Crossing> {
    if walk.copies == 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    // by node: the device of what it is made of, and how many copies that takes
    let mut places: Vec<(Option<Arc<str>>, usize)> = Vec::with_capacity(walk.nodes.len());
    for (at, reached) in walk.nodes.iter().enumerate() {
        let node = &reached.node;
        let (mut place, mut depth) = (None, 0);
        for &source in &reached.edges {
            let (device, copies) = &places[source];
            (place, depth) = (place.or_else(|| device.clone()), depth.max(*copies));
        }
        let own = node.arg().device().filter(|_| !walk.is_computed(at));
        if let (Op::Copy, Some(to), Some(from)) = (node.op(), &own, &place)
            && memory_of(to) != memory_of(from)
            && Device::exact(to).members().is_none()
        {
            found.push(Crossing { copy: node.clone(), from: Device::exact(from), depth });
            depth += 1;
        }
        places.push((own.or(place), depth));
    }
    found
}

/// Computes values on a device, into leaves.
type Compute = dyn Fn(&[UOp], &Device) -> Result<Few<UOp>, Failure> + Sync;

/// Makes the copies. Those of one depth are made at the same time, as far as they come from different devices. `compute`
/// computes what is copied.
pub(super) fn cross(crossings: Vec<Crossing>, compute: &Compute) -> Result<(), Failure> {
    let mut waves: BTreeMap<usize, BTreeMap<String, Vec<UOp>>> = BTreeMap::new();
    for Crossing { copy, from, depth } in crossings {
        let wave = waves.entry(depth).or_default();
        wave.entry(from.name().to_owned()).or_default().push(copy);
    }
    waves.into_values().try_for_each(|wave| {
        let groups: Vec<(Device, Vec<UOp>)> =
            wave.into_iter().map(|(from, copies)| (Device::exact(&from), copies)).collect();
        in_parallel(&groups, |(from, copies)| copied(copies, from, compute)).map(drop)
    })
}

/// Computes what copies are copies of, on its device, and makes the copies.
fn copied(copies: &[UOp], from: &Device, compute: &Compute) -> Result<(), Failure> {
    let sources: Vec<UOp> = copies.iter().map(|copy| copy.src(0).clone()).collect();
    let leaves = compute(&sources, from)?;
    copies.iter().zip(leaves).try_for_each(|(copy, source)| {
        let to = Device::exact(&copy.arg().device().expect("a copy has a device"));
        match (leaf::sharded_parts(&source), from.members()) {
            (Some(value), Some(devices)) => {
                let whole = gathered(&value, &devices, &to).contiguous();
                settle(copy, compute(&[whole], &to)?.remove(0));
                Ok(())
            }
            _ => once(copy, || transfer(&source, from, &to)),
        }
    })
}

/// The copy is in memory.
fn settle(copy: &UOp, leaf: UOp) {
    let value = Value { leaf, differentiable: has_gradient(copy, None), shares: false };
    leaf::set_copied(copy, value);
}

/// Makes a copy, unless it is made or another thread is about to.
fn once(copy: &UOp, make: impl FnOnce() -> Result<UOp, Failure>) -> Result<(), Failure> {
    let pending = match leaf::claim_copy(copy) {
        Claim::Made => return Ok(()),
        // if it fails there, it is missed again, and made here
        Claim::Others(other) => {
            other.wait();
            return Ok(());
        }
        Claim::Own(pending) => pending,
    };
    let made = make().map(|leaf| settle(copy, leaf));
    leaf::end_claim(copy, &pending);
    made
}

/// A copy of a leaf on another device.
fn transfer(source: &UOp, from: &Device, to: &Device) -> Result<UOp, Failure> {
    let (memory, start) = (leaf::buffer(source)?, Instant::now());
    let copy = leaf::copy_of(&memory, source.dtype(), source.shape(), to)?;
    if observe::is_wanted(Kind::Runs) {
        let (device, bytes, end) = (to.name(), memory.len(), Instant::now());
        observe::see(&Event::Copied { device, from: from.name(), bytes, start, end });
    }
    Ok(copy)
}
