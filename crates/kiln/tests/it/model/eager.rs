//! What programs mean: every line runs at once, on bytes. A storage is a list of bytes, a handle says which of them each
//! byte of its elements is. There is nothing else: no laziness, no strides, no versions.

use super::program::{Ix, Num, View};
use kiln::DType;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

thread_local! {
    /// Bytes of all storages of this thread, now and at most.
    static BYTES: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// The most bytes that `f` had at once.
pub(super) fn peak<R>(f: impl FnOnce() -> R) -> (R, usize) {
    let before = BYTES.get().0;
    BYTES.set((before, before));
    let result = f();
    (result, BYTES.get().1 - before)
}

struct Storage {
    dtype: DType,
    bytes: RefCell<Vec<u8>>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        let (now, most) = BYTES.get();
        BYTES.set((now - self.bytes.borrow().len(), most));
    }
}

/// A storage and, for every byte of every element in row-major order, which of its bytes that is.
#[derive(Clone)]
pub(super) struct Handle {
    storage: Rc<Storage>,
    pub(super) shape: Vec<usize>,
    pub(super) dtype: DType,
    at: Vec<usize>,
    expanded: Expanded,
}

/// What became of a view's expansions. kiln asks the movements, not the elements, whether some repeat: through a reshape
/// of what repeats, and where there are no elements, it refuses what would be fine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Expanded {
    Never,
    Plainly,
    Blurred,
}

/// An index of which tensors are values.
pub(super) enum Pick<'a> {
    Plain(&'a Ix),
    Tensor(Handle),
}

impl Pick<'_> {
    fn axes(&self) -> usize {
        match self {
            Pick::Plain(Ix::Ellipsis | Ix::NewAxis) => 0,
            Pick::Tensor(t) if t.dtype == DType::Bool => t.shape.len(),
            _ => 1,
        }
    }
}

impl Handle {
    pub(super) fn new(shape: &[usize], dtype: DType, elements: &[Num]) -> Handle {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.encode(dtype)).collect();
        let (now, most) = BYTES.get();
        BYTES.set((now + bytes.len(), most.max(now + bytes.len())));
        let at = (0..bytes.len()).collect();
        let storage = Rc::new(Storage { dtype, bytes: RefCell::new(bytes) });
        Handle { storage, shape: shape.to_vec(), dtype, at, expanded: Expanded::Never }
    }

    pub(super) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn aliases(&self, other: &Handle) -> bool {
        Rc::ptr_eq(&self.storage, &other.storage)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let bytes = self.storage.bytes.borrow();
        self.at.iter().map(|&i| bytes[i]).collect()
    }

    /// All bytes of the storage.
    pub(super) fn saved(&self) -> Vec<u8> {
        self.storage.bytes.borrow().clone()
    }

    /// Makes the storage what it was when these bytes were saved.
    pub(super) fn restore(&self, saved: Vec<u8>) {
        *self.storage.bytes.borrow_mut() = saved;
    }

    /// Which element of the storage each element is, for a view that goes by whole elements.
    pub(super) fn numbers(&self) -> Vec<usize> {
        let size = self.dtype.size();
        self.at.iter().step_by(size).map(|at| at / size).collect()
    }

    /// Whether some byte is shown twice.
    pub(super) fn repeats(&self) -> bool {
        let mut seen = vec![false; self.storage.bytes.borrow().len()];
        self.at.iter().any(|&i| std::mem::replace(&mut seen[i], true))
    }

    /// Whether kiln may take it for a view that repeats something though it does not.
    fn is_unclear(&self) -> bool {
        match self.expanded {
            Expanded::Never => false,
            Expanded::Plainly => self.numel() == 0,
            Expanded::Blurred => true,
        }
    }

    /// Writes elements, given as bytes. None, and no change, where the view shows a byte twice, or a float would become
    /// something that devices need not keep.
    pub(super) fn write(&self, new: &[u8]) -> Option<()> {
        if self.repeats() || self.is_unclear() {
            return None;
        }
        self.write_in_order(new)
    }

    /// The same; where a byte is shown twice the last one stays.
    pub(super) fn write_in_order(&self, new: &[u8]) -> Option<()> {
        let old = self.storage.bytes.borrow().clone();
        {
            let mut bytes = self.storage.bytes.borrow_mut();
            self.at.iter().zip(new).for_each(|(&i, &b)| bytes[i] = b);
        }
        let whole = elements(self.storage.dtype, &self.storage.bytes.borrow());
        if whole.is_none() {
            *self.storage.bytes.borrow_mut() = old;
        }
        whole.map(|_| ())
    }

    /// The elements, unless there are some that devices may treat each in its own way: NaNs have no payload.
    pub(super) fn elements(&self) -> Option<Vec<Num>> {
        elements(self.dtype, &self.bytes())
    }

    /// The elements, if arithmetic with them is exact.
    pub(super) fn exact(&self) -> Option<Vec<Num>> {
        self.elements().filter(|all| all.iter().all(|x| x.is_exact()))
    }

    /// Row-major distances of the axes.
    fn strides(&self) -> Vec<usize> {
        (0..self.shape.len()).map(|axis| self.shape[axis + 1..].iter().product()).collect()
    }

    /// A view whose axes go through these distances from the first element.
    fn axes(&self, axes: &[Vec<usize>]) -> Handle {
        let size = self.dtype.size();
        let at = all_of(axes).iter().flat_map(|&e| &self.at[e * size..][..size]).copied().collect();
        Handle { shape: axes.iter().map(Vec::len).collect(), at, ..self.clone() }
    }

    fn all_axes(&self) -> Vec<Vec<usize>> {
        let axis = |(&n, s): (&usize, usize)| (0..n).map(|i| i * s).collect();
        self.shape.iter().zip(self.strides()).map(axis).collect()
    }

    pub(super) fn reshape(&self, shape: &[usize]) -> Option<Handle> {
        let fits = shape.iter().product::<usize>() == self.numel();
        fits.then(|| Handle { shape: shape.to_vec(), ..self.clone() })
    }

    fn permute(&self, order: &[usize]) -> Option<Handle> {
        let is_order =
            order.len() == self.shape.len() && (0..order.len()).all(|a| order.contains(&a));
        let axes = self.all_axes();
        is_order.then(|| self.axes(&order.iter().map(|&a| axes[a].clone()).collect::<Vec<_>>()))
    }

    fn flip(&self, axis: usize) -> Option<Handle> {
        let mut axes = self.all_axes();
        axes.get_mut(axis)?.reverse();
        Some(self.axes(&axes))
    }

    /// As NumPy broadcasts.
    pub(super) fn expand(&self, shape: &[usize]) -> Option<Handle> {
        let missing = shape.len().checked_sub(self.shape.len())?;
        let padded = [vec![1; missing], self.shape.clone()].concat();
        let fits = padded.iter().zip(shape).all(|(&old, &new)| old == new || old == 1);
        let mut axes = self.reshape(&padded)?.all_axes();
        axes.iter_mut().zip(shape).for_each(|(axis, &n)| {
            if axis.len() == 1 {
                *axis = vec![axis[0]; n];
            }
        });
        fits.then(|| self.axes(&axes))
    }

    fn bitcast(&self, dtype: DType) -> Option<Handle> {
        if (dtype == DType::Bool) != (self.dtype == DType::Bool) {
            return None;
        }
        let mut shape = self.shape.clone();
        if dtype.size() != self.dtype.size() {
            let bytes = shape.last()? * self.dtype.size();
            *shape.last_mut()? = bytes / dtype.size();
            if !bytes.is_multiple_of(dtype.size()) {
                return None;
            }
        }
        Some(Handle { shape, dtype, ..self.clone() })
    }

    /// The elements that indices pick. With tensors among them it is what `get` copies and `set` writes, in this order.
    pub(super) fn get(&self, index: &[Pick<'_>]) -> Option<Handle> {
        let taken: usize = index.iter().map(Pick::axes).sum();
        let rest = self.shape.len().checked_sub(taken)?;
        let mut own = self.all_axes().into_iter();
        let (mut kept, mut picked, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for pick in index {
            match pick {
                Pick::Plain(Ix::Slice(start, stop, step)) => {
                    let axis = own.next()?;
                    kept.push(slice(*start, *stop, *step, axis.len())?.map(|i| axis[i]).collect());
                }
                Pick::Plain(Ix::Ellipsis) => kept.extend(own.by_ref().take(rest)),
                Pick::Plain(Ix::NewAxis) => kept.push(vec![0]),
                Pick::Plain(Ix::At(i)) => {
                    picked.push(positions(&own.next()?, &[], &[*i])?);
                    places.push(kept.len());
                }
                Pick::Plain(Ix::List(at)) => {
                    picked.push(positions(&own.next()?, &[at.len()], at)?);
                    places.push(kept.len());
                }
                Pick::Plain(Ix::Tensor(_)) => unreachable!("a value by now"),
                Pick::Tensor(t) => {
                    let axes: Vec<Vec<usize>> = own.by_ref().take(pick.axes()).collect();
                    picked.push(t.picks(&axes)?);
                    places.push(kept.len());
                }
            }
        }
        kept.extend(own);
        // side by side the picks stand where they are, else in front
        let neighbours = places.windows(2).all(|w| w[0] == w[1]);
        let place = places.first().copied().filter(|_| neighbours).unwrap_or(0);
        let across = picked.iter().try_fold(Vec::new(), |all, p| broadcast(&all, &p.shape))?;
        let mut offsets = vec![0; across.iter().product()];
        for pick in &picked {
            let own = pick.expand(&across)?.integers()?;
            offsets.iter_mut().zip(own).for_each(|(sum, offset)| *sum += offset as usize);
        }
        let lengths = |axes: &[Vec<usize>]| axes.iter().map(Vec::len).collect::<Vec<_>>();
        let shape = [lengths(&kept[..place]), across, lengths(&kept[place..])].concat();
        kept.insert(place, offsets);
        let ellipses = index.iter().filter(|p| matches!(p, Pick::Plain(Ix::Ellipsis))).count();
        if ellipses > 1 { None } else { self.axes(&kept).reshape(&shape) }
    }

    /// The offsets that this index has along axes of these offsets: positions along one, or a mask over several.
    fn picks(&self, axes: &[Vec<usize>]) -> Option<Handle> {
        let numbers = self.integers().filter(|_| !self.dtype.is_float())?;
        if self.dtype != DType::Bool {
            return positions(&axes[0], &self.shape, &numbers);
        }
        if !self.shape.iter().eq(axes.iter().map(Vec::len).collect::<Vec<_>>().iter()) {
            return None;
        }
        let chosen = all_of(axes).into_iter().zip(&numbers).filter(|(_, is)| **is != 0);
        let chosen: Vec<Num> = chosen.map(|(offset, _)| Num::Int(offset as i64)).collect();
        Some(Handle::new(&[chosen.len()], DType::I64, &chosen))
    }

    /// The elements of an index.
    pub(super) fn integers(&self) -> Option<Vec<i64>> {
        let integer = |x: Num| match x {
            Num::Int(i) => Some(i),
            Num::Float(_) => None,
        };
        self.elements()?.into_iter().map(integer).collect()
    }

    pub(super) fn view(&self, view: &View) -> Option<Handle> {
        let seen = match view {
            View::Get(index) => self.get(&index.iter().map(Pick::Plain).collect::<Vec<_>>()),
            View::Reshape(shape) => self.reshape(shape),
            View::Permute(order) => self.permute(order),
            View::Flip(axis) => self.flip(*axis),
            View::Expand(shape) => self.expand(shape),
            View::Bitcast(dtype) => self.bitcast(*dtype),
            View::Detach | View::Clone | View::Here => Some(self.clone()),
        };
        let reshapes = match view {
            View::Reshape(_) | View::Bitcast(_) | View::Expand(_) => true,
            View::Get(index) => index.iter().any(|i| matches!(i, Ix::At(_) | Ix::NewAxis)),
            View::Permute(_) | View::Flip(_) | View::Detach | View::Clone | View::Here => false,
        };
        seen.map(|seen| self.noting(seen, matches!(view, View::Expand(_)), reshapes))
    }

    /// What is `seen` of this, with what became of expansions.
    fn noting(&self, mut seen: Handle, expands: bool, reshapes: bool) -> Handle {
        if expands && seen.shape != self.shape {
            seen.expanded = seen.expanded.max(Expanded::Plainly);
        }
        if reshapes && self.expanded != Expanded::Never && (seen.repeats() || seen.numel() == 0) {
            seen.expanded = Expanded::Blurred;
        }
        seen
    }

    /// Whether an expansion is among what made the view.
    pub(super) fn is_expanded(&self) -> bool {
        self.expanded != Expanded::Never
    }
}

/// All sums of one offset of each axis, row-major.
fn all_of(axes: &[Vec<usize>]) -> Vec<usize> {
    let next = |all: Vec<usize>, axis: &Vec<usize>| {
        all.iter().flat_map(|e| axis.iter().map(move |i| e + i)).collect()
    };
    axes.iter().fold(vec![0], next)
}

/// The offsets at positions along an axis, some counted from its end, if they are there.
fn positions(axis: &[usize], shape: &[usize], at: &[i64]) -> Option<Handle> {
    let offset = |&i: &i64| {
        let i = if i < 0 { i + axis.len() as i64 } else { i };
        Some(Num::Int(*axis.get(usize::try_from(i).ok()?)? as i64))
    };
    let offsets: Vec<Num> = at.iter().map(offset).collect::<Option<_>>()?;
    Some(Handle::new(shape, DType::I64, &offsets))
}

/// The shape that two broadcast to.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let length = |shape: &[usize], axis: usize| {
        (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis])
    };
    let one = |axis| match (length(a, axis), length(b, axis)) {
        (m, n) if m == n || n == 1 => Some(m),
        (1, n) => Some(n),
        _ => None,
    };
    (0..rank).map(one).collect()
}

fn elements(dtype: DType, bytes: &[u8]) -> Option<Vec<Num>> {
    let all: Vec<Num> = bytes.chunks(dtype.size()).map(|b| Num::decode(dtype, b)).collect();
    let fine = |x: &Num| !matches!(x, Num::Float(f) if !f.is_finite());
    all.iter().all(fine).then_some(all)
}

/// The positions that Python's `start:stop:step` picks of `n`.
fn slice(
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    n: usize,
) -> Option<impl Iterator<Item = usize>> {
    let n = n as i64;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |i: i64| if i < 0 { i + n } else { i }.clamp(low, high);
    let (first, end) = if step > 0 { (low, high) } else { (high, low) };
    let (first, end) = (start.map_or(first, place), stop.map_or(end, place));
    let inside = move |i: &i64| if step > 0 { *i < end } else { *i > end };
    (step != 0).then(|| {
        std::iter::successors(Some(first), move |i| Some(i + step))
            .take_while(inside)
            .map(|i| i as usize)
    })
}
