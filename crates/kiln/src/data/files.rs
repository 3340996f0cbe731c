//! Data sets in the files that their authors give out: MNIST's IDX, and CIFAR's binary form. Nothing is fetched.

use crate::error::{Error, Fault, at_caller, refuse};
use crate::{DType, Tensor};
use std::path::Path;

/// Images and labels, to train with and to test with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Split {
    /// Images to train with, U8.
    pub train_images: Tensor,
    /// Their labels, U8.
    pub train_labels: Tensor,
    /// Images to test with, U8.
    pub test_images: Tensor,
    /// Their labels, U8.
    pub test_labels: Tensor,
}

/// The array in an IDX file, the form of MNIST (<http://yann.lecun.com/exdb/mnist/>): unpacked, of any shape and any of its
/// dtypes.
///
/// ```
/// let path = std::env::temp_dir().join(format!("kiln-doc-{}.idx", std::process::id()));
/// std::fs::write(&path, [0, 0, 8, 1, 0, 0, 0, 2, 7, 9]).expect("a folder for files");
/// let t = kiln::data::idx(&path)?;
/// assert_eq!(t.to_vec::<u8>()?, [7, 9]);
/// # std::fs::remove_file(path).expect("a file");
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be read, or is no IDX file of the length that its header says.
#[track_caller]
pub fn idx(path: impl AsRef<Path>) -> Result<Tensor, Error> {
    let path = path.as_ref();
    at_caller("idx", read(path).and_then(|bytes| named(path, of_idx(&bytes))))
}

/// MNIST, or a set of its form such as Fashion-MNIST, from the folder that holds its four files, unpacked, under their own
/// names. Images are `[count, 28, 28]`.
///
/// ```no_run
/// let mnist = kiln::data::mnist("data/mnist")?;
/// let images = mnist.train_images.float() / 255.0;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`idx`], for each file.
#[track_caller]
pub fn mnist(folder: impl AsRef<Path>) -> Result<Split, Error> {
    at_caller("mnist", of_mnist(folder.as_ref()))
}

fn of_mnist(folder: &Path) -> Result<Split, Fault> {
    let file = |name: &str| {
        // the names of the archive, and those that its unpacked files often have
        let path = [name.to_owned(), name.replacen("-idx", ".idx", 1)].map(|n| folder.join(n));
        let path = if path[1].exists() { &path[1] } else { &path[0] };
        named(path, of_idx(&read(path)?))
    };
    Ok(Split {
        train_images: file("train-images-idx3-ubyte")?,
        train_labels: file("train-labels-idx1-ubyte")?,
        test_images: file("t10k-images-idx3-ubyte")?,
        test_labels: file("t10k-labels-idx1-ubyte")?,
    })
}

/// CIFAR-10 from the folder that holds its binary files (<https://www.cs.toronto.edu/~kriz/cifar.html>). Images are
/// `[count, 3, 32, 32]`.
///
/// ```no_run
/// let cifar = kiln::data::cifar10("data/cifar-10-batches-bin")?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// A file that cannot be read, or does not hold whole images.
#[track_caller]
pub fn cifar10(folder: impl AsRef<Path>) -> Result<Split, Error> {
    let train: Vec<String> = (1..=5).map(|i| format!("data_batch_{i}.bin")).collect();
    at_caller("cifar10", of_cifar(folder.as_ref(), &train, "test_batch.bin", 1))
}

/// CIFAR-100 from the folder that holds its binary files, with its 100 fine labels. Images are `[count, 3, 32, 32]`.
///
/// ```no_run
/// let cifar = kiln::data::cifar100("data/cifar-100-binary")?;
/// # Ok::<(), kiln::Error>(())
/// ```
///
/// # Errors
/// As [`cifar10`].
#[track_caller]
pub fn cifar100(folder: impl AsRef<Path>) -> Result<Split, Error> {
    at_caller("cifar100", of_cifar(folder.as_ref(), &["train.bin".to_owned()], "test.bin", 2))
}

/// `labels` bytes of labels, of which the last counts, stand before each image.
fn of_cifar(folder: &Path, train: &[String], test: &str, labels: usize) -> Result<Split, Fault> {
    let images = |names: &[String]| {
        let mut bytes = Vec::new();
        for name in names {
            let path = folder.join(name);
            bytes.extend(named(&path, whole_images(read(&path)?, labels))?);
        }
        Ok::<_, Fault>(parts(&bytes, labels))
    };
    let (train_images, train_labels) = images(train)?;
    let (test_images, test_labels) = images(&[test.to_owned()])?;
    Ok(Split { train_images, train_labels, test_images, test_labels })
}

/// Bytes of an image.
const IMAGE: usize = 3 * 32 * 32;

fn whole_images(bytes: Vec<u8>, labels: usize) -> Result<Vec<u8>, Fault> {
    match bytes.len() % (labels + IMAGE) {
        0 => Ok(bytes),
        _ => refuse!("{} bytes are no whole images of {}", bytes.len(), labels + IMAGE),
    }
}

fn parts(bytes: &[u8], labels: usize) -> (Tensor, Tensor) {
    let rows = bytes.chunks_exact(labels + IMAGE);
    let classes: Vec<u8> = rows.clone().map(|row| row[labels - 1]).collect();
    let images: Vec<u8> = rows.flat_map(|row| &row[labels..]).copied().collect();
    let count = classes.len();
    (Tensor::from_vec(images, [count, 3, 32, 32]), Tensor::from_vec(classes, [count]))
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    std::fs::read(path).map_err(|why| Fault::Failed(format!("{}: {why}", path.display())))
}

/// A fault with the name of the file.
fn named<T>(path: &Path, result: Result<T, Fault>) -> Result<T, Fault> {
    result.map_err(|why| Fault::New(format!("{}: {why}", path.display())))
}

/// Two zeros, a dtype, the number of axes, their lengths in four bytes each, the numbers; the high byte comes first.
fn of_idx(bytes: &[u8]) -> Result<Tensor, Fault> {
    let Some((&[0, 0, kind, axes], rest)) = bytes.split_first_chunk() else {
        return refuse!("no IDX file: it starts with {:?}", &bytes[..bytes.len().min(4)]);
    };
    let Some((lengths, data)) = rest.split_at_checked(4 * usize::from(axes)) else {
        return refuse!("the file ends within the lengths of {axes} axes");
    };
    let length = |b: &[u8]| b.iter().fold(0usize, |n, &b| n << 8 | usize::from(b));
    let shape: Vec<usize> = lengths.chunks_exact(4).map(length).collect();
    let dtype = match kind {
        0x08 => DType::U8,
        0x09 => DType::I8,
        0x0b => DType::I16,
        0x0c => DType::I32,
        0x0d => DType::F32,
        0x0e => DType::F64,
        _ => return refuse!("{kind} is no dtype of IDX"),
    };
    let size = shape.iter().try_fold(dtype.size(), |all, &n| all.checked_mul(n));
    if size != Some(data.len()) {
        return refuse!("{} bytes are no {dtype} {shape:?}", data.len());
    }
    Ok(numbers(data, dtype, &shape))
}

fn numbers(data: &[u8], dtype: DType, shape: &[usize]) -> Tensor {
    macro_rules! read {
        ($t:ty) => {{
            let number = |b: &[u8]| <$t>::from_be_bytes(b.try_into().expect("whole numbers"));
            Tensor::from_vec(data.chunks_exact(size_of::<$t>()).map(number).collect(), shape)
        }};
    }
    match dtype {
        DType::I8 => read!(i8),
        DType::I16 => read!(i16),
        DType::I32 => read!(i32),
        DType::F32 => read!(f32),
        DType::F64 => read!(f64),
        _ => read!(u8),
    }
}
