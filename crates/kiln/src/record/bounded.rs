//! A file that grows up to a bound.

use crate::engine::env::VIZ_MB;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// So often what was written can be read.
const FLUSH: Duration = Duration::from_millis(250);

/// A file of at most `VIZ_MB` megabytes.
pub(super) struct Bounded {
    out: BufWriter<File>,
    /// Bytes that may still be written.
    left: usize,
    /// The first failure of writing; nothing is written after it.
    failed: Option<io::Error>,
    flushed: Instant,
}

impl Bounded {
    /// A new file.
    pub(super) fn create(path: &Path) -> io::Result<Bounded> {
        Ok(Bounded {
            out: BufWriter::with_capacity(1 << 16, File::create(path)?),
            left: usize::try_from(VIZ_MB.get()).unwrap_or(0).saturating_mul(1 << 20),
            failed: None,
            flushed: Instant::now(),
        })
    }

    /// Whether nothing more is written.
    pub(super) fn is_done(&self) -> bool {
        self.left == 0 || self.failed.is_some()
    }

    /// Writes a text, or, if it is the first that does not fit, `full` instead and nothing after it.
    pub(super) fn put(&mut self, text: &[u8], full: &[u8]) {
        if self.is_done() {
            return;
        }
        let fits = text.len() < self.left;
        self.left = if fits { self.left - text.len() } else { 0 };
        self.write(if fits { text } else { full });
    }

    /// Makes the file complete up to here, and gives the first failure.
    pub(super) fn end(&mut self, last: &[u8]) -> io::Result<()> {
        self.write(last);
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Nothing is written any more, because of this.
    pub(super) fn fail(&mut self, why: io::Error) {
        self.failed.get_or_insert(why);
    }

    fn write(&mut self, text: &[u8]) {
        if let Err(why) = self.out.write_all(text) {
            self.fail(why);
        }
        if self.flushed.elapsed() > FLUSH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        if let Err(why) = self.out.flush() {
            self.fail(why);
        }
    }
}
