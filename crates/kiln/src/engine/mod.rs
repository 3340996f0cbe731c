//! The engine turns values into memory: it captures graphs, schedules, compiles, binds buffers, launches, and remembers
//! each result.
//!
//! It takes nodes and devices, and knows no tensors. Tensors build graphs and call `upload`, `computed`,
//! `realize` and `read`.

/// Environment variables: one registry.
pub(crate) mod env;
/// What a node may carry outside its identity: memory, or the leaf that it was computed into.
mod leaf;
/// Where gradients could go.
mod history;
/// Devices by name: a backend and a target.
mod device;
/// Whether matrix units may be used.
mod matrices;
/// Launch-time scalars.
mod novel;
mod number;
/// What fillers take to compute.
mod filler;
/// From live nodes down to leaves.
mod walk;
/// The result of a walk, and what is stored beside the roots.
mod walked;
/// Reads by threads that a recorded function may have started.
mod watch;
/// From a walk to a closed graph and its key.
mod capture;
/// Runs of writes become few.
mod runs;
/// Schedules and kernels, remembered.
mod cache;
/// What observers are shown of them.
mod observed;
/// Maps of bounded memory that keep what is used.
mod generations;
/// Work on all processors.
mod parallel;
/// Options for kernels, by trying.
mod search;
/// Which memory every argument is; what may be overwritten in place.
mod bind;
/// What is overwritten in place, until that is done.
mod donated;
/// General kernels, each for a family of kernels.
mod families;
/// General schedules, each for graphs that differ in lengths.
mod general;
/// Code for the numbers of a graph that comes again and again.
mod hot;
/// How kernels are made.
mod made;
/// Whether a general kernel is worth what it takes longer.
mod profitable;
/// The schedule of a graph, wherever it comes from.
mod ready;
/// Files as memory.
mod file;
/// Files that are only read.
mod mapped;
/// Copies from one device to another.
mod crossing;
/// Values on several devices.
mod sharded;
/// A graph over such values as a graph for each device.
mod partition;
mod planning;
/// Sums over devices.
mod all_reduce;
/// Values that are in memory as they are.
mod resident;
/// Plan, claim, allocate, launch, commit.
mod realize;
/// Values copied out.
mod read;
/// What a recorded function computes.
pub(crate) mod plan;
/// What a function makes a thread compute.
pub(crate) mod record;
/// The same again, from other memory.
mod replay;
/// Kernels with all that they are called with.
mod launch;
/// What only computing can show to be wrong.
mod checks;
/// Where slices start, as numbers that a graph is given.
mod starts;
/// Counters of what a thread does.
mod measure;
/// What DEBUG=2 says of a launch.
mod line;
/// Long texts about what failed.
mod report;
/// Files that the environment asks for.
mod asked;
/// The observer for DEBUG: the one module that writes to stderr.
mod debug;

/// Hooks for tests.
pub(crate) mod testing;

pub use cache::stages;
pub(crate) use debug::note;
pub(crate) use device::add;
pub(crate) use device::{check, description, opened};
pub(crate) use env::wants_winograd;
pub(crate) use file::File;
pub(crate) use history::{forget_history, has_gradient, is_open, remember, with_history};
pub(crate) use leaf::{computed, extremes, forgive, upload};
pub(crate) use mapped::Mapped;
pub use measure::{Counts, measure};
pub(crate) use number::number;
pub(crate) use read::{copied, read, read_at, read_parts, realized_view, shards, show};
pub(crate) use realize::{realize_all, write};
pub(crate) use resident::{is_in_memory, memory_of};
pub use search::{Found, regret, search};
pub(crate) use watch::is_recorded_somewhere;

/// What a program computes at once: mostly one value, for which nothing is allocated.
pub(crate) type Few<T> = smallvec::SmallVec<[T; 2]>;

/// A failure of the machine, before it is known whose line it was.
pub(crate) type Failure = String;
