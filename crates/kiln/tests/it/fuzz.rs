//! What tests with random programs share: a generator of numbers, and which seeds a run takes.
//!
//! By default a test runs a fixed number of fixed seeds. `KILN_FUZZ=n` runs `n` times as many fresh ones, and prints them;
//! `KILN_FROM=s` begins with seed `s` instead, to go on where a run ended; `KILN_SEED=s` runs one.

use std::time::{SystemTime, UNIX_EPOCH};

/// splitmix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// True once in `n` times.
    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The seeds of a run of `n` programs. Those that are not fixed are printed: a failure must be repeatable.
#[allow(clippy::print_stderr)]
pub(crate) fn seeds(n: u64) -> Vec<u64> {
    let read = |name| std::env::var(name).ok().and_then(|text: String| text.parse().ok());
    let (from, times) = (read("KILN_FROM"), read("KILN_FUZZ"));
    if let Some(seed) = read("KILN_SEED") {
        return vec![seed];
    }
    if from.is_none() && times.is_none() {
        return (0..n).collect();
    }
    let fresh = || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Rng(now.as_nanos() as u64).next() >> 16
    };
    let first = from.unwrap_or_else(fresh);
    let last = first + n * times.unwrap_or(1);
    eprintln!("seeds {first}..{last}");
    (first..last).collect()
}
