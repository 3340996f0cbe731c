//! How long the code of a kernel may become, in all passes of stage `optimize`.

/// A kernel of more nodes than this is not unrolled further.
pub const MAX_NODES: usize = 2000;

/// The number of threads that the order of sums is chosen for, whatever number a target has: the least that can share.
pub const NOMINAL_THREADS: usize = 2;

/// How long the code of a kernel may become, in nodes, about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The limit for all options; 0 means that nothing is optimized.
    pub nodes: usize,
    /// The limit for which the order of sums is chosen.
    pub order: usize,
}

impl Room {
    /// The same room for everything.
    pub fn of(nodes: usize) -> Room {
        Room { nodes, order: nodes }
    }
}
