//! What a thread has instead of the environment's variables, for as long as a function runs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::LocalKey;

/// Variables by name, with the values that they have instead.
pub(crate) type Settings = Option<Arc<BTreeMap<&'static str, String>>>;

thread_local! {
    static SETTINGS: RefCell<Settings> = const { RefCell::new(None) };
}

/// Those of this thread, to be taken to others.
pub(crate) fn own() -> Settings {
    SETTINGS.with_borrow(Settings::clone)
}

/// Runs `f` with these settings.
pub(crate) fn within<R>(settings: Settings, f: impl FnOnce() -> R) -> R {
    let _scope = Scope { before: SETTINGS.replace(settings) };
    f()
}

/// Restores what was set before at the end of a scope, however it ends.
struct Scope {
    before: Settings,
}

impl Drop for Scope {
    fn drop(&mut self) {
        SETTINGS.set(self.before.take());
    }
}

/// What `look` makes of a variable's value in this thread's scope, if it is set there. A thread that ends has no scope.
pub(crate) fn scoped<R>(name: &str, look: impl FnOnce(&str) -> R) -> Option<R> {
    let value = |settings: &RefCell<Settings>| {
        settings.borrow().as_ref()?.get(name).map(|value| look(value))
    };
    SETTINGS.try_with(value).ok().flatten()
}

/// A variable's value: in this thread's scope, else in the environment; `None` where it is empty.
pub(crate) fn text(name: &str) -> Option<String> {
    let value = scoped(name, str::to_owned);
    value.or_else(|| std::env::var(name).ok()).filter(|value| !value.is_empty())
}

/// Runs `f` with another value of this thread's flag.
pub(crate) fn with_flag<T: Copy + 'static, R>(
    flag: &'static LocalKey<Cell<T>>,
    value: T,
    f: impl FnOnce() -> R,
) -> R {
    /// Restores the flag at the end of the scope, also after a panic.
    struct Before<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Before<T> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _before = Before(flag, flag.replace(value));
    f()
}
