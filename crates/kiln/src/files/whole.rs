//! Files that appear whole or not at all: written beside the place, then renamed.
//!
//! What is being written is locked. A process that ends in the middle leaves its file behind and the lock goes, so a file
//! whose lock can be had is nobody's: the next one who writes in the folder removes it. Names are random, for a process
//! identifier comes again, in containers at once.

use crate::error::Fault;
use std::fmt::Display;
use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Names of files that are being written: this, digits, the end.
const START: &str = ".kiln-save-";
const DIGITS: usize = 16;
const END: &str = ".tmp";

/// Tries to get a name and its lock. More than one are rare: a name is random.
const TRIES: usize = 100;

/// Puts what `fill` writes in the place of the file at `path`.
pub(crate) fn write(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let failed = |why: &dyn Display| Fault::Failed(format!("{}: {why}", path.display()));
    if path.file_name().is_none() {
        return Err(failed(&"is not the name of a file"));
    }
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    remove_leftovers(folder);
    let mut beside = Beside::new(folder).map_err(|e| failed(&e))?;
    fill(&mut beside.file)?;
    let renamed = beside.file.sync_all().and_then(|()| fs::rename(&beside.path, path));
    renamed.map_err(|e| failed(&e))
}

/// A file of our own: locked as long as this lives, and gone then unless it was renamed.
struct Beside {
    path: PathBuf,
    file: File,
}

impl Beside {
    fn new(folder: &Path) -> io::Result<Beside> {
        for _ in 0..TRIES {
            let path = folder.join(random_name());
            let file = match File::create_new(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            match file.try_lock() {
                // before it was locked, somebody may have taken it for a leftover
                Ok(()) if !path.exists() => {}
                // where there are no locks, nobody gets one and removes it
                Ok(()) | Err(TryLockError::Error(_)) => return Ok(Beside { path, file }),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        Err(io::Error::other("no file of its own beside it"))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // the error that counts is an earlier one
        let _ = fs::remove_file(&self.path);
    }
}

fn random_name() -> String {
    format!("{START}{:0DIGITS$x}{END}", RandomState::new().hash_one(START))
}

fn is_our_name(name: &str) -> bool {
    let digits = name.strip_prefix(START).and_then(|rest| rest.strip_suffix(END));
    digits.is_some_and(|d| d.len() == DIGITS && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes what processes that are no more have left. What cannot be removed is no reason to fail.
fn remove_leftovers(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = |entry: &DirEntry| entry.file_name().to_str().is_some_and(is_our_name);
    let is_file = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    for entry in entries.filter(ours).filter(is_file) {
        let path = entry.path();
        let file = OpenOptions::new().write(true).open(&path);
        // the lock is held until the file is gone, so that nobody begins to write to it meanwhile
        if file.as_ref().is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_file(&path);
        }
        drop(file);
    }
}
