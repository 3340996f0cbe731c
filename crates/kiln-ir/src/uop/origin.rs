//! The origin of a node: the `Tensor` method that made it, as text for people. It is no part of the node's identity. A
//! node stores a number.

use super::UOp;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{PoisonError, RwLock};

/// Every name that a node was given, by number.
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());

thread_local! {
    /// The numbers of names that this thread has used, by where their text is.
    static KNOWN: RefCell<FxHashMap<(usize, usize), Origin>> = RefCell::default();
    /// Of those that tell a line, by where the method's text and its line are.
    static AT_LINES: RefCell<FxHashMap<(usize, usize), Origin>> = RefCell::default();
}

/// Whether names tell the line that called the method.
static LINES: AtomicBool = AtomicBool::new(false);

/// From now on names tell the line that called the method, for the whole process.
pub fn name_lines() {
    LINES.store(true, Relaxed);
}

/// The name of a method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin(u16);

/// No name, which is also what names get after the first 65 535.
const NONE: Origin = Origin(0);

impl Origin {
    /// The name as a number.
    pub fn of(method: &'static str) -> Origin {
        let place = (method.as_ptr() as usize, method.len());
        KNOWN.with_borrow_mut(|known| *known.entry(place).or_insert_with(|| Origin::add(method)))
    }

    /// The name with the line that called the method, if lines are [wanted](name_lines): `add src/main.rs:12`.
    pub fn at(method: &'static str, line: &'static Location<'static>) -> Origin {
        if !LINES.load(Relaxed) {
            return Origin::of(method);
        }
        let place = (method.as_ptr() as usize, std::ptr::from_ref(line) as usize);
        let add = || {
            // a program has so many calls, and each is kept once
            let text = format!("{method} {}:{}", line.file(), line.line());
            Origin::add(Box::leak(text.into_boxed_str()))
        };
        AT_LINES.with_borrow_mut(|known| *known.entry(place).or_insert_with(add))
    }

    fn add(method: &'static str) -> Origin {
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().position(|name| *name == method).unwrap_or_else(|| {
            names.push(method);
            names.len() - 1
        });
        u16::try_from(at + 1).map_or(NONE, Origin)
    }

    /// The method's name alone.
    pub fn method(self) -> Option<&'static str> {
        self.name()?.split(' ').next()
    }

    /// The name.
    pub fn name(self) -> Option<&'static str> {
        let names = NAMES.read().unwrap_or_else(PoisonError::into_inner);
        names.get((self.0 as usize).checked_sub(1)?).copied()
    }
}

impl UOp {
    /// The user's method that made this node first.
    pub fn origin(&self) -> Option<&'static str> {
        Origin(self.0.origin.load(Relaxed)).name()
    }

    /// Whether the node has a name.
    pub fn has_origin(&self) -> bool {
        self.0.origin.load(Relaxed) != NONE.0
    }

    /// Names the method that made this node, unless it has a name.
    pub fn set_origin(&self, method: Origin) {
        // of two threads that make one node both are right
        if !self.has_origin() {
            self.0.origin.store(method.0, Relaxed);
        }
    }

    /// Passes a name on to the node that replaces `from`.
    pub fn copy_origin(&self, from: &UOp) {
        self.set_origin(Origin(from.0.origin.load(Relaxed)));
    }
}
