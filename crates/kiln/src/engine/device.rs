//! Devices by name: each is a backend, which runs programs, and a target, which they are compiled for. A device is
//! opened once, on first use.

use super::{Failure, debug, env, matrices};
use crate::device::{Device, KNOWN};
use crate::error::Error;
use kiln_compile::target::{Costs, Groups, Language, Machine, Strategy, Target};
use kiln_ir::observe::{self, Event, Observer, Speed};
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, CpuBackend, Rung};
use kiln_runtime::interp::InterpBackend;
use kiln_runtime::null::NullBackend;
use kiln_runtime::opencl::ClBackend;
use kiln_runtime::pool::{self, MemoryUse, Pool};
use kiln_runtime::{Backend, Buffer};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// An open device.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) target: Arc<Target>,
}

impl Opened {
    /// Memory of the device, and what it is for.
    pub(super) fn alloc(&self, bytes: usize, purpose: &'static str) -> Result<Buffer, Failure> {
        Ok(self.backend.alloc(bytes).map_err(|e| e.to_string())?.held_for(purpose))
    }

    /// Shows that it is open.
    fn show(&self, device: &str, see: impl Fn(&Event<'_>)) {
        let (backend, compiler) = (self.backend.name(), &self.backend.compiler());
        see(&Event::Opened { device, backend, compiler, speed: self.speed() });
    }

    /// How fast the processor is, as the description says: the other devices have none of their own.
    fn speed(&self) -> Option<Speed> {
        let Target { costs, threads, language, .. } = &*self.target;
        matches!(language, Language::C | Language::Llvm).then(|| Speed {
            threads: *threads,
            flops: 1e9 * *threads as f64 / costs.operation_ns,
            bytes: 1e9 / costs.byte_ns,
            launch: Duration::from_nanos(costs.launch_ns as u64),
        })
    }
}

type Table = Mutex<FxHashMap<String, Opened>>;

fn table() -> MutexGuard<'static, FxHashMap<String, Opened>> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(Table::default).lock().expect("device table")
}

/// Shows an observer which devices are open.
pub(crate) fn opened(observer: &dyn Observer) {
    let mut all: Vec<(String, Opened)> = table().clone().into_iter().collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all.iter().for_each(|(name, opened)| opened.show(name, |event| observer.see(event)));
}

/// The device of this name; an unknown one is an error that lists those that are known.
pub(super) fn open(device: &Device) -> Result<Opened, Failure> {
    // files have memory but no processor: what is computed from them is computed by the CPU, into memory
    let name = memory_of(device.name());
    let known = || table().get(name).cloned();
    if let Some(opened) = known() {
        return Ok(opened);
    }
    debug::install();
    let _opening = opening();
    // the first device of a kind is opened before the others
    let first = match device.number() {
        (0, _) => None,
        (_, first) => Some(first),
    };
    for name in first.as_deref().into_iter().chain([name]) {
        if table().get(name).is_none() {
            let opened = open_new(name, device)?;
            opened.backend.pool().into_iter().for_each(|pool| pool.belongs_to(name));
            debug::warnings();
            opened.show(name, observe::see);
            table().insert(name.to_owned(), opened);
        }
    }
    Ok(known().expect("opened above"))
}

/// Adds a device, which is open from then on.
pub(crate) fn add(name: &Device, backend: Arc<dyn Backend>, target: Target) -> Result<(), Failure> {
    let _opening = opening();
    let opened = Opened { backend, target: Arc::new(target) };
    opened.backend.pool().into_iter().for_each(|pool| pool.belongs_to(name.name()));
    match table().entry(name.name().to_owned()) {
        Entry::Occupied(_) => Err(format!("there is a device {name} already")),
        Entry::Vacant(free) => {
            free.insert(opened);
            Ok(())
        }
    }
}

/// One device is opened at a time.
fn opening() -> MutexGuard<'static, ()> {
    static OPENING: Mutex<()> = Mutex::new(());
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes sure that there is such a device.
pub(crate) fn check(device: &Device) -> Result<(), Failure> {
    let each = device.members().unwrap_or_else(|| vec![device.clone()]);
    each.iter().try_for_each(|device| open(device).map(drop))
}

/// The device in whose memory a value lies: a file is mapped, and the CPU reads it where it is.
pub(super) fn memory_of(device: &str) -> &str {
    if device.starts_with("DISK:") { "CPU" } else { device }
}

/// What things cost on a device, and how many threads share a kernel.
pub(crate) fn description(device: &Device) -> Result<(Costs, usize), Error> {
    let members = device.members();
    let device = members.as_ref().map_or(device, |devices| &devices[0]);
    let opened = open(device).map_err(|why| Error::failed("device", why))?;
    Ok((opened.target.costs, opened.target.threads.max(1)))
}

/// What a device is here.
impl Device {
    /// What the device is on this machine: the backend behind the name, and its compiler. Opens it.
    ///
    /// ```
    /// let interp = kiln::Device::parse("INTERP")?;
    /// assert!(interp.describe()?.starts_with("INTERP, "));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device does not exist, or none of its compilers was found. The message lists every attempt.
    #[track_caller]
    pub fn describe(&self) -> Result<String, Error> {
        match open(self) {
            Ok(opened) => Ok(format!("{}, {}", opened.backend.name(), opened.backend.compiler())),
            Err(why) => Err(Error::failed("device", why)),
        }
    }
}

/// The memory of a device.
impl Device {
    /// How much memory the device uses. What is lazy uses none; what is freed is pooled for the next request of its size,
    /// unless `LRU=0`. `KILN_MEMORY` sets a limit. Opens the device.
    ///
    /// ```
    /// let device = kiln::Device::parse("INTERP:7")?;
    /// let t = kiln::Tensor::zeros_with([1000], &device) + 1.0;
    /// assert_eq!(device.memory()?.used, 0);
    /// t.realize()?;
    /// assert_eq!(device.memory()?.used, 4000);
    /// drop(t);
    /// assert_eq!((device.memory()?.used, device.memory()?.peak), (0, 4000));
    /// # Ok::<(), kiln::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device does not exist.
    #[track_caller]
    pub fn memory(&self) -> Result<MemoryUse, Error> {
        match open(self) {
            Ok(opened) => Ok(opened.backend.pool().map(|p| p.memory_use()).unwrap_or_default()),
            Err(why) => Err(Error::failed("device", why)),
        }
    }

    /// Gives the freed memory that is kept for reuse back to the system.
    ///
    /// # Errors
    /// As for [`memory`](Device::memory).
    #[track_caller]
    pub fn trim_memory(&self) -> Result<(), Error> {
        let opened = open(self).map_err(|why| Error::failed("device", why))?;
        opened.backend.pool().into_iter().for_each(|pool| pool.trim());
        Ok(())
    }

    /// Makes what is in use now the [peak](MemoryUse::peak).
    ///
    /// # Errors
    /// As for [`memory`](Device::memory).
    #[track_caller]
    pub fn reset_peak_memory(&self) -> Result<(), Error> {
        let opened = open(self).map_err(|why| Error::failed("device", why))?;
        opened.backend.pool().into_iter().for_each(|pool| pool.reset_peak());
        Ok(())
    }
}

/// Empty memory for a kind of device, within the bounds of the environment.
fn pool(kind: &str) -> Arc<Pool> {
    Pool::bounded(kept(pool::keep_of_host()), env::memory_limit(kind))
}

/// How many bytes of freed memory are kept: these, unless the environment says none.
fn kept(bytes: usize) -> usize {
    if env::LRU.get() == 0 { 0 } else { bytes }
}

/// What stands before the architecture and the name of a processor that kernels are to be written for.
const WRITTEN_FOR: &str = "CPU:LLVM:";

/// Opens a device, for `asked` or because that is another of its kind.
fn open_new(name: &str, asked: &Device) -> Result<Opened, Failure> {
    let (number, first) = Device::exact(name).number();
    match name {
        "CPU" => open_cpu(None),
        "CPU:LLVM" => open_cpu(Some(Rung::Llvm)),
        "CPU:C" => open_cpu(Some(Rung::C)),
        _ if first == "CL" => open_cl(number),
        _ if number > 0 => open_another(name, &first),
        _ if name.starts_with(WRITTEN_FOR) => open_cpu_as(&name[WRITTEN_FOR.len()..]),
        "INTERP" => Ok(interp()),
        "NULL" => Ok(null()),
        _ => Err(format!("no device {:?}: there are {}", asked.name(), KNOWN.join(", "))),
    }
}

/// A further device of a kind, whose first one is open.
fn open_another(name: &str, first: &str) -> Result<Opened, Failure> {
    let Opened { backend, target } = table().get(first).cloned().expect("opened before");
    match backend.another() {
        Some(backend) => Ok(Opened { backend, target }),
        None => Err(format!("no device {name:?}: there is one {first} only")),
    }
}

/// A device of OpenCL.
fn open_cl(number: usize) -> Result<Opened, Failure> {
    let backend = ClBackend::open(number, kept(pool::DEFAULT_KEEP), env::memory_limit("CL"));
    let backend = backend.map_err(|error| error.to_string())?;
    let (most_items, shared_bytes) = backend.limits();
    let groups = Groups { most_items, shared_bytes, subgroup: backend.subgroup() };
    let target = Target::opencl(groups);
    Ok(Opened { backend: Arc::new(backend), target: Arc::new(target) })
}

fn interp() -> Opened {
    Opened {
        backend: Arc::new(InterpBackend::with(pool("INTERP"))),
        target: Arc::new(Target::interp()),
    }
}

fn null() -> Opened {
    Opened {
        backend: Arc::new(NullBackend::with(pool("NULL"))),
        target: Arc::new(Target::interp()),
    }
}

/// What the environment says.
fn config() -> CpuConfig {
    let seconds = u64::try_from(env::KILN_CC_SECONDS.get()).unwrap_or(0);
    CpuConfig {
        cache_limit: env::cache_bytes() as u64,
        cc_time: Duration::from_secs(seconds),
        pool: pool("CPU"),
        ..CpuConfig::from_env()
    }
}

/// The ladder: LLVM, a C compiler, and where there is neither, the interpreter.
fn open_cpu(rung: Option<Rung>) -> Result<Opened, Failure> {
    match cpu::open(&config(), rung) {
        Ok(backend) => {
            let features = backend.host().features.clone();
            let machine = Machine::with(std::env::consts::ARCH, features);
            Ok(opened_cpu(backend, machine))
        }
        Err(_) if rung.is_none() => Ok(interp()),
        Err(error) => Err(error.to_string()),
    }
}

/// This machine, with kernels that are written for another processor: `x86_64,haswell`. Its features must be a part of
/// this one's.
fn open_cpu_as(name: &str) -> Result<Opened, Failure> {
    let Some((arch, cpu)) = name.split_once(',') else {
        return Err(format!("{name:?} names no processor, such as \"x86_64,haswell\""));
    };
    let machine = Machine::named(arch, cpu)?;
    let backend = cpu::open(&config(), Some(Rung::Llvm)).map_err(|error| error.to_string())?;
    if arch != std::env::consts::ARCH {
        return Err(format!("this machine is no {arch} but an {}", std::env::consts::ARCH));
    }
    match machine.beyond(&backend.host().features) {
        Some(lacking) => Err(format!("this machine cannot run code for {cpu}: it lacks {lacking}")),
        None => match backend.writes_for(cpu) {
            Ok(()) => Ok(opened_cpu(backend, machine)),
            Err(why) => Err(format!("no code can be written for {cpu}: {why}")),
        },
    }
}

fn opened_cpu(backend: CpuBackend, machine: Machine) -> Opened {
    let is_llvm = backend.rung() == Rung::Llvm;
    let target = Target {
        costs: Costs::CPU,
        strategy: Strategy::Threads,
        language: if is_llvm { Language::Llvm } else { Language::C },
        vector_bytes: machine.vector_bytes,
        masks: is_llvm && machine.vector_bytes >= 32,
        vector_registers: machine.vector_registers,
        cache_bytes: machine.cache_bytes.unwrap_or(backend.host().cache_bytes),
        streams: is_llvm,
        fma: machine.fma,
        dots: if is_llvm { machine.dots() } else { Vec::new() },
        mmas: if is_llvm { machine.mmas(&backend.host().features) } else { Vec::new() },
        widened_bytes: machine.widened_bytes,
        cpu: machine.cpu,
        threads: backend.threads(),
        groups: false,
    };
    let target = matrices::checked(&backend, target);
    Opened { backend: Arc::new(backend), target: Arc::new(target) }
}
