//! A device of OpenCL with a queue.

use super::api::{Api, Handle};
use super::codes::checked;
use crate::error::{Error, Result};
use std::ptr::{null, null_mut};
use std::sync::LazyLock;

/// Where the library is.
const NAMES: [&str; 3] = ["libOpenCL.so.1", "libOpenCL.so", "OpenCL.dll"];

const GPU: u64 = 1 << 2;
const ALL: u64 = 0xffff_ffff;

/// What a device is asked.
const TYPE: u32 = 0x1000;
const MOST_ITEMS: u32 = 0x1004;
const LOCAL_BYTES: u32 = 0x1023;
const SINGLE: u32 = 0x101b;
const NAME: u32 = 0x102b;
const VERSION: u32 = 0x102f;
const EXTENSIONS: u32 = 0x1030;
const SUBGROUP_SIZES: u32 = 0x4108;

/// What kernels with subgroups need: their size can be asked for, and items can exchange values.
const SUBGROUPS: [&str; 2] = ["cl_intel_required_subgroup_size", "cl_khr_subgroup_shuffle"];
/// The largest subgroup that is asked for, in items. Most GPUs have 32.
const LARGEST_SUBGROUP: usize = 32;

/// Of what a device's f32 can do: quotients and square roots that are rounded correctly.
const ROUNDED: usize = 1 << 7;

/// A device and its queue.
pub(super) struct Device {
    pub(super) api: &'static Api,
    pub(super) id: Handle,
    pub(super) context: Handle,
    pub(super) queue: Handle,
    pub(super) description: String,
    pub(super) most_items: usize,
    pub(super) shared_bytes: usize,
    /// Items of a subgroup; 1 if items cannot exchange values.
    pub(super) subgroup: usize,
    /// Whether quotients and square roots of f32 can be rounded correctly.
    pub(super) rounds: bool,
}

// SAFETY: the functions of OpenCL may be called by any thread (section 2.1 of its specification), but for setting
// arguments of one kernel, which `kernel` does under a lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The library, once.
fn api() -> Result<&'static Api> {
    static API: LazyLock<std::result::Result<Api, Vec<String>>> = LazyLock::new(|| {
        let mut tried = Vec::new();
        for name in NAMES {
            match Api::load(name) {
                Ok(api) => return Ok(api),
                Err(why) => tried.push(format!("{name}: {why}")),
            }
        }
        Err(tried)
    });
    API.as_ref().map_err(|tried| Error::NoCompiler { tried: tried.clone() })
}

impl Device {
    /// The device of this number.
    pub(super) fn open(number: usize) -> Result<Device> {
        let api = api()?;
        let all = devices(api);
        let none = || {
            let tried = format!("OpenCL has {} devices", all.len());
            Error::NoCompiler { tried: vec![tried] }
        };
        let id = *all.get(number).ok_or_else(none)?;
        let mut code = 0;
        // SAFETY: one device, no properties, no callback.
        let context =
            unsafe { (api.create_context)(null(), 1, &id, null(), null_mut(), &mut code) };
        checked("context", code)?;
        // SAFETY: the context was made for the device. The queue is in order: no property says otherwise.
        let queue = unsafe { (api.create_queue)(context, id, 0, &mut code) };
        checked("queue", code)?;
        let description = format!("{}, {}", text(api, id, NAME), text(api, id, VERSION));
        Ok(Device {
            api,
            id,
            context,
            queue,
            description,
            most_items: number_of(api, id, MOST_ITEMS),
            shared_bytes: number_of(api, id, LOCAL_BYTES),
            subgroup: subgroup(api, id),
            rounds: number_of(api, id, SINGLE) & ROUNDED != 0,
        })
    }
}

/// All devices of all platforms, GPUs first.
fn devices(api: &Api) -> Vec<Handle> {
    let list = |get: &dyn Fn(u32, *mut Handle, *mut u32) -> i32| -> Vec<Handle> {
        let mut count = 0;
        if get(0, null_mut(), &mut count) != 0 {
            return Vec::new();
        }
        let mut found = vec![null_mut(); count as usize];
        if get(count, found.as_mut_ptr(), null_mut()) == 0 { found } else { Vec::new() }
    };
    // SAFETY: the list has room for as many as are asked for, or none are.
    let platforms = list(&|n, to, count| unsafe { (api.platforms)(n, to, count) });
    let mut all: Vec<Handle> = platforms
        .into_iter()
        // SAFETY: as above, of a platform that the library has named.
        .flat_map(|p| list(&|n, to, count| unsafe { (api.devices)(p, ALL, n, to, count) }))
        .collect();
    all.sort_by_key(|&id| number_of(api, id, TYPE) as u64 & GPU == 0);
    all
}

/// A fact about a device that is a number of 8 bytes or, with zeros above, less.
fn number_of(api: &Api, id: Handle, what: u32) -> usize {
    let mut number = 0u64;
    // SAFETY: the answer is at most 8 bytes, or refused.
    unsafe { (api.device_info)(id, what, 8, (&raw mut number).cast(), null_mut()) };
    number as usize
}

fn text(api: &Api, id: Handle, what: u32) -> String {
    let bytes = bytes_of(api, id, what);
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

/// A fact about a device of any length; empty if the device does not know the question.
fn bytes_of(api: &Api, id: Handle, what: u32) -> Vec<u8> {
    let mut len = 0;
    // SAFETY: only the length is asked for.
    unsafe { (api.device_info)(id, what, 0, null_mut(), &mut len) };
    let mut bytes = vec![0u8; len];
    // SAFETY: the answer is as long as the room for it, or refused.
    unsafe { (api.device_info)(id, what, len, bytes.as_mut_ptr().cast(), null_mut()) };
    bytes
}

/// The size of the subgroups that kernels ask for.
fn subgroup(api: &Api, id: Handle) -> usize {
    let extensions = text(api, id, EXTENSIONS);
    let has = |name: &&str| extensions.split(' ').any(|other| other == *name);
    if !SUBGROUPS.iter().all(has) {
        return 1;
    }
    let sizes = bytes_of(api, id, SUBGROUP_SIZES);
    let sizes = sizes.as_chunks().0.iter().map(|bytes| usize::from_ne_bytes(*bytes));
    sizes.filter(|size| *size <= LARGEST_SUBGROUP).max().unwrap_or(1)
}
