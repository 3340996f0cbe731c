//! The instructions that programs may use. Two conditions must hold: the processor has the instruction (CPUID), and the
//! system saves its registers (XCR0). Inside an emulator both describe the emulated processor.

/// Of the features that matter, by LLVM's names, those that can be used.
pub(super) fn features() -> Vec<&'static str> {
    found()
}

#[cfg(target_arch = "x86_64")]
use x86::found;

#[cfg(not(target_arch = "x86_64"))]
fn found() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    /// Bits of XCR0: the registers of AVX-512, with those of SSE and AVX in them; those of AMX and their configuration.
    const VECTORS: u64 = 0xe6;
    const MATRICES: u64 = 3 << 17;

    /// What Rust does not ask for: bits of CPUID (leaf 7, EDX), and what the system must save.
    const NEWER: [(&str, u32, u64); 4] = [
        ("amx-bf16", 22, MATRICES),
        ("avx512fp16", 23, VECTORS),
        ("amx-tile", 24, MATRICES),
        ("amx-int8", 25, MATRICES),
    ];

    pub(super) fn found() -> Vec<&'static str> {
        macro_rules! found {
            ($($name:tt),*) => { [$(($name, is_x86_feature_detected!($name))),*] };
        }
        let all = found![
            "sse4.2",
            "avx",
            "avx2",
            "fma",
            "f16c",
            "avx512f",
            "avx512bw",
            "avx512vl",
            "avx512vnni",
            "avx512bf16"
        ];
        let found = all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name);
        found.chain(newer(bits(), saved())).collect()
    }

    fn newer(bits: u32, saved: u64) -> impl Iterator<Item = &'static str> {
        let has = move |bit: u32, needs: u64| bits >> bit & 1 == 1 && saved & needs == needs;
        NEWER.into_iter().filter(move |(_, bit, needs)| has(*bit, *needs)).map(|(name, ..)| name)
    }

    #[allow(unused_unsafe, reason = "newer releases of Rust call CPUID safe")]
    fn bits() -> u32 {
        // SAFETY: every x86-64 has the instruction, and leaf 0 says whether there is a leaf 7.
        unsafe { if __cpuid(0).eax < 7 { 0 } else { __cpuid_count(7, 0).edx } }
    }

    fn saved() -> u64 {
        if !is_x86_feature_detected!("xsave") {
            return 0;
        }
        // SAFETY: there is the instruction, and the system lets programs use it.
        unsafe { _xgetbv(0) }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn what_the_system_does_not_save_cannot_be_used() {
            let found = |bits, saved| newer(bits, saved).collect::<Vec<_>>();
            assert_eq!(found(1 << 22 | 1 << 24, MATRICES), ["amx-bf16", "amx-tile"]);
            assert!(found(u32::MAX, 1 << 18).is_empty() && found(0, u64::MAX).is_empty());
            assert_eq!(found(u32::MAX, VECTORS), ["avx512fp16"]);
        }
    }
}
