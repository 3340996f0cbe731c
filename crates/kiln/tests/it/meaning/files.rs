//! DISK: a file's bytes as a tensor, read and written.

use super::ints;
use kiln::{DType, Device, Tensor, s};
use std::path::PathBuf;

/// A file that goes when the test ends.
struct File(PathBuf);

impl File {
    fn new(name: &str, bytes: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("kiln-meaning-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        File(path)
    }

    fn open(&self, len: usize, dtype: DType) -> Tensor {
        let device = Device::parse(&format!("disk:{}", self.0.display())).unwrap();
        Tensor::empty_with([len], (dtype, device))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_value_computed_from_a_file_keeps_it() {
    let file = File::new("value", &[1, 2, 3]);
    let t = file.open(3, DType::U8);
    let doubled = t.to("CPU") * 2;
    drop(t);
    assert_eq!(ints(&doubled), [2, 4, 6]);
}

#[test]
fn views_of_a_file_read_what_they_show() {
    let file = File::new("views", &[1, 2, 3, 4, 5, 6]);
    let t = file.open(6, DType::U8);
    assert_eq!(ints(&t.get(s![1..;2]).to("CPU")), [2, 4, 6]);
    assert_eq!(ints(&t.reshape([2, 3]).permute([1, 0]).to("CPU")), [1, 4, 2, 5, 3, 6]);
    assert_eq!(t.get(s![2..4]).bitcast(DType::U16).to_vec::<u16>().unwrap(), [0x0403]);
}
