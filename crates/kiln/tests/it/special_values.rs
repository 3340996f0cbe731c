//! Every elementwise function and its gradient at special values and at the ends of its range, in all float types,
//! against what `testdata/golden/edges.py` made: at least 200 points a function and type.
//!
//! A result is right if it is within so many units in the last place of its type, plus what cancels by the formula that
//! docs/numerics.md names: `scale` is the size of the terms then, of which each is off by the rounding error of the type.

mod table;

use kiln::{DType, Device, Error, Tensor};
use serde_json::Value;
use std::sync::LazyLock;
use table::{Bound, ONE, TWO, Type};

const TYPES: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

static INDEX: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../testdata/golden/edges.json");
    serde_json::from_str(text).expect("JSON")
});

static DATA: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let bytes = include_bytes!("../../../../testdata/golden/edges.f64");
    bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight bytes"))).collect()
});

/// Functions that pick an operand or a constant: which of two zeros is PyTorch's affair.
const EITHER_ZERO: [&str; 4] = ["relu", "sign", "maximum", "minimum"];

fn counts(of: &str) -> Vec<usize> {
    let count = |n: &Value| n.as_u64().expect("a count") as usize;
    INDEX[of].as_array().expect("a list").iter().map(count).collect()
}

fn names(of: &str) -> Vec<&'static str> {
    INDEX[of].as_array().expect("a list").iter().map(|n| n.as_str().expect("a name")).collect()
}

/// Which of the points, that come in groups of these sizes, are numbers of a type.
fn held(groups: &[usize], dtype: DType) -> Vec<usize> {
    let group_of = |i: usize| {
        let ends = groups.iter().scan(0, |end, n| {
            *end += n;
            Some(*end)
        });
        ends.take_while(|&end| end <= i).count()
    };
    let holds = |group: usize| match dtype {
        DType::F16 => group <= 1,
        DType::BF16 => group == 0 || group == 2,
        DType::F32 => group <= 3,
        _ => true,
    };
    (0..groups.iter().sum()).filter(|&i| holds(group_of(i))).collect()
}

/// One after the other, columns of the file.
struct Columns {
    at: usize,
}

impl Columns {
    fn next(&mut self, rows: usize) -> &'static [f64] {
        self.at += rows;
        &DATA[self.at - rows..self.at]
    }
}

/// One unit in the last place of a type at a number.
fn unit(dtype: DType, x: f64) -> f64 {
    let (mantissa, lowest) = match dtype {
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::F32 => (23, -126),
        _ => (52, -1022),
    };
    let bits = (x.abs().to_bits() >> 52) as i32;
    let exponent = (bits.max(1) - 1023).max(lowest) - mantissa;
    // 2^exponent, which may be subnormal
    2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f32::from_bits(0x7f7f_0000) as f64,
        DType::F32 => f32::MAX as f64,
        _ => f64::MAX,
    }
}

/// Whether a result is within so many units of the truth, and `more`. Half a unit past the largest is infinite.
fn close(dtype: DType, got: f64, truth: f64, ulp: f64, more: f64) -> bool {
    if truth.is_nan() || got.is_nan() {
        return truth.is_nan() && got.is_nan();
    }
    let (most, last) = (largest(dtype), unit(dtype, largest(dtype)));
    let past = truth.abs() >= most + last / 2.0;
    if got.is_infinite() || past {
        let beyond = most + last - (ulp * last + more);
        let large = |x: f64| x.is_infinite() || x.abs() >= beyond;
        return large(got) && large(truth) && got.signum() == truth.signum();
    }
    // halves of a unit are of no matter where the number itself is exact
    (got - truth).abs() <= ulp * unit(dtype, truth) + more
}

fn on(device: &Device, dtype: DType, data: &[f64]) -> Tensor {
    let x = Tensor::from_vec_on(data.to_vec(), [data.len()], device).cast(dtype);
    x.set_requires_grad(true)
}

fn numbers(x: &Tensor) -> Result<Vec<f64>, Error> {
    x.cast(DType::F64).to_vec::<f64>()
}

/// The value and the gradients of a function of some operands.
fn computed(
    f: impl FnOnce(&[Tensor]) -> Tensor,
    operands: &[Tensor],
) -> Result<Vec<Vec<f64>>, Error> {
    let y = f(operands);
    let grads = y.sum(..).gradient(operands)?;
    std::iter::once(&y).chain(&grads).map(numbers).collect()
}

/// What is wrong at the points.
fn failures(
    name: &str,
    dtype: DType,
    points: &[&[f64]],
    got: &[Vec<f64>],
    truth: &[Vec<f64>],
    bounds: &[Bound],
) -> Vec<String> {
    let of = Type { eps: unit(dtype, 1.0), least: unit(dtype, 0.0), most: largest(dtype) };
    let mut found = Vec::new();
    for (column, (got, truth)) in got.iter().zip(truth).enumerate() {
        let Bound { ulp, scale } = bounds[column];
        for (i, (&got, &truth)) in got.iter().zip(truth).enumerate() {
            let at: Vec<f64> = points.iter().map(|p| p[i]).collect();
            let more = scale(&at, truth, of);
            let more = if more.is_finite() { more } else { 0.0 };
            let zeros = truth == 0.0 && got == 0.0 && column == 0 && !EITHER_ZERO.contains(&name);
            let sign = !zeros || got.signum() == truth.signum();
            if !sign || !close(dtype, got, truth, ulp, more) {
                let off = (got - truth).abs() / unit(dtype, truth);
                found.push(format!(
                    "{name} {dtype} {} at {at:?}: {got:?}, not {truth:?} ({off:.2} units)",
                    ["value", "gradient", "second gradient"][column]
                ));
            }
        }
    }
    found
}

fn report(failures: Vec<String>) {
    let shown = if std::env::var_os("KILN_ALL").is_some() { usize::MAX } else { 60 };
    let text: Vec<&String> = failures.iter().take(shown).collect();
    assert!(failures.is_empty(), "{} fail:\n{text:#?}", failures.len());
}

fn rows(all: &[f64], at: &[usize]) -> Vec<f64> {
    at.iter().map(|&i| all[i]).collect()
}

fn check_one(device: &Device, dtype: DType) -> Vec<String> {
    let groups = counts("points");
    let mut columns = Columns { at: 0 };
    let n = groups.iter().sum();
    let points = columns.next(n);
    columns.next(2 * counts("pairs").iter().sum::<usize>());
    let at = held(&groups, dtype);
    assert!(at.len() >= 200);
    let x = rows(points, &at);
    let operand = [on(device, dtype, &x)];
    let mut found = Vec::new();
    for name in names("one") {
        let truth = [columns.next(n), columns.next(n)].map(|c| rows(c, &at));
        let (_, f, bounds) = ONE.iter().find(|(known, ..)| *known == name).expect("in the table");
        match computed(|x| f(&x[0]), &operand) {
            Ok(got) => found.extend(failures(name, dtype, &[&x], &got, &truth, bounds)),
            Err(error) => found.push(format!("{name} {dtype}: {error}")),
        }
    }
    found
}

fn check_two(device: &Device, dtype: DType) -> Vec<String> {
    let (groups, ones) = (counts("pairs"), counts("points").iter().sum::<usize>());
    let n = groups.iter().sum();
    let mut columns = Columns { at: ones };
    let points = [columns.next(n), columns.next(n)];
    columns.next(2 * ones * names("one").len());
    let at = held(&groups, dtype);
    assert!(at.len() >= 200);
    let [a, b] = points.map(|p| rows(p, &at));
    let operands = [on(device, dtype, &a), on(device, dtype, &b)];
    let mut found = Vec::new();
    for name in names("two") {
        let truth = [columns.next(n), columns.next(n), columns.next(n)].map(|c| rows(c, &at));
        let (_, f, bounds) = TWO.iter().find(|(known, ..)| *known == name).expect("in the table");
        match computed(|x| f(&x[0], &x[1]), &operands) {
            Ok(got) => found.extend(failures(name, dtype, &[&a, &b], &got, &truth, bounds)),
            Err(error) => found.push(format!("{name} {dtype}: {error}")),
        }
    }
    found
}

fn interpreter() -> Device {
    Device::parse("INTERP").expect("a device")
}

#[test]
fn functions_of_one_number_at_the_edges() {
    report(TYPES.iter().flat_map(|&dtype| check_one(&interpreter(), dtype)).collect());
}

#[test]
fn functions_of_two_numbers_at_the_edges() {
    report(TYPES.iter().flat_map(|&dtype| check_two(&interpreter(), dtype)).collect());
}

#[test]
fn edges_are_the_same_on_the_default_device() {
    report(check_one(&Device::default_device(), DType::F32));
    report(check_two(&Device::default_device(), DType::BF16));
}

/// NumPy's remainder and quotient, bit for bit; bf16, which NumPy has not, are those of f32 rounded.
#[test]
fn remainders_are_those_of_numpy() {
    let (groups, ones) = (counts("pairs"), counts("points").iter().sum::<usize>());
    let n: usize = groups.iter().sum();
    let start = ones + 2 * n + 2 * ones * names("one").len() + 3 * n * names("two").len();
    let mut found = Vec::new();
    for device in [interpreter(), Device::default_device()] {
        let mut columns = Columns { at: ones };
        let points = [columns.next(n), columns.next(n)];
        columns.at = start;
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let at = held(&groups, dtype);
            let [a, b] = points.map(|p| rows(p, &at));
            let [x, y] = [&a, &b].map(|p| on(&device, dtype, p));
            for (name, got) in [("modulo", x.modulo(&y)), ("floor_div", x.floor_div(&y))] {
                let truth = rows(columns.next(n), &at);
                let got = numbers(&got).expect("computes");
                for (i, (got, truth)) in got.into_iter().zip(truth).enumerate() {
                    let zeros = got != 0.0 || got.signum() == truth.signum();
                    let same = (got == truth && zeros) || (got.is_nan() && truth.is_nan());
                    if !same {
                        found.push(format!(
                            "{name} {dtype} {device} {} {}: {got:?}, not {truth:?}",
                            a[i], b[i]
                        ));
                    }
                }
            }
        }
    }
    report(found);
}
