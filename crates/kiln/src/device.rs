//! The name of a device: where a tensor lives and which compiler writes its kernels.

use crate::error::{Error, Fault, at_caller, refuse};
use crate::scoped;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, RwLock};

/// A device by its canonical name, such as `CPU`, `CPU:LLVM` or `INTERP`. `CPU:LLVM:x86_64,haswell` is this machine with
/// kernels written for that processor.
///
/// A number after the first word says which device of its kind it is: `CPU:1`, `CPU:1:LLVM`, `INTERP:2`. Each has memory of
/// its own, which no kernel of another reads or writes; [`Tensor::to`](crate::Tensor::to) copies. `CPU:0` is `CPU`. The
/// devices `CPU:0`, `CPU:1`, ... share the processors of this machine: a kernel of one runs on all of them, and kernels of
/// several run side by side.
///
/// ```
/// assert_eq!(kiln::Device::parse("cpu:llvm")?.name(), "CPU:LLVM");
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Device(Arc<str>);

/// The device that a program made the default.
static SET: RwLock<Option<Device>> = RwLock::new(None);

impl Device {
    /// The device that `name` names, in any case. The number 0 is left out.
    ///
    /// # Errors
    /// A name that is not words and numbers joined by `:`. Whether the machine has the device shows on first use.
    #[track_caller]
    pub fn parse(name: &str) -> Result<Device, Error> {
        at_caller("device", Device::named(name))
    }

    /// The device of a canonical name.
    pub(crate) fn exact(name: &str) -> Device {
        Device(name.into())
    }

    /// As [`parse`](Device::parse), for an operation that says whose mistake it is.
    pub(crate) fn named(name: &str) -> Result<Device, Fault> {
        canonical(name).map(|n| Device(n.into()))
    }

    /// The device of tensors without one of their own. The first of these decides: [`with`](crate::with) and `DEV`,
    /// [`set_default`](Device::set_default), `DEV` of the environment, `CPU`. An unknown name in `DEV` is an error on first
    /// use.
    pub fn default_device() -> Device {
        let named = |name: &str| Device::named(name).ok();
        let scoped = scoped::scoped("DEV", named).flatten();
        scoped
            .or_else(|| SET.read().expect("default lock").clone())
            .unwrap_or_else(Device::of_process)
    }

    /// Makes this the [default device](Device::default_device) of the process.
    ///
    /// ```
    /// let device = kiln::Device::default_device();
    /// device.set_default();
    /// assert_eq!(kiln::Tensor::zeros([2]).device(), &device);
    /// ```
    pub fn set_default(&self) {
        *SET.write().expect("default lock") = Some(self.clone());
    }

    fn of_process() -> Device {
        static DEFAULT: OnceLock<Device> = OnceLock::new();
        let from_env = || {
            let name = std::env::var("DEV").ok().filter(|name| !name.is_empty());
            let name = name.map(|name| canonical(&name).unwrap_or(name));
            Device(name.unwrap_or_else(|| "CPU".to_owned()).into())
        };
        DEFAULT.get_or_init(from_env).clone()
    }

    /// The canonical name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The devices that can be asked for by name, whether this machine has them or not. `CPU` is the first of its
    /// kind that works.
    pub fn known() -> impl Iterator<Item = Device> {
        KNOWN.into_iter().map(|name| Device(name.into()))
    }

    /// The file that a device `DISK:PATH` is.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.0.strip_prefix(DISK).map(Path::new)
    }

    /// The devices of a set, such as `CPU+CPU:1`.
    pub(crate) fn members(&self) -> Option<Vec<Device>> {
        // a path may have any letters
        if self.file().is_some() {
            return None;
        }
        let set = self.0.split_once(ALONG).map_or(&*self.0, |(set, _)| set);
        set.contains('+').then(|| set.split('+').map(Device::exact).collect())
    }

    /// Which device of its kind it is, and the name of the first one: of `CPU:2:LLVM` 2 and `CPU:LLVM`.
    pub(crate) fn number(&self) -> (usize, String) {
        let (kind, rest) = self.0.split_once(':').unwrap_or((&self.0, ""));
        if self.file().is_some() {
            return (0, self.0.to_string());
        }
        match numbered(rest) {
            (number, "") => (number.parse().unwrap_or(0), kind.to_owned()),
            (number, rest) => (number.parse().unwrap_or(0), format!("{kind}:{rest}")),
        }
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.0.clone()
    }
}

/// The devices that can be opened, files aside.
pub(crate) const KNOWN: [&str; 6] = ["CPU", "CPU:LLVM", "CPU:C", "CL", "INTERP", "NULL"];

/// A copy to several devices names them, and after this letter the axis of the split: `CPU+CPU:1@0`.
pub(crate) const ALONG: char = '@';

/// What stands before the path of a file.
const DISK: &str = "DISK:";

fn canonical(name: &str) -> Result<String, Fault> {
    let prefix = name.trim_start().get(..DISK.len());
    if prefix.is_some_and(|p| p.eq_ignore_ascii_case(DISK)) {
        // paths are not words, and their case counts
        return Ok(format!("{DISK}{}", &name.trim_start()[DISK.len()..]));
    }
    if name.contains('+') {
        let members = name.split('+').map(canonical).collect::<Result<Vec<String>, Fault>>()?;
        let again = |at: usize| members[..at].contains(&members[at]);
        return match (0..members.len()).find(|&at| again(at)) {
            Some(at) => refuse!("{name:?} names {} twice", members[at]),
            None => Ok(members.join("+")),
        };
    }
    if let Some((device, processor)) = name.trim().split_once(',') {
        return written_for(&canonical(device)?, processor);
    }
    let upper = name.trim().to_ascii_uppercase();
    let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !upper.split(':').all(word) || upper.starts_with(|c: char| c.is_ascii_digit()) {
        return refuse!("{name:?} does not name a device, such as \"CPU\" or \"CPU:LLVM\"");
    }
    let (kind, rest) = upper.split_once(':').unwrap_or((&upper, ""));
    let (number, rest) = numbered(rest);
    let parts =
        [kind, number.trim_start_matches('0'), rest].into_iter().filter(|part| !part.is_empty());
    Ok(parts.collect::<Vec<_>>().join(":"))
}

/// The digits that a name goes on with after its first word, and what comes after them.
fn numbered(rest: &str) -> (&str, &str) {
    let (first, others) = rest.split_once(':').unwrap_or((rest, ""));
    let is_number = !first.is_empty() && first.chars().all(|c| c.is_ascii_digit());
    if is_number { (first, others) } else { ("", rest) }
}

/// The device whose kernels are written for a processor; architecture and processor are words of compilers, in their case.
fn written_for(device: &str, processor: &str) -> Result<String, Fault> {
    let letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match device.rsplit_once(':') {
        Some((device, arch)) if !processor.is_empty() && processor.chars().all(letter) => {
            Ok(format!("{device}:{}", format!("{arch},{processor}").to_ascii_lowercase()))
        }
        _ => refuse!("{processor:?} names no processor, as in \"CPU:LLVM:x86_64,haswell\""),
    }
}

/// The [default](Device::default_device).
impl Default for Device {
    fn default() -> Device {
        Device::default_device()
    }
}

/// As [`Device::parse`].
impl FromStr for Device {
    type Err = Error;

    #[track_caller]
    fn from_str(name: &str) -> Result<Device, Error> {
        Device::parse(name)
    }
}

/// A device is its name in files.
#[cfg(feature = "serde")]
impl serde::Serialize for Device {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Device {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Device, D::Error> {
        let name = String::deserialize(from)?;
        Device::named(&name).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.0)
    }
}
