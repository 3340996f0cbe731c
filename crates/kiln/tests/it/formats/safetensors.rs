//! safetensors: what is read lazily, sharded files, and what is refused.

use super::{Folder, check, golden, why};
use kiln::nn::{StateDict, state};
use kiln::{DType, Tensor, measure, s};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// A file with this header and these bytes.
fn file_of(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

fn one(name: &str, t: Tensor) -> StateDict {
    [(name.to_owned(), t)].into()
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("reads")
}

/// 4 GiB, of which nothing takes room: `large`, and the four numbers of `small` behind it.
fn large_file(path: &Path) {
    let n = 1u64 << 32;
    let header = format!(
        r#"{{"large":{{"dtype":"U8","shape":[{n}],"data_offsets":[0,{n}]}},
        "small":{{"dtype":"F32","shape":[2,2],"data_offsets":[{n},{}]}}}}"#,
        n + 16
    );
    let header = format!("{header:<1000}");
    let mut file = File::create(path).unwrap();
    file.write_all(&file_of(&header, &[])).unwrap();
    file.set_len(1008 + n + 16).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn one_tensor_of_a_large_file_takes_its_own_memory() {
    let folder = Folder::new("large");
    let path = folder.path("large.safetensors");
    large_file(&path);
    let (loaded, opened) = measure(|| state::load(&path).unwrap());
    assert_eq!((loaded["large"].numel(), loaded.len()), (1 << 32, 2));
    let (sum, small) = measure(|| (&loaded["small"] + 1.5).sum(..).item::<f32>().unwrap());
    let (part, part_of_large) = measure(|| loaded["large"].get(s![1 << 31..(1 << 31) + 3]) + 1);
    assert_eq!((sum, part.to_vec::<u8>().unwrap()), (6.0, vec![1, 1, 1]));
    for n in [opened, small, part_of_large] {
        assert!(n.peak_memory < 4096 && n.bytes < 4096, "{n:?}");
    }
}

#[test]
fn a_tensor_may_start_at_any_byte() {
    let folder = Folder::new("any-byte");
    let header = r#"{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},
        "b":{"dtype":"F32","shape":[2,2],"data_offsets":[3,19]},
        "c":{"dtype":"I64","shape":[1],"data_offsets":[19,27]},
        "none":{"dtype":"F64","shape":[0,5],"data_offsets":[27,27]}}"#;
    let numbers = [1.5f32, -2.0, 0.25, 8.0].iter().flat_map(|x| x.to_le_bytes());
    let data: Vec<u8> = [0, 7, 1].into_iter().chain(numbers).chain((-5i64).to_le_bytes()).collect();
    for spaces in 0..3 {
        let header = header.to_owned() + &" ".repeat(spaces);
        let loaded = state::load(folder.file("w.safetensors", file_of(&header, &data))).unwrap();
        assert_eq!(loaded["a"].to_vec::<bool>().unwrap(), [false, true, true]);
        assert_eq!(loaded["a"].cast(DType::U8).to_vec::<u8>().unwrap(), [0, 1, 1]);
        assert_eq!(floats(&loaded["b"]), [1.5, -2.0, 0.25, 8.0]);
        assert_eq!(floats(&loaded["b"].matmul(&Tensor::eye(2))), [1.5, -2.0, 0.25, 8.0]);
        assert_eq!(loaded["c"].item::<i64>().unwrap(), -5);
        assert_eq!((loaded["none"].shape(), loaded["none"].dtype()), (&[0, 5][..], DType::F64));
    }
}

#[test]
fn what_is_written_to_a_loaded_tensor_stays_out_of_the_file() {
    let folder = Folder::new("write");
    let path = folder.path("w.safetensors");
    state::save(&path, &one("w", Tensor::from([1.0f32, 2.0, 3.0]))).unwrap();
    let before = fs::read(&path).unwrap();
    let t = state::load(&path).unwrap().remove("w").unwrap();
    t.set(s![1], 9.0);
    assert_eq!(floats(&t), [1.0, 9.0, 3.0]);
    t.assign(&t * 2.0);
    assert_eq!(floats(&t), [2.0, 18.0, 6.0]);
    t.assign(0.0);
    assert_eq!(floats(&t), [0.0; 3]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_replaced_is_still_what_it_was() {
    let folder = Folder::new("replace");
    let path = folder.path("w.safetensors");
    state::save(&path, &one("w", Tensor::from([1.0f32, 2.0]))).unwrap();
    let old = state::load(&path).unwrap();
    // from the file that it replaces
    state::save(&path, &one("w", &old["w"] * 10.0)).unwrap();
    assert_eq!(floats(&old["w"]), [1.0, 2.0]);
    assert_eq!(floats(&state::load(&path).unwrap()["w"]), [10.0, 20.0]);
}

#[test]
fn a_file_that_is_cut_short_is_an_error() {
    let folder = Folder::new("cut");
    let path = folder.path("w.safetensors");
    state::save(&path, &one("w", Tensor::ones([1000]))).unwrap();
    let loaded = state::load(&path).unwrap();
    File::options().write(true).open(&path).unwrap().set_len(1000).unwrap();
    assert!(why((&loaded["w"] + 1.0).to_vec::<f32>()).contains("was cut"));
    assert!(why(loaded["w"].to_vec::<f32>()).contains("was cut"));
}

/// A tensor without elements, of which a view would have more than there are numbers.
#[test]
fn a_length_that_no_memory_could_have_is_an_error_beside_a_length_of_none() {
    let folder = Folder::new("none-of-much");
    for shape in ["0,18446744073709551615", "9223372036854775807,0", "4294967296,0,4294967296"] {
        let header = format!(r#"{{"a":{{"dtype":"F32","shape":[{shape}],"data_offsets":[0,0]}}}}"#);
        let error = why(state::load(folder.file("a.safetensors", file_of(&header, &[]))));
        assert!(error.contains("too large") && error.contains("a.safetensors"), "{error}");
    }
}

#[test]
fn shards_are_one_state() {
    let folder = Folder::new("shards");
    let [a, b] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    state::save(folder.path(a), &one("x", Tensor::from([1.0f32]))).unwrap();
    let two = [("y".to_owned(), Tensor::from([2.0f32])), ("z".to_owned(), Tensor::from([3i64]))];
    state::save(folder.path(b), &two.into()).unwrap();
    let index = |map: &str| {
        let json =
            format!(r#"{{"metadata":{{"total_size":16,"by":"me"}},"weight_map":{{{map}}}}}"#);
        folder.file("model.safetensors.index.json", json)
    };
    let path = index(&format!(r#""x":"{a}","y":"{b}","z":"{b}""#));
    let loaded = state::load(&path).unwrap();
    assert_eq!((floats(&loaded["x"]), floats(&loaded["y"])), (vec![1.0], vec![2.0]));
    assert_eq!(loaded["z"].item::<i64>().unwrap(), 3);
    let metadata = state::metadata(&path).unwrap();
    assert_eq!((&metadata["total_size"][..], &metadata["by"][..]), ("16", "me"));
    for (map, says) in [
        (format!(r#""x":"{b}""#), "\"x\" is not in"),
        (r#""x":"no.safetensors""#.to_owned(), "no.safetensors"),
        (r#""x":"../x.safetensors""#.to_owned(), "not the name of a file"),
        (r#""x":"/etc/passwd""#.to_owned(), "not the name of a file"),
        (format!(r#""x":"{a}","x":"{b}""#), "stands twice"),
        (r#""x":3"#.to_owned(), "expected a string"),
    ] {
        let error = why(state::load(index(&map)));
        assert!(error.contains(says) && error.contains("formats/safetensors.rs"), "{error}");
    }
}

/// A header whose entries are F32 of one axis: a name, a length, a range.
fn header_of(entries: &[(&str, usize, usize, usize)]) -> String {
    let entry = |&(name, n, start, end): &(&str, usize, usize, usize)| {
        format!(r#""{name}":{{"dtype":"F32","shape":[{n}],"data_offsets":[{start},{end}]}}"#)
    };
    format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(","))
}

#[test]
fn ranges_and_names_are_checked() {
    let folder = Folder::new("ranges");
    let load = |header: &str| state::load(folder.file("w.safetensors", file_of(header, &[0; 16])));
    let of = |entries: &[_]| load(&header_of(entries));
    assert_eq!(of(&[("b", 2, 8, 16), ("a", 2, 0, 8)]).unwrap().len(), 2);
    for (entries, says) in [
        (&[("a", 2, 0, 8), ("a", 2, 8, 16)][..], "\"a\" stands twice"),
        (&[("a", 2, 0, 8), ("b", 3, 4, 16)], "offset"),
        (&[("a", 4, 0, 16), ("b", 4, 0, 16)], "offset"),
        (&[("a", 2, 0, 8), ("b", 1, 12, 16)], "offset"),
        (&[("a", 3, 4, 16)], "offset"),
        (&[("a", 4, 16, 0)], "offset"),
        (&[("a", 3, 0, 16)], "invalid shape"),
        (&[("a", 8, 0, 32)], "32 bytes"),
        (&[("a", 2, 0, 8)], "8 bytes"),
        (&[("a", usize::MAX, 0, 16)], "overflow"),
        (&[("a", 4, 0, usize::MAX)], ""),
    ] {
        let error = why(of(entries)).to_lowercase();
        assert!(error.contains(says) && error.contains("w.safetensors"), "{entries:?}: {error}");
    }
    assert!(why(load(r#"{"__metadata__":{"a":"b","a":"c"}}"#)).contains("stands twice"));
    assert!(
        why(load(r#"{"a":{"dtype":"C64","shape":[2],"data_offsets":[0,16]}}"#)).contains("C64")
    );
    assert!(why(load(&"[".repeat(10_000))).contains("header"));
}

#[test]
fn what_pytorch_wrote_is_read() {
    let path = golden("kinds.safetensors");
    check("kinds.safetensors", &state::load(&path).unwrap());
    check("fp8.safetensors", &state::load(golden("fp8.safetensors")).unwrap());
    assert_eq!(state::metadata(&path).unwrap()["by"], "files.py");
}
