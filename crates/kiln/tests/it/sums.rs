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
