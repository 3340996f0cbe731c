//! Elements in order, against the standard library's stable sort.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor};
use std::cmp::Ordering;

const DTYPES: [DType; 14] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::U16,
    DType::I16,
    DType::U32,
    DType::I32,
    DType::U64,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

/// Few different values, so that many are equal, and special ones.
fn element(rng: &mut Rng, dtype: DType) -> f64 {
    let small = rng.below(7) as f64;
    match rng.below(8) {
        0 if dtype.is_float() => f64::NAN,
        1 if dtype.is_float() => [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY][rng.below(4)],
        2 if dtype == DType::U32 => 4e9 + small,
        3 if dtype.size() == 8 => 9e18 + 2048.0 * small,
        4..=6 if dtype.is_float() || dtype.is_signed() => small - 3.0,
        _ => small,
    }
}

/// NaN is larger than anything, and as large as NaN.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The positions of a row's elements in order.
fn in_order(row: &[f64], descending: bool) -> Vec<i32> {
    let mut places: Vec<usize> = (0..row.len()).collect();
    places.sort_by(|&a, &b| match descending {
        false => compare(row[a], row[b]),
        true => compare(row[b], row[a]),
    });
    places.into_iter().map(|place| place as i32).collect()
}

/// Rows of elements, sorted along either axis, whole and in part.
#[test]
fn elements_are_sorted_as_a_stable_sort_does_it() {
    for seed in seeds(60) {
        let mut rng = Rng(seed);
        let dtype = DTYPES[rng.below(DTYPES.len())];
        let rows = [1, 2, 3, 70][rng.below(4)];
        let n =
            [1, 2, 3, 5, 16, 17, 63, 100, 300, 1025][rng.below(if rows == 70 { 8 } else { 10 })];
        let values: Vec<f64> = (0..rows * n).map(|_| element(&mut rng, dtype)).collect();
        let (axis, descending) = (rng.below(2) as i64, rng.below(2) == 1);
        let x = Tensor::from(values).cast(dtype).reshape([rows, n]);
        let seen = x.cast(DType::F64).to_vec::<f64>().expect("values");
        let want: Vec<Vec<i32>> = seen.chunks(n).map(|row| in_order(row, descending)).collect();
        let along = if axis == 0 { x.transpose(0, 1) } else { x };
        let rows_of = |t: &Tensor| {
            let rows = if axis == 0 { t.transpose(0, 1) } else { t.clone() };
            rows.contiguous().to_vec::<i32>().expect("positions")
        };
        let case = format!("seed {seed}: {dtype} [{rows}, {n}] axis {axis} {descending}");
        assert_eq!(rows_of(&along.argsort(axis, descending)), want.concat(), "{case}");
        let k = 1 + rng.below(n.min(9));
        let first: Vec<i32> = want.iter().flat_map(|row| row[..k].to_vec()).collect();
        assert_eq!(rows_of(&along.topk(k, axis, descending).1), first, "{case}, first {k}");
    }
}

/// Each row's values, in rows that are in order and in rows that a sorter puts in order, against counting.
#[test]
fn values_are_found_as_counting_finds_them() {
    for seed in seeds(60) {
        let mut rng = Rng(seed);
        let dtype = DTYPES[rng.below(DTYPES.len())];
        let n = [1, 2, 3, 16, 63, 64, 65, 100, 127, 128, 300, 1025][rng.below(12)];
        let (rows, m) = ([1, 2, 7][rng.below(3)], [1, 5, 40][rng.below(3)]);
        let right = rng.below(2) == 1;
        let mut drawn = |len: usize| {
            let values: Vec<f64> = (0..rows * len).map(|_| element(&mut rng, dtype)).collect();
            Tensor::from(values).cast(dtype).reshape([rows, len])
        };
        let (x, values) = (drawn(n), drawn(m));
        let seen = |t: &Tensor| t.cast(DType::F64).to_vec::<f64>().expect("values");
        let is_before = |e: f64, v: f64| match right {
            true => compare(e, v) != Ordering::Greater,
            false => compare(e, v) == Ordering::Less,
        };
        let (all, looked_for) = (seen(&x), seen(&values));
        let want: Vec<i32> = (0..rows * m)
            .map(|i| {
                let row = &all[i / m * n..][..n];
                row.iter().filter(|&&e| is_before(e, looked_for[i])).count() as i32
            })
            .collect();
        let case = format!("seed {seed}: {dtype} [{rows}, {n}] for [{rows}, {m}], right {right}");
        let (sorted, sorter) = x.sort(1, false);
        let places = |t: Tensor| t.to_vec::<i32>().expect("positions");
        assert_eq!(places(sorted.searchsorted(&values, right)), want, "{case}");
        assert_eq!(places(x.searchsorted_with(&values, right, &sorter)), want, "{case}");
        if rows == 1 {
            let edges = sorted.flatten();
            assert_eq!(places(edges.searchsorted(&values, right)), want, "{case}");
            assert_eq!(places(values.bucketize(&edges, right)), want, "{case}");
        }
    }
}

/// Elements by their numbers in an order, in rows that are too long to be sorted for one.
#[test]
fn elements_by_number_are_those_of_a_stable_sort() {
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    for seed in seeds(40) {
        let mut rng = Rng(seed);
        let dtype = DTYPES[rng.below(DTYPES.len())];
        let (rows, n, axis) = (1 + rng.below(4), [600, 1025, 1500][rng.below(3)], rng.below(2));
        let has_nan = rng.below(2) == 0;
        let values = (0..rows * n).map(|_| element(&mut rng, dtype));
        let values = values.map(|v| if has_nan || !v.is_nan() { v } else { 1.0 });
        let x = Tensor::from(values.collect::<Vec<f64>>()).cast(dtype).reshape([rows, n]);
        let seen = x.cast(DType::F64).to_vec::<f64>().expect("values");
        let t = if axis == 0 { x.transpose(0, 1) } else { x };
        let all = |t: &Tensor| t.cast(DType::F64).contiguous().to_vec::<f64>().expect("values");
        let k = 1 + rng.below(n);
        let (value, place) = t.kthvalue(k, axis);
        let (value, place) = (all(&value), place.to_vec::<i32>().expect("positions"));
        let medians = [all(&t.median(axis)), all(&t.nanmedian(axis))];
        let middle = dtype.is_float().then(|| {
            let t = t.cast(DType::F64);
            [all(&t.quantile(0.3, axis)), all(&t.nanquantile(0.3, axis))]
        });
        for (i, row) in seen.chunks(n).enumerate() {
            let case = format!("seed {seed}: {dtype} [{rows}, {n}] axis {axis} number {k} row {i}");
            let order = in_order(row, false);
            let at = |k: usize| row[order[k] as usize];
            let numbers = row.iter().filter(|v| !v.is_nan()).count();
            assert_eq!(place[i], order[k - 1], "{case}");
            assert!(same(value[i], at(k - 1)), "{case}");
            let whole = if numbers < n { f64::NAN } else { at((n - 1) / 2) };
            assert!(same(medians[0][i], whole), "{case}: {} not {whole}", medians[0][i]);
            let known = at(numbers.max(1).div_ceil(2) - 1);
            assert!(same(medians[1][i], known), "{case}: {} not {known}", medians[1][i]);
            let Some(middle) = &middle else { continue };
            let shares = [if numbers < n { f64::NAN } else { 1.0 }, 1.0];
            for (j, len) in [n, numbers.max(1)].into_iter().enumerate() {
                let place = 0.3 * (len - 1) as f64;
                let (low, high) = (at(place.floor() as usize), at(place.ceil() as usize));
                let want = shares[j] * (low + (high - low) * place.fract());
                let near = (middle[j][i] - want).abs() <= 1e-12 * want.abs();
                let odd = !want.is_finite() && !middle[j][i].is_finite();
                assert!(near || odd, "{case}: {} not {want}", middle[j][i]);
            }
        }
    }
}

/// Few numbers, which are compared with each other, and many, whose count is a power of two or not.
#[test]
fn a_permutation_has_each_number_once_and_is_the_order_of_its_draws() {
    for n in [0, 1, 2, 3, 1000, 4096, 5000] {
        let order = kiln::Rng::new(7).randperm(n).to_vec::<i32>().expect("computes");
        let draws = kiln::Rng::new(7).rand_with([n], DType::F64);
        assert_eq!(order, draws.argsort(0, false).to_vec::<i32>().expect("computes"), "{n}");
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..n as i32).collect::<Vec<_>>(), "{n}");
    }
}

/// Numbers in disorder, of which many are equal.
fn disorder(n: u32) -> Vec<f32> {
    (0..n).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as f32).collect()
}

/// Rows of lengths that are no powers of two, too long to be counted.
#[test]
fn long_rows_are_sorted() {
    for (rows, n) in [(1, 20_003), (3, 4_001), (40, 515), (3, 700)] {
        let values = disorder(rows * n);
        let x = Tensor::from(values.clone()).reshape([rows as usize, n as usize]);
        for (dtype, descending) in [(DType::F32, false), (DType::I64, true)] {
            let places = x.cast(dtype).argsort(1, descending).to_vec::<i32>().expect("positions");
            let row = |row: &[f32]| -> Vec<f64> { row.iter().map(|&x| f64::from(x)).collect() };
            let want = values.chunks(n as usize).flat_map(|own| in_order(&row(own), descending));
            assert!(places.into_iter().eq(want), "{dtype} [{rows}, {n}]");
        }
    }
}

/// A long axis goes through several rounds of selection.
#[test]
fn the_first_of_many_are_found_in_rounds() {
    let values = disorder(20_000);
    let row: Vec<f64> = values.iter().map(|&x| f64::from(x)).collect();
    let x = Tensor::from(values);
    for (k, largest) in [(1, true), (40, true), (33, false)] {
        let places = x.topk(k, 0, largest).1.to_vec::<i32>().expect("positions");
        assert_eq!(places, in_order(&row, largest)[..k], "{k} {largest}");
    }
}
