//! Where a file goes, and the part of it that is there.

use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Characters of a URL's last part that names have at most.
const LONGEST_NAME: usize = 80;

/// A file that is there, or will be.
pub(super) struct Place {
    pub(super) path: PathBuf,
}

/// What is there of a file that is being fetched; locked as long as this lives.
pub(super) struct Part {
    file: File,
    path: PathBuf,
}

/// What a failing file system says.
fn failed(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

impl Place {
    /// Names begin with digits of the URL's hash: different URLs end alike.
    pub(super) fn of(url: &str, folder: Option<&Path>) -> Result<Place, String> {
        let folder = folder.map(Path::to_owned).or_else(default_folder);
        let folder =
            folder.ok_or("no folder for caches: neither XDG_CACHE_HOME nor HOME is set")?;
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let last = url.split(['?', '#']).next().and_then(|u| u.rsplit('/').next()).unwrap_or("");
        let sound = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let name: String = last.chars().filter(sound).take(LONGEST_NAME).collect();
        let hash = hex(&Sha256::digest(url.as_bytes())[..8]);
        Ok(Place { path: folder.join(format!("{hash}-{name}")) })
    }

    /// Waits until nobody else fetches the file.
    pub(super) fn lock(&self) -> Result<Part, String> {
        let path = beside(&self.path, ".part");
        loop {
            let mut options = OpenOptions::new();
            let file = options.read(true).append(true).create(true).open(&path);
            let file = file.map_err(failed(&path))?;
            file.lock().map_err(failed(&path))?;
            let part = Part { file, path: path.clone() };
            // who had the lock may have removed what was locked
            if part.is_at_path() {
                return Ok(part);
            }
        }
    }

    /// Whether the file is there, with this checksum. A part of it is not needed then.
    pub(super) fn is_there(&self, sha256: Option<&str>) -> Result<bool, String> {
        let there = self.path.is_file()
            && match sha256 {
                Some(wanted) => checksum(&self.path).map_err(failed(&self.path))? == wanted,
                None => true,
            };
        if there {
            let part = beside(&self.path, ".part");
            fs::remove_file(&part).map_err(failed(&part))?;
        }
        Ok(there)
    }

    /// Puts the whole file in its place, if it has this checksum; else it is removed.
    pub(super) fn put(&self, part: &Part, sha256: Option<&str>) -> Result<(), String> {
        part.file.sync_all().map_err(failed(&part.path))?;
        let found = sha256.map(|_| checksum(&part.path)).transpose().map_err(failed(&part.path))?;
        part.forget_mark();
        if found.as_deref() != sha256 {
            fs::remove_file(&part.path).map_err(failed(&part.path))?;
            let [found, wanted] = [found.as_deref(), sha256].map(|sum| sum.unwrap_or("none"));
            return Err(format!("its SHA-256 is {found}, not {wanted}"));
        }
        fs::rename(&part.path, &self.path).map_err(failed(&self.path))
    }
}

impl Part {
    /// How many bytes are there.
    pub(super) fn len(&self) -> Result<u64, String> {
        self.file.metadata().map(|meta| meta.len()).map_err(failed(&self.path))
    }

    /// Begins again, with a file that the server marks so.
    pub(super) fn start(&self, mark: Option<&str>) -> Result<(), String> {
        self.file.set_len(0).map_err(failed(&self.path))?;
        match mark {
            Some(mark) => fs::write(self.mark_path(), mark).map_err(failed(&self.path)),
            None => {
                self.forget_mark();
                Ok(())
            }
        }
    }

    /// The server's mark of the file that this is a part of, if it gave one.
    pub(super) fn mark(&self) -> Option<String> {
        fs::read_to_string(self.mark_path()).ok()
    }

    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), String> {
        (&self.file).write_all(bytes).map_err(failed(&self.path))
    }

    fn mark_path(&self) -> PathBuf {
        beside(&self.path, ".mark")
    }

    fn forget_mark(&self) {
        // it may never have been there
        let _ = fs::remove_file(self.mark_path());
    }

    #[cfg(unix)]
    fn is_at_path(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let number = |meta: io::Result<fs::Metadata>| meta.ok().map(|m| (m.dev(), m.ino()));
        number(self.file.metadata()) == number(fs::metadata(&self.path))
    }

    #[cfg(not(unix))]
    fn is_at_path(&self) -> bool {
        self.path.exists()
    }
}

/// The same path with a longer name.
fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn default_folder() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = of("XDG_CACHE_HOME").or_else(|| Some(of("HOME")?.join(".cache")))?;
    Some(caches.join("kiln").join("downloads"))
}

fn checksum(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut room) = (File::open(path)?, Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut room)? {
            0 => return Ok(hex(&hash.finalize())),
            n => hash.update(&room[..n]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
