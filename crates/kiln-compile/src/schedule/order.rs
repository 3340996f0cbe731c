//! An order of kernels in which everything is written before it is read.

use super::build::{Built, Source};
use rustc_hash::FxHashMap;

/// Positions of the kernels in the order in which they run: Kahn's algorithm, where several are ready the one that
/// was planned last, which is the one nearest the leaves.
pub(super) fn order(kernels: &[Built]) -> Vec<usize> {
    let mut makers: FxHashMap<usize, usize> = FxHashMap::default();
    for (k, kernel) in kernels.iter().enumerate() {
        makers.extend(kernel.outputs.iter().map(|&o| (o, k)));
    }
    let (mut waits, mut users) = (vec![0usize; kernels.len()], vec![Vec::new(); kernels.len()]);
    for (k, kernel) in kernels.iter().enumerate() {
        for arg in &kernel.args[kernel.outputs.len()..] {
            if let Source::Stored(node) = arg {
                waits[k] += 1;
                users[makers[node]].push(k);
            }
        }
    }
    let mut ready: std::collections::BinaryHeap<usize> =
        (0..kernels.len()).filter(|&k| waits[k] == 0).collect();
    let mut order = Vec::with_capacity(kernels.len());
    while let Some(k) = ready.pop() {
        order.push(k);
        for &user in &users[k] {
            waits[user] -= 1;
            if waits[user] == 0 {
                ready.push(user);
            }
        }
    }
    assert_eq!(order.len(), kernels.len(), "kernels wait for each other in a circle");
    order
}
