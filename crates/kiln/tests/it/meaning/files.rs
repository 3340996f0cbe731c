//! DISK: a file's bytes as a tensor, read and written.

use super::{floats, ints};
use kiln::{DType, Device, Tensor, s};
use std::path::PathBuf;
use std::sync::MutexGuard;

/// A file that goes when the test ends.
pub(super) struct File {
    pub(super) path: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl File {
    pub(super) fn new(name: &str, bytes: &[u8]) -> File {
        let turn = crate::disk::alone();
        let path = std::env::temp_dir().join(format!("kiln-meaning-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        File { path, _turn: turn }
    }

    pub(super) fn open(&self, len: usize, dtype: DType) -> Tensor {
        let device = Device::parse(&format!("disk:{}", self.path.display())).unwrap();
        Tensor::empty_with([len], (dtype, device))
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
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

/// `test_disk_assignment`
#[test]
fn assigning_changes_the_file() {
    let file = File::new("assign", &[0; 20]);
    let t = file.open(5, DType::F32);
    t.assign(1.0);
    assert_eq!(file.bytes(), [0; 20]);
    assert_eq!(floats(&t.to("CPU")), [1.0; 5]);
    assert_eq!(file.bytes(), 1f32.to_le_bytes().repeat(5));
}

#[test]
fn a_slice_of_a_file_is_written() {
    let file = File::new("slice", &[1, 2, 3, 4, 5, 6, 7, 8]);
    let t = file.open(7, DType::U8);
    t.set(s![2..4], 9);
    t.get(s![4..6]).bitcast(DType::U16).assign(Tensor::from([0x0a0bu16]).to(t.device()));
    t.realize().unwrap();
    assert_eq!(file.bytes(), [1, 2, 9, 9, 0x0b, 0x0a, 7, 8]);
    t.flip(0).set(s![0], 6);
    assert_eq!(t.get(s![6]).to_vec::<u8>().unwrap(), [6]);
    assert_eq!(file.bytes(), [1, 2, 9, 9, 0x0b, 0x0a, 6, 8]);
}

#[test]
fn a_loop_of_writes_to_a_file() {
    let file = File::new("loop", &[0; 400]);
    let t = file.open(100, DType::I32);
    for i in 0..100usize {
        t.set(s![i], i);
        if i % 40 == 0 {
            t.realize().unwrap();
        }
    }
    kiln::sync().unwrap();
    let numbers = (0..100i32).flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
    assert_eq!(file.bytes(), numbers);
}

#[test]
fn an_old_value_that_is_held_is_not_overwritten_with_the_file() {
    let file = File::new("held", &[1, 2, 3, 4]);
    let t = file.open(4, DType::U8);
    let (before, later, part) = (t.copy(), &t + 1, t.get(s![1..3]).contiguous());
    part.realize().unwrap();
    for round in 0..3u8 {
        t.set(s![0], 9 + round);
        t.realize().unwrap();
        assert_eq!(file.bytes(), [9 + round, 2, 3, 4]);
    }
    assert_eq!(ints(&before.to("CPU")), [1, 2, 3, 4]);
    assert_eq!(later.to_vec::<u8>().unwrap(), [2, 3, 4, 5]);
    t.assign(0);
    t.realize().unwrap();
    assert_eq!((part.to_vec::<u8>().unwrap(), file.bytes()), (vec![2, 3], vec![0; 4]));
}

#[test]
fn the_last_handle_writes() {
    let file = File::new("last", &[1, 2]);
    {
        let t = file.open(2, DType::U8);
        let view = t.get(s![1]);
        drop(t);
        view.assign(7);
        assert_eq!(file.bytes(), [1, 2]);
    }
    // a test beside this one that brings all files up to date has a handle meanwhile, and may be the last
    let late = (0..10_000).take_while(|_| file.bytes() != [1, 7]);
    late.for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
    assert_eq!(file.bytes(), [1, 7]);
}

#[test]
fn a_file_that_is_open_is_one_storage() {
    let file = File::new("twice", &[1, 0, 2, 0, 3, 0]);
    let t = file.open(6, DType::U8);
    let (same, wide, first) =
        (file.open(6, DType::U8), file.open(3, DType::U16), file.open(1, DType::U8));
    t.set(s![2], 9);
    wide.set(s![0], 0x0104);
    assert_eq!(same.to_vec::<u8>().unwrap(), [4, 1, 9, 0, 3, 0]);
    assert_eq!(wide.to_vec::<u16>().unwrap(), [0x0104, 9, 3]);
    assert_eq!(first.to_vec::<u8>().unwrap(), [4]);
    assert!(super::why(file.open(7, DType::U8).to_vec::<u8>()).contains("holds 6 bytes"));
    drop((t, same, wide, first));
    assert_eq!(file.bytes(), [4, 1, 9, 0, 3, 0]);
    assert!(super::why(file.open(7, DType::U8).to_vec::<u8>()).contains("holds 6 bytes"));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_of_the_write() {
    let file = File::new("gone", &[1, 2]);
    let t = file.open(2, DType::U8);
    std::fs::remove_file(&file.path).unwrap();
    t.set(s![0], 5);
    assert!(super::why(t.to_vec::<u8>()).contains("gone"));
    assert!(super::why(kiln::sync()).contains("gone"));
    t.clear_error();
    kiln::sync().unwrap();
    assert_eq!(t.to_vec::<u8>().unwrap(), [1, 2]);
    std::fs::write(&file.path, [3, 3]).unwrap();
    assert!(super::why(t.try_set(s![0], 5)).contains("gone"));
    assert_eq!(
        (file.open(2, DType::U8).to_vec::<u8>().unwrap(), file.bytes()),
        (vec![3, 3], vec![3, 3])
    );
}

#[test]
fn threads_write_to_one_file() {
    let file = File::new("threads", &[0; 64]);
    let t = file.open(64, DType::U8);
    std::thread::scope(|scope| {
        for thread in 0..4usize {
            let t = &t;
            scope.spawn(move || {
                for i in 0..16usize {
                    t.set(s![thread * 16 + i], thread * 16 + i);
                    if i % 5 == thread {
                        t.realize().unwrap();
                    }
                }
            });
        }
    });
    t.realize().unwrap();
    assert_eq!(file.bytes(), (0..64).collect::<Vec<u8>>());
}

#[test]
fn what_is_computed_from_a_file_is_memory() {
    let file = File::new("computed", &[1, 2, 3]);
    let t = file.open(3, DType::U8);
    let (sum, copy) = (&t + 1, t.copy());
    sum.assign(0);
    copy.set(s![0], 5);
    kiln::realize([&sum, &copy, &t]).unwrap();
    kiln::sync().unwrap();
    assert_eq!(file.bytes(), [1, 2, 3]);
}
