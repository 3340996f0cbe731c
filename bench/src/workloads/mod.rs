//! What is measured. `peers.py` has a workload of each name that computes the same from the same inputs.

/// What a workload is.
mod case;
/// The table that kiln is compared by.
mod table;
/// What a table of round sizes would not show.
mod beyond;
/// Methods that no network is made of.
mod methods;
/// Every convolution of two networks.
mod convolutions;
/// What is not computing: starting, launching, updating what is small.
mod overhead;
/// A training step of a convolutional network.
mod convnet;
/// ResNet-18.
mod resnet;
/// Networks that people run.
mod models;

pub(crate) use case::{Case, Run, Unit, Work};

/// All workloads, in the order they run.
pub(crate) fn cases() -> impl Iterator<Item = &'static Case> + Clone {
    let groups = [
        table::CASES,
        beyond::CASES,
        methods::CASES,
        overhead::CASES,
        resnet::CASES,
        models::CASES,
        convolutions::cases(),
    ];
    groups.into_iter().flatten()
}

/// Whether it is one of the table that kiln is compared by.
pub(crate) fn is_of_table(case: &Case) -> bool {
    table::CASES.iter().any(|c| c.name == case.name)
}

/// The workload of a name.
pub(crate) fn find(name: &str) -> Option<&'static Case> {
    cases().find(|case| case.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_known_to_the_peers() {
        let peers = include_str!("../../peers.py");
        let all: Vec<&Case> = cases().collect();
        for (i, case) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|c| c.name != case.name), "{}", case.name);
            let is_known = peers.contains(&format!("\"{}\":", case.name));
            // of these the name says what they are
            let says = case.name.starts_with("cnn-") || case.name.starts_with("model-");
            assert!(is_known || says, "peers.py lacks {}", case.name);
        }
    }
}
