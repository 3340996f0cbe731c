//! What `kiln explain` finds, and what it asks of a record to find it.

use kiln::record::{Kernel, Node, Record, Schedule};

/// Something that took time, in microseconds, and what it is.
pub(super) struct Finding {
    pub(super) cost: f64,
    pub(super) text: String,
}

/// The time from the end of scheduling to the last kernel that was compiled before the next schedule, by schedule.
pub(super) fn compiling(record: &Record) -> Vec<f64> {
    let ends = record.schedules.iter().skip(1).map(|s| s.at).chain([f64::INFINITY]);
    let span = |(schedule, end): (&Schedule, f64)| {
        let of_it = |k: &&Kernel| schedule.at <= k.at && k.at < end;
        let ends = record.kernels.iter().filter(of_it).map(|k| k.at + k.took);
        let scheduled = schedule.at + schedule.took.unwrap_or(0.0);
        ends.fold(scheduled, f64::max) - scheduled
    };
    record.schedules.iter().zip(ends).map(span).collect()
}

/// The nodes of a graph, sources first.
pub(super) fn nodes_of<'a>(record: &'a Record, roots: &[u32]) -> Vec<&'a Node> {
    let mut is_in = vec![false; record.nodes.len()];
    let mut stack: Vec<u32> = roots.to_vec();
    while let Some(id) = stack.pop() {
        if !std::mem::replace(&mut is_in[id as usize], true) {
            stack.extend(&record.nodes[id as usize].sources);
        }
    }
    record.nodes.iter().filter(|node| is_in[node.id as usize]).collect()
}
