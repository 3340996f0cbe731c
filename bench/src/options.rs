//! The arguments of this program.

use clap::Parser;
use std::path::PathBuf;

/// The argument that makes this program kiln's side.
pub(crate) const SERVE: &str = "--serve";
/// The argument that makes it add two tensors and end.
pub(crate) const START: &str = "--start";

/// Measures kiln, PyTorch, torch.compile, tinygrad and ONNX Runtime in turn.
#[derive(Parser)]
pub(crate) struct Options {
    /// Workloads, or beginnings of their names; all if none is named.
    pub(crate) names: Vec<String>,
    /// How many turns each has. One that takes half a second or more a call has three.
    #[arg(long, default_value_t = 7)]
    pub(crate) rounds: usize,
    /// Whom to measure beside kiln: `torch`, `compile`, `tinygrad`, `ort` (ONNX Runtime, no training), or
    /// `none`.
    #[arg(long, value_delimiter = ',', default_value = "torch,compile,tinygrad")]
    pub(crate) peers: Vec<String>,
    /// A Python that has the peers' packages. Without it, a virtual environment is made under target/peers.
    #[arg(long)]
    pub(crate) python: Option<PathBuf>,
    /// How many threads each may use.
    #[arg(long, default_value_t = 2)]
    pub(crate) threads: usize,
    /// Says also how much memory each takes: the most while a call runs, beyond what its process took before it had the
    /// workload. Each starts anew for it.
    #[arg(long)]
    pub(crate) memory: bool,
    /// The date in the name of the results file; today if not given.
    #[arg(long)]
    pub(crate) date: Option<String>,
    /// Writes the results also where not all workloads ran, with this in the name of the file.
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Lists the workloads.
    #[arg(long)]
    pub(crate) list: bool,
}
