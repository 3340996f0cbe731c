//! Settings in code: variables of the environment for as long as a function runs.

use crate::device::Device;
use crate::engine::env::{is_number, known};
use crate::error::{Error, Fault, at_caller, refuse};
use crate::scoped::{own, within};
use kiln_ir::DType;
use std::sync::Arc;

/// What is read once, when a device is opened or a cache first used.
const OF_PROCESS: [&str; 11] = [
    "VIZ",
    "VIZ_MB",
    "LRU",
    "KILN_MEMORY",
    "KILN_LLVM",
    "KILN_CC",
    "KILN_THREADS",
    "KILN_CACHE",
    "XDG_CACHE_HOME",
    "KILN_CC_SECONDS",
    "KILN_CACHE_MB",
];

/// Runs `f` with variables of the environment set so, whatever they are outside. The scope is the calling thread's.
/// [`env::describe`](crate::env::describe) lists all variables; an empty value is that of a variable that is not set.
///
/// ```
/// use kiln::Tensor;
/// let t = kiln::with([("DEFAULT_FLOAT", "f64"), ("DEV", "INTERP")], || Tensor::zeros([2]))?;
/// assert_eq!((t.dtype(), t.device().name()), (kiln::DType::F64, "INTERP"));
/// let sum = kiln::with([("NOOPT", 1)], || Tensor::from([1, 2]).sum(..).item::<i32>())??;
/// assert_eq!(sum, 3);
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A name that is no variable of kiln; a variable of the whole process, such as `KILN_THREADS`; an invalid value. Then `f`
/// does not run.
#[track_caller]
pub fn with<N: AsRef<str>, V: ToString, R>(
    settings: impl IntoIterator<Item = (N, V)>,
    f: impl FnOnce() -> R,
) -> Result<R, Error> {
    let mut all = own().as_deref().cloned().unwrap_or_default();
    for (name, value) in settings {
        let setting = checked(name.as_ref(), value.to_string());
        let (name, value) = at_caller("with", setting)?;
        all.insert(name, value);
    }
    Ok(within(Some(Arc::new(all)), f))
}

fn checked(name: &str, value: String) -> Result<(&'static str, String), Fault> {
    let Some(known) = known(name) else {
        return refuse!("{name:?} is no variable that kiln reads");
    };
    if OF_PROCESS.contains(&known) {
        return refuse!("{name} is read once for the process: set it before the program starts");
    }
    let fits = match known {
        _ if value.is_empty() => true,
        "DEV" => Device::named(&value).is_ok(),
        "DEFAULT_FLOAT" => value.parse().is_ok_and(DType::is_float),
        _ => !is_number(known) || value.trim().parse().is_ok_and(|n: i64| n >= 0),
    };
    match fits {
        true => Ok((known, value)),
        false => refuse!("{name} cannot be {value:?}"),
    }
}
