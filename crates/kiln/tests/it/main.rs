//! The public interface, against values worked out by hand and by NumPy.

// Programs write `&tensor` where a value would do, and so do these.
#![allow(clippy::needless_borrows_for_generic_args)]

mod api;
mod accept;
mod attention;
mod autograd;
mod basics;
mod indexing;
mod ops;
mod composites;
mod conversions;
mod counts;
mod disk;
mod draws;
mod engine;
mod gradients;
mod faults;
#[cfg(feature = "fetch")]
mod fetch;
mod formats;
mod frequencies;
mod fp8;
mod fuzz;
mod random_graphs;
mod random_networks;
mod recomputed;
mod records;
mod source_lines;
mod search;
mod settings;
mod model;
mod nn;
mod observed;
mod offsets;
mod opencl;
mod optim;
mod toy;
mod training;
mod unrolled;
mod jit;
mod layers;
mod lengths;
mod state;
mod structures;
#[allow(clippy::print_stderr, reason = "says what it skips")]
mod files;
#[cfg(target_os = "linux")]
#[allow(clippy::print_stderr, reason = "says what it skips")]
mod limits;
#[cfg(target_os = "linux")]
#[allow(clippy::print_stdout, reason = "a child process tells its parent")]
mod shapes;
mod golden;
mod decoding;
mod devices;
mod sharding;
mod sorting;
mod derivatives;
mod special_values;
mod sums;
mod thread_counts;
mod blame;
mod edges;
mod weak;
mod empty;
mod processors;
mod resnet;
mod seeing;
mod shown;
mod large;
mod listed;
mod windows;
mod winograd;
mod special_gradients;
mod meaning;
