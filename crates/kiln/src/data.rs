//! Data for training: items by number, and batches of them in an order of their own, made by other threads if asked to.

use crate::error::{Error, Fault, at_caller, refuse};
use crate::{Rng, Tensor};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

/// Files of data sets.
mod files;

pub use files::{Split, cifar10, cifar100, idx, mnist};

/// Items by number.
///
/// ```
/// use kiln::{Tensor, data::Dataset};
/// struct Squares;
/// impl Dataset for Squares {
///     fn len(&self) -> usize {
///         100
///     }
///     fn get(&self, i: usize) -> Vec<Tensor> {
///         vec![Tensor::from(i as f32), Tensor::from((i * i) as f32)]
///     }
/// }
/// assert_eq!(Squares.get(3)[1].item::<f32>()?, 9.0);
/// # Ok::<(), kiln::Error>(())
/// ```
pub trait Dataset: Send + Sync + 'static {
    /// The number of items.
    fn len(&self) -> usize;

    /// The tensors of item `i`, such as an image and its label: of each item as many, of the same shapes.
    fn get(&self, i: usize) -> Vec<Tensor>;

    /// The tensors of several items, each with a new first axis. What can do better than to stack them one by one does.
    fn batch(&self, items: &[usize]) -> Vec<Tensor> {
        let items: Vec<Vec<Tensor>> = items.iter().map(|&i| self.get(i)).collect();
        let fields = items.first().map_or(0, Vec::len);
        let field = |f: usize| Tensor::stack(items.iter().filter_map(|item| item.get(f)), 0);
        (0..fields).map(field).collect()
    }

    /// Whether there is no item.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Rows of tensors that have the same number of rows.
///
/// ```
/// use kiln::{Tensor, data::{Dataset, TensorDataset}};
/// let data = TensorDataset::new([Tensor::from([[1.0f32], [2.0]]), Tensor::from([0, 1])])?;
/// assert_eq!((data.len(), data.get(1)[1].item::<i32>()?), (2, 1));
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorDataset {
    tensors: Vec<Tensor>,
}

impl TensorDataset {
    /// Of tensors with one length of their first axis.
    ///
    /// ```
    /// use kiln::{Tensor, data::TensorDataset};
    /// assert!(TensorDataset::new([Tensor::ones([2]), Tensor::ones([3])]).is_err());
    /// ```
    ///
    /// # Errors
    /// No tensor; one without axes; lengths that differ; an error that a tensor carries.
    #[track_caller]
    pub fn new(tensors: impl Into<Vec<Tensor>>) -> Result<TensorDataset, Error> {
        let tensors = tensors.into();
        at_caller("TensorDataset", rows(&tensors))?;
        Ok(TensorDataset { tensors })
    }
}

fn rows(tensors: &[Tensor]) -> Result<(), Fault> {
    if let Some(error) = tensors.iter().find_map(Tensor::error) {
        return Err(error.into());
    }
    let lengths: Vec<Option<&usize>> = tensors.iter().map(|t| t.shape().first()).collect();
    match lengths.first() {
        Some(Some(_)) if lengths.iter().all(|n| *n == lengths[0]) => Ok(()),
        _ => refuse!("wants tensors of one number of rows, not {lengths:?}"),
    }
}

impl Dataset for TensorDataset {
    fn len(&self) -> usize {
        self.tensors[0].shape()[0]
    }

    fn get(&self, i: usize) -> Vec<Tensor> {
        self.tensors.iter().map(|t| t.select(0, i)).collect()
    }

    fn batch(&self, items: &[usize]) -> Vec<Tensor> {
        let items = Tensor::from(items.iter().map(|&i| i as i64).collect::<Vec<_>>());
        self.tensors.iter().map(|t| t.index_select(0, &items.to(t.device()))).collect()
    }
}

/// Batches of a data set.
///
/// ```
/// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
/// let data = TensorDataset::new([Tensor::arange(10)])?;
/// let loader = DataLoader::new(data, 4).shuffle(7).workers(2);
/// let sizes: Vec<usize> = loader.epoch(0).map(|batch| batch[0].numel()).collect();
/// assert_eq!(sizes, [4, 4, 2]);
/// # Ok::<(), kiln::Error>(())
/// ```
#[derive(Debug)]
pub struct DataLoader<D> {
    data: Arc<D>,
    size: usize,
    seed: Option<u64>,
    drop_last: bool,
    workers: usize,
}

/// How many batches each thread may be ahead.
const AHEAD: usize = 2;

impl<D: Dataset> DataLoader<D> {
    /// Batches of `size` items, of which there is 1 at least, in order.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::arange(10)])?, 4);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn new(data: D, size: usize) -> DataLoader<D> {
        let data = Arc::new(data);
        DataLoader { data, size: size.max(1), seed: None, drop_last: false, workers: 0 }
    }

    /// In another order in each epoch, which the seed and the epoch's number decide.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::arange(10)])?, 4).shuffle(7);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn shuffle(self, seed: u64) -> DataLoader<D> {
        DataLoader { seed: Some(seed), ..self }
    }

    /// Without a last batch that is smaller.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::arange(10)])?, 4).drop_last(true);
    /// assert_eq!(loader.batches(), 2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn drop_last(self, drop_last: bool) -> DataLoader<D> {
        DataLoader { drop_last, ..self }
    }

    /// With so many threads that make and compute batches ahead. The order stays the same.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::arange(10)])?, 4).workers(2);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn workers(self, workers: usize) -> DataLoader<D> {
        DataLoader { workers, ..self }
    }

    /// The number of batches of an epoch.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// assert_eq!(DataLoader::new(TensorDataset::new([Tensor::arange(10)])?, 4).batches(), 3);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn batches(&self) -> usize {
        match self.drop_last {
            true => self.data.len() / self.size,
            false => self.data.len().div_ceil(self.size),
        }
    }

    /// The batches of epoch `epoch`. A batch whose items do not fit together holds tensors that carry the error.
    ///
    /// ```
    /// use kiln::{Tensor, data::{DataLoader, TensorDataset}};
    /// let loader = DataLoader::new(TensorDataset::new([Tensor::arange(3)])?, 2);
    /// let batches: Vec<Vec<Tensor>> = loader.epoch(0).collect();
    /// assert_eq!(batches[1][0].to_vec::<i32>()?, [2]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn epoch(&self, epoch: u64) -> Batches<D> {
        let order = self.order(epoch).unwrap_or_default();
        let chunks: Vec<Vec<usize>> =
            order.chunks(self.size).take(self.batches()).map(<[usize]>::to_vec).collect();
        let chunks = Arc::new(chunks);
        let started = (0..self.workers).map(|w| self.worker(w, &chunks)).collect();
        Batches { data: self.data.clone(), chunks, next: 0, workers: started }
    }

    /// The numbers of the items: sorted by random keys, of equal keys the first item first.
    fn order(&self, epoch: u64) -> Result<Vec<usize>, Error> {
        let mut order: Vec<usize> = (0..self.data.len()).collect();
        if let Some(seed) = self.seed {
            let rng = Rng::new(seed ^ epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let keys = rng.rand_with([order.len()], crate::DType::F64).to_vec::<f64>()?;
            order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
        }
        Ok(order)
    }

    /// Starts thread `w`, which makes every so many-th batch.
    fn worker(&self, w: usize, chunks: &Arc<Vec<Vec<usize>>>) -> Receiver<Vec<Tensor>> {
        let (send, receive) = sync_channel(AHEAD);
        let (data, chunks, step) = (self.data.clone(), chunks.clone(), self.workers);
        thread::spawn(move || {
            for items in chunks.iter().skip(w).step_by(step) {
                let batch = data.batch(items);
                // an error stays in the batch, whose reader sees it
                let _ = crate::realize(&batch);
                if send.send(batch).is_err() {
                    return; // nobody takes batches any more
                }
            }
        });
        receive
    }
}

/// The batches of an epoch.
#[derive(Debug)]
pub struct Batches<D> {
    data: Arc<D>,
    chunks: Arc<Vec<Vec<usize>>>,
    next: usize,
    workers: Vec<Receiver<Vec<Tensor>>>,
}

impl<D: Dataset> Iterator for Batches<D> {
    type Item = Vec<Tensor>;

    fn next(&mut self) -> Option<Vec<Tensor>> {
        let items = self.chunks.get(self.next)?;
        self.next += 1;
        match self.workers.len() {
            0 => Some(self.data.batch(items)),
            // a thread that ended early has panicked in the data set: this thread makes the batch, or panics as it did
            n => {
                let made = self.workers[(self.next - 1) % n].recv();
                Some(made.unwrap_or_else(|_| self.data.batch(items)))
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.chunks.len() - self.next;
        (left, Some(left))
    }
}
