//! Files from the network, kept on disk: whole and checked, or not at all.
//!
//! A file arrives in `NAME.part`. The lock of that file makes a second process wait. After a broken connection the next
//! attempt completes the file, if the server still has the same one.

/// What is on disk.
mod place;
/// What is on the network.
mod transfer;

use crate::error::{Error, Fault, at_caller, refuse};
use place::Place;
use std::path::{Path, PathBuf};

/// The file at a URL, as a file on disk: fetched once, kept in the folder of kiln's caches
/// (`$XDG_CACHE_HOME/kiln/downloads`). Needs the feature `fetch`. As tinygrad's `fetch`.
///
/// ```no_run
/// let path = kiln::fetch("https://example.com/model.safetensors")?;
/// let weights = kiln::nn::state::load(path)?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A malformed URL, a server out of reach or without the file, repeatedly broken connections, a folder without permission
/// to write.
#[track_caller]
pub fn fetch(url: &str) -> Result<PathBuf, Error> {
    at_caller("fetch", run(&Fetch::new(url)))
}

/// What to fetch, with a checksum or a folder.
///
/// ```no_run
/// use kiln::Fetch;
/// let path = Fetch::new("https://example.com/mnist.gz")
///     .sha256("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")
///     .run()?;
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fetch {
    url: String,
    sha256: Option<String>,
    folder: Option<PathBuf>,
}

impl Fetch {
    /// The file at a URL, `http` or `https`.
    ///
    /// ```
    /// assert!(kiln::Fetch::new("ftp://example.com/x").run().is_err());
    /// ```
    pub fn new(url: &str) -> Fetch {
        Fetch { url: url.to_owned(), sha256: None, folder: None }
    }

    /// The SHA-256 that the file must have, as 64 hexadecimal digits. A file on disk with another one is fetched again.
    ///
    /// ```
    /// assert!(kiln::Fetch::new("http://localhost/x").sha256("12").run().is_err());
    /// ```
    pub fn sha256(self, digits: &str) -> Fetch {
        Fetch { sha256: Some(digits.to_ascii_lowercase()), ..self }
    }

    /// The folder where the file is kept.
    ///
    /// ```
    /// let fetch = kiln::Fetch::new("http://localhost/x").folder("/tmp/models");
    /// ```
    pub fn folder(self, folder: impl AsRef<Path>) -> Fetch {
        Fetch { folder: Some(folder.as_ref().to_owned()), ..self }
    }

    /// The path of the file, which is fetched if it is not there.
    ///
    /// ```
    /// assert!(kiln::Fetch::new("no URL").run().is_err());
    /// ```
    ///
    /// # Errors
    /// As [`fetch`]; a file whose checksum is another one.
    #[track_caller]
    pub fn run(&self) -> Result<PathBuf, Error> {
        at_caller("fetch", run(self))
    }
}

/// Attempts after one that has brought nothing new.
const ATTEMPTS: usize = 3;

fn run(what: &Fetch) -> Result<PathBuf, Fault> {
    let Fetch { url, sha256, folder } = what;
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return refuse!("{url:?} is no URL of http or https");
    }
    let is_hex =
        |digits: &String| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if let Some(digits) = sha256.as_ref().filter(|digits| !is_hex(digits)) {
        return refuse!("{digits:?} is no SHA-256 of 64 hexadecimal digits");
    }
    let place = Place::of(url, folder.as_deref()).map_err(Fault::Failed)?;
    let part = place.lock().map_err(Fault::Failed)?;
    // only now: who had the lock may have fetched it
    if place.is_there(sha256.as_deref()).map_err(Fault::Failed)? {
        return Ok(place.path);
    }
    let (mut fails, mut most) = (0, 0);
    while let Err(why) = transfer::run(url, &part) {
        let has = part.len().map_err(Fault::Failed)?;
        fails = if has > most { 0 } else { fails + 1 };
        most = most.max(has);
        if why.is_final || fails == ATTEMPTS {
            return Err(Fault::Failed(format!("{url}: {}", why.text)));
        }
    }
    place.put(&part, sha256.as_deref()).map_err(|why| Fault::Failed(format!("{url}: {why}")))?;
    Ok(place.path)
}
