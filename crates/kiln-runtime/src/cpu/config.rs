//! The settings of the CPU device: read from the environment in one place, or set in code.

use crate::pool::Pool;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where to look for compilers and how to run.
#[derive(Clone, Debug, Default)]
pub struct CpuConfig {
    /// `KILN_LLVM`: which LLVM library.
    pub llvm: Choice,
    /// `KILN_CC`: which C compiler.
    pub cc: Choice,
    /// `KILN_THREADS`: how many threads share a launch; none means one per available processor.
    pub threads: Option<usize>,
    /// The folder of the cache on disk; none means no such cache.
    pub cache: Option<PathBuf>,
    /// The most bytes that the cache keeps, `KILN_CACHE_MB`.
    pub cache_limit: u64,
    /// The most time that the C compiler may take for a kernel, `KILN_CC_SECONDS`.
    pub cc_time: Duration,
    /// Its memory.
    pub pool: Arc<Pool>,
    /// Folders that hold Rust toolchains.
    pub toolchains: Vec<PathBuf>,
    /// Folders where programs are found.
    pub path: Vec<PathBuf>,
    /// Folders where libraries are found before the system's own.
    pub library_path: Vec<PathBuf>,
}

/// Which of several compilers of a kind to use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// The first that is found.
    #[default]
    Search,
    /// None, even where there is one.
    Hidden,
    /// This one.
    Path(PathBuf),
}

/// Enough for tens of thousands of kernels.
const CACHE_LIMIT: u64 = 256 << 20;
/// Many times what a kernel takes on a busy machine.
const CC_TIME: Duration = Duration::from_secs(120);

impl CpuConfig {
    /// What the environment says of the places of things; limits are as they are by default.
    pub fn from_env() -> CpuConfig {
        CpuConfig {
            llvm: Choice::parse(std::env::var_os("KILN_LLVM")),
            cc: Choice::parse(std::env::var_os("KILN_CC")),
            threads: threads(std::env::var("KILN_THREADS").ok()),
            cache: cache_folder(),
            cache_limit: CACHE_LIMIT,
            cc_time: CC_TIME,
            pool: Pool::new(),
            toolchains: folder("RUSTUP_HOME", ".rustup")
                .map(|rustup| rustup.join("toolchains"))
                .into_iter()
                .collect(),
            path: folders("PATH"),
            library_path: folders("LD_LIBRARY_PATH"),
        }
    }
}

impl Choice {
    fn parse(value: Option<OsString>) -> Choice {
        match value {
            None => Choice::Search,
            Some(text) if text.is_empty() => Choice::Search,
            Some(text) if text == "none" => Choice::Hidden,
            Some(text) => Choice::Path(text.into()),
        }
    }
}

fn threads(value: Option<String>) -> Option<usize> {
    let text = value.filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(count) if count > 0 => Some(count),
        _ => {
            crate::warnings::warn_once(format!("KILN_THREADS={text} is not a number of threads"));
            None
        }
    }
}

/// `KILN_CACHE=none` turns the cache off, a path moves it.
fn cache_folder() -> Option<PathBuf> {
    match Choice::parse(std::env::var_os("KILN_CACHE")) {
        Choice::Search => Some(folder("XDG_CACHE_HOME", ".cache")?.join("kiln")),
        Choice::Hidden => None,
        Choice::Path(path) => Some(path),
    }
}

fn folder(variable: &str, in_home: &str) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let set = std::env::var_os(variable).map(PathBuf::from).filter(absolute);
    set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(in_home)).filter(absolute))
}

fn folders(variable: &str) -> Vec<PathBuf> {
    let value = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&value).filter(|path| path.is_absolute()).collect()
}
