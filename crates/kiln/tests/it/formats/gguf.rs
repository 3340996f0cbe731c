//! Files of llama.cpp, against what the `gguf` package makes of them.

use super::{Folder, check, golden, hex, why};
use kiln::nn::state::{self, Gguf, GgufType, GgufValue};
use kiln::{DType, Tensor, measure, numpy};
use std::fs;

#[test]
fn blocks_of_every_type_are_what_they_stand_for() {
    let (model, known) = (
        state::gguf_load(golden("blocks.gguf")).unwrap(),
        numpy::load_npz(golden("gguf-values.npz")).unwrap(),
    );
    assert_eq!(model.tensors.len(), 24);
    for (name, t) in &model.tensors {
        assert_eq!((t.dtype(), t.shape()), (DType::F32, known[name].shape()), "{name}");
        let (found, wanted) = (t.to_vec::<f32>().unwrap(), known[name].to_vec::<f32>().unwrap());
        let bits = |x: &f32| if *x == 0.0 { 0 } else { x.to_bits() };
        let differs = found.iter().zip(&wanted).position(|(a, b)| bits(a) != bits(b));
        if let Some(at) = differs {
            panic!("{name}: {} at {at}, not {}", found[at], wanted[at]);
        }
    }
}

const PARTS: [&str; 2] = ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf"];

#[test]
fn a_model_in_several_files_is_read_whole_from_any_of_them() {
    for name in PARTS {
        let model = state::gguf_load(golden(name)).unwrap();
        check("split", &model.tensors);
        let names: Vec<&String> = model.metadata.keys().collect();
        assert_eq!(names, ["general.architecture", "text"]);
    }
}

#[test]
fn parts_of_a_model_have_to_belong_together() {
    let folder = Folder::new("gguf-parts");
    let parts = PARTS.map(|name| fs::read(golden(name)).unwrap());
    let first = folder.file(PARTS[0], &parts[0]);
    let load = |path| why(state::gguf_load(path));
    assert!(load(&first).contains(PARTS[1]), "the second one is missing");
    folder.file(PARTS[1], &parts[0]);
    assert!(load(&first).contains("it says Some(Part { number: 0, count: 2 })"));
    let other = folder.file("other.gguf", &parts[0]);
    assert!(load(&other).contains("does not end with \"-00001-of-00002.gguf\""));
    // the number of all tensors is an i32 after its name
    let at = parts[0].windows(19).position(|w| w == b"split.tensors.count").unwrap() + 23;
    let mut wrong = parts[0].clone();
    wrong[at] = 4;
    folder.file(PARTS[0], &wrong);
    folder.file(PARTS[1], &parts[1]);
    assert!(load(&first).contains("3 tensors of 4"));
}

#[test]
fn plain_tensors_and_metadata_are_read() {
    let model = state::gguf_load(golden("plain.gguf")).unwrap();
    check("plain.gguf", &model.tensors);
    let fact = |name: &str| &model.metadata[name];
    for (name, value) in [
        ("u8", 200),
        ("i8", -100),
        ("u16", 60000),
        ("i16", -30000),
        ("u32", 4_000_000_000),
        ("i32", -2_000_000_000),
        ("i64", i64::MIN),
    ] {
        assert_eq!(fact(name).as_i64(), Some(value), "{name}");
    }
    assert_eq!((fact("u64"), fact("u64").as_i64()), (&GgufValue::U64(u64::MAX), None));
    assert_eq!((fact("f32").as_f64(), fact("f64").as_f64()), (Some(0.25), Some(0.1)));
    assert_eq!((fact("yes"), fact("no")), (&true.into(), &false.into()));
    assert_eq!(fact("text").as_str(), Some("h\u{e9}llo"));
    let texts = fact("tokens").as_array().unwrap().iter().map(|t| t.as_str().unwrap());
    assert_eq!(texts.collect::<Vec<_>>(), ["a", "", "bc"]);
    let numbers = fact("numbers").as_array().unwrap().iter().map(|n| n.as_i64().unwrap());
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 300]);
    assert_eq!(fact("general.architecture").as_str(), Some("test"));
}

#[test]
fn what_blocks_stand_for_is_computed_where_it_is_used() {
    let model = state::gguf_load(golden("blocks.gguf")).unwrap();
    let x = Tensor::ones([1, 512]).realize().unwrap().clone();
    for name in ["Q4_0", "Q8_0", "Q4_K", "Q6_K", "IQ4_XS", "NVFP4"] {
        let w = &model.tensors[name];
        let x = x.narrow(1, 0, w.shape()[1]);
        let (y, n) = measure(|| x.matmul(&w.permute([1, 0])).to_vec::<f32>().unwrap());
        assert_eq!((y.len(), n.kernels), (2, 1), "{name}");
    }
}

#[test]
fn quantized_tensors_are_written_as_the_package_does() {
    let folder = Folder::new("gguf-write");
    let known = numpy::load_npz(golden("gguf-values.npz")).unwrap();
    for (kind, name) in [(GgufType::Q8_0, "x as Q8_0"), (GgufType::Q4_0, "x as Q4_0")] {
        let path = folder.path("x.gguf");
        let mut model = Gguf::default();
        model.tensors.insert("x".to_owned(), known["x"].clone());
        state::gguf_save(&path, &model, |_, _| kind).unwrap();
        let bytes = fs::read(&path).unwrap();
        let n = known[name].numel();
        let data = &bytes[bytes.len() - n.next_multiple_of(32)..][..n];
        let data: String = data.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(data, hex(&known[name]), "{name}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    let folder = Folder::new("gguf-again");
    let path = folder.path("x.gguf");
    let mut model = Gguf::default();
    let facts: [(&str, GgufValue); 6] = [
        ("a", 3u8.into()),
        ("b", (-3i64).into()),
        ("c", "text".into()),
        ("d", GgufValue::Array(vec![0.5f32.into(), 1.5f32.into()])),
        ("e", GgufValue::Array(Vec::new())),
        ("f", GgufValue::Array(vec![GgufValue::Array(vec![true.into()])])),
    ];
    model.metadata.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    let w = Tensor::arange(192).reshape([3, 64]).cast(DType::F32) / 8.0;
    model.tensors.insert("w".to_owned(), w.clone());
    model.tensors.insert("bias".to_owned(), Tensor::from([1.5f32, -2.5, 3.5]));
    let kind = |_: &str, t: &Tensor| {
        if t.ndim() == 1 { GgufType::F32 } else { GgufType::F16 }
    };
    state::gguf_save(&path, &model, kind).unwrap();
    let again = state::gguf_load(&path).unwrap();
    assert_eq!(again.metadata, model.metadata);
    assert_eq!(again.tensors["bias"].to_vec::<f32>().unwrap(), [1.5, -2.5, 3.5]);
    assert_eq!(
        (again.tensors["w"].dtype(), again.tensors["w"].shape()),
        (DType::F16, &[3, 64][..])
    );
    let difference = (again.tensors["w"].cast(DType::F32) - &w).abs().max(..);
    assert_eq!(difference.item::<f32>().unwrap(), 0.0);
    let mut none = Gguf::default();
    none.tensors.insert("none".to_owned(), Tensor::zeros([0, 64]));
    state::gguf_save(&path, &none, |_, _| GgufType::Q4_0).unwrap();
    assert_eq!(state::gguf_load(&path).unwrap().tensors["none"].shape(), [0, 64]);
    state::gguf_save(&path, &model, kind).unwrap();
    let save = |name: &str, t: Tensor, kind: GgufType| {
        let mut model = Gguf::default();
        model.tensors.insert(name.to_owned(), t);
        why(state::gguf_save(&path, &model, |_, _| kind))
    };
    assert!(save("w", Tensor::ones([2, 33]), GgufType::Q8_0).contains("rows of 33"));
    assert!(save("w", Tensor::arange(32), GgufType::F32).contains("for floats"));
    assert!(save("w", Tensor::ones([2]).reshape([3]), GgufType::F32).contains("reshape"));
    assert_eq!(state::gguf_load(&path).unwrap().tensors.len(), 2, "it is left alone");
}

#[test]
fn damaged_files_are_errors() {
    let folder = Folder::new("gguf-damage");
    let whole = fs::read(golden("plain.gguf")).unwrap();
    let load = |bytes: &[u8]| state::gguf_load(folder.file("x.gguf", bytes));
    for len in [0, 4, 23, 24, 100, 600, whole.len() - 200] {
        assert!(why(load(&whole[..len])).contains("x.gguf"), "{len}");
    }
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        why(load(&bytes))
    };
    assert!(changed(0, b"GGML").contains("no GGUF file"));
    assert!(changed(4, &[0, 0, 0, 3]).contains("big-endian"));
    assert!(changed(4, &[9]).contains("version 9"));
    assert!(changed(8, &[0xff; 8]).contains("x.gguf"));
    assert!(changed(16, &[0xff; 8]).contains("x.gguf"));
}
