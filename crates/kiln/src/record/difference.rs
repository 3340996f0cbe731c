//! What differs between the graphs before and after a pass.

use super::graph::below;
use super::parts::{Node, Record};
use std::collections::{HashMap, HashSet, VecDeque};

/// Two graphs of a record. Numbers of nodes are in order, sources first.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Difference {
    /// All nodes of the graph before.
    pub before: Vec<u32>,
    /// All nodes of the graph after.
    pub after: Vec<u32>,
    /// Nodes of the graph before alone.
    pub gone: Vec<u32>,
    /// Nodes of the graph after alone.
    pub new: Vec<u32>,
    /// For a new node that is a gone one over other sources: the gone one.
    pub twins: HashMap<u32, u32>,
}

impl Record {
    /// What differs between the graphs below these nodes.
    pub fn difference(&self, before: &[u32], after: &[u32]) -> Difference {
        Difference::between(&self.nodes, before, after)
    }
}

impl Difference {
    /// Between the graphs below these nodes.
    pub(super) fn between(nodes: &[Node], before: &[u32], after: &[u32]) -> Difference {
        let [before, after] = [before, after].map(|roots| below(nodes, roots));
        let [old, now] = [&before, &after].map(|ids| ids.iter().copied().collect::<HashSet<u32>>());
        let gone: Vec<u32> = before.iter().copied().filter(|id| !now.contains(id)).collect();
        let new: Vec<u32> = after.iter().copied().filter(|id| !old.contains(id)).collect();
        let twins = twins(nodes, (&gone, &old), (&new, &now));
        Difference { before, after, gone, new, twins }
    }
}

/// New nodes with what they were: of the same label and shape, with the same sources where these did not change.
fn twins(
    nodes: &[Node],
    (gone, old): (&[u32], &HashSet<u32>),
    (new, now): (&[u32], &HashSet<u32>),
) -> HashMap<u32, u32> {
    let key = |id: u32, kept: &HashSet<u32>| {
        let node = &nodes[id as usize];
        let sources = node.sources.iter().map(|source| kept.contains(source).then_some(*source));
        (&node.label, &node.shape, sources.collect::<Vec<Option<u32>>>())
    };
    let has_new_sources = |id: &&u32| !nodes[**id as usize].sources.iter().all(|s| now.contains(s));
    let mut waiting: HashMap<_, VecDeque<u32>> = HashMap::new();
    for &id in gone.iter().filter(has_new_sources) {
        waiting.entry(key(id, now)).or_default().push_back(id);
    }
    let twin = |&id: &u32| Some((id, waiting.get_mut(&key(id, old))?.pop_front()?));
    new.iter().filter_map(twin).collect()
}
