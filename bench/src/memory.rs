//! How much memory a process takes, as Linux counts its resident pages (proc(5)).

use crate::failure::Failure;

/// Bytes that are resident now.
pub(crate) fn resident() -> Result<u64, Failure> {
    status("VmRSS:")
}

/// The most bytes that are resident while `f` runs.
pub(crate) fn most_during(f: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
    // "5" makes the high-water mark what is resident now
    std::fs::write("/proc/self/clear_refs", "5").map_err(|e| e.to_string())?;
    f()?;
    status("VmHWM:")
}

/// A line of this process's status, which counts in KiB.
fn status(key: &str) -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok());
    number.map(|n| n << 10).ok_or_else(|| format!("the system does not say {key}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_while_counts() {
        const HELD: usize = 64 << 20;
        let before = resident().expect("said");
        let most = most_during(|| {
            drop(std::hint::black_box(vec![1u8; HELD]));
            Ok(())
        });
        assert!(most.expect("said") >= before + (HELD as u64) * 3 / 4);
    }
}
