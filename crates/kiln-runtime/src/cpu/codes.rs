//! From source to loaded code: it is taken from this process, else from the cache on disk, else from the compiler.

use super::compiler::Compiler;
use super::loader::Code;
use crate::cache::{DiskCache, Key};
use crate::device::Origin;
use crate::error::Result;
use kiln_ir::uop::Mixer;
use rustc_hash::FxHashMap;
use std::hash::Hasher;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Counts up when the way in which kernels are called changes.
const ABI: u32 = 1;

/// With fewer entries than this, code that nothing holds any more is not searched for.
const FEWEST_LOADED: usize = 1024;

/// The code of every kernel of a device, by source.
pub(super) struct Codes {
    pub(super) compiler: Box<dyn Compiler>,
    maker: String,
    /// The same for code with line information, which has cache keys of its own.
    lines_maker: String,
    disk: DiskCache,
    loaded: Mutex<Loaded>,
}

/// The loaded code that something holds, by the hash of its source.
#[derive(Default)]
struct Loaded {
    slots: FxHashMap<u128, Arc<Slot>>,
    /// How many there may be before they are looked through.
    room: usize,
}

/// The thread that holds the lock makes the code; others that need the same code wait for it here.
type Slot = Mutex<Weak<Code>>;

/// What compiled code depends on besides its source.
pub(super) fn maker(compiler: &dyn Compiler, host: &str) -> String {
    format!("abi {ABI}\n{}\n{host}", compiler.identity())
}

impl Codes {
    pub(super) fn new(compiler: Box<dyn Compiler>, host: &str, disk: DiskCache) -> Codes {
        let maker = maker(&*compiler, host);
        let lines_maker = format!("{maker}\nlines");
        Codes { compiler, maker, lines_maker, disk, loaded: Mutex::default() }
    }

    /// The code for a source, perhaps with its lines, and where it came from.
    pub(super) fn get(&self, source: &str, lines: bool) -> Result<(Arc<Code>, Origin)> {
        let slot = self.slot(source, lines);
        let mut code = lock(&slot);
        if let Some(code) = code.upgrade() {
            return Ok((code, Origin::Memory));
        }
        let (made, origin) = self.make(source, lines)?;
        let made = Arc::new(made);
        *code = Arc::downgrade(&made);
        Ok((made, origin))
    }

    /// The code for a source, of which nothing is remembered.
    pub(super) fn make_once(&self, source: &str) -> Result<Code> {
        Code::load(&self.compiler.compile(source, false)?)
    }

    /// What was noted about something on this machine, with this compiler.
    pub(super) fn note(&self, about: &str) -> Option<String> {
        self.disk.note(&self.maker, about)
    }

    /// Notes something on disk.
    pub(super) fn set_note(&self, about: &str, text: &str) {
        self.disk.set_note(&self.maker, about, text);
    }

    fn make(&self, source: &str, lines: bool) -> Result<(Code, Origin)> {
        let maker = if lines { &self.lines_maker } else { &self.maker };
        let key = Key { maker, source };
        // An object from disk that does not load is as good as none.
        if let Some(code) = self.disk.get(key).and_then(|object| Code::load(&object).ok()) {
            return Ok((code, Origin::Disk));
        }
        let object = self.compiler.compile(source, lines)?;
        let code = Code::load(&object)?;
        self.disk.put(key, &object);
        Ok((code, Origin::Compiled))
    }

    fn slot(&self, source: &str, lines: bool) -> Arc<Slot> {
        let mut mixer = Mixer::default();
        mixer.write_u8(lines.into());
        mixer.write(source.as_bytes());
        let mut loaded = lock(&self.loaded);
        let Loaded { slots, room } = &mut *loaded;
        if slots.len() >= *room {
            slots.retain(|_, slot| in_use(slot));
            *room = (2 * slots.len()).max(FEWEST_LOADED);
        }
        slots.entry(mixer.finish128()).or_default().clone()
    }
}

/// Whether a slot's code is being made or held by a kernel.
fn in_use(slot: &Arc<Slot>) -> bool {
    Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
