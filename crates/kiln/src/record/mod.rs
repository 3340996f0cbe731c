//! Records: what the compiler and the devices do in a run, as a file.
//!
//! A record is text, one JSON object a line, each a [`Line`](crate::record::Line). `kiln viz FILE` shows a record in the
//! browser, `kiln explain FILE` says what took the time, and [`Record::open`](crate::record::Record::open) reads one. What
//! the lines say, and in which order:
//!
//! - **The first line** is `kiln`, with the format's number; other numbers are refused.
//! - **Graphs** are lists of nodes. A `node` is written once, before the first line that names it, and names sources that
//!   were written before. So a record that ends in the middle, because the program crashed, say, is good as far as it goes.
//! - **Threads** have numbers; `thread` names one. The compiler's steps on a thread (`pass`, `rules`, `rewrite`, `done`,
//!   `decision`) belong to the next `scheduled` or `compiled` line of the same thread. That line has their start and their
//!   duration. Of schedules that one line of the program asks for, the first three have their steps. A set of rules may run
//!   inside of another; `done` ends the one that began last.
//! - **Caches.** A `scheduled` line without `took` is a schedule that was remembered, by the `key`; the line with that key
//!   and `took` may be missing if it is older than the record. `found` is a kernel that was remembered, by the hash of its
//!   graph after stage `schedule`; a kernel whose `origin` is the cache on disk was found by its text.
//! - **Why two kernels are not one:** the value between them is stored. `arguments` name it (`temporary 2`), `temporaries`
//!   name its node, and the `decision` with that `node` has the alternatives and their prices: see [`Schedule::between`](crate::record::Schedule::between).
//! - **Launches.** A `site` is a kernel as one place of the program launches it, with its name and its methods. It is written
//!   before its first `launch`; launches name it by number.
//! - **Memory.** `alloc` is written when a block is touched for the first time, `free` when it goes back, with one number.
//!   Inside of the block that `temporaries` of a schedule share, each has an offset and the kernels that need it.
//! - **Speeds.** `opened` has what the description of a device says, which kernels are made by; `measured` is written at the
//!   end, by loops that do nothing but multiply-adds or copies. [`Record::speed`](crate::record::Record::speed) gives the better one that is there.
//!
//! Devices that are open when a record begins are in it; kernels that were compiled by then are not, but for their launches.
//! A record has at most `VIZ_MB` megabytes, and then ends with `full`.

mod bounded;
mod difference;
mod ending;
mod file;
mod graph;
mod life;
mod line;
mod options;
mod parts;
mod passes;
mod picture;
mod placing;
mod reader;
mod rewrites;
mod sites;
mod told;
mod trace;
mod units;
mod writer;

pub use difference::Difference;
pub(crate) use ending::Ending;
pub use life::{Change, How, Life, Lives};
pub use line::Line;
pub use options::{Applied, LoopLine};
pub use parts::{
    Block, Copy, Found, Kernel, Launch, Measured, Node, OpenDevice, PlannedKernel, Record, Rule,
    Schedule, Site, Speed, Step, Temporary,
};
pub use passes::{PassRun, passes};
pub(crate) use picture::Pictures;
pub(crate) use rewrites::Rewrites;
pub(crate) use trace::Trace;
pub(crate) use writer::Recorder;

use crate::engine;
use crate::error::{Error, Fault, at_caller};
use kiln_ir::observe;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Runs `f` and writes what the compiler and the devices do for this thread to the file: schedules, passes, rewrites,
/// decisions, kernels, launches, copies. `VIZ=1` does it for a whole program, to `kiln-PID.viz`, and `VIZ=PATH` to that file.
///
/// A kernel that was compiled before is not compiled again, so of such a kernel there are the launches alone.
///
/// ```
/// use kiln::{Tensor, record::Record};
/// let path = std::env::temp_dir().join(format!("kiln-record-{}.viz", std::process::id()));
/// let sum = kiln::record(&path, || (Tensor::from([1, 2, 3]) * 2).sum(..).item::<i32>())??;
/// let record = Record::open(&path)?;
/// assert_eq!((sum, record.schedules.len(), record.launches.len()), (12, 1, 1));
/// # std::fs::remove_file(path).expect("just written");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be written. Then `f` does not run.
#[track_caller]
pub fn record<R>(path: impl AsRef<Path>, f: impl FnOnce() -> R) -> Result<R, Error> {
    let recorder = Recorder::create(path.as_ref());
    let failed = |why: io::Error| Fault::Failed(format!("{}: {why}", path.as_ref().display()));
    let recorder = Arc::new(at_caller("record", recorder.map_err(failed))?);
    engine::opened(recorder.as_ref());
    let result = observe::with(Some(recorder.clone()), f);
    at_caller("record", recorder.end().map_err(failed))?;
    Ok(result)
}
