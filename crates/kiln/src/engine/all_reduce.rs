//! All-reduce: each device has a part of a sum (or product, or extreme), and gets the whole.
//!
//! Either each device fetches all parts and combines them, or each combines one piece of all parts and then fetches the
//! other pieces (reduce-scatter and all-gather, as in Patarasuk and Yuan, 2009). The second copies `n / 2` times less
//! among `n` devices, in twice as many copies. Which is cheaper follows from what a launch and a byte cost.
//!
//! Both combine in the order of the devices, so all devices get the same bits.

use super::device::description;
use super::sharded::{Split, moved};
use crate::device::Device;
use kiln_ir::UOp;
use kiln_ir::arg::ReduceOp;

/// The combined value of `parts`, for each device.
pub(super) fn all_reduce(parts: &[UOp], op: ReduceOp, devices: &[Device]) -> Vec<UOp> {
    let (first, n) = (&parts[0], devices.len());
    if first.numel() < n || fetching_is_cheaper(first, devices) {
        let all = |to: &Device| combined(parts, op, devices, to);
        return devices.iter().map(all).collect();
    }
    let flat: Vec<UOp> = parts.iter().map(|p| p.reshape([p.numel()].as_slice())).collect();
    let split = Split::even(0, first.numel(), n);
    let piece = |(i, to): (usize, &Device)| {
        let own = |part: &UOp| split.part(part, i);
        combined(&flat.iter().map(own).collect::<Vec<_>>(), op, devices, to)
    };
    let pieces: Vec<UOp> = devices.iter().enumerate().map(piece).collect();
    let whole = |to: &Device| {
        let here = pieces.iter().zip(devices).map(|(piece, from)| moved(piece, from, to));
        UOp::joined(&here.collect::<Vec<_>>(), 0).reshape(first.shape().clone())
    };
    devices.iter().map(whole).collect()
}

/// All parts, combined on one device.
fn combined(parts: &[UOp], op: ReduceOp, devices: &[Device], to: &Device) -> UOp {
    let here = parts.iter().zip(devices).map(|(part, from)| moved(part, from, to));
    here.reduce(|a, b| UOp::binary(op.alu(), &a, &b)).expect("a device")
}

/// Whether it costs less that each device fetches all parts.
fn fetching_is_cheaper(part: &UOp, devices: &[Device]) -> bool {
    let n = devices.len() as f64;
    let Ok((costs, _)) = description(&devices[0]) else { return true };
    let bytes = (part.numel() * part.dtype().size()) as f64;
    let price = |copies: f64, bytes: f64| copies * costs.launch_ns + bytes * costs.byte_ns;
    price(n * (n - 1.0), n * (n - 1.0) * bytes)
        <= price(2.0 * n * (n - 1.0), 2.0 * (n - 1.0) * bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_ir::DType;

    #[test]
    fn large_sums_are_shared_out() {
        let devices = ["INTERP", "INTERP:1", "INTERP:2"].map(Device::exact);
        let part = |n: usize| UOp::iota(n, DType::F32);
        assert!(fetching_is_cheaper(&part(100), &devices));
        assert!(!fetching_is_cheaper(&part(10_000_000), &devices));
        // two devices copy as much either way
        assert!(fetching_is_cheaper(&part(10_000_000), &devices[..2]));
    }
}
