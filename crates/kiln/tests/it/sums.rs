//! Float sums in whatever order a device takes them: within `n * eps * sum |x|` of the exact sum.

use kiln::{DType, Device, Tensor};

/// The rounding error of one operation in the accumulator.
const EPS: f64 = f32::EPSILON as f64 / 2.0;
const DEVICES: [&str; 3] = ["CPU:LLVM", "CPU:C", "INTERP"];

/// Numbers of different sizes and signs.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    (0..n)
        .map(|i| ((i * 31 + seed * 17 + 5) as f64 * 0.77).sin() as f32 * ((i % 7) as f32 + 0.3))
        .collect()
}

/// Half a unit in the last place of a dtype, relative: what rounding the result itself may add.
fn result_eps(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => EPS,
    }
}

fn close(what: &str, got: &[f32], dtype: DType, terms: impl Fn(usize) -> Vec<f64>) {
    for (i, got) in got.iter().enumerate() {
        let terms = terms(i);
        let (sum, size): (f64, f64) =
            terms.iter().fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
        let bound = terms.len() as f64 * EPS * size + result_eps(dtype) * sum.abs() * 1.01;
        assert!(
            (*got as f64 - sum).abs() <= bound,
            "{what} {i}: {got} is not {sum} within {bound}"
        );
    }
}

#[test]
fn sums_are_within_the_bound_of_any_order() {
    for device in DEVICES.map(|name| Device::parse(name).expect("a device")) {
        for (rows, n) in [(1, 1), (3, 7), (2, 100), (5, 1000), (1, 4097)] {
            for dtype in [DType::F32, DType::F16, DType::BF16] {
                let x = Tensor::from_vec_on(numbers(rows * n, n), [rows, n], &device).cast(dtype);
                let data = x.cast(DType::F64).to_vec::<f64>().expect("reads");
                let read = |t: Tensor| t.cast(DType::F32).to_vec::<f32>().expect("reads");
                let what = format!("{device} {dtype} {rows} {n}");
                close(&what, &read(x.sum(1)), dtype, |i| data[i * n..(i + 1) * n].to_vec());
                close(&what, &read(x.sum(0)), dtype, |i| {
                    (0..rows).map(|r| data[r * n + i]).collect()
                });
                close(&what, &read(x.sum(..)), dtype, |_| data.clone());
            }
        }
    }
}

/// Where a processor multiplies pairs at once, these are such products: odd lengths, either side transposed, and so few
/// columns that it does not pay.
#[test]
fn products_of_narrow_floats_are_within_the_bound_of_any_order() {
    for device in DEVICES.map(|name| Device::parse(name).expect("a device")) {
        for (m, k, n) in [(33, 257, 17), (64, 30, 64), (1, 1000, 1), (48, 3, 40)] {
            for (dtype, left, right) in [
                (DType::BF16, false, false),
                (DType::BF16, true, false),
                (DType::BF16, false, true),
                (DType::F16, false, false),
            ] {
                let of = |rows, columns, swapped: bool, seed| {
                    let shape = if swapped { [columns, rows] } else { [rows, columns] };
                    let x = Tensor::from_vec_on(numbers(rows * columns, seed), shape, &device);
                    let x = if swapped { x.transpose(0, 1) } else { x };
                    x.cast(dtype)
                };
                let (x, y) = (of(m, k, left, 1), of(k, n, right, 2));
                let got = x.matmul(&y).cast(DType::F32).to_vec::<f32>().expect("computes");
                let exact = |t: Tensor| t.cast(DType::F64).to_vec::<f64>().expect("reads");
                let (a, b) = (exact(x), exact(y));
                let what = format!("{device} {dtype} {m} {k} {n} {left} {right}");
                let term = |i: usize, j: usize| a[i / n * k + j] * b[j * n + i % n];
                close(&what, &got, dtype, |i| (0..k).map(|j| term(i, j)).collect());
            }
        }
    }
}

/// Rows of 17 in vectors of 16: the last vector of a row has one lane, next to the first of the next row.
#[test]
fn a_single_lane_of_narrow_floats_leaves_its_neighbours_alone() {
    let [found, expected] = ["CPU:LLVM", "INTERP"].map(|name| {
        let device = Device::parse(name).expect("a device");
        let of = |n: usize, shape: &[usize]| {
            let small = (0..n).map(|i| (i * 7 % 9) as f32 - 4.0).collect();
            Tensor::from_vec_on::<f32>(small, shape, &device).cast(DType::BF16)
        };
        let y = of(7 * 289, &[1, 7, 17, 17]).conv2d(&of(9 * 175, &[9, 7, 5, 5]), None, 1, 1, 1, 2);
        y.realize().expect("computes");
        y.cast(DType::F32).to_vec::<f32>().expect("reads")
    });
    assert_eq!(found, expected);
}

#[test]
fn products_of_bytes_are_exact() {
    for device in DEVICES.map(|name| Device::parse(name).expect("a device")) {
        let (m, k, n) = (40, 131, 50);
        let bytes = |rows: usize, columns: usize, dtype| {
            let all = (0..rows * columns).map(|i| (i * 37 + i / 11) as i32).collect();
            Tensor::from_vec_on::<i32>(all, [rows, columns], &device).cast(dtype)
        };
        let (x, y) = (bytes(m, k, DType::U8), bytes(k, n, DType::I8));
        let [a, b] = [&x, &y].map(|t| t.cast(DType::I32).to_vec::<i32>().expect("reads"));
        let sum = |i: usize| (0..k).map(|j| a[i / n * k + j] * b[j * n + i % n]).sum();
        let expected: Vec<i32> = (0..m * n).map(sum).collect();
        assert_eq!(x.matmul(&y).to_vec::<i32>().expect("computes"), expected, "{device}");
    }
}

#[test]
fn products_of_matrices_are_within_the_bound_of_any_order() {
    for device in DEVICES.map(|name| Device::parse(name).expect("a device")) {
        for (m, k, n) in [(3, 5, 2), (33, 257, 17), (64, 64, 64), (1, 1000, 1)] {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let x = Tensor::from_vec_on(a.clone(), [m, k], &device);
            let y = Tensor::from_vec_on(b.clone(), [k, n], &device);
            let got = x.matmul(&y).to_vec::<f32>().expect("computes");
            let term = |i: usize, j: usize| a[i / n * k + j] as f64 * b[j * n + i % n] as f64;
            // each product rounds once more than its sum, unless the two are fused
            let what = format!("{device} {m} {k} {n}");
            close(&what, &got, DType::F32, |i| (0..k).map(|j| term(i, j)).collect());
        }
    }
}

#[test]
fn running_sums_of_every_length() {
    for n in [1usize, 15, 16, 17, 63, 64, 65, 1000, 1024, 1025, 5000] {
        let x = (Tensor::arange(3 * n) * 37).modulo(101).reshape([3, n]);
        let data = x.to_vec::<i32>().expect("readable");
        let rows = data.chunks(n).flat_map(|row| {
            row.iter().scan(0, |sum, x| {
                *sum += x;
                Some(*sum)
            })
        });
        let expected: Vec<i32> = rows.collect();
        assert_eq!(x.cumsum(1).to_vec::<i32>().expect("readable"), expected, "{n}");
        let across = x.transpose(0, 1).contiguous().cumsum(0).transpose(0, 1);
        assert_eq!(across.to_vec::<i32>().expect("readable"), expected, "{n} across");
    }
}

#[test]
fn running_sums_before_an_infinity_are_finite_and_after_it_infinite() {
    let mut data = vec![1.0f32; 300];
    data[40] = f32::INFINITY;
    let sums = Tensor::from(data).cumsum(0).to_vec::<f32>().expect("readable");
    assert!((0..40).all(|i| sums[i] == i as f32 + 1.0), "{sums:?}");
    assert!(sums[40..].iter().all(|&x| x == f32::INFINITY), "{sums:?}");
}

/// Rows of prime lengths make blocks that are not full, with sums in scratch and in registers. Small whole numbers: every
/// order is exact.
#[test]
fn products_of_one_row_with_matrices_of_prime_sizes() {
    for [k, n] in [[1009, 887], [2003, 101], [67, 4099], [331, 13]] {
        let at = |i: usize, by: usize| ((i * by) % 5) as f32 - 2.0;
        let x: Vec<f32> = (0..k).map(|i| at(i, 7)).collect();
        let w: Vec<f32> = (0..k * n).map(|i| at(i / 3, 11)).collect();
        let mut sums = vec![0.0; n];
        for (x, row) in x.iter().zip(w.chunks(n)) {
            sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += x * w);
        }
        let product = Tensor::from_vec(x, [1, k]).matmul(&Tensor::from_vec(w, [k, n]));
        assert_eq!(product.to_vec::<f32>().expect("computes"), sums, "{k} x {n}");
    }
}
