//! DISK: files as tensors.

use kiln::{DType, Device, Tensor, s};
use std::path::PathBuf;

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = std::env::temp_dir().join(format!("kiln-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}

fn open(path: &std::path::Path, len: usize) -> Tensor {
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
