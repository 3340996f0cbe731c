//! Blocks, buffers, the pool, mapped files.

use kiln_runtime::disk;
use kiln_runtime::pool::Pool;
use kiln_runtime::{Backend, Buffer, Error};
use std::path::PathBuf;

/// A folder of its own for a test, removed at the end.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> TempDir {
        let path = std::env::temp_dir().join(format!("kiln-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        TempDir(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn buffers_are_lazy_aligned_and_views_may_be_odd() {
    let pool = Pool::new();
    let buffer = Buffer::new(&pool, 100).unwrap();
    assert!(!buffer.is_allocated() && buffer.is_unique());
    buffer.write(&(0..100).collect::<Vec<u8>>()).unwrap();
    assert_eq!(buffer.as_ptr().unwrap() as usize % 64, 0);
    let view = buffer.view(7, 10).unwrap().view(2, 3).unwrap();
    assert_eq!(view.to_vec::<u8>().unwrap(), [9, 10, 11]);
    view.write(&[1, 2, 3]).unwrap();
    assert_eq!(buffer.to_vec::<u8>().unwrap()[8..13], [8, 1, 2, 3, 12]);
    assert!(!buffer.is_unique() && view.overlaps(&buffer));
    assert!(!view.overlaps(&buffer.view(12, 5).unwrap()));
    assert!(buffer.view(90, 11).is_err() && buffer.view(usize::MAX, 2).is_err());
    assert!(buffer.write(&[0; 99]).is_err());
    assert_eq!(Buffer::new(&pool, 0).unwrap().to_vec::<u8>().unwrap(), []);
}

#[test]
fn absurd_sizes_are_errors() {
    let pool = Pool::new();
    for bytes in [usize::MAX, isize::MAX as usize, 1 << 62, 1 << 46] {
        let error = Buffer::new(&pool, bytes).unwrap_err();
        assert!(matches!(error, Error::Memory { .. }), "{error}");
    }
    assert_eq!(pool.memory_use().used, 0);
}

#[test]
fn freed_blocks_come_back_and_zeroed_ones_are_clean() {
    let pool = Pool::new();
    for size in [1000, 3 << 20] {
        let first = Buffer::new(&pool, size).unwrap();
        first.write(&vec![7; size]).unwrap();
        let address = first.as_ptr().unwrap();
        drop(first);
        let second = Buffer::zeroed(&pool, size).unwrap();
        assert_eq!(second.as_ptr().unwrap(), address);
        assert!(second.to_vec::<u8>().unwrap().iter().all(|b| *b == 0));
    }
}

#[test]
fn counters_follow_requests() {
    let pool = Pool::with_keep(1 << 20);
    let (a, b) = (Buffer::new(&pool, 1000).unwrap(), Buffer::new(&pool, 2000).unwrap());
    assert_eq!(pool.memory_use().used, 0);
    a.as_ptr().unwrap();
    b.as_ptr().unwrap();
    drop(a);
    let used = pool.memory_use();
    assert_eq!((used.used, used.peak), (2000, 3000));
    assert!(used.pooled >= 1000 && used.pooled < 1200);
    pool.reset_peak();
    assert_eq!(pool.memory_use().peak, 2000);
}

#[test]
fn the_pool_is_bounded_and_drops_the_oldest() {
    let pool = Pool::with_keep(10_000);
    let fill = |n: usize, size| {
        let all: Vec<Buffer> = (0..n).map(|_| Buffer::new(&pool, size).unwrap()).collect();
        assert!(all.iter().all(|b| !b.as_ptr().unwrap().is_null()));
    };
    fill(50, 1024);
    assert!(pool.memory_use().pooled <= 10_000);
    fill(2, 4096);
    let kept = pool.memory_use().pooled;
    assert!((8192..=10_000).contains(&kept), "{kept}");
    fill(1, 20_000);
    assert_eq!(pool.memory_use().pooled, kept);
    pool.trim();
    assert_eq!(pool.memory_use().pooled, 0);
}

#[test]
fn many_threads_may_touch_one_buffer_first() {
    let pool = Pool::new();
    for _ in 0..50 {
        let buffer = Buffer::zeroed(&pool, 512).unwrap();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let spawned: Vec<_> =
                (0..4).map(|_| scope.spawn(|| buffer.as_ptr().unwrap() as usize)).collect();
            spawned.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(addresses.iter().all(|a| *a == addresses[0]));
        assert_eq!(pool.memory_use().used, 512);
    }
}

#[test]
fn files_are_buffers() {
    let dir = TempDir::new("disk");
    let path = dir.0.join("weights");
    std::fs::write(&path, b"headerABCD").unwrap();
    let file = disk::open(&path).unwrap();
    assert_eq!(file.view(5, 3).unwrap().to_vec::<u8>().unwrap(), b"rAB");
    assert!(!file.is_writable());
    assert!(file.write(b"0123456789").is_err());

    let writable = disk::open_writable(&path).unwrap();
    writable.view(6, 2).unwrap().write(b"xy").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"headerxyCD");
    assert_eq!(file.to_vec::<u8>().unwrap(), b"headerxyCD");

    let copied = disk::open_writable_copied(&path).unwrap();
    copied.view(0, 1).unwrap().write(b"H").unwrap();
    // SAFETY: ten bytes, as a kernel would write them.
    unsafe { copied.writable_ptr().unwrap().write_bytes(b'z', 10) };
    assert_eq!(std::fs::read(&path).unwrap(), b"HeaderxyCD");
    copied.commit(6..8).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"HeaderzzCD");
    assert_eq!(copied.to_vec::<u8>().unwrap(), b"HeaderzzCD");

    assert!(disk::create(&path, 3).is_err());
    assert_eq!(std::fs::read(&path).unwrap().len(), 10);
    let made = disk::create(&dir.0.join("new"), 3).unwrap();
    assert_eq!(made.to_vec::<u8>().unwrap(), [0; 3]);
    assert_eq!(disk::create(&dir.0.join("empty"), 0).unwrap().len(), 0);
    assert_eq!(disk::open(&dir.0.join("empty")).unwrap().len(), 0);
    assert!(disk::open(&dir.0).is_err());
    assert!(disk::DiskBackend.alloc(1).is_err());
    let missing = disk::open(&dir.0.join("missing")).unwrap_err().to_string();
    assert!(missing.contains("missing") && missing.contains("No such file"), "{missing}");
}

#[test]
fn memory_is_filled_by_its_only_owner() {
    let pool = Pool::new();
    let mut buffer = Buffer::new(&pool, 8).unwrap();
    let other = buffer.clone();
    assert!(buffer.fill(|_| ()).is_err(), "another handle is there");
    drop(other);
    assert_eq!(buffer.fill(|to| to.copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0])), Ok(()));
    assert_eq!(buffer.to_vec::<u32>().unwrap(), [1u32.to_le(), 2u32.to_le()]);
    assert_eq!(buffer.view(1, 4).unwrap().to_vec::<u16>().unwrap().len(), 2, "at any byte");
    assert!(buffer.view(0, 6).unwrap().to_vec::<u32>().is_err(), "half a number");
}
