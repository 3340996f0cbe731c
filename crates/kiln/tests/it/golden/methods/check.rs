//! Runs the cases of a subject and says what differs.

use super::super::data::{Array, numbers, tensor};
use super::super::list;
use super::calls::{Args, Outputs};
use flate2::read::GzDecoder;
use kiln::{DType, Device, Tensor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// How a subject calls its methods.
pub(super) type Call = fn(&str, Args<'_>, &[Tensor]) -> Outputs;

/// The weights of an output's elements, repeated, from another one on for each output.
const WEIGHTS: [f64; 7] = [0.5, -1.0, 1.5, 0.25, -0.75, 2.0, -0.5];

/// On the interpreter, which is slow, every so many cases are run.
const STEP_OF_INTERPRETER: usize = 9;
/// A kernel takes PoCL a tenth of a second and more.
const STEP_OF_OPENCL: usize = 61;

/// Bits of precision, and the exponent of the smallest number: the one table of what dtypes hold.
fn precision(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::F16 => (11, -24),
        DType::BF16 => (8, -133),
        DType::F32 => (24, -149),
        DType::F64 => (53, -1074),
        dtype => unreachable!("{dtype} is exact"),
    }
}

/// How far a float may be from the expected one.
struct Tolerance {
    dtype: DType,
    is_ulp: bool,
    count: f64,
    /// Whether the sign of a zero counts.
    signs: bool,
}

impl Tolerance {
    fn new(value: &Value, dtype: DType) -> Tolerance {
        let count = value[1].as_f64().expect("a count");
        let is_ulp = value[0] == "ulp";
        let exact = is_ulp && count == 0.0;
        let count = match dtype {
            // computed in f32 and rounded once: the nearest number or, where f32's error tips it over, the one beside it
            DType::F16 | DType::BF16 if !exact && is_ulp => 1.0 + count / 256.0,
            // what is expected was computed in f64 too, with errors of its own
            DType::F64 if !exact => 2.0 * count + 2.0,
            _ => count,
        };
        Tolerance { dtype, is_ulp, count, signs: is_ulp }
    }

    /// The distance from `x` to the next number of the dtype towards 0.
    fn unit(&self, x: f64) -> f64 {
        let (bits, least) = precision(self.dtype);
        let exponent = if x == 0.0 { least } else { x.abs().log2().floor() as i32 };
        f64::exp2((exponent - bits + 1).max(least).into())
    }

    fn allows(&self, got: f64, want: f64) -> bool {
        if got.is_nan() || want.is_nan() {
            return got.is_nan() && want.is_nan();
        }
        if got == want {
            return !self.signs || got.is_sign_negative() == want.is_sign_negative();
        }
        // beside the largest number lies infinity
        let largest =
            (2.0 - f64::exp2(1.0 - f64::from(precision(self.dtype).0))) * f64::exp2(self.top());
        let clamp =
            |x: f64| if x.is_infinite() && self.count > 0.0 { largest.copysign(x) } else { x };
        let (got, want) = (clamp(got), clamp(want));
        let scale =
            if self.is_ulp { self.unit(want) } else { self.unit(1.0) / 2.0 * want.abs().max(1.0) };
        (got - want).abs() <= self.count * scale
    }

    /// The exponent of the largest number.
    fn top(&self) -> f64 {
        match self.dtype {
            DType::F16 => 15.0,
            DType::F64 => 1023.0,
            _ => 127.0,
        }
    }
}

/// What is wrong with a result.
fn wrong(got: &Tensor, want: &Array, tolerance: impl Fn(DType) -> Tolerance) -> Option<String> {
    let (dtype, shape) = (got.dtype(), got.shape());
    if let Some(error) = got.error() {
        return Some(error.to_string());
    }
    if (dtype, shape) != (want.dtype, want.shape.as_slice()) {
        return Some(format!("is {dtype} {shape:?}, not {} {:?}", want.dtype, want.shape));
    }
    let got = match numbers(got) {
        Ok(got) => got,
        Err(error) => return Some(error.to_string()),
    };
    let same = |i: usize| match dtype.is_float() {
        true => tolerance(dtype).allows(got[i].float(), want.data[i].float()),
        false => got[i] == want.data[i],
    };
    let at = (0..got.len()).find(|&i| !same(i))?;
    Some(format!("element {at} is {:?}, not {:?}", got[at], want.data[at]))
}

fn weighed(output: &Tensor, shift: usize) -> Tensor {
    let weight = |i: usize| WEIGHTS[(i + shift) % WEIGHTS.len()];
    let weights: Vec<f64> = (0..output.numel()).map(weight).collect();
    let weights = Tensor::from_vec_on(weights, output.shape(), output.device());
    (output * weights.cast(output.dtype())).sum(..).cast(DType::F64)
}

/// What is wrong with the gradients.
fn wrong_slopes(case: &Value, inputs: &[Tensor], outputs: &[Tensor]) -> Vec<String> {
    let wanted: Vec<(usize, &Value)> =
        list(&case["g"]).iter().enumerate().filter(|(_, g)| !g.is_null()).collect();
    let floats = outputs.iter().enumerate().filter(|(_, y)| y.dtype().is_float());
    let Some(loss) = floats.map(|(k, y)| weighed(y, k)).reduce(|a, b| a + b) else {
        return Vec::new();
    };
    match loss.gradient(wanted.iter().map(|(i, _)| &inputs[*i])) {
        Err(error) => vec![error.to_string()],
        Ok(slopes) => {
            let check = |((i, want), got): (&(usize, &Value), &Tensor)| {
                // gradients add up, and a sum has no sign of zero
                let tolerance =
                    |dtype| Tolerance { signs: false, ..Tolerance::new(&case["s"], dtype) };
                let why = wrong(got, &Array::compact(want), tolerance)?;
                Some(format!("gradient {i}: {why}"))
            };
            wanted.iter().zip(&slopes).filter_map(check).collect()
        }
    }
}

fn wrong_outputs(case: &Value, outputs: &[Tensor]) -> Vec<String> {
    let wanted = list(&case["y"]);
    if outputs.len() != wanted.len() {
        let error = outputs.iter().find_map(Tensor::error);
        return vec![format!("{} results, not {}: {error:?}", outputs.len(), wanted.len())];
    }
    let check = |(got, want): (&Tensor, &Value)| {
        wrong(got, &Array::compact(want), |dtype| Tolerance::new(&case["t"], dtype))
    };
    outputs.iter().zip(wanted).filter_map(check).collect()
}

fn wrong_error(why: &str, outputs: &[Tensor]) -> Vec<String> {
    match outputs.first().and_then(Tensor::error) {
        // and where it was called
        Some(error)
            if [why, "golden/methods/"].iter().all(|part| error.to_string().contains(part)) =>
        {
            Vec::new()
        }
        error => vec![format!("{error:?} does not say {why:?} and its caller")],
    }
}

/// The outputs of a case's method. A case may name another subject; then its call is used.
fn called(case: &Value, call: Call, inputs: &[Tensor]) -> Outputs {
    let call = case["k"].as_str().and_then(super::call_of).unwrap_or(call);
    call(case["m"].as_str().expect("a method"), Args(list(&case["a"])), inputs)
}

/// Every failure of one case on one device.
fn failures_of(case: &Value, call: Call, device: &Device) -> Vec<String> {
    let name = case["m"].as_str().expect("a method");
    let inputs: Vec<Tensor> =
        list(&case["x"]).iter().map(|v| tensor(&Array::compact(v), device)).collect();
    for (t, _) in inputs.iter().zip(list(&case["g"])).filter(|(_, g)| !g.is_null()) {
        t.set_requires_grad(true);
    }
    let outputs = called(case, call, &inputs).0;
    let wrong = match case["e"].as_str() {
        Some(why) => wrong_error(why, &outputs),
        None => {
            let wrong = wrong_outputs(case, &outputs);
            if wrong.is_empty() { wrong_slopes(case, &inputs, &outputs) } else { wrong }
        }
    };
    let given = || list(&case["x"]).iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    let name = format!("{name} {} on {device}", case["a"]);
    wrong.into_iter().map(|why| format!("{name}: {why}, of {}", given())).collect()
}

fn cases(packed: &[u8]) -> Vec<Value> {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("gzip of UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn check_on(device: &Device, packed: &[u8], step: usize, call: Call) {
    let cases = cases(packed);
    let failures: Vec<String> =
        cases.iter().step_by(step).flat_map(|case| failures_of(case, call, device)).collect();
    let shown = failures.len().min(20);
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), failures[..shown].join("\n"));
}

/// The kernels of so many cases of a method are counted.
const COUNTED: usize = 3;

/// Adds, by method, the fewest and the most kernels that results of its first cases take.
pub(super) fn count(packed: &[u8], call: Call, all: &mut BTreeMap<String, (u64, u64)>) {
    // one device for all machines: a schedule depends on the target
    let device = Device::parse("INTERP").expect("a device");
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for case in cases(packed).iter().filter(|case| case["e"].is_null()) {
        let name = case["m"].as_str().expect("a method");
        let so_far = counted.entry(name.to_owned()).or_default();
        *so_far += 1;
        if *so_far > COUNTED {
            continue;
        }
        let given = list(&case["x"]).iter().map(|v| tensor(&Array::compact(v), &device));
        let inputs: Vec<Tensor> = given.collect();
        let compute = || kiln::realize(&called(case, call, &inputs).0);
        let (done, counts) = kiln::measure(compute);
        done.unwrap_or_else(|error| panic!("{name}: {error}"));
        let range = all.entry(name.to_owned()).or_insert((u64::MAX, 0));
        *range = (range.0.min(counts.kernels), range.1.max(counts.kernels));
    }
}

/// Checks all cases of a subject, of which there are so many at least, and some on the interpreter and on OpenCL, where there is a driver.
pub(super) fn check(packed: &[u8], least: usize, call: Call) {
    let count = cases(packed).len();
    assert!(count >= least, "only {count} cases");
    check_on(&Device::default_device(), packed, 1, call);
    check_on(&Device::parse("INTERP").expect("a device"), packed, STEP_OF_INTERPRETER, call);
    let opencl = Device::parse("CL").expect("a device");
    if opencl.describe().is_ok() {
        check_on(&opencl, packed, STEP_OF_OPENCL, call);
    }
}
