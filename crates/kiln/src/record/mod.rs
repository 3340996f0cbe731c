//! Records: what the compiler and the devices did in a run, as a file.
//!
//! A record is text, one JSON object a line, each a [`Line`]. Graphs are lists of nodes, and a node is written once, before
//! the first line that names it. So a record that ends in the middle, because the program crashed, say, is good as far as
//! it goes. `kiln viz FILE` shows a record in the browser, `kiln explain FILE` says what took the time.

mod line;
mod reader;
mod writer;

pub use line::{Line, Node, PlannedKernel};
pub use reader::{Kernel, Launch, Record, Schedule, Step};
pub(crate) use writer::Recorder;

use crate::error::{Error, Fault, at_caller};
use kiln_ir::observe;
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
    let failed = |why: std::io::Error| Fault::Failed(format!("{}: {why}", path.as_ref().display()));
    let recorder = Arc::new(at_caller("record", recorder.map_err(failed))?);
    let result = observe::with(Some(recorder.clone()), f);
    at_caller("record", recorder.flush().map_err(failed))?;
    Ok(result)
}
