//! What `kiln explain` finds, and what it asks of a record to find it.

use kiln::record::{Record, Schedule};

/// Something that took time, in microseconds, and what it is.
pub(super) struct Finding {
    pub(super) cost: f64,
    pub(super) text: String,
}

/// The time from the end of scheduling to the end of the last kernel that was compiled before the next schedule, by
/// schedule.
pub(super) fn compiling(record: &Record) -> Vec<f64> {
    let schedules = &record.schedules;
    let mut by_time: Vec<usize> = (0..schedules.len()).collect();
    by_time.sort_by(|&a, &b| schedules[a].at.total_cmp(&schedules[b].at));
    let scheduled = |s: &Schedule| s.at + s.took.unwrap_or(0.0);
    let mut ends: Vec<f64> = schedules.iter().map(scheduled).collect();
    for kernel in &record.kernels {
        let after = by_time.partition_point(|&s| schedules[s].at <= kernel.at);
        if let Some(&of) = after.checked_sub(1).and_then(|at| by_time.get(at)) {
            ends[of] = ends[of].max(kernel.at + kernel.took);
        }
    }
    schedules.iter().zip(ends).map(|(schedule, end)| end - scheduled(schedule)).collect()
}
