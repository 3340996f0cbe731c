//! Compiled kernels on disk, shared by every process of a user. A second run compiles nothing.
//!
//! It is only a cache: whatever is wrong with it (damaged, full, locked, read-only) is said once, and the process goes
//! on without it. An entry is used only if its whole source text, its compiler and its processor are equal to what is
//! asked for, and its bytes have the checksum that they were stored with.

use crate::warnings::warn_once;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Part of the file's name: other versions of kiln keep files of their own.
const FILE: &str = "kernels-v1.sqlite";
/// Set in a file once its tables exist.
const SCHEMA: i64 = 2;
/// How long to wait for another process.
const PATIENCE: Duration = Duration::from_secs(2);
/// The age of an entry is kept to the day, so that reading rarely writes.
const DAY: u64 = 24 * 60 * 60;
/// Notes beyond this many make room for new ones.
const MOST_NOTES: i64 = 20_000;
/// The size of the file is looked at once per this many new entries.
const CHECK_EVERY: u64 = 32;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS makers(id INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL);
    CREATE TABLE IF NOT EXISTS kernels(
        id INTEGER PRIMARY KEY, maker INTEGER NOT NULL, hash INTEGER NOT NULL, source TEXT NOT NULL,
        object BLOB NOT NULL, sum INTEGER NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS notes(
        id INTEGER PRIMARY KEY, maker INTEGER NOT NULL, about TEXT NOT NULL, text TEXT NOT NULL,
        UNIQUE(maker, about));
    CREATE INDEX IF NOT EXISTS by_hash ON kernels(maker, hash);
    CREATE INDEX IF NOT EXISTS by_age ON kernels(used, id, bytes);";

/// The cache in one folder.
pub struct DiskCache {
    folder: Option<PathBuf>,
    limit: u64,
    state: Mutex<State>,
}

enum State {
    Closed,
    Open { connection: Connection, puts: u64 },
    Off,
}

/// Everything that makes compiled code what it is.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Compiler, processor, ABI: any text.
    pub maker: &'a str,
    /// The source.
    pub source: &'a str,
}

/// Why the cache cannot be used.
enum Trouble {
    Sql(rusqlite::Error),
    Folder(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Sql(error)
    }
}

impl DiskCache {
    /// The cache in a folder, which is made when it is needed; without a folder nothing is kept.
    pub fn new(folder: Option<PathBuf>, limit: u64) -> DiskCache {
        DiskCache { folder, limit, state: Mutex::new(State::Closed) }
    }

    /// What was compiled from this source.
    pub fn get(&self, key: Key<'_>) -> Option<Vec<u8>> {
        self.with(|connection, _| get(connection, key))?
    }

    /// Keeps what was compiled.
    pub fn put(&self, key: Key<'_>, object: &[u8]) {
        let limit = self.limit;
        self.with(|connection, puts| {
            put(connection, key, object)?;
            *puts += 1;
            if *puts % CHECK_EVERY == 1 { evict(connection, limit) } else { Ok(()) }
        });
    }

    /// What was noted about something.
    pub fn note(&self, maker: &str, about: &str) -> Option<String> {
        self.with(|connection, _| {
            let sql = "SELECT text FROM notes
                WHERE maker = (SELECT id FROM makers WHERE text = ?1) AND about = ?2";
            connection
                .prepare_cached(sql)?
                .query_row(params![maker, about], |row| row.get(0))
                .optional()
        })?
    }

    /// Notes something, instead of what was noted about it before.
    pub fn set_note(&self, maker: &str, about: &str, text: &str) {
        self.with(|connection, _| set_note(connection, maker, about, text));
    }

    /// Whether anything from this maker is kept: then it has worked on this machine.
    pub fn knows(&self, maker: &str) -> bool {
        let known = self.with(|connection, _| {
            let sql = "SELECT 1 FROM kernels WHERE maker = (SELECT id FROM makers WHERE text = ?1)";
            connection.prepare_cached(sql)?.exists(params![maker])
        });
        known.unwrap_or(false)
    }

    /// Runs something on the open database. A damaged file is replaced once; any other failure turns the cache off.
    fn with<T>(
        &self,
        mut run: impl FnMut(&mut Connection, &mut u64) -> rusqlite::Result<T>,
    ) -> Option<T> {
        let folder = self.folder.as_deref()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut replaced = false;
        if let State::Off = *state {
            return None;
        }
        loop {
            let result = state.connect(folder).and_then(|(c, puts)| Ok(run(c, puts)?));
            let trouble = match result {
                Ok(value) => return Some(value),
                Err(trouble) => trouble,
            };
            *state = State::Off;
            if trouble.is_damage() && !replaced {
                warn_once(trouble.message(folder, "it starts anew"));
                remove(folder);
                replaced = true;
                *state = State::Closed;
            } else {
                warn_once(trouble.message(folder, "going on without it"));
                return None;
            }
        }
    }
}

impl State {
    fn connect(&mut self, folder: &Path) -> Result<(&mut Connection, &mut u64), Trouble> {
        if let State::Closed = self {
            *self = State::Open { connection: open(folder)?, puts: 0 };
        }
        match self {
            State::Open { connection, puts } => Ok((connection, puts)),
            State::Closed | State::Off => Err(Trouble::Folder("turned off".into())),
        }
    }
}

impl Trouble {
    /// Whether the file is not what we wrote, rather than out of reach.
    fn is_damage(&self) -> bool {
        use ErrorCode::{DatabaseCorrupt, NotADatabase, Unknown};
        match self {
            Trouble::Sql(rusqlite::Error::SqliteFailure(error, _)) => {
                matches!(error.code, DatabaseCorrupt | NotADatabase | Unknown)
            }
            // A column of another type than we store.
            Trouble::Sql(_) => true,
            Trouble::Folder(_) => false,
        }
    }

    fn message(&self, folder: &Path, outcome: &str) -> String {
        let why = match self {
            Trouble::Sql(error) => error.to_string(),
            Trouble::Folder(why) => why.clone(),
        };
        format!("the cache of kernels in {} cannot be used ({why}); {outcome}", folder.display())
    }
}

fn open(folder: &Path) -> Result<Connection, Trouble> {
    prepare_folder(folder).map_err(Trouble::Folder)?;
    let mut connection = Connection::open(folder.join(FILE))?;
    connection.busy_timeout(PATIENCE)?;
    // No waiting for the disk: what a loss of power damages is noticed and made again.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let schema: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if schema != SCHEMA {
        create_tables(&mut connection)?;
    }
    Ok(connection)
}

fn create_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    enter_wal_mode(connection)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "user_version", SCHEMA)?;
    transaction.commit()
}

/// Readers and a writer do not wait for each other in this mode. Changing to it does not wait by itself for others who
/// have just opened the same new file, so it is tried for a while; the old mode would do as well.
fn enter_wal_mode(connection: &Connection) -> rusqlite::Result<()> {
    for _ in 0..20 {
        match connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
    Ok(())
}

/// Code is run from there, so the folder must be ours alone.
#[cfg(unix)]
fn prepare_folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(|e| e.to_string())?;
    let meta = std::fs::metadata(folder).map_err(|e| e.to_string())?;
    // SAFETY: asks for a number.
    let me = unsafe { libc::geteuid() };
    match meta.uid() == me && meta.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err("others can write to it".into()),
    }
}

#[cfg(not(unix))]
fn prepare_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())
}

fn remove(folder: &Path) {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(folder.join(format!("{FILE}{suffix}")));
    }
}

fn get(connection: &Connection, key: Key<'_>) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT id, object, sum, used FROM kernels
        WHERE maker = (SELECT id FROM makers WHERE text = ?1) AND hash = ?2 AND source = ?3";
    let row = connection
        .prepare_cached(sql)?
        .query_row(params![key.maker, hash(key.source.as_bytes()), key.source], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let Some((id, object, sum, used)) = row else { return Ok(None) };
    if hash(&object) != sum {
        return Ok(None);
    }
    let today = today();
    if today != used {
        let sql = "UPDATE kernels SET used = ?2 WHERE id = ?1";
        // A cache that cannot be written may still be read.
        let _ = connection.execute(sql, params![id, today]);
    }
    Ok(Some(object))
}

fn put(connection: &mut Connection, key: Key<'_>, object: &[u8]) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let run =
        |sql, params: &[&dyn rusqlite::ToSql]| transaction.prepare_cached(sql)?.execute(params);
    run("INSERT OR IGNORE INTO makers(text) VALUES(?1)", params![key.maker])?;
    let maker: i64 = transaction.query_row(
        "SELECT id FROM makers WHERE text = ?1",
        params![key.maker],
        |row| row.get(0),
    )?;
    let source_hash = hash(key.source.as_bytes());
    run(
        "DELETE FROM kernels WHERE maker = ?1 AND hash = ?2 AND source = ?3",
        params![maker, source_hash, key.source],
    )?;
    let bytes = (key.source.len() + object.len()) as i64;
    run(
        "INSERT INTO kernels(maker, hash, source, object, sum, bytes, used)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![maker, source_hash, key.source, object, hash(object), bytes, today()],
    )?;
    transaction.commit()
}

fn set_note(
    connection: &mut Connection,
    maker: &str,
    about: &str,
    text: &str,
) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT OR IGNORE INTO makers(text) VALUES(?1)", params![maker])?;
    let sql = "INSERT OR REPLACE INTO notes(maker, about, text)
        VALUES((SELECT id FROM makers WHERE text = ?1), ?2, ?3)";
    transaction.execute(sql, params![maker, about, text])?;
    let sql = "DELETE FROM notes WHERE id <= (SELECT max(id) FROM notes) - ?1";
    transaction.execute(sql, params![MOST_NOTES])?;
    transaction.commit()
}

/// Removes the longest unused entries once there are too many bytes; a quarter more than needed, so that it is rare.
fn evict(connection: &mut Connection, limit: u64) -> rusqlite::Result<()> {
    let total: i64 =
        connection
            .query_row("SELECT coalesce(sum(bytes), 0) FROM kernels", [], |row| row.get(0))?;
    if total as u64 <= limit {
        return Ok(());
    }
    let keep = (limit - limit / 4) as i64;
    let sql = "DELETE FROM kernels WHERE id IN (SELECT id FROM (
            SELECT id, sum(bytes) OVER (ORDER BY used DESC, id DESC) AS newer FROM kernels)
        WHERE newer > ?1)";
    connection.execute(sql, params![keep]).map(|_| ())
}

/// Finds entries and notices damage; entries are compared in full, so it need not be strong.
fn hash(bytes: &[u8]) -> i64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(bytes);
    hasher.finish() as i64
}

fn today() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs() / DAY) as i64
}
