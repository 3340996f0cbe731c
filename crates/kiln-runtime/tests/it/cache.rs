//! The cache on disk: what it keeps, how it is bounded, what happens when it is in trouble.

use crate::memory::TempDir;
use kiln_runtime::cache::{DiskCache, Key};
use std::path::{Path, PathBuf};

const NO_LIMIT: u64 = 1 << 40;

fn cache(folder: &Path) -> DiskCache {
    DiskCache::new(Some(folder.to_path_buf()), NO_LIMIT)
}

fn key(source: &str) -> Key<'_> {
    Key { maker: "m", source }
}

fn database(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    files.into_iter().find(|path| path.extension().is_some_and(|e| e == "sqlite")).unwrap()
}

fn warnings_about(folder: &Path) -> usize {
    // Other tests of this process warn too, about folders of their own.
    let name = folder.display().to_string();
    kiln_runtime::warnings::said().iter().filter(|text| text.contains(&name)).count()
}

#[test]
fn notes_outlive_the_process_and_are_replaced() {
    let dir = TempDir::new("cache-notes");
    cache(&dir.0).set_note("m", "a", "first");
    let second = cache(&dir.0);
    assert_eq!(second.note("m", "a").as_deref(), Some("first"));
    assert_eq!((second.note("n", "a"), second.note("m", "b")), (None, None));
    second.set_note("m", "a", "second");
    second.set_note("m", "b", "third");
    assert_eq!(second.note("m", "a").as_deref(), Some("second"));
    assert_eq!(cache(&dir.0).note("m", "b").as_deref(), Some("third"));
    assert!(!second.knows("m"), "a note is no kernel");
    assert_eq!(warnings_about(&dir.0), 0);
}

#[test]
fn entries_outlive_the_process_and_are_told_apart_by_everything() {
    let dir = TempDir::new("cache-keeps");
    let folder = dir.0.join("a/b");
    cache(&folder).put(key("s"), b"object");
    let second = cache(&folder);
    assert_eq!(second.get(key("s")).as_deref(), Some(&b"object"[..]));
    assert_eq!(second.get(key("t")), None);
    assert_eq!(second.get(Key { maker: "n", source: "s" }), None);
    assert!(second.knows("m") && !second.knows("n"));
    second.put(key("s"), b"newer");
    assert_eq!(second.get(key("s")).as_deref(), Some(&b"newer"[..]));
    assert_eq!(warnings_about(&folder), 0);
}

#[test]
fn it_is_bounded_and_drops_the_oldest() {
    let dir = TempDir::new("cache-bound");
    let cache = DiskCache::new(Some(dir.0.clone()), 100_000);
    let name = |n: usize| format!("kernel {n}");
    for n in 0..100 {
        cache.put(key(&name(n)), &[n as u8; 5000]);
    }
    let kept: Vec<usize> = (0..100).filter(|n| cache.get(key(&name(*n))).is_some()).collect();
    assert!(kept.len() < 60 && kept.contains(&99) && !kept.contains(&0), "{kept:?}");
}

#[test]
fn damage_is_said_once_and_repaired() {
    let dir = TempDir::new("cache-damage");
    cache(&dir.0).put(key("s"), b"object");
    std::fs::write(database(&dir.0), b"this is not a database".repeat(500)).unwrap();
    let damaged = cache(&dir.0);
    assert_eq!(damaged.get(key("s")), None);
    damaged.put(key("s"), b"again");
    assert_eq!(damaged.get(key("s")).as_deref(), Some(&b"again"[..]));
    assert_eq!(cache(&dir.0).get(key("s")).as_deref(), Some(&b"again"[..]));
    assert_eq!(warnings_about(&dir.0), 1);
}

#[test]
fn a_flipped_bit_in_an_object_is_a_miss() {
    let dir = TempDir::new("cache-bit");
    let object = b"a recognizable object".repeat(10);
    cache(&dir.0).put(key("s"), &object);
    let path = database(&dir.0);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(22).position(|w| w == &object[..22]).unwrap();
    bytes[at + 3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(cache(&dir.0).get(key("s")), None);
}

#[test]
fn a_cache_that_another_process_keeps_locked_is_said_once() {
    let dir = TempDir::new("cache-locked");
    cache(&dir.0).put(key("s"), b"object");
    let other = rusqlite::Connection::open(database(&dir.0)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let cache = cache(&dir.0);
    // Readers do not wait for a writer.
    assert!(cache.get(key("s")).is_some());
    cache.put(key("t"), b"object");
    assert_eq!(cache.get(key("t")), None);
    assert_eq!(warnings_about(&dir.0), 1);
}

#[test]
fn tables_of_another_shape_are_damage_too() {
    let dir = TempDir::new("cache-shape");
    cache(&dir.0).put(key("s"), b"object");
    let path = database(&dir.0);
    let bytes = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("maker INTEGER"));
    let broken: Vec<u8> = replace(&bytes, b"maker INTEGER", b"baker INTEGER");
    std::fs::write(&path, broken).unwrap();
    let cache = cache(&dir.0);
    cache.put(key("s"), b"again");
    assert_eq!(cache.get(key("s")).as_deref(), Some(&b"again"[..]));
}

fn replace(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(from.len()).position(|w| w == from) {
        bytes[at..at + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn a_folder_that_cannot_be_made_is_said_once() {
    let dir = TempDir::new("cache-blocked");
    std::fs::write(dir.0.join("file"), b"").unwrap();
    for folder in [dir.0.join("file/kiln"), PathBuf::from("/proc/kiln-test")] {
        let cache = cache(&folder);
        for _ in 0..3 {
            cache.put(key("s"), b"object");
            assert_eq!(cache.get(key("s")), None);
        }
        assert_eq!(warnings_about(&folder), 1);
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_others_can_write_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new("cache-shared");
    std::fs::set_permissions(&dir.0, std::fs::Permissions::from_mode(0o777)).unwrap();
    let cache = cache(&dir.0);
    cache.put(key("s"), b"object");
    assert_eq!(cache.get(key("s")), None);
    assert_eq!(warnings_about(&dir.0), 1);
}

#[test]
fn without_a_folder_nothing_is_kept_and_nothing_said() {
    let cache = DiskCache::new(None, NO_LIMIT);
    cache.put(key("s"), b"object");
    assert_eq!(cache.get(key("s")), None);
}

#[test]
fn what_is_read_stays_while_others_come_and_go() {
    let dir = TempDir::new("cache-used");
    let cache = DiskCache::new(Some(dir.0.clone()), 200_000);
    let name = |n: usize| format!("kernel {n}");
    for n in 0..300 {
        cache.put(key(&name(n)), &[n as u8; 5000]);
        assert!(cache.get(key(&name(0))).is_some(), "after {n}");
    }
    assert!(cache.get(key(&name(1))).is_none() && cache.get(key(&name(299))).is_some());
}

/// The bytes of all files of a cache.
fn bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    files.map(|file| file.metadata().unwrap().len()).sum()
}

#[test]
fn its_files_are_bounded_also_by_a_limit_that_is_lowered() {
    const LIMIT: u64 = 8 << 20;
    let dir = TempDir::new("cache-files");
    let fill = |limit: u64, from: usize, to: usize| {
        let cache = DiskCache::new(Some(dir.0.clone()), limit);
        for n in from..to {
            cache.put(key(&format!("kernel {n}")), &vec![n as u8; 20_000]);
            cache.set_note("m", &format!("{n} {}", "about ".repeat(500)), "text");
        }
    };
    // what lies between two looks at it, and a log
    let most = |limit: u64| limit + limit / 4 + (32 * 24_000 + (6 << 20));
    fill(LIMIT, 0, 1500);
    assert!(bytes(&dir.0) < most(LIMIT), "{} bytes", bytes(&dir.0));
    assert!(bytes(&dir.0) > LIMIT / 2, "{} bytes", bytes(&dir.0));
    fill(LIMIT / 8, 1500, 1502);
    assert!(bytes(&dir.0) < most(LIMIT / 8), "{} bytes", bytes(&dir.0));
    let cache = DiskCache::new(Some(dir.0.clone()), LIMIT);
    assert!(cache.get(key("kernel 1501")).is_some() && cache.get(key("kernel 0")).is_none());
    assert_eq!(warnings_about(&dir.0), 0);
}

#[test]
fn a_cache_of_no_bytes_keeps_nothing_for_long_and_says_nothing() {
    let dir = TempDir::new("cache-nothing");
    let cache = DiskCache::new(Some(dir.0.clone()), 0);
    for n in 0..100 {
        cache.put(key(&format!("kernel {n}")), b"object");
    }
    let kept = (0..100).filter(|n| cache.get(key(&format!("kernel {n}"))).is_some()).count();
    assert!(kept <= 32, "{kept}");
    assert_eq!(warnings_about(&dir.0), 0);
}
