//! Compiled kernels on disk, shared by all processes of a user. A second run compiles nothing.
//!
//! It is only a cache. If anything is wrong with it (damaged, full, locked, read-only), one warning says so and the
//! process goes on without it. An entry is used only if its whole source text, its compiler and its processor equal
//! what is asked for, and its bytes match their checksum. The folder must belong to the user, and nobody else may write
//! to it.

use crate::disk;
use crate::warnings::warn_once;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Part of the file's name: other versions of kiln keep files of their own.
const FILE: &str = "kernels-v1.sqlite";
/// Set in a file once its tables exist.
const SCHEMA: i64 = 2;
/// How long to wait for another process.
const PATIENCE: Duration = Duration::from_secs(2);
/// An entry that is read becomes the newest again once an eighth of all entries is newer. So reading rarely writes, and
/// entries in use stay.
const YOUNG: i64 = 8;
/// A share of the file that notes may take, and kernels leave to them.
const NOTES: u64 = 8;
/// The size of the file is looked at once per this many new entries.
const CHECK_EVERY: u64 = 32;
/// The write-ahead log is cut to this when it is empty.
const MOST_LOG: i64 = 4 << 20;

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

/// The key of compiled code: everything that it depends on.
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
            if *puts % CHECK_EVERY == 1 { bound(connection, limit) } else { Ok(()) }
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
        let limit = self.limit;
        self.with(|connection, puts| {
            set_note(connection, maker, about, text)?;
            *puts += 1;
            if *puts % CHECK_EVERY == 1 { bound(connection, limit) } else { Ok(()) }
        });
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
            let connected = state.connect(folder, self.limit);
            let result = connected.and_then(|(c, puts)| Ok(run(c, puts)?));
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
    fn connect(
        &mut self,
        folder: &Path,
        limit: u64,
    ) -> Result<(&mut Connection, &mut u64), Trouble> {
        if let State::Closed = self {
            *self = State::Open { connection: open(folder, limit)?, puts: 0 };
        }
        match self {
            State::Open { connection, puts } => Ok((connection, puts)),
            State::Closed | State::Off => Err(Trouble::Folder("turned off".into())),
        }
    }
}

impl Trouble {
    /// Whether the file has other content than we wrote, rather than being out of reach.
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

/// What the file may take besides the entries, for a moment.
const SLACK: u64 = 64 << 20;

fn open(folder: &Path, limit: u64) -> Result<Connection, Trouble> {
    let most = disk::most_bytes();
    if most < limit.saturating_mul(2).saturating_add(SLACK) {
        // the system would end the process
        return Err(Trouble::Folder(format!("files of this process are limited to {most} bytes")));
    }
    prepare_folder(folder).map_err(Trouble::Folder)?;
    let mut connection = Connection::open(folder.join(FILE))?;
    connection.busy_timeout(PATIENCE)?;
    // No waiting for the disk: what a loss of power damages is noticed and made again.
    connection.pragma_update(None, "synchronous", "OFF")?;
    let sql = format!("PRAGMA journal_size_limit = {MOST_LOG}");
    connection.query_row(&sql, [], |_| Ok(()))?;
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
    let (oldest, newest) = ages(connection)?;
    if newest.saturating_sub(used) > newest.saturating_sub(oldest) / YOUNG {
        let sql = "UPDATE kernels SET used = ?2 WHERE id = ?1";
        // A cache that cannot be written may still be read.
        let _ = connection.execute(sql, params![id, newest]);
    }
    Ok(Some(object))
}

/// When the oldest and the newest entry were used: a count of the entries that were ever made.
fn ages(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let sql = "SELECT (SELECT coalesce(min(used), 0) FROM kernels),
        (SELECT coalesce(max(used), 0) FROM kernels)";
    connection.prepare_cached(sql)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
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
    let bytes = (key.source.len() + object.len()) as i64 + ROW;
    let (_, newest) = ages(&transaction)?;
    run(
        "INSERT INTO kernels(maker, hash, source, object, sum, bytes, used)
         VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![maker, source_hash, key.source, object, hash(object), bytes, newest + 1],
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
    transaction.commit()
}

/// What a row takes besides its text and object: other columns, indices, what is left of its last page.
const ROW: i64 = 512;

/// Removes what was not used longest once there are too many bytes, and gives room back where the file had more of it than
/// it may.
fn bound(connection: &mut Connection, limit: u64) -> rusqlite::Result<()> {
    let notes = limit / NOTES;
    let removed = evict(connection, "kernels", "used", "bytes", limit - notes)?
        + evict(connection, "notes", "id", NOTE_BYTES, notes)?;
    if removed > 0 {
        let sql = "DELETE FROM makers WHERE id NOT IN (SELECT maker FROM kernels)
            AND id NOT IN (SELECT maker FROM notes)";
        connection.execute(sql, [])?;
    }
    if file_bytes(connection)? > limit.saturating_add(limit / 4).saturating_add(MOST_LOG as u64) {
        // others may be reading: another time, then
        let _ = connection.execute_batch("VACUUM");
    }
    Ok(())
}

/// The bytes of a note.
const NOTE_BYTES: &str = "length(about) + length(text) + 512";

/// Removes the oldest rows of a table once they have too many bytes; a quarter more than needed, so that it is rare. How
/// many were removed.
fn evict(
    connection: &Connection,
    table: &str,
    age: &str,
    bytes: &str,
    limit: u64,
) -> rusqlite::Result<usize> {
    let sql = format!("SELECT coalesce(sum({bytes}), 0) FROM {table}");
    let total: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
    if total as u64 <= limit {
        return Ok(0);
    }
    let keep = (limit - limit / 4) as i64;
    let sql = format!(
        "DELETE FROM {table} WHERE id IN (SELECT id FROM (
            SELECT id, sum({bytes}) OVER (ORDER BY {age} DESC, id DESC) AS newer FROM {table})
        WHERE newer > ?1)"
    );
    connection.execute(&sql, params![keep])
}

/// How long the file is.
fn file_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    Ok((number("PRAGMA page_count")? * number("PRAGMA page_size")?) as u64)
}

/// Finds entries and notices damage; entries are compared in full, so it need not be strong.
fn hash(bytes: &[u8]) -> i64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(bytes);
    hasher.finish() as i64
}
