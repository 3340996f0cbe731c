//! What is measured. `peers.py` has a workload of each name that computes the same from the same inputs.

/// What a workload is.
mod case;
/// The table that kiln is compared by.
mod table;
/// What a table of round sizes would not show.
mod beyond;
/// What is not computing: starting, launching, updating what is small.
mod overhead;
/// A training step of a convolutional network.
mod convnet;

pub(crate) use case::{Case, Run, Unit, Work};

/// All workloads, in the order they run.
pub(crate) const CASES: [&[Case]; 3] = [table::CASES, beyond::CASES, overhead::CASES];

/// The workload of a name.
pub(crate) fn find(name: &str) -> Option<&'static Case> {
    CASES.iter().flat_map(|group| group.iter()).find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_known_to_the_peers() {
        let peers = include_str!("../../peers.py");
        let all: Vec<&Case> = CASES.iter().flat_map(|group| group.iter()).collect();
        for (i, case) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|c| c.name != case.name), "{}", case.name);
            assert!(peers.contains(&format!("\"{}\":", case.name)), "peers.py lacks {}", case.name);
        }
    }
}
