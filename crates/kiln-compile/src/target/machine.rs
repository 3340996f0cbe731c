//! What follows from the features of a processor (`avx2`: vectors of 32 bytes), and which features processors have, by
//! name.

use super::{Dot, Mma, mma};

/// The instructions of a kind of processor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// LLVM's name of it; empty for this machine's own, about which LLVM knows more.
    pub cpu: String,
    /// LLVM's names of its features, as far as kiln uses them.
    pub features: Vec<&'static str>,
    /// Bytes of the widest vector register.
    pub vector_bytes: usize,
    /// How many vector registers there are.
    pub vector_registers: usize,
    /// Whether fused multiply-add is one instruction.
    pub fma: bool,
    /// Bytes of the widest vector that C compilers for it make of vectors of f16 at once.
    pub widened_bytes: usize,
    /// Bytes of its caches, as in `Target`; `None` where those of the machine that the compiler runs on count.
    pub cache_bytes: Option<[usize; 3]>,
}

/// The caches of a processor that is known by name. Models of one name differ in them, and what is written for a name
/// is the same on every machine.
const NAMED_CACHES: [usize; 3] = [32 << 10, 512 << 10, 8 << 20];

/// Features that came with others, by the levels of the x86-64 ABI.
const FIRST: &[&str] = &[];
const SECOND: &[&str] = &["sse4.2"];
const THIRD: &[&str] = &["sse4.2", "avx", "avx2", "fma", "f16c"];
const FOURTH: &[&str] =
    &["sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl"];

/// Processors by name: a level, and what they have beyond it.
const X86_64: &[(&str, &[&str], &[&str])] = &[
    ("x86-64", FIRST, &[]),
    ("x86-64-v2", SECOND, &[]),
    ("x86-64-v3", THIRD, &[]),
    ("x86-64-v4", FOURTH, &[]),
    ("core2", FIRST, &[]),
    ("nehalem", SECOND, &[]),
    ("westmere", SECOND, &[]),
    ("sandybridge", SECOND, &["avx"]),
    ("ivybridge", SECOND, &["avx", "f16c"]),
    ("haswell", THIRD, &[]),
    ("broadwell", THIRD, &[]),
    ("skylake", THIRD, &[]),
    ("alderlake", THIRD, &[]),
    ("znver1", THIRD, &[]),
    ("znver2", THIRD, &[]),
    ("znver3", THIRD, &[]),
    ("skylake-avx512", FOURTH, &[]),
    ("cascadelake", FOURTH, &["avx512vnni"]),
    ("icelake-client", FOURTH, &["avx512vnni"]),
    ("icelake-server", FOURTH, &["avx512vnni"]),
    ("cooperlake", FOURTH, &["avx512vnni", "avx512bf16"]),
    (
        "sapphirerapids",
        FOURTH,
        &["avx512vnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-bf16", "amx-int8"],
    ),
    ("znver4", FOURTH, &["avx512vnni", "avx512bf16"]),
    ("znver5", FOURTH, &["avx512vnni", "avx512bf16"]),
];

impl Machine {
    /// A processor of an architecture (by Rust's name for it) with these features.
    pub fn with(arch: &str, features: Vec<&'static str>) -> Machine {
        let has = |feature| features.contains(&feature);
        let (vector_bytes, vector_registers, fma) = match arch {
            "aarch64" => (16, 32, true),
            "x86_64" if has("avx512f") && has("avx512vl") => (64, 32, has("fma")),
            "x86_64" if has("avx2") => (32, 16, has("fma")),
            _ => (16, 16, has("fma")),
        };
        // GCC 12 ends with an internal error where wider ones are compared
        let widened_bytes = if arch == "aarch64" { vector_bytes } else { usize::MAX };
        let cpu = String::new();
        let cache_bytes = None;
        Machine { cpu, features, vector_bytes, vector_registers, fma, widened_bytes, cache_bytes }
    }

    /// The processor of this name.
    ///
    /// # Errors
    /// A processor whose features are not known. The message lists the known ones.
    pub fn named(arch: &str, cpu: &str) -> Result<Machine, String> {
        let table = if arch == "x86_64" { X86_64 } else { &[] };
        let Some((_, level, more)) = table.iter().find(|row| row.0 == cpu) else {
            let known: Vec<&str> = table.iter().map(|row| row.0).collect();
            return Err(format!(
                "no {arch} processor {cpu:?} is known, only: {}",
                known.join(", ")
            ));
        };
        let features = level.iter().chain(*more).copied().collect();
        let (cpu, cache_bytes) = (cpu.to_owned(), Some(NAMED_CACHES));
        Ok(Machine { cpu, cache_bytes, ..Machine::with(arch, features) })
    }

    /// Its instructions for `Op::Dot`.
    pub fn dots(&self) -> Vec<Dot> {
        Dot::of(|feature| self.features.contains(&feature))
    }

    /// Its matrix units that the machine it runs on has, too.
    pub fn mmas(&self, host: &[&str]) -> Vec<Mma> {
        Mma::of(|feature| self.features.contains(&feature) && host.contains(&feature))
    }

    /// A feature that it has and `other` lacks. Matrix units do not count: they depend on what a process is allowed.
    pub fn beyond(&self, other: &[&str]) -> Option<&'static str> {
        let needed = |f: &&str| !mma::FEATURES.contains(f) && !other.contains(f);
        self.features.iter().copied().find(needed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_follow_from_features() {
        let of = |cpu| {
            let machine = Machine::named("x86_64", cpu).expect("a known processor");
            (machine.vector_bytes, machine.vector_registers, machine.fma, machine.dots().len())
        };
        assert_eq!(of("x86-64"), (16, 16, false, 0));
        assert_eq!(of("sandybridge"), (16, 16, false, 0));
        assert_eq!(of("haswell"), (32, 16, true, 0));
        assert_eq!(of("skylake-avx512"), (64, 32, true, 0));
        assert_eq!(of("icelake-server"), (64, 32, true, 3));
        assert_eq!(of("znver4"), (64, 32, true, 6));
        let host = mma::FEATURES;
        let units = |cpu| Machine::named("x86_64", cpu).expect("known").mmas(&host).len();
        assert_eq!((units("znver4"), units("sapphirerapids")), (0, 5));
    }

    #[test]
    fn what_is_written_for_a_name_is_the_same_on_every_machine() {
        let caches = |cpu| Machine::named("x86_64", cpu).expect("known").cache_bytes;
        assert!(caches("haswell").is_some() && caches("haswell") == caches("znver4"));
        assert_eq!(Machine::with("x86_64", Vec::new()).cache_bytes, None);
    }

    #[test]
    fn unknown_names_are_refused_with_those_that_are_known() {
        let why = Machine::named("x86_64", "pentium").expect_err("too old");
        assert!(why.contains("pentium") && why.contains("haswell"), "{why}");
        assert!(Machine::named("aarch64", "haswell").is_err());
    }

    #[test]
    fn what_a_machine_has_beyond_another_is_named() {
        let [old, new] = ["haswell", "znver4"].map(|cpu| Machine::named("x86_64", cpu));
        let (old, new) = (old.expect("known"), new.expect("known"));
        assert_eq!((old.beyond(&new.features), new.beyond(&old.features)), (None, Some("avx512f")));
    }
}
