//! The most memory that a device gave at once, and what held it then.

use super::units::{size, time};
use crate::outcome::Outcome;
use kiln::record::{Block, Record};
use std::collections::BTreeMap;
use std::io::Write;

pub(super) fn show(record: &Record, most: usize, out: &mut impl Write) -> Outcome {
    let mut by_device: BTreeMap<&str, Vec<&Block>> = BTreeMap::new();
    for block in &record.blocks {
        by_device.entry(&block.device).or_default().push(block);
    }
    by_device.into_iter().try_for_each(|(device, blocks)| {
        let (bytes, at) = peak(&blocks);
        writeln!(out, "\nmost memory on {device}: {} at {}, held by", size(bytes), time(at))?;
        holders(&blocks, at).iter().take(most).try_for_each(|(holder, (count, bytes))| {
            writeln!(out, "  {:>9} in {count:>4}  {holder}", size(*bytes))
        })?;
        Ok(())
    })
}

/// The most bytes at once, and when that was first so.
fn peak(blocks: &[&Block]) -> (usize, f64) {
    let taken = blocks.iter().map(|b| (b.at, true, b.bytes));
    let freed = blocks.iter().filter_map(|b| Some((b.freed?, false, b.bytes)));
    let mut events: Vec<(f64, bool, usize)> = taken.chain(freed).collect();
    events.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut now, mut best) = (0usize, (0, 0.0));
    for (at, is_taken, bytes) in events {
        now = if is_taken { now.saturating_add(bytes) } else { now.saturating_sub(bytes) };
        if now > best.0 {
            best = (now, at);
        }
    }
    best
}

/// What held memory at a time, by bytes: how many blocks, and how much.
fn holders<'a>(blocks: &[&'a Block], at: f64) -> Vec<(&'a str, (usize, usize))> {
    let mut all: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let is_held = |b: &&&Block| b.at <= at && b.freed.is_none_or(|freed| freed > at);
    for block in blocks.iter().filter(is_held) {
        let held = all.entry(&block.holder).or_default();
        *held = (held.0 + 1, held.1.saturating_add(block.bytes));
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.sort_by_key(|(_, (_, bytes))| std::cmp::Reverse(*bytes));
    all
}
