//! Files of `torch.save`.

use super::{Folder, check, golden, why};
use kiln::Tensor;
use kiln::nn::{StateDict, state};
use kiln::{measure, s};
use std::fs;

fn load(name: &str) -> StateDict {
    state::torch_load(golden(name)).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn every_dtype_is_read_in_every_form() {
    for name in ["kinds.pt", "kinds.legacy.pt", "kinds.tar.pt", "fp8.pt"] {
        check(name, &load(name));
    }
}

#[test]
fn views_of_one_storage_are_what_they_were() {
    for name in ["views.pt", "views.legacy.pt", "views.tar.pt", "one.pt", "protocol4.pt"] {
        check(name, &load(name));
    }
}

#[test]
fn nested_values_have_names_with_dots() {
    for name in ["nested.pt", "nested.legacy.pt"] {
        let loaded = load(name);
        check(name, &loaded);
        assert_eq!(loaded["parts.1.1.deep"].item::<i16>().unwrap(), 3);
        assert!(loaded.contains_key("optimizer.state.0.exp_avg"));
        assert!(!loaded["parameter"].requires_grad());
    }
}

#[test]
fn other_functions_and_types_are_refused_by_name() {
    for (name, says) in [("counter.pt", "collections.Counter"), ("module.pt", "__main__.Net")] {
        let error = why(state::torch_load(golden(name)));
        assert!(error.contains(says) && error.contains(name), "{error}");
        assert!(error.contains("formats/torch.rs"), "{error}");
    }
}

/// A file of the legacy form whose value is this pickle.
fn legacy(pickle: &[u8]) -> Vec<u8> {
    let magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.".as_slice();
    [magic, b"\x80\x02M\xe9\x03.", b"\x80\x02}.", pickle, b"\x80\x02]."].concat()
}

#[test]
fn hostile_pickles_are_errors() {
    let folder = Folder::new("pickles");
    let load = |pickle: &[u8]| state::torch_load(folder.file("x.pt", legacy(pickle)));
    assert_eq!(load(b"\x80\x02}.").unwrap().len(), 0);
    let system = b"\x80\x02cposix\nsystem\nX\x04\0\0\0true\x85R.";
    assert!(why(load(system)).contains("it needs posix.system"));
    let by_name = b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.";
    assert!(why(load(by_name)).contains("it needs builtins.eval"));
    // a list that contains itself, and lists of lists of lists, each twice in the next
    assert!(why(load(b"\x80\x02]q\0h\0a.")).contains("contains itself"));
    let doubled: Vec<u8> = (0..100u8).flat_map(|i| [b'q', i, b'h', i, 0x86]).collect();
    let bomb = [b"\x80\x02]", &doubled[..], b"."].concat();
    assert!(why(load(&bomb)).contains("justifies"));
    let deep = [&b"\x80\x02"[..], &[b']'; 1000], &[b'a'; 999], b"."].concat();
    assert!(why(load(&deep)).contains("too deeply"));
    for (pickle, says) in [
        (&b"\x80\x02."[..], "not there"),
        (b"\x80\x02(.", "not there"),
        (b"\x80\x02t.", "mark"),
        (b"\x80\x02h\x07.", "remember"),
        (b"\x80\x02X\xff\xff\xff\xff.", "too early"),
        (b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", "too early"),
        (b"\x80\x02}K\x01a.", "where a list belongs"),
        (b"\x80\x02K\x01Q.", "where a tuple belongs"),
        (b"\x80\x02K\x01)R.", "is called"),
        (b"\x80\x02\xfe.", "0xfe"),
        (b"\x80\x02}}K\x01s.", "neither text"),
        (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", "of 0 values"),
        (b"\x80\x02ctorch\nQInt8Storage\n.", "dtype that kiln does not have"),
    ] {
        let error = why(load(pickle));
        assert!(error.contains(says) && error.contains("x.pt"), "{pickle:?}: {error}");
    }
    for other in [&b"hello"[..], b"", b"\x80\x02K\x01.\x80\x02K\x01."] {
        let error = why(state::torch_load(folder.file("x.pt", other)));
        assert!(error.contains("no file of PyTorch"), "{error}");
    }
}

/// A description of a tensor in a storage of two floats; numbers are one byte.
fn tensor_of(offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    let numbers = |of: &[u8]| -> Vec<u8> {
        let items: Vec<u8> = of.iter().flat_map(|&n| [b'K', n]).collect();
        [b"(", &items[..], b"t"].concat()
    };
    let storage = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02NtQ";
    let start = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(".as_slice();
    let rest = [&[b'K', offset], &numbers(shape)[..], &numbers(strides), b"\x89}tR."].concat();
    let magic = legacy(&[start, storage, &rest].concat());
    let without_keys = &magic[..magic.len() - 4];
    let keys = b"\x80\x02]X\x01\0\0\x000a.".as_slice();
    let data = [1.5f32.to_le_bytes(), 2.5f32.to_le_bytes()].concat();
    [without_keys, keys, &2u64.to_le_bytes(), &data].concat()
}

#[test]
fn a_tensor_stays_inside_of_its_storage() {
    let folder = Folder::new("strides");
    let load = |offset, shape: &[u8], strides: &[u8]| {
        let path = folder.file("x.pt", tensor_of(offset, shape, strides));
        state::torch_load(path).map(|mut state| state.remove("").expect("one"))
    };
    let floats = |t: Result<Tensor, _>| t.unwrap().to_vec::<f32>().unwrap();
    assert_eq!(floats(load(0, &[2], &[1])), [1.5, 2.5]);
    assert_eq!(floats(load(1, &[2, 1], &[0, 7])), [2.5, 2.5]);
    assert_eq!(floats(load(1, &[], &[])), [2.5]);
    assert!(floats(load(2, &[0], &[1])).is_empty());
    for (offset, shape, strides) in [
        (1, &[2][..], &[1][..]),
        (0, &[3], &[1]),
        (0, &[2, 2], &[1, 1]),
        (3, &[0], &[1]),
        (0, &[255; 9], &[0; 9]),
        (0, &[2], &[]),
    ] {
        assert!(load(offset, shape, strides).is_err(), "{offset} {shape:?} {strides:?}");
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = Folder::new("torch-damage");
    for name in ["nested.pt", "nested.legacy.pt"] {
        let whole = fs::read(golden(name)).unwrap();
        for len in [0, 1, 4, 30, 100, whole.len() / 2, whole.len() - 1] {
            let path = folder.file("x.pt", &whole[..len]);
            assert!(why(state::torch_load(path)).contains("x.pt"), "{name} {len}");
        }
    }
    let whole = fs::read(golden("views.tar.pt")).unwrap();
    for len in [0, 100, 512, 600, 1024, 2000, 4000] {
        let error = why(state::torch_load(folder.file("x.pt", &whole[..len])));
        assert!(error.contains("x.pt"), "{len}: {error}");
    }
    let mut changed = whole.clone();
    changed[124..136].fill(b'7');
    let error = why(state::torch_load(folder.file("x.pt", &changed)));
    assert!(error.contains("has no size"), "{error}");
}

#[test]
fn what_is_read_is_a_view_of_the_file() {
    let read = || {
        let loaded = load("views.pt");
        (loaded["whole"].get(s![0, 0]) + 1.0).sum(..).item::<f32>().unwrap()
    };
    // other devices need a copy of the file
    let (sum, n) = measure(|| kiln::with([("DEV", "CPU")], read).unwrap());
    assert_eq!(sum, 10.0);
    assert!(n.bytes <= 64, "{n:?}");
}
