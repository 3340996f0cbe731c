//! NumPy's files.

use super::{Folder, check, golden, why};
use kiln::nn::StateDict;
use kiln::{DType, Tensor, measure, numpy, s};
use std::fs;

#[test]
fn arrays_of_every_dtype_and_order_are_read() {
    for name in ["arrays.npz", "packed.npz"] {
        check(name, &numpy::load_npz(golden(name)).unwrap());
    }
}

#[test]
fn every_version_of_the_format_is_read() {
    for name in ["v1.npy", "v2.npy", "v3.npy"] {
        check(name, &[(String::new(), numpy::load(golden(name)).unwrap())].into());
    }
    let bf16 = numpy::load(golden("bf16.npy")).unwrap();
    assert_eq!((bf16.dtype(), bf16.shape()), (DType::BF16, &[2, 3][..]));
    assert_eq!(bf16.cast(DType::F32).to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn what_is_no_array_of_numbers_is_an_error() {
    for (name, says) in
        [("objects.npy", "\"|O\""), ("complex.npy", "\"<c8\""), ("records.npy", "records")]
    {
        let error = why(numpy::load(golden(name)));
        assert!(error.contains(says) && error.contains(name), "{error}");
        assert!(error.contains("formats/numpy.rs"), "{error}");
    }
    let folder = Folder::new("npy-damage");
    let header = |text: &str| {
        let text = text.as_bytes();
        [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text, &[0; 16]].concat()
    };
    let fine = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
    let load = |bytes: Vec<u8>| numpy::load(folder.file("a.npy", bytes));
    assert_eq!(load(header(fine)).unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
    for (from, to, says) in [
        ("(2, 2)", "(2, 3)", "ends before 24 bytes"),
        ("(2, 2)", "(4294967296, 4294967296, 4294967296)", "too large"),
        ("(2, 2)", "(0, 18446744073709551615)", "too large"),
        ("(2, 2)", "(99999999999999999999,)", "tuple of lengths"),
        ("(2, 2)", "(-1,)", "tuple of lengths"),
        ("(2, 2)", "(2 2)", "','"),
        ("'<f4'", "'<f4", "where one belongs"),
        ("'<f4'", "'<f3'", "\"<f3\""),
        ("'<f4'", "'^f4'", "\"^f4\""),
        ("False", "Maybe", "neither"),
        ("'shape'", "'shade'", "shade"),
        ("'shape': (2, 2), ", "", "lacks"),
        ("}", "", "where one belongs"),
    ] {
        let error = why(load(header(&fine.replace(from, to))));
        assert!(error.contains(says) && error.contains("a.npy"), "{to}: {error}");
    }
    assert!(why(load(b"\x93NUMPY\x04\0\0\0".to_vec())).contains("version 4"));
    assert!(why(load(b"PK\x03\x04".to_vec())).contains("no .npy file"));
    assert!(why(load(b"\x93NUMPY\x01\0\xff\xff".to_vec())).contains("ends before"));
    assert!(why(load(Vec::new())).contains("no .npy file"));
}

fn of_all_dtypes() -> StateDict {
    let t = Tensor::from([[0i32, 1, -2], [3, 100, -100]]);
    let all = DType::STORAGE.iter().map(|&dtype| (dtype.to_string(), t.cast(dtype)));
    all.chain([
        ("turned".to_owned(), t.permute([1, 0])),
        ("scalar".to_owned(), Tensor::from(2.5f32)),
        ("none".to_owned(), Tensor::zeros([2, 0])),
    ])
    .collect()
}

#[test]
fn what_is_written_is_read_again() {
    let folder = Folder::new("npy");
    let saved = of_all_dtypes();
    numpy::save_npz(folder.path("all.npz"), &saved).unwrap();
    let loaded = numpy::load_npz(folder.path("all.npz")).unwrap();
    assert!(loaded.keys().eq(saved.keys()));
    for (name, t) in &saved {
        numpy::save(folder.path("one.npy"), t).unwrap();
        let bytes = fs::read(folder.path("one.npy")).unwrap();
        assert!((bytes.len() - t.numel() * t.dtype().size()).is_multiple_of(64), "{name}");
        for again in [&loaded[name], &numpy::load(folder.path("one.npy")).unwrap()] {
            assert_eq!((again.dtype(), again.shape()), (t.dtype(), t.shape()), "{name}");
            let values = |t: &Tensor| t.cast(DType::F64).to_vec::<f64>().unwrap();
            assert_eq!(values(again), values(t), "{name}");
        }
    }
    let f8 = Tensor::from([1.5f32]).cast(DType::F8E4M3);
    numpy::save(folder.path("f8.npy"), &f8).unwrap();
    let again = numpy::load(folder.path("f8.npy")).unwrap();
    assert_eq!(again.cast(DType::F32).to_vec::<f32>().unwrap(), [1.5]);
    let error = why(numpy::save(folder.path("f8.npy"), &f8.cast(DType::F8E5M2)));
    assert!(error.contains("reads no f8e5m2"), "{error}");
    let long = Tensor::from(7).reshape(vec![1; 30_000]);
    numpy::save(folder.path("long.npy"), &long).unwrap();
    assert_eq!(fs::read(folder.path("long.npy")).unwrap()[6], 2, "version 2");
    assert_eq!(numpy::load(folder.path("long.npy")).unwrap().ndim(), 30_000);
}

#[test]
fn an_array_is_a_view_of_its_file() {
    let folder = Folder::new("npy-lazy");
    let path = folder.path("large.npy");
    let text = format!("{{'descr': '>f4', 'fortran_order': True, 'shape': (4, {}), }}", 1 << 20);
    let header =
        [b"\x93NUMPY\x01\0", &(text.len() as u16).to_le_bytes()[..], text.as_bytes()].concat();
    let file = fs::File::create(&path).unwrap();
    std::io::Write::write_all(&mut &file, &header).unwrap();
    file.set_len(header.len() as u64 + (16 << 20)).unwrap();
    let read = || {
        let t = numpy::load(&path).unwrap();
        assert_eq!(t.shape(), [4, 1 << 20]);
        (t.get(s![2, 1000..1003]) + 1.0).to_vec::<f32>().unwrap()
    };
    // other devices need a copy of the file
    let (row, n) = measure(|| kiln::with([("DEV", "CPU")], read).unwrap());
    assert_eq!(row, [1.0; 3]);
    assert!(n.peak_memory < 4096, "{n:?}");
}

#[test]
fn damaged_archives_are_errors() {
    let folder = Folder::new("npz-damage");
    let whole = fs::read(golden("packed.npz")).unwrap();
    let load = |bytes: &[u8]| numpy::load_npz(folder.file("a.npz", bytes));
    for len in [0, 3, 21, 100, whole.len() / 2, whole.len() - 1] {
        assert!(why(load(&whole[..len])).contains("a.npz"), "{len}");
    }
    // a checksum: behind the name of the first entry are its packed bytes
    let mut other = whole.clone();
    other[100] ^= 1;
    assert!(load(&other).is_err());
    assert!(why(load(b"not a zip file")).contains("no zip archive"));
    let twice = fs::read(golden("arrays.npz")).unwrap();
    let renamed: Vec<u8> = {
        let mut bytes = twice.clone();
        let places = (0..twice.len() - 9).filter(|&at| &twice[at..at + 9] == b"uint8.npy");
        places.for_each(|at| bytes[at..at + 9].copy_from_slice(b"int16.npy"));
        bytes
    };
    assert!(why(load(&renamed)).contains("int16.npy is in the archive twice"));
}
