//! Part of pass `choose`, for kernels of several nests: how many rows are computed at a time, and which loop around the
//! nests threads share.

use super::super::nests::{Launch, Rows};
use crate::target::Target;
use kiln_ir::observe::{self, Decision, MOST_ALTERNATIVES};

/// The choice of rows at a time, as a value.
fn decision(by: usize, mut all: Vec<(usize, f64)>) -> Decision {
    all.sort_by(|a, b| (a.0 != by).cmp(&(b.0 != by)).then(a.1.total_cmp(&b.1)));
    all.truncate(MOST_ALTERNATIVES);
    let named = |(by, price): &(usize, f64)| (format!("ROWS({by}, ").into(), Some(*price));
    Decision {
        about: "rows at a time".to_owned(),
        node: None,
        alternatives: all.iter().map(named).collect(),
        unit: "rows",
        chosen: 0,
        note: String::new(),
    }
}

/// How rows are divided, and the loop that threads share, by its number among those around.
pub(super) fn rows(launch: &Launch, target: &Target, threads: bool) -> (Rows, Option<u32>) {
    let (costs, Launch { rows: n, outer, row_bytes }) = (&target.costs, launch);
    let n = *n;
    let threads = if threads { target.threads.max(1) } else { 1 };
    let room = target.cache_bytes[1] / 2 / (*row_bytes).max(1);
    let each = (n * outer.iter().product::<usize>()).div_ceil(threads);
    let most = room.clamp(1, costs.most_rows).min(n).min(each);
    let price = |by: &usize| {
        let blocks = n.div_ceil(*by);
        let ragged = if n.is_multiple_of(*by) { 1.0 } else { costs.ragged_blocks };
        (blocks * by) as f64 * ragged * (1.0 + costs.block / *by as f64)
    };
    let by = (1..=most).rev().min_by(|a, b| price(a).total_cmp(&price(b))).unwrap_or(1);
    observe::decision(|| decision(by, (1..=most).map(|by| (by, price(&by))).collect()));
    if threads == 1 {
        return (Rows { by, blocks: 0 }, None);
    }
    let share = |n: usize| n.div_ceil(threads) as f64 * threads as f64 / n as f64;
    let blocks = n.div_ceil(by);
    let of_rows =
        if blocks < threads { f64::INFINITY } else { share(blocks) * costs.copies_of_all };
    let best = outer.iter().position(|&n| n >= threads && share(n) <= of_rows);
    match best {
        Some(i) => (Rows { by, blocks: 0 }, Some(i as u32)),
        None if of_rows.is_finite() => (Rows { by, blocks: blocks.div_ceil(threads) }, Some(0)),
        None => (Rows { by, blocks: 0 }, None),
    }
}
