//! The name and features of this processor: enough to write code for it, and to key compiled code, without opening a
//! compiler.

use super::features::features;
use std::io::Read;

/// The processor that kernels run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Model and features: code compiled on an equal processor runs on this one.
    pub identity: String,
    /// Bytes of the first and second cache of a processor, and of the last one, which all share.
    pub cache_bytes: [usize; 3],
    /// What it has, by LLVM's names, as far as kernels or tables ask.
    pub features: Vec<&'static str>,
    /// How many threads may run at once.
    pub threads: usize,
}

impl Host {
    /// Asks the processor and the system.
    pub fn detect() -> Host {
        Host {
            identity: identity(&first_processor()),
            cache_bytes: caches(),
            features: features(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Sizes of caches where the system does not say.
const ORDINARY_CACHES: [usize; 3] = [32 << 10, 512 << 10, 4 << 20];

/// Reads what Linux says about the first processor's caches for data.
fn caches() -> [usize; 3] {
    let mut sizes = ORDINARY_CACHES;
    for index in 0..5 {
        let read = |what: &str| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}");
            std::fs::read_to_string(path).ok()
        };
        let (Some(kind), Some(level), Some(size)) = (read("type"), read("level"), read("size"))
        else {
            break;
        };
        let level = level.trim().parse::<usize>().unwrap_or(0);
        if kind.trim() != "Instruction" && (1..=3).contains(&level) {
            sizes[level - 1] = kibibytes(&size).unwrap_or(sizes[level - 1]);
        }
    }
    sizes
}

/// Such as `1024K`.
fn kibibytes(text: &str) -> Option<usize> {
    text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|n| n << 10)
}

/// The lines of `/proc/cpuinfo` that tell one processor from another.
const IDENTIFYING: [&str; 12] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "flags",
    "Features",
    "CPU implementer",
    "CPU architecture",
    "CPU variant",
    "CPU part",
    "CPU revision",
];

/// Enough of the file for the first processor. Reading on costs time per processor.
const FIRST_PROCESSOR: u64 = 8192;

/// What Linux says of the first processor.
fn first_processor() -> String {
    let mut text = Vec::new();
    if let Ok(file) = std::fs::File::open("/proc/cpuinfo") {
        let _ = file.take(FIRST_PROCESSOR).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    text.split("\n\n").next().unwrap_or("").to_owned()
}

fn identity(processor: &str) -> String {
    let mut identity = String::from(std::env::consts::ARCH);
    for line in processor.lines() {
        if let Some((key, value)) = line.split_once(':')
            && IDENTIFYING.contains(&key.trim())
        {
            identity.push('\n');
            identity.push_str(value.trim());
        }
    }
    identity
}
