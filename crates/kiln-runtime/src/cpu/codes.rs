//! From source to loaded code, by way of what this process has, what the disk has, and the compiler.

use super::compiler::Compiler;
use super::loader::Code;
use crate::cache::{DiskCache, Key};
use crate::device::Origin;
use crate::error::Result;
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts up when the way in which kernels are called changes.
const ABI: u32 = 1;

/// Loaded kernels beyond this number are dropped, unless somebody holds them.
const MOST_LOADED: usize = 8192;

/// The code of every kernel of a device, by source.
pub(super) struct Codes {
    pub(super) compiler: Box<dyn Compiler>,
    maker: String,
    disk: DiskCache,
    loaded: Mutex<FxHashMap<Arc<str>, Arc<Slot>>>,
}

/// Whoever holds the lock makes the code; others who want the same code wait for it here.
type Slot = Mutex<Option<Arc<Code>>>;

/// What compiled code depends on besides its source.
pub(super) fn maker(compiler: &dyn Compiler, host: &str) -> String {
    format!("abi {ABI}\n{}\n{host}", compiler.identity())
}

impl Codes {
    pub(super) fn new(compiler: Box<dyn Compiler>, host: &str, disk: DiskCache) -> Codes {
        let maker = maker(&*compiler, host);
        Codes { compiler, maker, disk, loaded: Mutex::default() }
    }

    /// The code for a source, and where it came from.
    pub(super) fn get(&self, source: &str) -> Result<(Arc<Code>, Origin)> {
        let slot = self.slot(source);
        let mut code = lock(&slot);
        if let Some(code) = &*code {
            return Ok((code.clone(), Origin::Memory));
        }
        let (made, origin) = self.make(source)?;
        let made = Arc::new(made);
        *code = Some(made.clone());
        Ok((made, origin))
    }

    /// The code for a source, of which nothing is remembered.
    pub(super) fn make_once(&self, source: &str) -> Result<Code> {
        Code::load(&self.compiler.compile(source)?)
    }

    /// What was noted about something on this machine, with this compiler.
    pub(super) fn note(&self, about: &str) -> Option<String> {
        self.disk.note(&self.maker, about)
    }

    /// Notes something on disk.
    pub(super) fn set_note(&self, about: &str, text: &str) {
        self.disk.set_note(&self.maker, about, text);
    }

    fn make(&self, source: &str) -> Result<(Code, Origin)> {
        let key = Key { maker: &self.maker, source };
        // An object from disk that does not load is as good as none.
        if let Some(code) = self.disk.get(key).and_then(|object| Code::load(&object).ok()) {
            return Ok((code, Origin::Disk));
        }
        let object = self.compiler.compile(source)?;
        let code = Code::load(&object)?;
        self.disk.put(key, &object);
        Ok((code, Origin::Compiled))
    }

    fn slot(&self, source: &str) -> Arc<Slot> {
        let mut loaded = lock(&self.loaded);
        if let Some(slot) = loaded.get(source) {
            return slot.clone();
        }
        if loaded.len() >= MOST_LOADED {
            loaded.retain(|_, slot| in_use(slot));
        }
        let slot = Arc::new(Slot::default());
        loaded.insert(source.into(), slot.clone());
        slot
    }
}

/// Whether a slot's code is being made or held by a kernel.
fn in_use(slot: &Arc<Slot>) -> bool {
    let held = |code: &Arc<Code>| Arc::strong_count(code) > 1;
    Arc::strong_count(slot) > 1 || lock(slot).as_ref().is_some_and(held)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
