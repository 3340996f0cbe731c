//! DISK: files as tensors.

use kiln::testing::{INJECTED, fault_after};
use kiln::{DType, Device, Tensor, measure, s};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kiln-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

fn open(path: &Path, len: usize) -> Tensor {
    let device = Device::parse(&format!("disk:{}", path.display())).expect("a file is a device");
    Tensor::empty_with([len], (DType::U8, device))
}

#[test]
fn views_start_at_any_byte() {
    let mut bytes = vec![7u8; 3];
    bytes.extend([1.5f32, -2.0, 1e-40].iter().flat_map(|x| x.to_le_bytes()));
    let path = file("views", &bytes);
    let t = open(&path, bytes.len());
    assert_eq!(t.get(s![1..4]).to_vec::<u8>().expect("reads"), [7, 7, 0]);
    let floats = t.get(s![3..]).bitcast(DType::F32);
    assert_eq!(floats.to_vec::<f32>().expect("reads"), [1.5, -2.0, 1e-40]);
    assert_eq!((floats * 2.0).sum(..).item::<f32>().expect("computes"), -1.0);
    std::fs::remove_file(path).expect("removes");
}

#[test]
fn a_missing_or_short_file_is_an_error() {
    let path = file("short", &[1, 2]);
    let error = open(&path, 3).to_vec::<u8>().expect_err("too short").to_string();
    assert!(error.contains("holds 2 bytes"), "{error}");
    std::fs::remove_file(&path).expect("removes");
    let error = open(&path, 2).to_vec::<u8>().expect_err("missing").to_string();
    assert!(error.contains("short"), "{error}");
}

/// Each test's files have names of their own, and go with it.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bytes(t: &Tensor) -> Vec<u8> {
    t.to_vec().expect("reads")
}

fn why<T>(result: Result<T, kiln::Error>) -> String {
    result.err().expect("fails").to_string()
}

/// `sync` writes everybody's files: who calls it, and who looks at a file that is not written yet, holds this.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file of zeros that takes no room.
fn sparse(name: &str, len: u64) -> Gone {
    let path = file(name, &[]);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(len).unwrap();
    Gone(path)
}

#[cfg(unix)]
#[test]
fn a_slice_of_a_large_file_touches_the_slice_only() {
    let _alone = alone();
    use std::os::unix::fs::MetadataExt;
    const LEN: usize = 256 << 20;
    let path = sparse("large", LEN as u64);
    let t = open(&path.0, LEN);
    let inode = std::fs::metadata(&path.0).unwrap().ino();
    let rows = t.reshape([1 << 18, 1 << 10]);
    let floats = t.get(s![5 << 20..6 << 20]).bitcast(DType::F32);
    let write = |round: u8| {
        t.set(s![1 << 20..(1 << 20) + 8], round);
        kiln::sync()?;
        rows.set(s![9, 3], round);
        kiln::sync()?;
        floats.set(s![7], f32::from(round));
        kiln::sync()
    };
    for round in 1..4 {
        let (written, n) = measure(|| write(round));
        written.expect("writes");
        assert!(n.peak_memory < 1 << 10 && n.bytes < 100, "{n:?}");
    }
    assert_eq!(bytes(&t.get(s![(1 << 20) - 1..(1 << 20) + 9])), [0, 3, 3, 3, 3, 3, 3, 3, 3, 0]);
    let (start, end) = ((5 << 20) + 28, (5 << 20) + 32);
    assert_eq!(bytes(&t.get(s![start..end])), 3f32.to_le_bytes());
    assert_eq!(bytes(&t.get(s![9 * 1024 + 3])), [3]);
    let meta = std::fs::metadata(&path.0).unwrap();
    assert!(meta.blocks() * 512 < 1 << 20, "{} blocks", meta.blocks());
    assert_eq!((meta.ino(), meta.len()), (inode, LEN as u64));
}

#[test]
fn computing_from_a_file_writes_what_was_written_to_it() {
    let _alone = alone();
    let path = Gone(file("reads", &[1, 2, 3, 4]));
    let t = open(&path.0, 4);
    let old = &t + 0;
    t.set(s![1..3], 9);
    let twice = &t * 2;
    assert_eq!(std::fs::read(&path.0).unwrap(), [1, 2, 3, 4]);
    assert_eq!(bytes(&twice), [2, 18, 18, 8]);
    assert_eq!(std::fs::read(&path.0).unwrap(), [1, 9, 9, 4]);
    assert_eq!(bytes(&old), [1, 2, 3, 4]);
    t.set(s![1..], t.get(s![..3])); // reads what it overwrites
    kiln::sync().unwrap();
    assert_eq!(std::fs::read(&path.0).unwrap(), [1, 1, 9, 9]);
}

#[test]
fn a_header_tells_how_much_to_open() {
    let _alone = alone();
    let path = Gone(file("header", &[3, 10, 20, 30]));
    let header = open(&path.0, 1);
    let n = header.to_vec::<u8>().unwrap()[0] as usize;
    let all = open(&path.0, 1 + n);
    all.get(s![1..]).assign(7);
    header.assign(5);
    assert_eq!(bytes(&all), [5, 7, 7, 7]);
}

#[test]
fn the_first_write_makes_a_file_that_is_missing() {
    let _alone = alone();
    let path = Gone(file("made", &[]));
    std::fs::remove_file(&path.0).unwrap();
    let device = Device::parse(&format!("disk:{}", path.0.display())).unwrap();
    let t = Tensor::empty_with([2, 2], (DType::I32, device.clone()));
    let alias = Tensor::empty_with([4], (DType::I32, device));
    assert!(why(t.to_vec::<i32>()).contains("the first write would make it"));
    assert!(!path.0.exists());
    t.set(s![1, 0], 5);
    assert_eq!(alias.to_vec::<i32>().unwrap(), [0, 0, 5, 0]);
    assert_eq!(std::fs::read(&path.0).unwrap().len(), 16);
    let nowhere = open(Path::new("/no/such/folder/file"), 2);
    assert!(why(nowhere.try_set(s![0], 1)).contains("/no/such/folder/file"));
}

#[test]
fn a_file_that_was_replaced_is_another() {
    let _alone = alone();
    let path = Gone(file("replaced", &[1, 2]));
    let old = open(&path.0, 2);
    let beside = file("beside", &[3, 4]);
    std::fs::rename(beside, &path.0).unwrap();
    let new = open(&path.0, 2);
    assert_eq!((bytes(&old), bytes(&new)), (vec![1, 2], vec![3, 4]));
    assert!(why(old.try_set(s![0], 9)).contains("another file"));
    new.set(s![0], 9);
    kiln::sync().unwrap();
    assert_eq!((bytes(&old), std::fs::read(&path.0).unwrap()), (vec![1, 2], vec![9, 4]));
}

#[test]
#[ignore = "run by another test, in a process of its own, where nobody else gets its errors"]
fn a_fault_while_a_file_is_written_is_an_error_until_all_is() {
    let path = Gone(file("fault", &[1, 2, 3, 4]));
    let t = open(&path.0, 4);
    t.set(s![1], 9);
    fault_after(Some(0));
    assert!(why(t.realize()).contains(INJECTED));
    assert!(why(t.to_vec::<u8>()).contains(INJECTED));
    t.assign(7);
    assert_eq!(bytes(&t), [7; 4]);
    assert_eq!(std::fs::read(&path.0).unwrap(), [7; 4]);
    let before = &t + 1; // holds the old version: it survives, and so does the write
    t.set(s![0], 1);
    fault_after(Some(0));
    assert!(t.realize().is_err());
    assert_eq!((bytes(&before), bytes(&t)), (vec![8; 4], vec![1, 7, 7, 7]));
    assert_eq!(std::fs::read(&path.0).unwrap(), [1, 7, 7, 7]);
}

#[test]
fn data_of_others_goes_into_files() {
    let _alone = alone();
    let path = Gone(file("others", &[0; 16]));
    let device = Device::parse(&format!("disk:{}", path.0.display())).unwrap();
    let t = Tensor::empty_with([4], (DType::F32, device));
    let data = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).to(t.device());
    t.assign(&data);
    kiln::sync().unwrap();
    t.set(s![0], 9.0);
    kiln::realize([&t, &data]).unwrap();
    assert_eq!(data.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let written = [9.0f32, 2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(std::fs::read(&path.0).unwrap(), written);
    let other = t.copy();
    other.set(s![1], 0.0);
    drop(t);
    assert_eq!(other.to_vec::<f32>().unwrap(), [9.0, 0.0, 3.0, 4.0]);
    assert_eq!(std::fs::read(&path.0).unwrap(), written);
}

/// What is computed is that of its line, though another thread writes to the file meanwhile.
#[test]
fn threads_read_and_write_one_file() {
    let _alone = alone();
    let path = Gone(file("threads", &[0; 4096]));
    let t = open(&path.0, 4096);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..40u8 {
                t.assign(round);
                t.realize().expect("writes");
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                for round in 0..40 {
                    let sum = t.cast(DType::I32) * 3 + round;
                    let sums = sum.to_vec::<i32>().expect("reads");
                    assert!(sums.iter().all(|s| s == &sums[0]), "torn: {sums:?}");
                    let read = bytes(&t);
                    assert!(read.iter().all(|b| b == &read[0]), "torn: {read:?}");
                }
            });
        }
    });
}

#[test]
#[ignore = "run by another test, in a process of its own, where nobody else gets its errors"]
fn an_error_of_the_last_handle_is_that_of_the_next_result() {
    let path = Gone(file("late", &[1, 2]));
    let t = open(&path.0, 2);
    t.set(s![0], 9);
    fault_after(Some(0));
    drop(t);
    assert!(why(kiln::sync()).contains(INJECTED));
    kiln::sync().expect("was told");
}

#[test]
fn faults_of_files() {
    let tests = std::env::current_exe().expect("this test");
    let faults = ["disk::a_fault_while", "disk::an_error_of"];
    let run = std::process::Command::new(tests)
        .args(["--ignored", "--test-threads=1"])
        .args(faults)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && said.contains("2 passed"), "{said}");
}
