//! Errors that only computing can show, such as an index out of range in a tensor of indices. Such a condition is
//! computed with the values that depend on it, and read afterwards.
//!
//! If it holds, those values are meaningless. Their leaves carry the error to everybody who reads them.

use super::capture::Closed;
use super::leaf;
use super::{Failure, Few};
use kiln_ir::{Arg, UOp};
use rustc_hash::FxHashMap;

/// The leaves, or the error that one of them carries.
pub(super) fn sound(leaves: Few<UOp>) -> Result<Few<UOp>, Failure> {
    match leaves.iter().find_map(leaf::fault) {
        Some(fault) => Err(fault),
        None => Ok(leaves),
    }
}

/// The error of a leaf that is going to be read, if one carries an error.
pub(super) fn inputs(closed: &Closed) -> Result<(), Failure> {
    match closed.leaves.iter().find_map(|&at| leaf::fault(closed.node(at))) {
        Some(fault) => Err(fault),
        None => Ok(()),
    }
}

/// Reads the conditions that were computed, and fails if one holds. `leaves` are those of the roots.
pub(super) fn outputs(closed: &Closed, leaves: &[UOp]) -> Result<(), Failure> {
    if closed.checks.is_empty() {
        return Ok(());
    }
    let roots = closed.roots.iter().map(|&root| closed.node(root));
    let leaf_of: FxHashMap<&UOp, &UOp> = roots.zip(leaves).collect();
    let mut wrong: FxHashMap<&UOp, &str> = FxHashMap::default();
    for (condition, text) in &closed.checks {
        if holds(leaf_of[condition])? {
            wrong.insert(condition, text);
        }
    }
    let first = closed.checks.iter().find_map(|(condition, _)| wrong.get(condition));
    match first {
        Some(text) => {
            blame(closed, leaves, &wrong);
            Err((*text).to_string())
        }
        None => Ok(()),
    }
}

/// Whether a computed condition holds.
pub(super) fn holds(condition: &UOp) -> Result<bool, Failure> {
    let mut byte = [0];
    leaf::buffer(condition)?.read(&mut byte).map_err(|e| e.to_string())?;
    Ok(byte != [0])
}

/// Gives the error to the leaves of all roots that depend on a condition that holds.
fn blame(closed: &Closed, leaves: &[UOp], wrong: &FxHashMap<&UOp, &str>) {
    let mut faults: Vec<Option<&str>> = vec![None; closed.nodes().len()];
    for (at, node) in closed.nodes().enumerate() {
        let own = matches!(node.arg(), Arg::Check(_)).then(|| wrong.get(node.src(1)).copied());
        let below = || closed.sources(at).iter().find_map(|&s| faults[s]);
        faults[at] = own.flatten().or_else(below);
    }
    for (&root, leaf) in closed.roots.iter().zip(leaves) {
        if let Some(text) = faults[root] {
            leaf::set_fault(leaf, Some(text.to_string()));
        }
    }
}
