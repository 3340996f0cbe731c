//! Data sets read from files that the test writes.

use kiln::data::{cifar10, cifar100, idx, mnist};
use std::fs;
use std::path::PathBuf;

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("kiln-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
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

/// An IDX file.
fn of(kind: u8, shape: &[u32], data: &[u8]) -> Vec<u8> {
    let lengths = shape.iter().flat_map(|n| n.to_be_bytes());
    [0, 0, kind, shape.len() as u8].into_iter().chain(lengths).chain(data.iter().copied()).collect()
}

#[test]
fn idx_files_are_read() {
    let folder = Folder::new("idx");
    let numbers: Vec<u8> = [1.5f32, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
    let t = idx(folder.write("a", &of(0x0d, &[1, 2], &numbers))).expect("floats");
    assert_eq!((t.shape(), t.to_vec::<f32>()), (&[1, 2][..], Ok(vec![1.5, -2.0])));
    let t = idx(folder.write("a", &of(0x0b, &[2], &[1, 0, 0xff, 0xfe]))).expect("integers");
    assert_eq!(t.to_vec::<i16>(), Ok(vec![256, -2]));
    let t = idx(folder.write("a", &of(8, &[0, 3], &[]))).expect("nothing");
    assert_eq!(t.shape(), [0, 3]);
    // what is wrong is said, whatever the header promises
    let why = |bytes: &[u8]| idx(folder.write("a", bytes)).expect_err("no such file").to_string();
    assert!(why(&[0, 0]).contains("no IDX file") && why(&[0, 0, 8, 3, 1]).contains("ends within"));
    assert!(why(&of(8, &[u32::MAX; 3], &[1])).contains("1 bytes are no u8"));
    assert!(why(&of(7, &[1], &[1])).contains("7 is no dtype of IDX"));
    assert!(why(&of(8, &[3], &[1, 2])).contains("sets.rs"));
    let whole = of(8, &[2, 2], &[1, 2, 3, 4]);
    for end in 0..whole.len() {
        assert!(idx(folder.write("a", &whole[..end])).is_err());
    }
    assert!(idx(folder.0.join("none")).expect_err("no file").why().contains("none"));
}

#[test]
fn sets_of_images_are_read() {
    let folder = Folder::new("sets");
    for (name, dots) in [("train-images-idx3-ubyte", 2u32), ("t10k-images.idx3-ubyte", 1)] {
        folder.write(name, &of(8, &[dots, 28, 28], &vec![7; dots as usize * 784]));
    }
    folder.write("train-labels-idx1-ubyte", &of(8, &[2], &[3, 4]));
    folder.write("t10k-labels-idx1-ubyte", &of(8, &[1], &[5]));
    let set = mnist(&folder.0).expect("four files");
    assert_eq!(
        (set.train_images.shape(), set.test_images.shape()),
        (&[2, 28, 28][..], &[1, 28, 28][..])
    );
    assert_eq!(
        (set.train_labels.to_vec::<u8>(), set.test_labels.to_vec::<u8>()),
        (Ok(vec![3, 4]), Ok(vec![5]))
    );
    let image = |labels: &[u8], color: u8| [labels, &[color; 3072]].concat();
    for i in 1..=5 {
        folder.write(&format!("data_batch_{i}.bin"), &image(&[i], i * 10));
    }
    folder.write("test_batch.bin", &[image(&[8], 1), image(&[9], 2)].concat());
    let set = cifar10(&folder.0).expect("six files");
    assert_eq!(set.train_labels.to_vec::<u8>(), Ok(vec![1, 2, 3, 4, 5]));
    assert_eq!(set.train_images.get(kiln::s![2, 0, 0, 0]).item::<u8>(), Ok(30));
    assert_eq!(set.test_images.shape(), [2, 3, 32, 32]);
    folder.write("train.bin", &image(&[1, 99], 4));
    folder.write("test.bin", &image(&[2, 98], 5));
    let set = cifar100(&folder.0).expect("two files");
    assert_eq!(
        (set.train_labels.to_vec::<u8>(), set.test_labels.to_vec::<u8>()),
        (Ok(vec![99]), Ok(vec![98]))
    );
    folder.write("test.bin", &[0; 100]);
    assert!(
        cifar100(&folder.0).expect_err("no image").why().contains("100 bytes are no whole images")
    );
}
