//! Why something could not run. An error can be cloned, since a tensor carries its error on.

/// A failure of a device, a compiler, a file or a launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Memory that cannot be had.
    #[error("cannot allocate {bytes} bytes: {why}")]
    Memory {
        /// What was asked for.
        bytes: usize,
        /// What stands against it.
        why: String,
    },
    /// A compiler refused a kernel.
    #[error("{compiler} does not compile this kernel: {message}")]
    Compile {
        /// Which compiler.
        compiler: String,
        /// What it said.
        message: String,
    },
    /// No compiler was found; every place that was tried.
    #[error("no compiler for this device; tried: {}", tried.join(", "))]
    NoCompiler {
        /// The places, each with what was wrong there.
        tried: Vec<String>,
    },
    /// Compiled code that cannot be placed in memory.
    #[error("cannot load compiled code: {0}")]
    Load(String),
    /// Arguments that do not fit the program.
    #[error("cannot launch: {0}")]
    Launch(String),
    /// A file that cannot be used.
    #[error("{path}: {message}")]
    File {
        /// Its path.
        path: String,
        /// What the system said.
        message: String,
    },
    /// Something that this device does not do.
    #[error("{0}")]
    Unsupported(String),
}

/// `std::result::Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failed file operation.
    pub(crate) fn file(path: &std::path::Path, message: impl ToString) -> Error {
        Error::File { path: path.display().to_string(), message: message.to_string() }
    }
}
