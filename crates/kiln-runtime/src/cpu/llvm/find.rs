//! Where an LLVM library may be: the system's folders, and the Rust toolchains, whose compiler contains one. The newest
//! release is taken: it knows the newest processors, and 22 compiles in half the time of 15.
//!
//! It looks at file names only. No library is opened and no program is started, which would take 60 ms.

use crate::cpu::config::{Choice, CpuConfig};
use std::path::{Path, PathBuf};

/// The oldest release whose pointers are opaque, as our IR has them.
const OLDEST: u32 = 15;
/// Releases that do not exist yet are tried too: the C API is stable.
const NEWEST: u32 = 30;

/// Files that look like LLVM libraries, best first.
pub(super) fn candidates(config: &CpuConfig) -> Vec<PathBuf> {
    match &config.llvm {
        Choice::Hidden => Vec::new(),
        Choice::Path(path) => vec![path.clone()],
        Choice::Search => {
            let mut all = system(config);
            all.extend(toolchains(config));
            // The sort keeps the order of equals: a system's library comes before a toolchain's.
            all.sort_by_key(|path| (is_unstable(path), std::cmp::Reverse(release(path))));
            all
        }
    }
}

/// The newest release in the system's folders.
fn system(config: &CpuConfig) -> Vec<PathBuf> {
    let arch = std::env::consts::ARCH;
    let multiarch = format!("/usr/lib/{arch}-linux-gnu");
    let fixed =
        [&multiarch, "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64"].map(PathBuf::from);
    let folders: Vec<PathBuf> = config.library_path.iter().cloned().chain(fixed).collect();
    let mut found = Vec::new();
    for release in (OLDEST..=NEWEST).rev() {
        let names = [
            format!("libLLVM.so.{release}.1"),
            format!("libLLVM.so.{release}"),
            format!("libLLVM-{release}.so.1"),
            format!("libLLVM-{release}.so"),
        ];
        let own = [
            PathBuf::from(format!("/usr/lib/llvm-{release}/lib")),
            PathBuf::from(format!("/usr/lib/llvm/{release}/lib64")),
        ];
        let mut all = folders.iter().chain(&own);
        found.extend(all.find_map(|folder| names.iter().map(|n| folder.join(n)).find(is_library)));
    }
    found
}

/// The libraries of Rust toolchains: rustup's, then the one whose `rustc` or `cargo` is on the path.
fn toolchains(config: &CpuConfig) -> Vec<PathBuf> {
    let rustup = config.toolchains.iter().flat_map(|folder| entries(folder));
    let mut found: Vec<PathBuf> = rustup.flat_map(|t| libraries(&t.join("lib"))).collect();
    // The order of a folder's entries is arbitrary.
    found.sort();
    for program in ["rustc", "cargo"] {
        let real = config.path.iter().find_map(|folder| folder.join(program).canonicalize().ok());
        let root = real.as_deref().and_then(Path::parent).and_then(Path::parent);
        found.extend(root.into_iter().flat_map(|root| libraries(&root.join("lib"))));
    }
    found
}

/// Nightly toolchains change under their name.
fn is_unstable(path: &Path) -> bool {
    path.to_string_lossy().contains("nightly")
}

/// The release in a file's name, such as 22 in `libLLVM.so.22.1-rust-1.95.0-stable`; 0 if there is none.
fn release(path: &Path) -> u32 {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// The files in a folder that look like LLVM.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libLLVM"))
    };
    entries(folder).into_iter().filter(named).filter(is_library).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(folder).into_iter().flatten();
    read.flatten().map(|entry| entry.path()).collect()
}

/// Smaller files of these names are linker scripts that point to the library.
const SMALLEST: u64 = 1 << 20;

#[allow(clippy::ptr_arg, reason = "a predicate for iterators over paths")]
fn is_library(path: &PathBuf) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() > SMALLEST)
}
