//! The schedule of a graph: a remembered one, one for many lengths, or a new one.

use super::cache::{self, Ready};
use super::capture::Closed;
use super::device::Opened;
use super::{Failure, general, hot};
use crate::device::Device;
use std::sync::Arc;

/// The schedule of a closed graph on a device, with its code, and whether the graph was a new one.
pub(super) fn ready(
    closed: &Closed,
    device: &Device,
    opened: &Opened,
) -> Result<(Arc<Ready>, bool), Failure> {
    if let Some(ready) = found(closed, device) {
        return Ok((ready, false));
    }
    let ready = match general::ready(closed, device, opened)? {
        Some(ready) => ready,
        None => cache::make(closed, device, opened)?,
    };
    Ok((cache::keep(closed, device, ready), true))
}

/// The remembered schedule of a closed graph.
pub(super) fn found(closed: &Closed, device: &Device) -> Option<Arc<Ready>> {
    Some(hot::counted(cache::found(closed, device)?, closed.key, device))
}
