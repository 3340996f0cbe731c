//! Devices by name: what runs programs, and the target that they are compiled for. Opened on first use, once.

use super::{Failure, debug};
use crate::Device;
use kiln_compile::target::{Dot, Language, Target};
use kiln_runtime::Backend;
use kiln_runtime::cpu::config::CpuConfig;
use kiln_runtime::cpu::{self, CpuBackend, Rung};
use kiln_runtime::interp::InterpBackend;
use kiln_runtime::null::NullBackend;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// An open device.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) target: Arc<Target>,
}

type Table = Mutex<HashMap<String, Opened>>;

fn table() -> MutexGuard<'static, HashMap<String, Opened>> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(Table::default).lock().expect("device table")
}

/// The device of this name; an unknown one is an error that lists those that are known.
pub(super) fn open(device: &Device) -> Result<Opened, Failure> {
    let mut table = table();
    if let Some(opened) = table.get(device.name()) {
        return Ok(opened.clone());
    }
    // files have memory but no processor: what is computed from them is computed by the CPU, into memory
    let name = if device.file().is_some() { "CPU" } else { device.name() };
    let opened = match table.get(name) {
        Some(opened) => opened.clone(),
        None => open_new(name)?,
    };
    debug::opened(device.name(), &opened);
    table.insert(device.name().to_owned(), opened.clone());
    Ok(opened)
}

/// The names that [`open_new`] knows.
pub(crate) const DEVICES: [&str; 5] = ["CPU", "CPU:LLVM", "CPU:C", "INTERP", "NULL"];

fn open_new(name: &str) -> Result<Opened, Failure> {
    match name {
        "CPU" => open_cpu(None),
        "CPU:LLVM" => open_cpu(Some(Rung::Llvm)),
        "CPU:C" => open_cpu(Some(Rung::C)),
        "INTERP" => Ok(interp()),
        "NULL" => Ok(null()),
        _ => Err(format!("no device {name:?}: there are {}", DEVICES.join(", "))),
    }
}

fn interp() -> Opened {
    Opened { backend: Arc::new(InterpBackend::new()), target: Arc::new(Target::interp()) }
}

fn null() -> Opened {
    Opened { backend: Arc::new(NullBackend::new()), target: Arc::new(Target::interp()) }
}

/// The ladder: LLVM, a C compiler, and where there is neither, the interpreter.
fn open_cpu(rung: Option<Rung>) -> Result<Opened, Failure> {
    match cpu::open(&CpuConfig::from_env(), rung) {
        Ok(backend) => {
            let target = Arc::new(cpu_target(&backend));
            Ok(Opened { backend: Arc::new(backend), target })
        }
        Err(_) if rung.is_none() => Ok(interp()),
        Err(error) => Err(error.to_string()),
    }
}

fn cpu_target(backend: &CpuBackend) -> Target {
    let host = backend.host();
    Target {
        language: match backend.rung() {
            Rung::Llvm => Language::Llvm,
            Rung::C => Language::C,
        },
        cpu: String::new(),
        features: String::new(),
        vector_bytes: host.vector_bytes,
        masks: backend.rung() == Rung::Llvm && host.vector_bytes >= 32,
        vector_registers: host.vector_registers,
        cache_bytes: host.cache_bytes,
        fma: host.fma,
        dots: match backend.rung() {
            Rung::Llvm => Dot::of(|feature| host.features.contains(&feature)),
            Rung::C => Vec::new(),
        },
        threads: backend.threads(),
        groups: false,
    }
}
