//! Tensor graph in, kernel text out. Pure: no device, clock, file or `unsafe`. Modules in the order of data flow:

/// Plain data that describes a device.
pub mod target;
/// Kernel in, linear program out: expansion, accumulators, gates, widths of indices, order.
pub mod lower;
