//! Files in trouble: no room, cut short, replaced, gone, no files at all.

use crate::disk::alone;
use kiln::testing::reserve_nothing;
use kiln::{DType, Device, Tensor, nn::state, s};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::time::Duration;

/// A folder of a test, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path, len: usize) -> Tensor {
    let device = Device::parse(&format!("disk:{}", path.display())).expect("a file is a device");
    Tensor::empty_with([len], (DType::U8, device))
}

fn bytes(t: &Tensor) -> Vec<u8> {
    t.to_vec().expect("reads")
}

fn why<T>(result: Result<T, kiln::Error>) -> String {
    result.err().expect("fails").to_string()
}

/// Zeros that have no room on the disk yet.
fn sparse(path: &Path, len: u64) {
    let file = fs::File::create(path).unwrap();
    file.set_len(len).unwrap();
}

/// Runs a test of this file that is ignored, in a process of its own, by way of a shell's line that ends with it.
fn apart(test: &str, folder: &Path, line: &str) -> Output {
    Command::new("sh")
        .args(["-c", line])
        .arg(std::env::current_exe().expect("this test"))
        .args(["--ignored", "--exact", "--nocapture", &format!("files::{test}")])
        .env("TEST_FOLDER", folder)
        .env("KILN_CACHE", "none")
        .output()
        .expect("a shell")
}

fn passes(test: &str, folder: &Folder, line: &str) {
    let run = apart(test, &folder.0, line);
    let [said, error] = [&run.stdout, &run.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(run.status.success() && said.contains("1 passed"), "{}\n{said}\n{error}", run.status);
}

fn given_folder() -> PathBuf {
    std::env::var_os("TEST_FOLDER").expect("run by another test").into()
}

#[test]
#[ignore = "run by another test, where the file system is small"]
fn a_full_file_system_is_an_error() {
    const LARGE: usize = 1 << 20;
    let folder = given_folder();
    let path = folder.join("sparse");
    sparse(&path, LARGE as u64);
    let t = open(&path, LARGE);
    t.set(s![5..9], 3);
    t.realize().expect("has room for that");
    let before = &t + 1;
    t.assign(7);
    for _ in 0..2 {
        let error = why(t.realize());
        assert!(error.contains("No space") && error.contains("sparse"), "{error}");
        assert!(why(kiln::sync()).contains("No space"));
    }
    // nothing has happened
    assert_eq!(bytes(&before.get(s![4..7])), [1, 4, 4]);
    assert_eq!(fs::read(&path).unwrap()[4..10], [0, 3, 3, 3, 3, 0]);
    drop((t, before));
    assert!(why(kiln::sync()).contains("No space"), "of the last handle");
    fs::remove_file(&path).unwrap();
    let path = folder.join("w.safetensors");
    state::save(&path, &[("w".to_owned(), Tensor::ones([4]))].into()).unwrap();
    let large = [("w".to_owned(), Tensor::ones([LARGE]))].into();
    assert!(why(state::save(&path, &large)).contains("No space"));
    assert_eq!(state::load(&path).unwrap()["w"].numel(), 4);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

/// Needs a namespace in which it may mount something. If that is not allowed, only the next test covers the case.
#[cfg(target_os = "linux")]
#[test]
fn a_small_file_system() {
    let folder = Folder::new("small");
    let mount = "mount -t tmpfs -o size=128k none \"$TEST_FOLDER\"";
    let allowed = Command::new("unshare")
        .args(["-Urm", "sh", "-c", mount])
        .env("TEST_FOLDER", &folder.0)
        .output()
        .is_ok_and(|run| run.status.success());
    if !allowed {
        eprintln!("skipped: no file system can be mounted here");
        return;
    }
    let line = format!("exec unshare -Urm sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\"");
    passes("a_full_file_system_is_an_error", &folder, &line);
}

/// A file of more bytes than its file system has: in memory, so that the refusal takes nothing.
#[cfg(target_os = "linux")]
#[test]
fn more_than_a_file_system_has_is_an_error() {
    let _alone = alone();
    let shared = Path::new("/dev/shm");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some("/dev/shm") && line.contains("tmpfs"))
    {
        eprintln!("skipped: no file system in memory here");
        return;
    }
    const LEN: usize = 1 << 45;
    let path = shared.join(format!("kiln-test-{}", std::process::id()));
    sparse(&path, LEN as u64);
    let t = open(&path, LEN);
    t.set(s![LEN - 2], 9);
    assert_eq!(bytes(&t.get(s![LEN - 3..])), [0, 9, 0]);
    let half = t.get(s![1..LEN - 1;2]);
    half.assign(1);
    let error = why(t.get(s![..2]).to_vec::<u8>());
    fs::remove_file(&path).unwrap();
    assert!(error.contains("No space"), "{error}");
    // gone, with what was to be written to it
    drop((half, t));
    assert!(kiln::sync().is_err());
}

#[test]
#[ignore = "run by another test, in a process that may not write large files"]
fn what_is_beyond_a_limit_is_an_error() {
    const LEN: usize = 1 << 20;
    let folder = given_folder();
    let new = folder.join("new");
    let t = open(&new, LEN);
    assert!(why(t.try_set(s![0], 1)).contains("may be written") && !new.exists());
    reserve_nothing(true);
    let t = open(&folder.join("bytes"), LEN);
    t.set(s![9..12], 5);
    t.realize().unwrap();
    t.set(s![LEN - 3..], 5);
    assert!(why(t.realize()).contains("may be written"));
    assert!(kiln::sync().is_err());
    let values = fs::read(folder.join("bytes")).unwrap();
    assert_eq!((&values[8..13], &values[LEN - 4..]), (&[1, 5, 5, 5, 1][..], &[1, 1, 1, 1][..]));
}

#[cfg(unix)]
#[test]
fn a_limit_on_files() {
    let folder = Folder::new("limited");
    folder.file("bytes", &[1; 1 << 20]);
    passes("what_is_beyond_a_limit_is_an_error", &folder, "ulimit -f 100; exec \"$0\" \"$@\"");
}

#[test]
fn a_file_that_somebody_cuts_is_an_error() {
    let _alone = alone();
    let folder = Folder::new("cut");
    const LEN: usize = 1 << 16;
    for copied in [false, true] {
        let path = folder.file("bytes", &[1; LEN]);
        reserve_nothing(copied);
        let (read, written) = (open(&path, LEN), open(&path, LEN));
        let sum = read.cast(DType::I32).sum(..);
        assert_eq!(bytes(&read.get(s![LEN - 1..])), [1]);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_len(5).unwrap();
        for error in [
            why(read.to_vec::<u8>()),
            why(sum.item::<i32>()),
            why((&read + 1).get(s![LEN - 1..]).to_vec::<u8>()),
            why(state::save(folder.0.join("w"), &[("w".to_owned(), read.clone())].into())),
        ] {
            assert!(error.contains("was cut from 65536 to 5 bytes"), "{error}");
        }
        assert!(why(written.try_set(s![3], 9)).contains("65536"));
        file.set_len(LEN as u64).unwrap();
        assert_eq!(sum.item::<i32>().unwrap(), 5);
        written.set(s![3], 9);
        written.realize().unwrap();
        file.set_len(5).unwrap();
        written.set(s![4], 9);
        assert!(why(kiln::sync()).contains("was cut"));
        file.set_len(LEN as u64).unwrap();
        kiln::sync().unwrap();
        assert_eq!(fs::read(&path).unwrap()[..6], [1, 1, 1, 9, 9, 0]);
    }
    reserve_nothing(false);
}

/// Where no room can be reserved, the file gets what has changed and nothing else.
#[test]
fn without_reserved_room_files_are_written_as_such() {
    let _alone = alone();
    reserve_nothing(true);
    let folder = Folder::new("copied");
    let path = folder.file("bytes", &[1; 3 << 20]);
    let t = open(&path, 3 << 20);
    t.set(s![2 << 20..(2 << 20) + 3], 9);
    let at = Tensor::from([5i64, 1 << 20, 5]);
    t.set(s![at], Tensor::from([7u8, 8, 6]).to(t.device()));
    kiln::sync().unwrap();
    let mut right = vec![1; 3 << 20];
    right[2 << 20..(2 << 20) + 3].fill(9);
    (right[5], right[1 << 20]) = (6, 8);
    assert_eq!(fs::read(&path).unwrap(), right);
    let old = &t + 0;
    t.set(s![1..], t.get(s![..right.len() - 1]));
    t.realize().unwrap();
    assert_eq!(bytes(&old), right);
    right.rotate_right(1);
    right[0] = 1;
    assert_eq!((fs::read(&path).unwrap(), bytes(&t)), (right.clone(), right));
    reserve_nothing(false);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_an_error_at_once() {
    let folder = Folder::new("kinds");
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let kinds = [
        (pipe, "is a named pipe"),
        (folder.0.clone(), "is a folder"),
        (PathBuf::from("/dev/zero"), "is a device"),
        (PathBuf::new(), "names no file"),
    ];
    for (path, what) in kinds {
        let (sender, receiver) = channel();
        let opened = path.clone();
        std::thread::spawn(move || {
            let t = open(&opened, 4);
            let errors = [why(t.to_vec::<u8>()), why(t.try_set(s![0], 1)), why(t.try_assign(1))];
            let _ = sender.send(errors);
        });
        let errors = receiver.recv_timeout(Duration::from_secs(20)).expect("no waiting");
        assert!(errors.iter().all(|e| e.contains(what)), "{path:?}: {errors:?}");
    }
    assert!(why(open(&folder.0.join("no/such"), 1).try_set(s![0], 1)).contains("no/such"));
}

#[test]
fn values_of_any_device_are_written_to_files() {
    let _alone = alone();
    let folder = Folder::new("devices");
    let path = folder.file("bytes", &[0; 16]);
    let t = open(&path, 16);
    for (device, value) in [("INTERP", 1u8), ("CPU", 2), ("NULL", 0)] {
        let ones = Tensor::ones_with([4], (DType::U8, device));
        let values = &ones * value;
        t.assign(0);
        t.set(s![..4], &values);
        t.set(s![Tensor::from([5i64, 7])], values.get(s![..2]));
        t.get(s![8..12]).assign(&values);
        t.get(s![12..]).add_assign(values.to(t.device()));
        let v = value;
        assert_eq!(bytes(&t), [v, v, v, v, 0, v, 0, v, v, v, v, v, v, v, v, v], "{device}");
    }
    let other = open(&folder.file("other", &[7, 8]), 2);
    t.set(s![3..5], &other);
    assert_eq!(bytes(&t.get(s![3..6])), [7, 8, 0]);
    let error = why(Tensor::zeros([4]).try_assign(&Tensor::zeros_with([4], "INTERP")));
    let own = Device::default_device();
    assert!(error.contains(&format!("target is on {}", own.name())), "{error}");
}

#[test]
#[ignore = "run by another test, in a process of its own, where nobody else gets its errors"]
fn sync_says_what_was_not_written() {
    let folder = Folder(given_folder().join("sync"));
    fs::create_dir_all(&folder.0).unwrap();
    let path = folder.file("bytes", &[1, 2, 3, 4]);

    // refused: told until all is written anew, also if somebody else was told of it
    let t = open(&path, 4);
    t.set(s![9], 1);
    assert!(why(kiln::sync()).contains("files.rs"));
    assert!(t.to_vec::<u8>().is_err() && kiln::sync().is_err());
    t.assign(5);
    kiln::sync().unwrap();
    t.set(s![9], 1);
    drop(t);
    assert!(kiln::sync().is_err());
    kiln::sync().unwrap();

    // one who reads is told, and so is `sync`
    let t = open(&path, 4);
    t.set(s![0], 9);
    fs::remove_file(&path).unwrap();
    drop(t);
    let other = Tensor::from([1, 2]) + 1;
    assert!(why(other.to_vec::<i32>()).contains("No such file"));
    assert_eq!(other.to_vec::<i32>().unwrap(), [2, 3]);
    assert!(why(kiln::sync()).contains("No such file"));
    kiln::sync().unwrap();

    // gone, or another one: before it is written, and after
    for written in [false, true] {
        for replaced in [false, true] {
            folder.file("bytes", &[1, 2, 3, 4]);
            let t = open(&path, 4);
            t.set(s![0], 9);
            if written {
                t.realize().unwrap();
            }
            fs::rename(&path, folder.0.join("elsewhere")).unwrap();
            if replaced {
                folder.file("bytes", &[1, 2, 3, 4]);
            }
            for _ in 0..2 {
                let error = why(kiln::sync());
                let what = if replaced { "is another file" } else { "No such file" };
                assert!(error.contains(what) && error.contains("bytes"), "{error}");
            }
            fs::rename(folder.0.join("elsewhere"), &path).unwrap();
            kiln::sync().unwrap();
            assert_eq!(fs::read(&path).unwrap(), [9, 2, 3, 4]);
            // what has been written and waited for is done
            fs::remove_file(&path).unwrap();
            kiln::sync().unwrap();
            drop(t);
            kiln::sync().unwrap();
        }
    }
}

#[test]
fn sync_is_not_ok_after_a_write_that_failed() {
    let folder = Folder::new("sync");
    passes("sync_says_what_was_not_written", &folder, "exec \"$0\" \"$@\"");
}
