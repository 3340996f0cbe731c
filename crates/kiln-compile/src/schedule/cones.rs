//! Part of pass `assign`: how long it takes to compute an element of a value where it is needed.
//!
//! The nodes that are computed for it are its *cone*. Of `h = exp(x)`, `h * sin(h)` needs `h` once, although two nodes read
//! it. So a cone is no tree: a node that several others read, a *shared* one, is in it once.

use smallvec::SmallVec;

/// A cone keeps apart at most so many shared nodes. Others count once for each node that reads them.
const MOST_SHARED: usize = 128;

type Shared = SmallVec<[(u32, f64); 4]>;

/// What is computed for an element of a value.
#[derive(Clone, Default)]
struct Cone {
    /// The time of nodes that only one other node of the cone reads, in nanoseconds.
    own: f64,
    /// The nodes that several others read, in order, each with the time of what only it needs.
    shared: Shared,
}

impl Cone {
    fn time(&self) -> f64 {
        self.own + self.shared.iter().map(|(_, time)| time).sum::<f64>()
    }

    /// Takes in another cone. Shared nodes that both have are in the result once.
    fn join(&mut self, other: &Cone) {
        self.own += other.own;
        if self.shared.len() + other.shared.len() <= MOST_SHARED {
            self.shared = merged(&self.shared, &other.shared);
            return;
        }
        for &node in &other.shared {
            match self.shared.binary_search_by_key(&node.0, |known| known.0) {
                Ok(_) => {}
                Err(_) if self.shared.len() == MOST_SHARED => self.own += node.1,
                Err(place) => self.shared.insert(place, node),
            }
        }
    }

    /// The cone as the source of several nodes: what only it needs is shared now.
    fn shared_as(mut self, node: u32) -> Cone {
        let own = std::mem::take(&mut self.own);
        self.join(&Cone { own: 0.0, shared: SmallVec::from_slice(&[(node, own)]) });
        self
    }
}

/// The shared nodes of two cones, in order.
fn merged(mut a: &[(u32, f64)], mut b: &[(u32, f64)]) -> Shared {
    let mut all = Shared::with_capacity(a.len() + b.len());
    while let ([x, later_a @ ..], [y, later_b @ ..]) = (a, b) {
        all.push(if x.0 <= y.0 { *x } else { *y });
        (a, b) = (if x.0 <= y.0 { later_a } else { a }, if y.0 <= x.0 { later_b } else { b });
    }
    all.extend_from_slice(a);
    all.extend_from_slice(b);
    all
}

/// The cones of a graph's nodes, in the order of its nodes.
pub(super) struct Cones {
    /// As a source of other nodes.
    cones: Vec<Cone>,
    is_shared: Vec<bool>,
}

impl Cones {
    /// No cones yet. `sources` are each node's distinct sources.
    pub(super) fn new<'a>(sources: impl ExactSizeIterator<Item = &'a [usize]>) -> Cones {
        let mut users = vec![0usize; sources.len()];
        sources.flatten().for_each(|&source| users[source] += 1);
        let is_shared: Vec<bool> = users.iter().map(|&count| count > 1).collect();
        Cones { cones: Vec::with_capacity(is_shared.len()), is_shared }
    }

    /// Adds the next node, which takes so long itself, with the cones of these sources; gives the time of its cone.
    pub(super) fn push(&mut self, own: f64, sources: &[usize]) -> f64 {
        let mut cone = Cone { own, ..Cone::default() };
        sources.iter().for_each(|&source| cone.join(&self.cones[source]));
        let (node, time) = (self.cones.len(), cone.time());
        self.cones.push(if self.is_shared[node] { cone.shared_as(node as u32) } else { cone });
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of cones of nodes that take 1 each.
    fn times(sources: &[&[usize]]) -> Vec<f64> {
        let mut cones = Cones::new(sources.iter().copied());
        sources.iter().map(|own| cones.push(1.0, own)).collect()
    }

    #[test]
    fn a_chain_takes_the_sum_of_its_nodes() {
        assert_eq!(times(&[&[], &[0], &[1]]), [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_node_that_two_others_read_counts_once() {
        assert_eq!(times(&[&[], &[0], &[0], &[1, 2]]), [1.0, 2.0, 2.0, 4.0]);
    }

    /// As a tree, it would have 2^60 nodes.
    #[test]
    fn sixty_rounds_of_two_readers_take_what_their_nodes_take() {
        let mut sources: Vec<Vec<usize>> = vec![vec![]];
        for round in 0..60 {
            let last = 3 * round;
            sources.extend([vec![last], vec![last], vec![last + 1, last + 2]]);
        }
        let sources: Vec<&[usize]> = sources.iter().map(|own| &own[..]).collect();
        assert_eq!(times(&sources).last(), Some(&181.0));
    }
}
