//! Environment variables: one registry with defaults and help, read once.

use crate::scoped;
use std::sync::OnceLock;

/// A variable that holds a number.
pub(crate) struct Var {
    /// Its name.
    pub(crate) name: &'static str,
    default: i64,
    /// One sentence for people.
    pub(crate) help: &'static str,
    value: OnceLock<i64>,
}

impl Var {
    const fn new(name: &'static str, default: i64, help: &'static str) -> Var {
        Var { name, default, help, value: OnceLock::new() }
    }

    /// The value. One that is not a number from 0 on is said once and ignored.
    pub(crate) fn get(&self) -> i64 {
        let scoped = scoped::scoped(self.name, |text| text.trim().parse().unwrap_or(self.default));
        scoped.unwrap_or_else(|| self.of_process())
    }

    fn of_process(&self) -> i64 {
        *self.value.get_or_init(|| self.read())
    }

    fn read(&self) -> i64 {
        let Some(text) = std::env::var_os(self.name).filter(|t| !t.is_empty()) else {
            return self.default;
        };
        let number = text.to_str().and_then(|t| t.trim().parse().ok()).filter(|&n: &i64| n >= 0);
        number.unwrap_or_else(|| {
            let name = self.name;
            kiln_runtime::warnings::warn_once(format!(
                "{name}={} is not a number from 0 on; ignored",
                text.to_string_lossy()
            ));
            self.default
        })
    }
}

/// Whether convolutions are computed with fewer multiplications.
pub(crate) fn wants_winograd() -> bool {
    WINO.get() > 0
}

/// What is printed about the compiler's work.
pub(crate) static DEBUG: Var = Var::new(
    "DEBUG",
    0,
    "1 devices and schedules, 2 kernels, 3 decisions, 4 source, 5 graphs, 6 linear ops, 7 machine code, 8 caches",
);
/// Search.
pub(crate) static BEAM: Var = Var::new(
    "BEAM",
    0,
    "searches for faster kernels than the heuristic's, going on from so many of the best; 0 does not",
);
/// Searches that may change results.
pub(crate) static BEAM_REORDER: Var = Var::new(
    "BEAM_REORDER",
    0,
    "1 lets a search take sums in another order, which changes their last bits",
);
/// Bound of searches.
pub(crate) static BEAM_SECONDS: Var =
    Var::new("BEAM_SECONDS", 300, "the most seconds that a process searches");
/// No optimization.
pub(crate) static NOOPT: Var =
    Var::new("NOOPT", 0, "1 compiles kernels as they are scheduled, without optimizing");
/// Convolutions with fewer multiplications.
pub(crate) static WINO: Var = Var::new(
    "WINO",
    0,
    "1 computes 3 x 3 convolutions with fewer multiplications and larger rounding errors (Winograd)",
);
/// Kernels for lengths that vary.
pub(crate) static LENGTHS: Var = Var::new(
    "LENGTHS",
    1,
    "1 shares schedules and kernels between lengths from the third on, 2 earlier; 0 treats each length alone",
);
/// Replays.
pub(crate) static JIT: Var =
    Var::new("JIT", 1, "0 runs functions of `kiln::jit` each time, without replaying them");
/// Rule statistics.
pub(crate) static TRACK_MATCH_STATS: Var = Var::new(
    "TRACK_MATCH_STATS",
    0,
    "1 counts which rewrite rules were tried and matched, 2 lists all of them and writes every rewrite to a file",
);

/// Bound of records.
pub(crate) static VIZ_MB: Var = Var::new(
    "VIZ_MB",
    256,
    "the most megabytes of a record of `VIZ`, a trace of `PROFILE`, or a list of rewrites",
);
/// Machine code in records.
pub(crate) static VIZ_CODE: Var =
    Var::new("VIZ_CODE", 0, "1 puts machine code, with lines, into a record of `VIZ`; takes time");

/// Verification in release builds.
pub(crate) static SPEC: Var = Var::new(
    "SPEC",
    0,
    "1 verifies graphs between passes in release builds too (debug builds always do)",
);

/// Bound of what is remembered.
pub(crate) static KILN_CACHE_MB: Var = Var::new(
    "KILN_CACHE_MB",
    256,
    "the most megabytes of kernels that are kept on disk, and with their schedules in memory; what was not used longest goes first",
);

/// Bound of a C compiler's time.
pub(crate) static KILN_CC_SECONDS: Var =
    Var::new("KILN_CC_SECONDS", 120, "the most seconds that a C compiler may take for a kernel");

/// Reuse of memory.
pub(crate) static LRU: Var =
    Var::new("LRU", 1, "0 gives freed memory back at once; otherwise some is kept for reuse");

/// How many bytes of a kind of device may be in use, by `KILN_MEMORY`: `4G`, or `CPU=4G,INTERP=100M`.
pub(crate) fn memory_limit(kind: &str) -> usize {
    let Some(text) = std::env::var_os("KILN_MEMORY").filter(|t| !t.is_empty()) else {
        return usize::MAX;
    };
    let text = text.to_string_lossy();
    limit_in(&text, kind).unwrap_or_else(|| {
        let why = "is no size such as 4G or CPU=4G,INTERP=100M; ignored";
        kiln_runtime::warnings::warn_once(format!("KILN_MEMORY={text} {why}"));
        usize::MAX
    })
}

/// The limit that a text has for a kind of device. None if it is none of that form.
fn limit_in(text: &str, kind: &str) -> Option<usize> {
    let mut limit = usize::MAX;
    for part in text.split(',') {
        let (name, size) = part.split_once('=').unwrap_or((kind, part));
        let size = bytes_in(size.trim())?;
        if name.trim().eq_ignore_ascii_case(kind) {
            limit = size;
        }
    }
    Some(limit)
}

/// A number of bytes, or of units of them.
fn bytes_in(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B') {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// What may be kept of what can be made again, in bytes.
pub(crate) fn cache_bytes() -> usize {
    usize::try_from(KILN_CACHE_MB.get()).map_or(0, |mb| mb.saturating_mul(1 << 20))
}

/// Every variable that holds a number.
static NUMBERS: [&Var; 15] = [
    &BEAM,
    &BEAM_REORDER,
    &BEAM_SECONDS,
    &DEBUG,
    &KILN_CACHE_MB,
    &KILN_CC_SECONDS,
    &JIT,
    &NOOPT,
    &WINO,
    &LENGTHS,
    &LRU,
    &SPEC,
    &TRACK_MATCH_STATS,
    &VIZ_CODE,
    &VIZ_MB,
];

/// Every other variable: its name, what holds where it is not set, and help.
static TEXTS: [[&str; 3]; 14] = [
    ["DEV", "CPU", "the default device: CPU, CPU:LLVM, CPU:C, CL, INTERP, NULL"],
    ["DEFAULT_FLOAT", "f32", "the dtype of new tensors that are given none: f16, bf16, f32, f64"],
    ["KILN_LLVM", "search", "a path to libLLVM; none hides every LLVM"],
    ["KILN_CC", "search", "a path to a C compiler; none hides every one"],
    [
        "KILN_MEMORY",
        "as much as there is",
        "how much memory a device may use: 4G, or CPU=4G,INTERP=100M",
    ],
    ["KILN_THREADS", "all processors", "how many threads share a kernel"],
    [
        "KILN_CACHE",
        "$XDG_CACHE_HOME/kiln",
        "a folder for compiled kernels; none turns the cache off",
    ],
    ["XDG_CACHE_HOME", "~/.cache", "where caches live"],
    [
        "KILN_PANIC",
        "0",
        "1 panics at the line of an invalid operation instead of carrying the error",
    ],
    [
        "VIZ",
        "",
        "1 writes what the compiler and the devices do to kiln-PID.viz, for `kiln viz` and `kiln explain`; else a path",
    ],
    [
        "PROFILE",
        "",
        "1 writes what ran when to kiln-PID.json, for Perfetto or chrome://tracing; else a path",
    ],
    [
        "GRAPH",
        "",
        "1 draws each tensor graph and schedule, as SVG and as text, into kiln-PID-graphs; else a path",
    ],
    [
        "DEBUG_PASS",
        "",
        "prints the graph before and after the passes of these names: expand,reduce",
    ],
    ["NO_COLOR", "", "anything turns colour in DEBUG output off"],
];

/// The variable of this name.
pub(crate) fn known(name: &str) -> Option<&'static str> {
    let mut names = NUMBERS.iter().map(|v| v.name).chain(TEXTS.iter().map(|[name, ..]| *name));
    names.find(|known| *known == name)
}

/// Whether a variable holds a number.
pub(crate) fn is_number(name: &str) -> bool {
    NUMBERS.iter().any(|v| v.name == name)
}

/// A variable of the environment that kiln reads.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What holds where it is not set.
    pub default: String,
    /// What it is set to on this thread, if it is and is not empty.
    pub value: Option<String>,
    /// What it does, in one sentence.
    pub help: &'static str,
}

/// Every variable that kiln reads, those that hold numbers first.
///
/// ```
/// assert!(kiln::env::describe().iter().any(|v| v.name == "DEBUG" && v.default == "0"));
/// ```
pub fn describe() -> Vec<Variable> {
    let numbers = NUMBERS.iter().map(|v| variable(v.name, v.default.to_string(), v.help));
    let texts = TEXTS.iter().map(|&[name, default, help]| variable(name, default.into(), help));
    numbers.chain(texts).collect()
}

fn variable(name: &'static str, default: String, help: &'static str) -> Variable {
    let of_process = || std::env::var_os(name).map(|v| v.to_string_lossy().into_owned());
    let value = scoped::scoped(name, str::to_owned).or_else(of_process).filter(|v| !v.is_empty());
    Variable { name, default, value, help }
}

#[cfg(test)]
mod tests {
    use super::limit_in;

    #[test]
    fn limits_have_units_and_devices() {
        assert_eq!(limit_in("4G", "CPU"), Some(4 << 30));
        assert_eq!(limit_in("100", "CPU"), Some(100));
        assert_eq!(limit_in("cpu=2kb, INTERP=3M", "CPU"), Some(2048));
        assert_eq!(limit_in("cpu=2kb, INTERP=3M", "INTERP"), Some(3 << 20));
        assert_eq!(limit_in("cpu=2kb", "NULL"), Some(usize::MAX));
        for wrong in ["", "G", "4T", "CPU=", "-1", "4G,x", "99999999999999G"] {
            assert_eq!(limit_in(wrong, "CPU"), None, "{wrong}");
        }
    }
}
