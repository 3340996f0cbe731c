//! The compiler: a tensor graph in, the text of kernels out. Pure: no device, clock, file or `unsafe`.
//!
//! Modules stand in the order of data flow. Read `passes` first.

/// Plain data that describes a device.
pub mod target;
/// Forward graph to gradient graph, one rule per op.
pub mod grad;
/// Tensor graph to ordered kernels and a memory plan.
pub mod schedule;
/// Kernel to an equivalent, faster kernel.
pub mod optimize;
/// One schedule for graphs that differ in lengths.
pub mod lengths;
/// Kernel to program: a linear list of ops that the target has.
pub mod lower;
/// A linear program as text in the target's language.
pub mod render;
/// What a pass is, and how passes are run.
pub mod pass;
/// The passes of every stage, in order: the file to read first.
pub mod passes;
/// Runs all stages, within limits.
pub mod pipeline;
