//! Environment variables: one registry with defaults and help, read once.

use std::sync::OnceLock;

/// A variable that holds a number.
pub(crate) struct Var {
    /// Its name.
    pub(crate) name: &'static str,
    default: i64,
    /// One sentence for people.
    pub(crate) help: &'static str,
    value: OnceLock<i64>,
}

impl Var {
    const fn new(name: &'static str, default: i64, help: &'static str) -> Var {
        Var { name, default, help, value: OnceLock::new() }
    }

    /// The value. One that is not a number is said once and ignored.
    pub(crate) fn get(&self) -> i64 {
        *self.value.get_or_init(|| self.read())
    }

    fn read(&self) -> i64 {
        let Some(text) = std::env::var_os(self.name).filter(|t| !t.is_empty()) else {
            return self.default;
        };
        let number = text.to_str().and_then(|t| t.trim().parse().ok());
        number.unwrap_or_else(|| {
            let name = self.name;
            kiln_runtime::warnings::warn_once(format!(
                "{name}={} is not a number; ignored",
                text.to_string_lossy()
            ));
            self.default
        })
    }
}

/// What is printed about the compiler's work.
pub(crate) static DEBUG: Var = Var::new(
    "DEBUG",
    0,
    "1 devices and schedules, 2 kernels, 3 decisions, 4 source, 5 graphs, 6 linear ops, 7 machine code",
);
/// No optimization.
pub(crate) static NOOPT: Var =
    Var::new("NOOPT", 0, "1 compiles kernels as they are scheduled, without optimizing");
/// Rule statistics.
pub(crate) static TRACK_MATCH_STATS: Var = Var::new(
    "TRACK_MATCH_STATS",
    0,
    "1 counts which rewrite rules were tried and matched, 2 lists all of them",
);

/// Every variable that holds a number.
pub(crate) static ALL: [&Var; 3] = [&DEBUG, &NOOPT, &TRACK_MATCH_STATS];
