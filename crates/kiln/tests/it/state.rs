//! Weights in files.

use kiln::nn::{self, Module, StateDict, state};
use kiln::{DType, Tensor};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-state-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder");
        entries.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn of_all_dtypes() -> StateDict {
    let t = Tensor::from([[0i32, 1, -2], [3, 100, -100]]);
    let mut state = StateDict::new();
    for dtype in [
        DType::Bool,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ] {
        state.insert(format!("{dtype}"), t.cast(dtype));
    }
    state.insert("scalar".into(), Tensor::from(2.5f32));
    state.insert("view".into(), t.permute([1, 0]));
    state
}

/// A number that the system tells of this process, in bytes.
fn of_process(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|l| l.strip_prefix(what)).expect("a number");
    line.trim().strip_suffix(" kB").expect("a number of KiB").parse::<u64>().expect("a number")
        << 10
}

/// The most memory that `f` takes beyond what was there before it.
fn peak<R>(f: impl FnOnce() -> R) -> (R, u64) {
    let before = of_process("VmRSS:");
    let result = f();
    (result, of_process("VmHWM:").saturating_sub(before))
}

/// As many bytes as the children below move about.
const BYTES: usize = 64 << 20;

#[test]
#[ignore = "run by the next test, in processes of their own"]
#[allow(clippy::print_stderr)]
fn child() {
    let task = std::env::var("KILN_TEST_TASK").expect("a task");
    let numbers = |n: usize| (0..n).map(|i| i as f32).collect::<Vec<f32>>();
    let small = Tensor::from([1.0f32, 2.0]);
    assert_eq!(small.to_vec::<f32>().expect("reads"), [1.0, 2.0]);
    let bytes = match task.as_str() {
        "from" => {
            let data = numbers(BYTES / 4);
            peak(|| Tensor::from(&data)).1
        }
        "from rows" => {
            let data: Vec<Vec<f32>> = (0..16).map(|_| numbers(BYTES / 64)).collect();
            peak(|| Tensor::from(&data)).1
        }
        "to_vec" => {
            let t = Tensor::from(numbers(BYTES / 4));
            // what made it is in the peak, too
            let (numbers, more) = peak(|| t.to_vec::<f32>().expect("reads"));
            assert_eq!(numbers[12345], 12345.0);
            more
        }
        path => {
            let (state, more) = peak(|| state::load(path).expect("loads"));
            assert_eq!(state.values().map(Tensor::numel).sum::<usize>(), BYTES / 4);
            more
        }
    };
    eprintln!("PEAK {bytes}");
}

/// What is copied is copied once: no second copy is there on the way.
#[cfg(target_os = "linux")]
#[test]
fn what_is_copied_is_there_twice_and_not_three_times() {
    let folder = Folder::new("once");
    let path = folder.file("w.safetensors");
    let part = Tensor::from(vec![1.5f32; BYTES / 4 / 8]);
    let state: StateDict = (0..8).map(|i| (format!("w{i}"), part.clone())).collect();
    state::save(&path, &state).expect("saves");
    let path = path.to_str().expect("text");
    for (task, most) in [("from", 1.2), ("from rows", 1.2), ("to_vec", 1.2), (path, 1.2)] {
        let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
        command.args(["--ignored", "--exact", "state::child", "--nocapture"]);
        // other devices have the memory of a copy on its way, too
        command.env("DEV", "CPU").env("KILN_TEST_TASK", task);
        let output = command.output().expect("runs");
        let text = String::from_utf8_lossy(&output.stderr);
        let peak = text.lines().find_map(|l| l.strip_prefix("PEAK ")).expect(&text);
        let peak: u64 = peak.parse().expect("a number");
        assert!(peak as f64 <= most * BYTES as f64, "{task}: {peak} bytes");
    }
}

#[test]
fn every_dtype_comes_back() {
    let folder = Folder::new("dtypes");
    let (path, saved) = (folder.file("all.safetensors"), of_all_dtypes());
    state::save(&path, &saved).unwrap();
    let loaded = state::load(&path).unwrap();
    assert_eq!(loaded.keys().collect::<Vec<_>>(), saved.keys().collect::<Vec<_>>());
    for (name, t) in &loaded {
        assert_eq!((t.shape(), t.dtype()), (saved[name].shape(), saved[name].dtype()), "{name}");
        let values = |t: &Tensor| t.cast(DType::F64).to_vec::<f64>().unwrap();
        assert_eq!(values(t), values(&saved[name]), "{name}");
    }
    assert_eq!(folder.names(), ["all.safetensors"]);
}

#[test]
fn a_module_comes_back() {
    let folder = Folder::new("module");
    let (path, a) = (folder.file("a.safetensors"), nn::Linear::new(3, 2));
    state::save_with(&path, &a.state_dict(), &[("format".into(), "pt".into())].into()).unwrap();
    let b = nn::Linear::new(3, 2);
    b.load_state_dict(&state::load(&path).unwrap(), true).unwrap();
    assert_eq!(a.weight.to_vec::<f32>().unwrap(), b.weight.to_vec::<f32>().unwrap());
    assert_eq!(state::metadata(&path).unwrap()["format"], "pt");
}

#[test]
fn damaged_files_are_errors() {
    let folder = Folder::new("damage");
    let path = folder.file("w.safetensors");
    state::save(&path, &[("w".to_owned(), Tensor::ones([100]))].into()).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in [0, 7, 8, 20, whole.len() - 400, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        let error = state::load(&path).unwrap_err().to_string();
        assert!(error.contains("w.safetensors") && error.contains("state.rs"), "{len}: {error}");
    }
    for garbage in [&[0xff; 64][..], b"PK\x03\x04 not a safetensors file at all", &[0; 16]] {
        fs::write(&path, garbage).unwrap();
        assert!(state::load(&path).is_err() && state::metadata(&path).is_err());
    }
    let missing = state::load(folder.file("missing")).unwrap_err().to_string();
    assert!(missing.contains("missing"), "{missing}");
    assert!(state::load(&folder.0).is_err());
}

#[test]
fn a_failed_save_leaves_what_was_there() {
    let folder = Folder::new("failed");
    let path = folder.file("w.safetensors");
    state::save(&path, &[("w".to_owned(), Tensor::ones([2]))].into()).unwrap();
    let broken = Tensor::ones([2]).reshape([3]);
    assert!(state::save(&path, &[("w".to_owned(), broken)].into()).is_err());
    assert_eq!(state::load(&path).unwrap()["w"].to_vec::<f32>().unwrap(), [1.0, 1.0]);
    // a folder cannot be replaced by a file: what was written beside it is gone again
    fs::create_dir(folder.file("taken")).unwrap();
    fs::write(folder.file("taken").join("x"), "x").unwrap();
    assert!(state::save(folder.file("taken"), &StateDict::new()).is_err());
    assert!(state::save(folder.file("no/such"), &StateDict::new()).is_err());
    assert!(state::save("..", &StateDict::new()).is_err());
    let mut names = folder.names();
    names.sort();
    assert_eq!(names, ["taken", "w.safetensors"]);
}

/// The test of this name, which is ignored, in a process of its own that works in `folder`.
fn alone(test: &str, folder: &Folder, mut of: Command) -> Command {
    of.args(["--ignored", "--exact", "--nocapture", &format!("state::{test}")])
        .env("TEST_FOLDER", &folder.0)
        .env("KILN_CACHE", "none")
        .stdout(Stdio::null());
    of
}

fn this_test() -> PathBuf {
    std::env::current_exe().expect("this test")
}

/// Where such a test works.
fn given_folder() -> PathBuf {
    std::env::var_os("TEST_FOLDER").expect("run by another test").into()
}

fn large() -> StateDict {
    [("w".to_owned(), Tensor::ones([1 << 21]).realize().unwrap().clone())].into()
}

#[test]
#[ignore = "run by another test, which ends it"]
fn saves_again_and_again() {
    let (path, state) = (given_folder().join("child.safetensors"), large());
    for _ in 0..1000 {
        state::save(&path, &state).unwrap();
    }
}

/// Names of what is being written, or was when its process ended.
fn unfinished(folder: &Folder) -> usize {
    folder.names().iter().filter(|name| name.ends_with(".tmp")).count()
}

#[test]
fn what_a_killed_process_leaves_is_removed_and_what_is_being_written_is_not() {
    let folder = Folder::new("killed");
    let small: StateDict = [("w".to_owned(), Tensor::ones([2]))].into();
    let save = || state::save(folder.file("w.safetensors"), &small).unwrap();
    for _ in 0..3 {
        // until one is killed in the middle of a save
        while unfinished(&folder) == 0 {
            let mut child =
                alone("saves_again_and_again", &folder, Command::new(this_test())).spawn().unwrap();
            while unfinished(&folder) == 0 && child.try_wait().unwrap().is_none() {}
            // while it lives, others leave its file alone: it goes on
            (0..5).for_each(|_| save());
            assert!(child.try_wait().unwrap().is_none(), "it failed");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        save();
        assert_eq!(unfinished(&folder), 0);
    }
    let left = state::load(folder.file("child.safetensors"));
    assert!(left.is_err() || left.unwrap()["w"].numel() == 1 << 21, "whole or not at all");
}

#[test]
fn a_process_identifier_that_comes_again_is_in_nobodys_way() {
    let folder = Folder::new("again");
    let path = folder.file("w.safetensors");
    // names that are made of it, as an earlier process with the same one may have left them
    for i in 0..100 {
        let name = format!(".w.safetensors.{}-{i}.tmp", std::process::id());
        fs::write(folder.file(&name), "left").unwrap();
    }
    state::save(&path, &[("w".to_owned(), Tensor::ones([2]))].into()).unwrap();
    assert_eq!(state::load(&path).unwrap()["w"].to_vec::<f32>().unwrap(), [1.0, 1.0]);
}

#[test]
#[ignore = "run by another test, in a process that may not write large files"]
fn large_files_are_refused() {
    let path = given_folder().join("w.safetensors");
    let small: StateDict = [("w".to_owned(), Tensor::ones([2]))].into();
    state::save(&path, &small).unwrap();
    let error = state::save(&path, &large()).unwrap_err().to_string();
    assert!(error.contains("may be written") && error.contains("w.safetensors"), "{error}");
    assert_eq!(state::load(&path).unwrap()["w"].numel(), 2);
}

#[cfg(unix)]
#[test]
fn a_limit_on_files_is_an_error() {
    let folder = Folder::new("limit");
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 100; exec \"$0\" \"$@\""]).arg(this_test());
    // PoCL writes files of its own, and ends the process at such a limit
    shell.env("DEV", "CPU");
    let run = alone("large_files_are_refused", &folder, shell).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(folder.names(), ["w.safetensors"]);
}
