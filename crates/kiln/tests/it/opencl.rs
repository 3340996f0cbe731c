//! OpenCL, where the machine has a library and a driver for it. Elsewhere each test says that it is skipped.
#![allow(clippy::print_stderr, reason = "says what it skips")]

use crate::{model, random_graphs};
use kiln::{DType, Device, Tensor, nn, no_grad, optim, s};

/// The device, if there is one.
fn cl() -> Option<Device> {
    let device = Device::parse("CL").expect("a name");
    match device.describe() {
        Ok(_) => Some(device),
        Err(why) => {
            eprintln!("skipped: no OpenCL here ({why})");
            None
        }
    }
}

/// What a program gives on OpenCL and on the interpreter.
fn both<T: kiln::Element>(run: impl Fn(&Device) -> Tensor) -> Option<[Vec<T>; 2]> {
    let interp = Device::parse("INTERP").expect("a name");
    let found = [cl()?, interp].map(|device| run(&device).to_vec().expect("computes"));
    Some(found)
}

/// A program computes on OpenCL what the interpreter does, within the order of sums.
fn close(run: &dyn Fn(&Device) -> Tensor) {
    let Some([found, wanted]) = both::<f32>(run) else { return };
    let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4 * b.abs().max(1.0);
    assert!(!found.iter().zip(&wanted).any(differs), "{found:?} {wanted:?}");
}

fn numbers(shape: &[usize], device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 7 + 3) % 23) as f32 / 4.0 - 2.5).collect();
    Tensor::from_vec_on(numbers, shape.to_vec(), device)
}

#[test]
fn every_dtype_is_stored_and_converted() {
    let dtypes =
        [DType::Bool, DType::U8, DType::I8, DType::U16, DType::I16, DType::I32, DType::U32]
            .into_iter()
            .chain([DType::I64, DType::U64, DType::F16, DType::BF16, DType::F32, DType::F64]);
    for dtype in dtypes {
        let run = |device: &Device| {
            let x = numbers(&[40], device).cast(dtype);
            let y = if dtype == DType::Bool { x.clone() } else { &x + &x };
            x.realize().expect("computes");
            y.cast(DType::F64)
        };
        let Some([found, wanted]) = both::<f64>(run) else { return };
        assert_eq!(found, wanted, "{dtype}");
    }
}

#[test]
fn sums_products_and_windows() {
    // the items of a group sum together
    close(&|d| numbers(&[3, 3000], d).sum(1));
    close(&|d| numbers(&[700, 2], d).max(0));
    close(&|d| numbers(&[5000], d).sum(..) * 2.0);
    close(&|d| numbers(&[3000, 2], d).cast(DType::F64).min(0).cast(DType::F32));
    close(&|d| numbers(&[2, 2000], d).cast(DType::BF16).max(1).cast(DType::F32));
    close(&|d| numbers(&[2, 1500], d).gt(0.5).sum(1).cast(DType::F32));
    // in register tiles
    close(&|d| numbers(&[64, 32], d).matmul(&numbers(&[32, 128], d)));
    close(&|d| numbers(&[300, 7], d).sum(0));
    close(&|d| numbers(&[7, 300], d).softmax(1));
    close(&|d| numbers(&[19, 33], d).matmul(&numbers(&[33, 41], d)));
    close(&|d| numbers(&[2, 3, 9, 9], d).conv2d(&numbers(&[4, 3, 3, 3], d), None, 1, 1, 1, 1));
    close(&|d| numbers(&[6, 50], d).var(1).sqrt().sin().exp());
    close(&|d| numbers(&[20, 6], d).cumsum(0).permute([1, 0]).contiguous());
}

/// Rows that items go along together, in one kernel or several, and copies that go across in scratch.
#[test]
fn rows_and_transposes() {
    for (rows, n) in [(64, 64), (5, 1000), (300, 33), (1, 20), (5000, 16)] {
        close(&|d| numbers(&[rows, n], d).softmax(1));
        close(&|d| numbers(&[rows, n], d).layernorm(1));
        close(&|d| numbers(&[rows, n], d).sum(1));
        close(&|d| numbers(&[rows, n], d).permute([1, 0]).contiguous());
        close(&|d| {
            numbers(&[rows, n], d).cast(DType::F16).permute([1, 0]).contiguous().cast(DType::F32)
        });
    }
    // over the rows that they are computed from
    close(&|d| {
        let mut x = numbers(&[64, 200], d);
        for _ in 0..3 {
            x = x.softmax(1) * 10.0;
            x.realize().expect("computes");
        }
        x
    });
    close(&|d| numbers(&[3, 20, 50], d).permute([0, 2, 1]).contiguous());
    close(&|d| numbers(&[40, 70], d) + numbers(&[70, 40], d).permute([1, 0]));
}

/// In OpenCL C signed overflow has no meaning, so a compiler may think that `x + 1 < x` is never true.
#[test]
fn integers_wrap() {
    let ends = |d: &Device| Tensor::from([i32::MIN, -7, 0, 2_000_000_000, i32::MAX]).to(d);
    let wide = |d: &Device| Tensor::from([i64::MIN, -7, 0, 1 << 62, i64::MAX]).to(d);
    let same = |run: &dyn Fn(&Device) -> Tensor| {
        let Some([found, wanted]) = both::<i64>(|d: &Device| run(d).cast(DType::I64)) else {
            return;
        };
        assert_eq!(found, wanted);
    };
    for x in [&ends as &dyn Fn(&Device) -> Tensor, &wide] {
        same(&|d| (x(d) + 1).lt(x(d)));
        same(&|d| x(d).lt(x(d) - 1));
        same(&|d| (x(d) * 2).lt(0));
        same(&|d| (-x(d)).lt(1));
        same(&|d| x(d) * x(d) + x(d) * 3 - 5);
    }
}

#[test]
fn writes_views_and_copies() {
    let run = |device: &Device| {
        let t = numbers(&[6, 5], device);
        t.set(s![1..4, ..;2], 9.0);
        t.get(s![.., 1]).add_assign(1.0);
        let rows = t.index_select(0, &Tensor::from_vec_on(vec![5i64, 0, 2], [3], device));
        let home = rows.to("CPU") * 2.0;
        home.to(device).flip(1) + t.get(s![..3])
    };
    if let Some([found, wanted]) = both::<f32>(run) {
        assert_eq!(found, wanted);
    }
}

#[test]
fn a_network_learns() {
    let Some(device) = cl() else { return };
    let mut layers = (nn::Linear::new(8, 16), nn::Linear::new(16, 3));
    {
        use nn::Module;
        layers.to(&device).expect("all are its own");
    }
    for layer in [&layers.0, &layers.1] {
        no_grad(|| layer.weight.assign(numbers(layer.weight.shape(), &device) * 0.1));
    }
    let weights: Vec<Tensor> = [&layers.0, &layers.1]
        .into_iter()
        .flat_map(|l| [Some(l.weight.clone()), l.bias.clone()])
        .flatten()
        .collect();
    let adam = optim::Adam::new(&weights, 0.05);
    let x = numbers(&[12, 8], &device);
    let labels = Tensor::from_vec_on((0..12).map(|i| i % 3).collect::<Vec<i32>>(), [12], &device);
    let mut losses = Vec::new();
    for _ in 0..20 {
        let loss = layers.1.forward(&layers.0.forward(&x).relu()).cross_entropy(&labels);
        adam.zero_grad();
        loss.backward().expect("differentiable");
        adam.step().expect("steps");
        losses.push(loss.item::<f32>().expect("computes"));
    }
    assert!(losses[19] < 0.8 * losses[0], "{losses:?}");
    assert!(device.memory().expect("open").used > 0);
}

#[test]
fn random_programs() {
    if cl().is_some() {
        random_graphs::agree("CL", "INTERP", 12);
        model::agree(&["CL"], 16);
        model::agree(&["CL", "CPU"], 8);
    }
}
