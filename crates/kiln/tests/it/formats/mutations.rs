//! Damaged files of every format: each is an error or a value; never a panic, a hang, or more memory than the file
//! justifies. `KILN_FUZZ=n` damages `n` times as many: see `fuzz`.

use super::{Folder, golden};
use crate::fuzz::{Rng, seeds};
use kiln::nn::StateDict;
use kiln::nn::state;
use kiln::{Device, Error, Tensor, measure, numpy};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// How many damaged files a run has of each format.
const FILES: u64 = 500;

/// No file takes longer.
const LONGEST: Duration = Duration::from_secs(5);

type Load = fn(&Path, &Device) -> Result<StateDict, Error>;

/// Numbers that are at the edge of something.
const EDGES: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 40,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX,
];

/// Bytes that have a meaning in some header.
const SIGNS: &[u8] = b"{}[]()\"',:0123456789.<>|-+eE \n\0\xff\x80PKRQbtqhNXJKM";

/// Changes a file in one place. Most formats have what matters at the beginning, archives at the end.
fn damage(bytes: &mut Vec<u8>, rng: &mut Rng) {
    if bytes.is_empty() {
        return bytes.push(rng.next() as u8);
    }
    let near = bytes.len().min(400);
    let at = match rng.below(4) {
        0 => rng.below(near),
        1 => bytes.len() - 1 - rng.below(near),
        _ => rng.below(bytes.len()),
    };
    let end = at + (1 + rng.below(16)).min(bytes.len() - at);
    match rng.below(9) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.next() as u8,
        2 | 3 => bytes[at] = rng.pick(SIGNS),
        4 => {
            let edge = rng.pick(&EDGES).wrapping_add(rng.below(3) as u64).wrapping_sub(1);
            let width = rng.pick(&[1, 2, 4, 8]).min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
        }
        5 => drop(bytes.drain(at..end)),
        6 => {
            let part = bytes[at..end].to_vec();
            let to = rng.below(bytes.len());
            drop(bytes.splice(to..to, part));
        }
        7 => {
            let from = rng.below(bytes.len() - (end - at) + 1);
            bytes.copy_within(at..end, from);
        }
        _ => bytes.truncate(at),
    }
}

/// Reads the tensors of a damaged file, but for those far larger than the file.
fn look(state: &StateDict, len: usize, rng: &mut Rng) {
    let small = |t: &&Tensor| t.numel() * t.dtype().size() <= 8 * len && t.ndim() <= 8;
    let tensors: Vec<&Tensor> = state.values().filter(small).collect();
    for _ in 0..2.min(tensors.len()) {
        let t = rng.pick(&tensors);
        let values = t.cast(kiln::DType::F64).to_vec::<f64>();
        assert!(values.is_err() || values.is_ok_and(|v| v.len() == t.numel()));
    }
}

/// Loads damaged copies of files.
fn survives(files: &[&str], load: Load) {
    let folder = Folder::new(&format!("mutations-{}", files[0]));
    let device = Device::parse("INTERP").expect("a device");
    let originals: Vec<Vec<u8>> =
        files.iter().map(|f| fs::read(golden(f)).expect("a file")).collect();
    let mut values = 0;
    for seed in seeds(FILES) {
        let mut rng = Rng(seed);
        let mut bytes = originals[rng.below(originals.len())].clone();
        (0..1 + rng.below(4)).for_each(|_| damage(&mut bytes, &mut rng));
        let (path, start) = (folder.file("x", &bytes), Instant::now());
        let run = || {
            let (loaded, n) = measure(|| load(&path, &device));
            // what is unpacked or looked up, and never what a header promises
            assert!(n.peak_memory <= 64 * bytes.len() as u64 + (1 << 16), "{n:?}");
            loaded.is_ok_and(|state| {
                look(&state, bytes.len(), &mut rng);
                true
            })
        };
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(is_value) => values += u64::from(is_value),
            Err(_) => panic!("KILN_SEED={seed} panics, of {files:?}"),
        }
        assert!(start.elapsed() < LONGEST, "KILN_SEED={seed} took {:?}", start.elapsed());
    }
    tell(files[0], values);
}

#[allow(clippy::print_stderr, reason = "a long run says what it has seen")]
fn tell(file: &str, values: u64) {
    if std::env::var_os("KILN_FUZZ").is_some() {
        eprintln!("{file}: {values} are values, the others are errors");
    }
}

#[test]
fn damaged_safetensors_files() {
    survives(&["kinds.safetensors"], |path, device| state::load_on(path, device));
}

#[test]
fn damaged_numpy_arrays() {
    let load: Load = |path, device| Ok([("x".to_owned(), numpy::load_on(path, device)?)].into());
    survives(&["v1.npy", "v2.npy", "v3.npy", "bf16.npy", "records.npy"], load);
}

#[test]
fn damaged_numpy_archives() {
    survives(&["arrays.npz", "packed.npz"], |path, device| numpy::load_npz_on(path, device));
}

#[test]
fn damaged_pytorch_archives() {
    let files = ["kinds.pt", "nested.pt", "views.pt", "one.pt", "protocol4.pt"];
    survives(&files, |path, device| state::torch_load_on(path, device));
}

#[test]
fn damaged_pytorch_files_before_archives() {
    let files = ["kinds.legacy.pt", "nested.legacy.pt", "views.legacy.pt"];
    survives(&files, |path, device| state::torch_load_on(path, device));
}

#[test]
fn damaged_pytorch_tar_archives() {
    survives(&["kinds.tar.pt", "views.tar.pt"], |path, device| state::torch_load_on(path, device));
}

#[test]
fn damaged_gguf_files() {
    survives(&["plain.gguf", "blocks.gguf"], |path, device| {
        Ok(state::gguf_load_on(path, device)?.tensors)
    });
}

#[test]
fn damaged_parts_of_gguf_models() {
    let parts = ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"];
    survives(&parts, |path, device| {
        let folder = path.parent().expect("a folder");
        let parts = ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"];
        for name in parts {
            fs::copy(golden(name), folder.join(name)).expect("a file");
        }
        let is_first = fs::read(path).expect("a file").windows(12).any(|w| w == b"architecture");
        let damaged = folder.join(parts[usize::from(!is_first)]);
        fs::copy(path, &damaged).expect("a file");
        Ok(state::gguf_load_on(damaged, device)?.tensors)
    });
}
