//! The order of elements. Of few, by counting which ones are before each; of many, by Batcher's bitonic network (Sorting
//! Networks and Their Applications, 1968): log^2 of the length steps, of which each compares all elements in pairs and is one
//! elementwise kernel.
//!
//! An element's key is an integer, and the element's position is a part of it. So no two keys are equal, equal elements
//! keep their order, and sorting keys is all there is to do: positions are read from sorted keys.

use super::elementwise::like;
use super::reduce::positions;
use kiln_ir::arg::{Axes, PadAxis, ReduceOp, Shape, SliceAxis};
use kiln_ir::{DType, Op, UOp};

/// Comparisons that are done at once: vectors do so many in the time of a few dozen kernels.
const COMPARISONS: usize = 1 << 22;

/// Columns that fill vectors: with fewer, the network works on several parts of a column at a time.
const LANES: usize = 64;

/// One of so many keys goes on to the next round of a selection.
const BLOCK: usize = 8;

/// The positions along the first axis of `x`, `[n, columns]`, in order; the first `count` of them. i32. `as_rows` says that
/// neighbours along that axis are neighbours in memory.
pub(super) fn first_places(x: &UOp, count: usize, descending: bool, as_rows: bool) -> UOp {
    let keys = Keys::of(x, descending);
    let keys = if count == x.shape()[0] { keys.sorted() } else { keys.first(count, as_rows) };
    keys.cut(count).places()
}

/// Positions in an axis of `n`, as anybody can tell by their bounds: then nobody looks whether they are.
pub(super) fn inside(places: &UOp, n: usize) -> UOp {
    places.maximum(&like(places, 0)).minimum(&like(places, n as i64 - 1))
}

/// The positions of numbers from 0 to 1, f64 along one axis, in their order; i32. Of the numbers as many bits decide as a
/// position leaves in a word.
pub(super) fn places_of_draws(x: &UOp) -> UOp {
    let n = x.numel();
    let bits = n.next_power_of_two().ilog2();
    let draw = (x * &like(x, 2f64.powi(63 - bits as i32))).cast(DType::I64);
    let word = draw * (1i64 << bits) + positions(x.shape(), 0).cast(DType::I64);
    let keys = Keys { words: vec![word.reshape(Shape::from_slice(&[n, 1]))] };
    let sorted = keys.sorted().cut(n).words.remove(0);
    (sorted & ((1i64 << bits) - 1)).cast(DType::I32).reshape(Shape::from_slice(&[n]))
}

/// Keys along the first axis, `[n, columns]`, as words of i64. The first word decides, the second one where those are equal.
/// One word is enough for elements of up to 32 bits: it has the element above the position.
struct Keys {
    words: Vec<UOp>,
}

/// A key behind all others.
const LAST: i64 = i64::MAX;

/// An integer for each element, in their order: NaN is above everything, and -0.0 equals 0.0.
pub(super) fn rank(x: &UOp) -> UOp {
    match x.dtype() {
        dtype if dtype.is_float() && dtype.size() < 4 => rank(&x.cast(DType::F32)),
        dtype if dtype.is_float() => {
            let same_zero = x.eq_(&like(x, 0)).where_(&like(x, 0), x);
            let same_nan = x.ne_(x).where_(&like(x, f64::NAN), &same_zero);
            let signed = if dtype == DType::F64 { DType::I64 } else { DType::I32 };
            let bits = same_nan.bitcast(signed);
            // the more bits a negative float has, the smaller it is
            let most = if dtype == DType::F64 { i64::MAX } else { i64::from(i32::MAX) };
            bits.lt(&like(&bits, 0)).where_(&(&bits ^ most), &bits).cast(DType::I64)
        }
        DType::U64 => x.bitcast(DType::I64) ^ i64::MIN,
        DType::U32 => x.cast(DType::I64) - (1i64 << 31),
        _ => x.cast(DType::I64),
    }
}

impl Keys {
    fn of(x: &UOp, descending: bool) -> Keys {
        let rank = if descending { rank(x) ^ -1 } else { rank(x) };
        let place = positions(x.shape(), 0).cast(DType::I64);
        let words = match x.dtype().size() {
            8 => vec![rank, place],
            _ => vec![rank * (1i64 << 32) + place],
        };
        Keys { words }
    }

    fn len(&self) -> usize {
        self.words[0].shape()[0]
    }

    fn columns(&self) -> usize {
        self.words[0].shape()[1]
    }

    fn map(&self, f: impl Fn(&UOp) -> UOp) -> Keys {
        Keys { words: self.words.iter().map(f).collect() }
    }

    /// The positions that the keys contain.
    fn places(&self) -> UOp {
        let place = self.words.last().expect("a key has a word");
        (place & 0xffff_ffff).cast(DType::I32)
    }

    /// The first `n` keys.
    fn cut(&self, n: usize) -> Keys {
        self.map(|word| word.slice(&[SliceAxis::full(n), SliceAxis::full(self.columns())]))
    }

    /// `n` keys, those that are missing behind all others.
    fn padded(&self, n: usize) -> Keys {
        let missing = n - self.len();
        if missing == 0 {
            return self.map(UOp::clone);
        }
        let pads = [PadAxis { after: missing, ..PadAxis::default() }, PadAxis::default()];
        let is_own = &positions(&[n, self.columns()], 0);
        let is_own = is_own.lt(&like(is_own, self.len()));
        self.map(|word| is_own.where_(&word.pad(&pads), &like(word, LAST)))
    }

    /// Whether a key is less than the other.
    fn before(&self, other: &Keys) -> UOp {
        let mut pairs = self.words.iter().zip(&other.words).rev();
        let (a, b) = pairs.next().expect("a key has a word");
        pairs.fold(a.lt(b), |rest, (a, b)| a.lt(b) | (a.eq_(b) & rest))
    }

    /// The later one of each key and the other, where that is asked for, else the earlier one.
    fn chosen(&self, other: &Keys, later: &UOp) -> Keys {
        if let ([own], [other]) = (&self.words[..], &other.words[..]) {
            let word = later.where_(&own.maximum(other), &own.minimum(other));
            return Keys { words: vec![word] };
        }
        let changes = other.before(self).eq_(&later.not());
        let pairs = self.words.iter().zip(&other.words);
        Keys { words: pairs.map(|(own, other)| changes.where_(other, own)).collect() }
    }

    /// So many steps of the network are one kernel, which computes what it needs of all but the last one for each of its keys.
    fn steps_together(&self) -> usize {
        if self.words.len() == 1 { 3 } else { 2 }
    }

    /// The least key of each column of `[n, length, columns]`.
    fn least(&self) -> Keys {
        let shape = self.words[0].shape().clone();
        let axes = Axes::from_slice(&[1]);
        let mut words: Vec<UOp> = Vec::new();
        let mut is_least = UOp::constant(true, DType::Bool).broadcast_to(&shape);
        for word in &self.words {
            let left = is_least.where_(word, &like(word, LAST));
            let least = left.reduce(ReduceOp::Min, axes.clone());
            let row = least.reshape(Shape::from_slice(&[shape[0], 1, shape[2]]));
            is_least = is_least & left.eq_(&row.expand(shape.clone()));
            words.push(least);
        }
        Keys { words }
    }

    /// The first `count` keys, in order. They are in the `count` blocks whose least keys come first.
    fn first(&self, count: usize, as_rows: bool) -> Keys {
        if self.len() <= BLOCK * count || self.is_short() {
            return self.sorted().cut(count);
        }
        let columns = self.columns();
        let blocks = self.len().div_ceil(BLOCK);
        let all = self.padded(blocks * BLOCK);
        let leaders = all.map(|word| word.reshape(Shape::from_slice(&[blocks, BLOCK, columns])));
        // a leader is known by its block: blocks are in the order of positions
        let leaders = leaders.least().numbered().stored(as_rows);
        let chosen = leaders.first(count, as_rows).places();
        let at = all.of_blocks(&chosen);
        let candidates = all.map(|word| word.gather(&at));
        candidates.sorted().cut(count)
    }

    /// The same keys, whose positions are those among themselves. Their order stays.
    fn numbered(&self) -> Keys {
        let place = positions(self.words[0].shape(), 0).cast(DType::I64);
        let mut words = self.words.clone();
        match &mut words[..] {
            [only] => *only = (&*only & !0xffff_ffff) + place,
            [.., last] => *last = place,
            [] => {}
        }
        Keys { words }
    }

    /// The same keys in memory, in the order of what they are computed from, so that it is read in order.
    fn stored(&self, as_rows: bool) -> Keys {
        let axes = if as_rows { [1, 0] } else { [0, 1] };
        self.map(|word| word.permute(&axes[..]).contiguous().permute(&axes[..]))
    }

    /// The positions in memory of all keys of these blocks, `[blocks, columns]`.
    fn of_blocks(&self, blocks: &UOp) -> UOp {
        let (count, columns) = (blocks.shape()[0], self.columns());
        let shape = Shape::from_slice(&[count, BLOCK, columns]);
        let block = blocks.cast(DType::I64).reshape(Shape::from_slice(&[count, 1, columns]));
        let inside = positions(&shape, 1).cast(DType::I64);
        let row = block.expand(shape.clone()) * BLOCK as i64 + inside;
        let at = row * columns as i64 + positions(&shape, 2).cast(DType::I64);
        at.reshape(Shape::from_slice(&[count * BLOCK, columns]))
    }

    fn sorted(&self) -> Keys {
        if self.is_short() { self.by_counting() } else { self.by_network() }
    }

    /// Whether each key may be compared with all others of its column.
    fn is_short(&self) -> bool {
        self.len() * self.words[0].numel() <= COMPARISONS
    }

    /// A key's place is the number of keys before it.
    fn by_counting(&self) -> Keys {
        let (n, columns) = (self.len(), self.columns());
        let flat = Shape::from_slice(&[columns * n]);
        let keys = self.map(|word| word.permute(&[1, 0][..]).reshape(flat.clone()).contiguous());
        let pairs = Shape::from_slice(&[columns, n, n]);
        let by = |axis: usize| {
            let mut one = pairs.clone();
            one[axis] = 1;
            keys.map(|word| word.reshape(one.clone()).expand(pairs.clone()))
        };
        let before = by(1).before(&by(2)).cast(DType::I64);
        let place = before.reduce(ReduceOp::Add, Axes::from_slice(&[2]));
        let start = positions(place.shape(), 0).cast(DType::I64) * n as i64;
        let at = (start + place).reshape(flat.clone()).contiguous();
        let rows = Shape::from_slice(&[columns, n]);
        let put = |word: &UOp| like(word, 0).broadcast_to(word.shape()).update(word, &at);
        keys.map(|word| put(word).reshape(rows.clone()).permute(&[1, 0][..]))
    }

    fn by_network(&self) -> Keys {
        let (n, columns) = (self.len().next_power_of_two(), self.columns());
        let bits = n.ilog2() as usize;
        // with few columns each is two axes, of which one is compared along and the other one fills vectors
        let low = if columns < LANES { bits / 2 } else { bits };
        let sizes = [1 << low, n >> low, columns];
        let keys = self.padded(n);
        let flat = Shape::from_slice(&[sizes[0], sizes[1] * columns]);
        let keys = keys.map(|word| word.reshape(flat.clone()).contiguous());
        let mut network = Network { keys, sizes, is_low: true };
        (0..bits).for_each(|level| network.merge(level));
        network.in_order()
    }
}

/// Keys on their way through the network.
///
/// The number of a key has as many bits as there are steps at each level; a step compares keys whose numbers differ in one
/// bit. The low bits of the number are one axis and the high bits another. The axis whose bits are compared is
/// outermost in memory, so that neighbours in memory are compared with neighbours.
struct Network {
    /// `[low, high * columns]`, or `[high, low * columns]`.
    keys: Keys,
    /// How long the axes `low`, `high` and `columns` are.
    sizes: [usize; 3],
    /// Whether the axis of the low bits is outermost.
    is_low: bool,
}

impl Network {
    /// The axes as they are in memory.
    fn shape(&self) -> Shape {
        let [low, high, columns] = self.sizes;
        if self.is_low { [low, high, columns] } else { [high, low, columns] }.into_iter().collect()
    }

    fn low_bits(&self) -> usize {
        self.sizes[0].ilog2() as usize
    }

    /// Merges pairs of blocks of `2^level` keys that are in order.
    fn merge(&mut self, level: usize) {
        self.mirror(level);
        // steps that are not computed yet
        let mut steps = 0;
        for bit in (0..=level).rev() {
            if (bit < self.low_bits()) != self.is_low {
                if steps > 0 {
                    self.store();
                }
                self.swap_axes();
                steps = 0;
            }
            let own = if self.is_low { bit } else { bit - self.low_bits() };
            self.exchange(1 << own);
            steps += 1;
            if bit == 0 || steps == self.keys.steps_together() {
                self.store();
                steps = 0;
            }
        }
    }

    fn store(&mut self) {
        self.keys = self.keys.map(UOp::contiguous);
    }

    /// Merging takes a rising block and a falling one. A block to be merged as falling is stored as its complement, which rises.
    fn mirror(&mut self, level: usize) {
        let changes = match (self.bit(level).filter(|_| level > 0), self.bit(level + 1)) {
            (Some(before), Some(now)) => before ^ now,
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return,
        };
        let flat = self.keys.words[0].shape().clone();
        let complement = (-&changes).reshape(flat);
        self.keys = self.keys.map(|word| word ^ &complement);
    }

    /// A bit of each key's number, by axes in memory; none if numbers have fewer bits.
    fn bit(&self, bit: usize) -> Option<UOp> {
        let low = self.low_bits();
        let (is_low, bit) = if bit < low { (true, bit) } else { (false, bit - low) };
        let length = self.sizes[usize::from(!is_low)];
        let number = positions(&self.shape(), usize::from(is_low != self.is_low)).cast(DType::I64);
        let shifted = UOp::binary(Op::Shr, &number, &like(&number, bit));
        (1 << bit < length).then(|| shifted & 1)
    }

    /// Both keys of each pair in order: pairs are `half` apart in blocks of twice that.
    fn exchange(&mut self, half: usize) {
        let flat = self.keys.words[0].shape().clone();
        let split = Shape::from_slice(&[flat[0] / (2 * half), 2, half * flat[1]]);
        let turned = [
            SliceAxis::full(split[0]),
            SliceAxis { start: 1, step: -1, len: 2 },
            SliceAxis::full(split[2]),
        ];
        let keys = self.keys.map(|word| word.reshape(split.clone()));
        let others = keys.map(|word| word.slice(&turned));
        let side = positions(&split, 1);
        self.keys = keys.chosen(&others, &side.eq_(&like(&side, 1)));
        self.keys = self.keys.map(|word| word.reshape(flat.clone()));
    }

    /// Makes the other axis the outermost.
    fn swap_axes(&mut self) {
        let swapped = self.swapped();
        let [outer, inner, columns] = [0, 1, 2].map(|axis| self.shape()[axis]);
        let flat = Shape::from_slice(&[inner, outer * columns]);
        self.keys = swapped.map(|word| word.reshape(flat.clone()).contiguous());
        self.is_low = !self.is_low;
    }

    /// The keys by axes, with the first two swapped.
    fn swapped(&self) -> Keys {
        let axes = Axes::from_slice(&[1, 0, 2]);
        self.keys.map(|word| word.reshape(self.shape()).permute(axes.clone()))
    }

    /// The keys by their numbers.
    fn in_order(&self) -> Keys {
        let [low, high, columns] = self.sizes;
        let flat = Shape::from_slice(&[low * high, columns]);
        self.swapped().map(|word| word.reshape(flat.clone()))
    }
}
