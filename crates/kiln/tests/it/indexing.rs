//! Indexing by tensors, lists and masks: NumPy's rules against a model that follows their text, element by element.

use kiln::{DType, Index, Indices, Length, Reduction, Rng, Tensor, measure, realize, s, testing};
use kiln_ir::text;

fn ints(t: &Tensor) -> Vec<i32> {
    t.to_vec().expect("readable")
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("readable")
}

fn grid() -> Tensor {
    Tensor::arange(24).reshape([2, 3, 4])
}

/// Why reading fails.
fn why(t: &Tensor) -> String {
    t.error().expect("an error").to_string()
}

/// The same numbers, which nothing knows before they are computed.
fn unknown(t: &Tensor) -> Tensor {
    t * Tensor::from(1).cast(t.dtype()).realize().expect("computed")
}

#[test]
fn lists_and_tensors_of_every_kind() {
    let t = grid();
    let (list, index) = (vec![1usize, 0], Tensor::from([1, 0]));
    let expected = ints(&Tensor::stack([t.get(s![1]), t.get(s![0])], 0));
    for picked in [
        t.get(s![[1, 0]]),
        t.get(s![&[1, 0]]),
        t.get(s![vec![1, 0]]),
        t.get(s![&list]),
        t.get(s![&list[..]]),
        t.get(s![[1u8, 0]]),
        t.get(s![[-1i64, 0]]),
        t.get(s![&index]),
        t.get(s![index.cast(DType::U64)]),
        t.get(s![unknown(&index)]),
        t.get(s![[1, 0], ..]),
        t.get(s![[1, 0], ..., ..]),
    ] {
        assert_eq!((picked.shape(), ints(&picked)), (&[2, 3, 4][..], expected.clone()));
    }
    assert_eq!(t.get(s![vec![vec![0, 1], vec![1, 1]]]).shape(), [2, 2, 3, 4]);
    assert_eq!(t.get(s![Tensor::from(1)]).shape(), [3, 4]);
    assert_eq!(t.get(s![.., Vec::<i32>::new()]).shape(), [2, 0, 4]);
    assert_eq!(t.get(s![[true, false], 1]).to_vec::<i32>().unwrap(), [4, 5, 6, 7]);
    assert_eq!(t.get(s![[[true, false, false], [false, false, true]], 0]).shape(), [2]);
    let (rows, columns) = (Tensor::from([[0], [1]]), Tensor::from([3, 1]));
    assert_eq!(ints(&t.get(s![&rows, 0, &columns])), [3, 1, 15, 13]);
}

#[test]
fn where_the_picked_axes_stand() {
    let t = Tensor::zeros([2, 3, 4, 5]);
    let (i, j) = (&Tensor::zeros_with([7, 1], DType::I32), &Tensor::zeros_with([6], DType::I32));
    for (picked, shape) in [
        (t.get(s![.., i, j]), &[2, 7, 6, 5][..]),
        (t.get(s![i, .., j]), &[7, 6, 3, 5]),
        (t.get(s![.., i, .., j]), &[7, 6, 2, 4]),
        (t.get(s![0, .., j]), &[6, 3, 5]),
        (t.get(s![.., 0, j]), &[2, 6, 5]),
        (t.get(s![.., j, 0]), &[2, 6, 5]),
        (t.get(s![0, j, ..]), &[6, 4, 5]),
        (t.get(s![j, NewAxis, i]), &[7, 6, 1, 4, 5]),
        (t.get(s![NewAxis, j]), &[1, 6, 3, 4, 5]),
        (t.get(s![i, ..., j]), &[7, 6, 3, 4]),
        (t.get(s![.., i, ..., 0, j]), &[7, 6, 2]),
        (t.get(s![.., .., ..2, j]), &[2, 3, 2, 6]),
    ] {
        assert_eq!(picked.shape(), shape);
    }
    let row = Tensor::zeros([3, 4]);
    assert_eq!(row.get(s![j, ..., j]).shape(), [6]);
    assert_eq!(row.get(s![j, ..., NewAxis, j]).shape(), [6, 1]);
}

#[test]
fn masks_pick_and_write() {
    let t = Tensor::from([[1, -2, 3], [-4, 5, -6]]);
    assert_eq!(ints(&t.get(s![t.lt(0)])), [-2, -4, -6]);
    assert_eq!(ints(&t.get(s![.., t.sum(0).lt(0)])), [1, 3, -4, -6]);
    assert_eq!(ints(&t.get(s![[false, true]])), [-4, 5, -6]);
    assert_eq!(t.get(s![t.gt(100)]).shape(), [0]);
    t.set(s![t.lt(0)], 0);
    assert_eq!(ints(&t), [1, 0, 3, 0, 5, 0]);
    t.set(s![t.gt(0)], Tensor::from([7, 8, 9]));
    assert_eq!(ints(&t), [7, 0, 8, 0, 9, 0]);
    t.set(s![[true, false]], Tensor::from([4, 5, 6]));
    assert_eq!(ints(&t), [4, 5, 6, 0, 9, 0]);
    t.set(s![.., [true, false, true]], Tensor::from([[1], [2]]));
    assert_eq!(ints(&t), [1, 5, 1, 2, 9, 2]);
    t.set(s![0, [true, true, false]], Tensor::from([30, 40]));
    assert_eq!(ints(&t), [30, 40, 1, 2, 9, 2]);
    assert!(t.try_set(s![t.gt(0)], Tensor::from([1, 2])).is_err());
    assert_eq!(ints(&t.masked_select(&Tensor::from([true, false, true]))), [30, 1, 2, 2]);
    assert_eq!(ints(&t.masked_fill(&t.gt(8), -1)), [-1, -1, 1, 2, -1, 2]);
    let at = t.lt(3).nonzero();
    assert_eq!((at.shape(), at.dtype()), (&[3, 2][..], DType::I64));
    assert_eq!(at.to_vec::<i64>().unwrap(), [0, 2, 1, 0, 1, 2]);
    assert_eq!(Tensor::from(3).nonzero().shape(), [1, 0]);
    assert_eq!(Tensor::from(3).get(s![Tensor::from(true)]).shape(), [1]);
    assert_eq!(t.get(s![Tensor::from(false)]).shape(), [0, 2, 3]);
    t.get(s![1..1]).set(s![Tensor::from_vec::<bool>(vec![], [0])], 9);
    assert_eq!(ints(&t), [30, 40, 1, 2, 9, 2]);
}

#[test]
fn the_last_of_equal_positions_counts() {
    let t = Tensor::zeros_with([4], DType::I32);
    t.set(s![[1, 3, 1, -1, 1]], Tensor::from([1, 2, 3, 4, 5]));
    assert_eq!(ints(&t), [0, 5, 0, 4]);
    let index = unknown(&Tensor::from([2, 2, 0]));
    t.set(s![&index], Tensor::arange(3));
    assert_eq!(ints(&t), [2, 5, 1, 4]);
    let rows = Tensor::zeros_with([2, 2], DType::I32);
    rows.set(s![[0, 0, 0]], Tensor::from([[1, 2], [3, 4], [5, 6]]));
    assert_eq!(ints(&rows), [5, 6, 0, 0]);
}

#[test]
fn writes_go_through_every_view() {
    let index = &unknown(&Tensor::from([2, 0]));
    let t = grid();
    t.permute([2, 0, 1]).set(s![index, 1], -1);
    assert_eq!(ints(&t.get(s![1])), [-1, 13, -1, 15, -1, 17, -1, 19, -1, 21, -1, 23]);
    let t = grid();
    t.get(s![1, ..;-1, 1..]).set(s![index, index], Tensor::from([-1, -2]));
    assert_eq!(ints(&t.get(s![1])), [12, 13, 14, -1, 16, 17, 18, 19, 20, -2, 22, 23]);
    let t = grid();
    // no strides describe this view
    t.permute([2, 1, 0]).reshape([24]).set(s![index], Tensor::from([-1, -2]));
    assert_eq!(ints(&t.get(s![.., ..2, 0])), [-2, -1, 12, 16]);
    let t = Tensor::from([1.0f32, 2.0, 3.0]);
    t.bitcast(DType::U32).set(s![index], 0x4080_0000u32);
    assert_eq!(floats(&t), [4.0, 2.0, 4.0]);
    let t = Tensor::from([1.0f32, 2.0]);
    t.bitcast(DType::U16).set(s![[1, -1]], 0x4080);
    assert_eq!(floats(&t), [4.0, 4.0]);
    let t = Tensor::zeros([3]);
    t.detach().set(s![index], &Tensor::from([1.0f32, 2.0]));
    assert_eq!(floats(&t), [2.0, 0.0, 1.0]);
}

#[test]
fn a_picked_value_is_a_copy() {
    let t = Tensor::from([1, 2, 3]);
    let mut picked = t.get(s![[0, 1]]);
    picked += 10;
    t.get(s![[0, 1]]).add_assign(100);
    assert_eq!((ints(&picked), ints(&t)), (vec![11, 12], vec![1, 2, 3]));
    t.set(s![[0]], 9);
    assert_eq!(ints(&picked), [11, 12]);
    let own = &Tensor::from([2, 0, 1]);
    own.set(s![own], own);
    assert_eq!(ints(own), [0, 1, 2]);
}

#[test]
fn what_is_out_of_range_is_named() {
    let t = grid();
    for (bad, text) in [
        (t.get(s![[0, 2]]), "get: index 2 is out of range for axis 0 of length 2"),
        (t.get(s![.., [0, -4]]), "get: index -4 is out of range for axis 1 of length 3"),
        (
            t.get(s![.., Tensor::from([1, 3])]),
            "get: index 3 is out of range for axis 1 of length 3",
        ),
        (t.get(s![Tensor::arange(5).get(s![3..])]), "get: index 3 is out of range for axis 0"),
        (t.get(s![Tensor::full([3], 9)]), "get: index 9 is out of range for axis 0"),
        (t.get(s![[u64::MAX]]), "get: index 9223372036854775807 is out of range"),
        (t.gather(0, &Tensor::full([2, 3, 4], -3)), "gather: index -3 is out of range for axis 0"),
        (t.index_select(2, &Tensor::from([4u8])), "index_select: index 4 is out of range"),
        (t.take(&Tensor::from([24])), "take: index 24 is out of range for axis 0 of length 24"),
        (t.get(s![Tensor::from([0.5])]), "get: indices are integers or bool, not f64"),
        (t.get(s![[0, 1], [0, 1, 1]]), "get: indices do not broadcast, shapes [[2], [3]]"),
        (t.get(s![[true, false, true]]), "get: a mask of shape [3] does not fit axes of [2]"),
        (t.get(s![[0], [0], [0], [0]]), "get: 4 indices for 3 axes"),
        (t.get(s![vec![vec![0], vec![0, 1]]]), "get: rows of an index differ in length"),
        (t.get(s![Tensor::from([0]).to("interp")]), "get: the index is on INTERP"),
        (Tensor::zeros([0]).get(s![[0]]), "get: index 0 is out of range for axis 0 of length 0"),
        (t.gather(0, &Tensor::from([0])), "gather: an index of [1] does not lie inside"),
        (
            t.scatter(0, &Tensor::zeros_with([1, 1, 1], DType::I32), Tensor::from([[[0.5]]])),
            "scatter: f64 does not go into i32",
        ),
        (t.scatter_reduce(0, &grid().full_like(0), &t, "max", true), "scatter_reduce: \"max\""),
        (
            t.index_add(0, &Tensor::from([0, 0]), &Tensor::zeros_with([3], DType::I32)),
            "index_add: value",
        ),
    ] {
        let found = bad.error().map_or(format!("no error of {text}"), |e| e.to_string());
        assert!(found.starts_with(text) && found.contains("indexing.rs"), "{text}: {found}");
    }
    assert_eq!(t.get(s![Tensor::arange(5).get(s![1..2])]).shape(), [1, 3, 4]);
    let error = t.try_set(s![[0, 7]], 1).expect_err("out of range").to_string();
    assert!(error.starts_with("set: index 7 is out of range for axis 0 of length 2"), "{error}");
    assert!(t.error().is_none());
    t.set(s![.., [3]], 1);
    assert!(t.error().is_some());
}

#[test]
fn gathers_and_scatters() {
    let t = Tensor::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    let index = &Tensor::from([[0i64, 2, 0], [1, 1, 1]]);
    assert_eq!(floats(&t.gather(1, index)), [1.0, 3.0, 1.0, 5.0, 5.0, 5.0]);
    assert_eq!(floats(&t.gather(-2, &Tensor::from([[1, 0], [0, 1]]))), [4.0, 2.0, 1.0, 5.0]);
    assert_eq!(floats(&t.permute([1, 0]).gather(0, &Tensor::from([[2, 1]]))), [3.0, 5.0]);
    let ones = &Tensor::ones([2, 4]);
    assert_eq!(floats(&t.scatter(1, index, ones)), [1.0, 2.0, 1.0, 4.0, 1.0, 6.0]);
    assert_eq!(floats(&t.scatter(1, index, 9)), [9.0, 2.0, 9.0, 4.0, 9.0, 6.0]);
    let values = &Tensor::from([[10.0f32, 20.0, 30.0], [40.0, 50.0, 60.0]]);
    let reduced = |how: &str, own| floats(&t.scatter_reduce(1, index, values, how, own));
    assert_eq!(reduced("sum", true), [41.0, 2.0, 23.0, 4.0, 155.0, 6.0]);
    assert_eq!(reduced("sum", false), [40.0, 2.0, 20.0, 4.0, 150.0, 6.0]);
    assert_eq!(reduced("prod", true), [300.0, 2.0, 60.0, 4.0, 600_000.0, 6.0]);
    assert_eq!(reduced("mean", true), [41.0 / 3.0, 2.0, 11.5, 4.0, 38.75, 6.0]);
    assert_eq!(reduced("mean", false), [20.0, 2.0, 20.0, 4.0, 50.0, 6.0]);
    assert_eq!(reduced("amin", true), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert_eq!(reduced("amin", false), [10.0, 2.0, 20.0, 4.0, 40.0, 6.0]);
    let most = t.scatter_reduce(1, index, values, Reduction::Amax, true);
    assert_eq!(floats(&most), [30.0, 2.0, 20.0, 4.0, 60.0, 6.0]);
    let bytes = Tensor::from([100i8, 5]).scatter_reduce(
        0,
        &Tensor::from([0, 0, 1]),
        &Tensor::from([100i8, 100, -8]),
        "mean",
        true,
    );
    assert_eq!(bytes.to_vec::<i8>().unwrap(), [100, -2]);
    assert_eq!(floats(&t.index_select(1, &Tensor::from([-1, 0]))), [3.0, 1.0, 6.0, 4.0]);
    let sums = t.index_add(1, &Tensor::from([0, 0, 2]), &Tensor::ones([2, 3]));
    assert_eq!(floats(&sums), [3.0, 2.0, 4.0, 6.0, 5.0, 7.0]);
    assert_eq!(floats(&t), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn every_dtype() {
    for dtype in [
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
        DType::I32,
        DType::U32,
        DType::I64,
        DType::U64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ] {
        let t = Tensor::from([0, 1, 1, 0]).cast(dtype).realize().unwrap().clone();
        let read = |t: &Tensor| ints(&t.cast(DType::I32));
        assert_eq!(read(&t.get(s![[3, 1]])), [0, 1]);
        t.set(s![[0, -1]], &Tensor::from([true, false]).cast(dtype));
        assert_eq!(read(&t), [1, 1, 1, 0]);
        t.set(s![t.cast(DType::Bool)], false);
        assert_eq!(read(&t), [0, 0, 0, 0]);
        let index = &Tensor::from([2, 0, 2]);
        assert_eq!(read(&t.scatter(0, index, 1)), [1, 0, 1, 0]);
        let most = t.scatter_reduce(0, index, &Tensor::from([0, 1, 1]).cast(dtype), "amax", true);
        assert_eq!((read(&most), most.dtype()), (vec![1, 0, 1, 0], dtype));
        if dtype.is_int() {
            assert_eq!(ints(&Tensor::from([5, 6]).get(s![t.get(s![..2])])), [5, 5]);
        }
    }
}

#[test]
fn operators_write_through_views() {
    let t = Tensor::arange(6).reshape([2, 3]);
    t.get(s![1..]).add_assign(10).mul_assign(2);
    t.permute([1, 0]).get(s![0]).sub_assign(Tensor::from([1, 2]));
    t.get(s![.., -1]).minimum_assign(20);
    assert_eq!(ints(&t), [-1, 1, 2, 24, 28, 20]);
    let mut row = t.get(s![0]);
    row <<= 1;
    row |= 1;
    row %= 3;
    assert_eq!(ints(&t.get(s![0])), [2, 0, 2]);
    let halves = Tensor::from([1.0f32]).cast(DType::F16);
    assert_eq!(halves.div_assign(4).add_assign(1.5).cast(DType::F32).item::<f32>().unwrap(), 1.75);
    let error = why(&Tensor::from([1, 2]).add_assign(0.5));
    assert!(error.starts_with("add_assign: f32 does not go into i32"), "{error}");
    let error = why(&Tensor::from([1]).mul_assign(Tensor::from([1, 2])));
    assert!(error.starts_with("mul_assign: value does not fit"), "{error}");
}

#[test]
fn one_row_of_an_expansion_is_a_target() {
    let t = Tensor::from([1, 2, 3]);
    let wide = t.expand([4, 3]);
    wide.get(s![1]).set(s![2], 30);
    wide.reshape([12]).get(s![3..6]).get(s![0]).assign(10);
    wide.reshape([2, 2, 3]).get(s![1, 0]).add_assign(1);
    wide.get(s![.., 1]).get(s![3]).assign(7);
    wide.reshape([12]).get(s![6..9]).set(s![[0, 2]], &Tensor::from([8, 9]));
    assert_eq!(ints(&t), [8, 7, 9]);
    wide.get(s![2..2]).assign(0);
    assert_eq!(ints(&t), [8, 7, 9]);
    for repeated in [wide.clone(), wide.reshape([12]).get(s![1..5]), wide.get(s![.., 0])] {
        assert!(repeated.try_assign(0).is_err() && repeated.try_set(s![[0]], 0).is_err());
    }
}

#[test]
fn gradients_go_through_positions() {
    let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]).set_requires_grad(true);
    let index = Tensor::from([2, 0, 2]);
    let scale = Tensor::from([[1.0f32], [10.0], [100.0]]);
    (w.get(s![&index]) * scale).sum(..).backward().unwrap();
    assert_eq!(floats(&w.grad().unwrap()), [10.0, 10.0, 0.0, 0.0, 101.0, 101.0]);
    let (base, value) = (Tensor::ones([3]), Tensor::from([2.0f32, 3.0]));
    base.set_requires_grad(true);
    value.set_requires_grad(true);
    let y = &base * 1.0;
    y.set(s![[2, 0]], &value * 5.0);
    let grads = y.square().sum(..).gradient([&base, &value]).unwrap();
    assert_eq!(floats(&grads[0]), [0.0, 2.0, 0.0]);
    assert_eq!(floats(&grads[1]), [100.0, 150.0]);
    let y = base.scatter_reduce(0, &Tensor::from([1, 1]), &value, "mean", true);
    let grads = (y * Tensor::from([1.0f32, 6.0, 1.0])).sum(..).gradient([&base, &value]).unwrap();
    assert_eq!(floats(&grads[0]), [1.0, 2.0, 1.0]);
    assert_eq!(floats(&grads[1]), [2.0, 2.0]);
}

/// What an index picks of one axis, as NumPy's text has it.
#[derive(Clone, Debug)]
enum Picked {
    At(usize),
    Slice(Vec<usize>),
    New,
    Integers(Vec<usize>, Vec<usize>),
}

/// The result's shape and, for each of its elements, the position that it has in `lengths`.
fn numpy(lengths: &[usize], picked: &[Picked]) -> (Vec<usize>, Vec<usize>) {
    let fancy = |p: &Picked| matches!(p, Picked::At(_) | Picked::Integers(..));
    let arrays = picked.iter().filter_map(|p| match p {
        Picked::Integers(shape, _) => Some(shape.clone()),
        _ => None,
    });
    let common = arrays.reduce(|a, b| broadcast(&a, &b)).unwrap_or_default();
    let first = picked.iter().position(fancy).unwrap_or(0);
    let last = picked.iter().rposition(fancy).unwrap_or(0);
    let adjacent = picked[first..=last].iter().all(fancy);
    let mut rest = Vec::new();
    let mut place = 0;
    for (i, p) in picked.iter().enumerate() {
        if i == first && adjacent {
            place = rest.len();
        }
        match p {
            Picked::New => rest.push(1),
            Picked::Slice(at) => rest.push(at.len()),
            Picked::At(_) | Picked::Integers(..) => {}
        }
    }
    let shape = [&rest[..place], &common, &rest[place..]].concat();
    let element = |flat: usize| {
        let at = unravel(flat, &shape);
        let own = &at[place..place + common.len()];
        let mut others = at[..place].iter().chain(&at[place + common.len()..]);
        let mut position = 0;
        let mut axes = lengths.iter();
        for p in picked {
            let along = match p {
                Picked::New => {
                    others.next();
                    continue;
                }
                Picked::At(i) => *i,
                Picked::Slice(positions) => positions[*others.next().unwrap()],
                Picked::Integers(shape, numbers) => {
                    let missing = common.len() - shape.len();
                    let at =
                        own[missing..].iter().zip(shape).map(|(&i, &n)| if n == 1 { 0 } else { i });
                    numbers[at.zip(shape).fold(0, |sum, (i, n)| sum * n + i)]
                }
            };
            position = position * axes.next().unwrap() + along;
        }
        position
    };
    (shape.clone(), (0..shape.iter().product()).map(element).collect())
}

fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| (i + s.len()).checked_sub(rank).map_or(1, |i| s[i]);
    (0..rank).map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) }).collect()
}

fn unravel(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (i, &n) in at.iter_mut().zip(shape).rev() {
        (*i, flat) = (flat % n, flat / n);
    }
    at
}

/// Random choices.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    /// An index that picks of `n` elements, and what it picks.
    fn slice(&mut self, n: usize) -> (Index, Picked) {
        let (start, len, back) = (self.below(n), self.below(n + 1), self.below(2) == 1);
        let ahead: Vec<usize> = (start..n.min(start + len)).collect();
        let (start, stop) = (Length::from(start), Length::from(start + len));
        let first = usize::from(start);
        if !back {
            return (
                Index::Slice { start: Some(start), stop: Some(stop), step: 1 },
                Picked::Slice(ahead),
            );
        }
        let behind: Vec<usize> = (0..=first).rev().step_by(2).collect();
        (Index::Slice { start: Some(start), stop: None, step: -2 }, Picked::Slice(behind))
    }

    /// Integers below `n` of a shape that broadcasts with `[2, 3]`, as a tensor or a list.
    fn integers(&mut self, n: usize) -> (Index, Picked) {
        let shapes = [&[][..], &[3], &[1], &[2, 1], &[2, 3], &[1, 3]];
        let shape = shapes[self.below(shapes.len())];
        let count: usize = shape.iter().product();
        let numbers: Vec<usize> = (0..count).map(|_| self.below(n)).collect();
        let signed: Vec<i64> = numbers
            .iter()
            .map(|&i| if self.below(3) == 0 { i as i64 - n as i64 } else { i as i64 })
            .collect();
        let t = Tensor::from_vec(signed.clone(), shape.to_vec());
        let dtypes = [DType::I8, DType::I16, DType::I32, DType::I64];
        let t = t.cast(dtypes[self.below(4)]);
        let index = match self.below(4) {
            0 if shape.len() == 1 => Index::from(signed),
            1 => Index::from(t.realize().unwrap()),
            2 => Index::from(Tensor::from_vec(
                numbers.iter().map(|&i| i as u64).collect(),
                shape.to_vec(),
            )),
            _ => Index::from(unknown(&t)),
        };
        (index, Picked::Integers(shape.to_vec(), numbers))
    }

    /// A mask over `lengths` with three elements that are true, or one.
    fn mask(&mut self, lengths: &[usize]) -> Option<(Index, Vec<Picked>)> {
        let n: usize = lengths.iter().product();
        let count = if self.below(3) == 0 { 1 } else { 3 };
        if n < count {
            return None;
        }
        let mut mask = vec![false; n];
        while mask.iter().filter(|&&m| m).count() < count {
            mask[self.below(n)] = true;
        }
        let at: Vec<Vec<usize>> =
            (0..n).filter(|&i| mask[i]).map(|i| unravel(i, lengths)).collect();
        let along =
            |axis: usize| Picked::Integers(vec![count], at.iter().map(|a| a[axis]).collect());
        let index = match self.below(2) {
            0 if lengths.len() == 1 => Index::from(mask),
            _ => Index::from(Tensor::from_vec(mask, lengths.to_vec())),
        };
        Some((index, (0..lengths.len()).map(along).collect()))
    }

    /// Indices of all of `lengths`, at least one of them advanced.
    fn indices(&mut self, lengths: &[usize]) -> (Vec<Index>, Vec<Picked>) {
        let (mut indices, mut picked, mut axis) = (Vec::new(), Vec::new(), 0);
        let must = self.below(lengths.len());
        while axis < lengths.len() {
            if self.below(8) == 0 {
                indices.push(Index::NewAxis);
                picked.push(Picked::New);
            }
            let n = lengths[axis];
            let span = 1 + self.below(lengths.len() - axis);
            let one = match self.below(6) {
                0 | 1 if axis != must => self.slice(n),
                2 if axis != must => (Index::from(n as i64 - 1), Picked::At(n - 1)),
                3 => match self.mask(&lengths[axis..axis + span]) {
                    Some((index, all)) => {
                        indices.push(index);
                        picked.extend(all);
                        axis += span;
                        continue;
                    }
                    None => self.integers(n),
                },
                _ => self.integers(n),
            };
            indices.push(one.0);
            picked.push(one.1);
            axis += 1;
        }
        (indices, picked)
    }

    /// A view of a new storage of `0..`, and the storage.
    fn target(&mut self) -> (Tensor, Tensor) {
        let t = Tensor::arange(120).reshape([2, 3, 4, 5]).copy();
        if self.below(2) == 0 {
            t.realize().unwrap();
        }
        let view = match self.below(7) {
            0 => t.clone(),
            1 => t.permute([3, 1, 0, 2]),
            2 => t.get(s![1, .., ..;-1, 1..4]),
            3 => t.permute([1, 0, 2, 3]).reshape([6, 4, 5]),
            4 => t.permute([3, 2, 1, 0]).reshape([10, 12]),
            5 => t.get(s![.., 1..;-1, ..;2]).permute([2, 0, 1, 3]),
            _ => t.reshape([4, 30]).get(s![1..3, ..;3]),
        };
        (t, view)
    }
}

#[test]
fn random_indices_pick_what_numpys_text_says() {
    let mut dice = Dice(7);
    for round in 0..400 {
        let (t, view) = dice.target();
        let (indices, picked) = dice.indices(view.shape());
        let (shape, expected) = numpy(view.shape(), &picked);
        let say = || format!("round {round}: {:?} of {:?}", picked, view.shape());
        let seen = ints(&view);
        let result = view.get(Indices::new(indices.clone()));
        assert_eq!(result.error().map(|e| e.to_string()), None, "{}", say());
        assert_eq!(result.shape(), shape, "{}", say());
        let wanted: Vec<i32> = expected.iter().map(|&p| seen[p]).collect();
        assert_eq!(ints(&result), wanted, "{}", say());

        let mut after = ints(&t);
        let one = dice.below(3) == 0;
        let values = Tensor::arange(wanted.len()).reshape(&shape) + 1000;
        match one {
            true => view.set(Indices::new(indices), -1),
            false => view.set(Indices::new(indices), &values),
        }
        for (i, &p) in wanted.iter().enumerate() {
            after[p as usize] = if one { -1 } else { 1000 + i as i32 };
        }
        assert_eq!(t.error().map(|e| e.to_string()), None, "{}", say());
        assert_eq!(ints(&t), after, "{}", say());
    }
}

#[test]
fn a_table_of_rows_costs_what_is_read() {
    let table = Rng::new(1).randn([50, 8]).realize().unwrap().clone();
    let words = Tensor::from([[3, 1], [49, -50]]);
    let rows = floats(&table.get(s![&words]));
    let all = floats(&table);
    let expected: Vec<f32> =
        [3, 1, 49, 0].iter().flat_map(|&r| all[r * 8..r * 8 + 8].to_vec()).collect();
    assert_eq!(rows, expected);
}

#[test]
fn a_value_is_read_before_it_is_overwritten() {
    let start = || Tensor::from([10, 20, 30, 40]).realize().unwrap().clone();
    let index = &unknown(&Tensor::from([1, 2, 3, 0]));
    let t = start();
    t.set(s![index], &t);
    assert_eq!(ints(&t), [40, 10, 20, 30]);
    t.set(s![index], &t * 2 + 1);
    assert_eq!(ints(&t), [61, 81, 21, 41]);
    let t = start();
    t.set(s![index], t.get(s![..;-1]) + &t);
    assert_eq!(ints(&t), [50, 50, 50, 50]);
    let t = start();
    let kept = t.copy();
    t.set(s![..2], 0);
    t.set(s![index], &kept);
    assert_eq!(ints(&t), [40, 10, 20, 30]);
    let (old, t) = (start() + 1, start() + 1);
    t.set(s![index], 0);
    assert_eq!(ints(&(&old - &t)), [11, 21, 31, 41]);
    let (ones, counts) = (Tensor::ones([3]), Tensor::ones([3]));
    let counts = counts.index_add(0, &unknown(&Tensor::from([1, 1])), &Tensor::ones([2]));
    assert_eq!(floats(&(&ones * 6 / counts)), [6.0, 2.0, 6.0]);
}

/// Why computing fails.
fn computing(t: &Tensor) -> String {
    t.to_vec::<i32>().expect_err("an index is out of range").to_string()
}

#[test]
fn what_turns_out_to_be_out_of_range_is_an_error_of_computing_it() {
    let bad = &unknown(&Tensor::from([1, 3, -4]));
    let t = Tensor::from([10, 20, 30]);
    let line = line!() + 1;
    let picked = t.get(s![bad]);
    let plus = &picked + 1;
    for _ in 0..2 {
        let why = computing(&plus);
        let text = "an index is out of range for axis 0 of length 3 in `get` at ";
        assert!(why.contains(text) && why.contains(&format!("indexing.rs:{line}")), "{why}");
        computing(&picked);
    }
    for bad in [
        t.gather(0, bad),
        t.index_select(0, bad),
        t.take(bad),
        t.scatter(0, bad, 0),
        t.scatter_reduce(0, bad, bad, "sum", false),
        t.index_add(0, bad, 1),
        t.get(s![NewAxis, unknown(&Tensor::from(-4i64))]),
        t.get(s![unknown(&Tensor::from([1u64 << 40]))]),
        t.get(s![unknown(&Tensor::from([1i64 << 32]))]),
        t.unsqueeze(0).get(s![unknown(&Tensor::from([0])), bad]),
    ] {
        assert!(computing(&bad).contains("out of range"));
    }
    // nothing else is touched
    assert_eq!(ints(&t), [10, 20, 30]);
    assert_eq!(ints(&t.get(s![unknown(&Tensor::from([-3i8, 2]))])), [10, 30]);
}

#[test]
fn a_write_out_of_range_skips_it_and_is_an_error() {
    let t = Tensor::from([10, 20, 30]);
    let alias = t.reshape([3, 1]);
    t.set(s![unknown(&Tensor::from([0, 3, 2]))], Tensor::from([1, 2, 3]));
    assert!(t.error().is_none());
    let why = t.realize().map(drop).expect_err("out of range").to_string();
    assert!(
        why.contains("for axis 0 of length 3 in `set` at ") && why.contains("indexing.rs"),
        "{why}"
    );
    assert!(
        computing(&alias).contains("out of range") && computing(&(&t + 1)).contains("out of range")
    );
    t.clear_error();
    assert_eq!(ints(&t), [1, 20, 3]);
    t.set(s![unknown(&Tensor::from([9]))], 0);
    assert!(computing(&t).contains("out of range"));
    t.assign(7);
    assert_eq!(ints(&alias), [7, 7, 7]);
    let w = Tensor::ones([3]).set_requires_grad(true);
    let loss = w.get(s![unknown(&Tensor::from([0, 5]))]).sum(..);
    loss.backward().unwrap();
    assert!(w.grad().unwrap().to_vec::<f32>().is_err() && loss.item::<f32>().is_err());
}

#[test]
fn indexing_costs_what_the_indices_cost() {
    let table = Tensor::from(vec![[1.0f32; 16]; 1000]);
    let words = Tensor::from([3, 999, -1, 500]);
    let (rows, n) = measure(|| floats(&table.get(s![&words])));
    assert_eq!((rows, n.kernels), (vec![1.0; 64], 1));
    assert!(n.bytes <= 2 * 4 * 64 + 16, "{} bytes", n.bytes);
    table.set(s![&words], 2.0);
    let (_, n) = measure(|| table.realize().map(drop).unwrap());
    assert_eq!((n.kernels, n.peak_memory), (1, 0));
    assert!(n.bytes <= 4 * 64 + 16, "{} bytes", n.bytes);
    table.assign(table.index_add(0, &words, 1.0));
    let (_, n) = measure(|| table.realize().map(drop).unwrap());
    assert_eq!((n.kernels, n.peak_memory), (1, 0));
    table.set(s![table.get(s![.., 0]).lt(2)], 0.0);
    let (_, n) = measure(|| table.realize().map(drop).unwrap());
    assert_eq!(n.kernels, 1);
    // the rows that are still to be computed are checked by one more kernel
    let computed = unknown(&words);
    let (_, n) = measure(|| floats(&table.get(s![&computed])));
    assert_eq!(n.kernels, 2);
    assert_eq!(table.sum(..).item::<f32>().unwrap(), 16.0 * (3.0 + 3.0 + 4.0));
}

/// Positions that are known to be equal: the last wins, and what is written was read before.
#[test]
fn equal_positions_that_are_known_are_written_in_order() {
    let v = Tensor::from_vec(vec![12, 7], [2, 1]);
    v.set(s![1..;-1, Tensor::zeros_with([4], DType::I32)], &v);
    assert_eq!(v.to_vec::<i32>().unwrap(), [7, 12]);
    let v = Tensor::zeros_with([4, 1], DType::I32).reshape([4, 1, 1]);
    let value = Tensor::from_vec(vec![6, 7, 11, 8, 4, 1, 0, 6], [2, 2, 2, 1, 1]);
    v.set(s![2.., NewAxis, 0, NewAxis, Tensor::zeros_with([2, 2], DType::I16)], value);
    assert_eq!(v.to_vec::<i32>().unwrap(), [0, 0, 0, 6]);
    let index = Tensor::zeros_with([3, 2], DType::I64);
    let values = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], [3, 2]);
    let last = Tensor::zeros_with([1, 2], DType::I32).scatter(0, &index, &values);
    assert_eq!(last.to_vec::<i32>().unwrap(), [5, 6]);
}

/// Vectors are of the CPU. The kernels are those of these lengths.
#[test]
fn rows_at_places_that_are_data_are_read_and_written_in_vectors() {
    kiln::with([("DEV", "CPU"), ("LENGTHS", "0")], rows_at_places).expect("settings");
}

fn rows_at_places() {
    let table = Tensor::rand([91, 160]);
    let ids = Tensor::from([3i64, 90, 0, 3]);
    realize([&table, &ids]).expect("computed");
    let rows = table.index_select(0, &ids);
    rows.realize().expect("computed");
    let sums = Tensor::zeros([91, 160]).index_add(0, &ids, &rows);
    let (rows, sums) = (floats(&rows), floats(&sums));
    assert_eq!(rows[160..320], floats(&table)[90 * 160..]);
    assert_eq!(sums[480], rows[0] + rows[480]);
    let touch = |k: &testing::Stages| text::print(&k.scheduled).contains("[14560]");
    let kernels: Vec<_> = testing::stages().into_iter().filter(touch).collect();
    assert!(kernels.len() > 2);
    for kernel in kernels {
        let optimized = text::print(&kernel.optimized);
        assert!(!optimized.contains("gate="), "{optimized}");
        assert!(optimized.contains(" vector "), "{optimized}");
    }
}
