//! A program over values on several devices means what it means on one.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Device, Error, Tensor, nn, no_grad, optim, s};
use kiln_ir::observe::{self, Event, Kind, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const DEVICES: [&str; 3] = ["INTERP", "INTERP:1", "INTERP:2"];

/// How an operand lies: split along an axis, whole on each device, or on one device.
type Lie = Option<Option<isize>>;

fn placed(t: &Tensor, lie: Lie) -> Tensor {
    lie.map_or_else(|| t.to("INTERP"), |axis| t.shard(DEVICES, axis))
}

fn numbers(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let numbers: Vec<f32> = (0..n).map(|i| ((i * 7 + 3) % 11) as f32 - 4.0).collect();
    Tensor::from_vec(numbers, shape.to_vec())
}

/// What a program copied between devices: how many times, and how many bytes.
#[derive(Default)]
struct Copies(AtomicUsize, AtomicUsize);

impl Observer for Copies {
    fn see(&self, event: &Event<'_>) {
        if let Event::Copied { device, from, bytes, .. } = event
            && device != from
        {
            self.0.fetch_add(1, Relaxed);
            self.1.fetch_add(*bytes, Relaxed);
        }
    }

    fn wants(&self, kind: Kind) -> bool {
        kind == Kind::Runs
    }
}

fn copies<R>(program: impl FnOnce() -> R) -> (R, [usize; 2]) {
    let seen = Arc::new(Copies::default());
    let result = observe::with(Some(seen.clone()), program);
    (result, [seen.0.load(Relaxed), seen.1.load(Relaxed)])
}

/// How a result lies: the lengths of its parts along each axis that differs from the whole's.
fn lie_of(t: &Tensor) -> Option<usize> {
    let parts = t.shards().expect("computes");
    (0..t.ndim()).find(|&axis| parts.iter().any(|p| p.shape()[axis] != t.shape()[axis]))
}

/// An operation by its name, what it does to a `[6, 4]` tensor, and where the result is split if the operand is along
/// axis 0, along axis 1; none if it is whole.
type Row = (&'static str, fn(&Tensor) -> Tensor, [Option<usize>; 2]);

const TABLE: &[Row] = &[
    ("elementwise", |x| (x * 2.0 + 1.0).abs().sqrt(), [Some(0), Some(1)]),
    (
        "with a constant",
        |x| x + &Tensor::arange_with(4, (DType::F32, x.device())),
        [Some(0), Some(1)],
    ),
    ("cast", |x| x.cast(DType::I32), [Some(0), Some(1)]),
    ("where", |x| x.gt(0.0).where_(x, &(x * 0.5)), [Some(0), Some(1)]),
    ("transpose", |x| x.permute([1, 0]), [Some(1), Some(0)]),
    ("sum of rows", |x| x.sum(1), [Some(0), None]),
    ("sum of columns", |x| x.sum(0), [None, Some(0)]),
    ("sum of all", |x| x.sum(..), [None, None]),
    ("max of columns", |x| x.max(0), [None, Some(0)]),
    (
        "mean and variance",
        |x| (x - x.mean(1).unsqueeze(1)) / x.var(1).unsqueeze(1),
        [Some(0), Some(1)],
    ),
    ("softmax", |x| x.softmax(1), [Some(0), Some(1)]),
    ("argmax", |x| x.argmax(1), [Some(0), None]),
    ("reshape that keeps", |x| x.reshape([6, 2, 2]), [Some(0), None]),
    ("reshape that merges", |x| x.reshape([24]), [Some(0), None]),
    ("unsqueeze and expand", |x| x.unsqueeze(1).expand([6, 3, 4]), [Some(0), Some(2)]),
    ("slice of columns", |x| x.get(s![.., 1..3]), [Some(0), None]),
    ("slice of rows", |x| x.get(s![1..5]), [None, Some(1)]),
    ("one row", |x| x.get(s![2]), [None, Some(0)]),
    ("flip of columns", |x| x.flip(1), [Some(0), None]),
    ("flip of rows", |x| x.flip(0), [None, Some(1)]),
    ("pad of rows", |x| x.pad([(2, 1), (0, 0)]), [Some(0), Some(1)]),
    ("cat of rows", |x| Tensor::cat([x, &(x * 2.0)], 0), [Some(0), Some(1)]),
    ("matrix product", |x| x.matmul(&x.permute([1, 0]).contiguous()), [Some(0), None]),
    ("cumulative sum", |x| x.cumsum(1), [Some(0), None]),
    ("sort", |x| x.sort(0, false).0, [None, None]),
    ("lookup", |x| x.index_select(0, &Tensor::from([1, 0, 5]).to(x.device())), [None, None]),
    ("windows", |x| x.reshape([1, 1, 6, 4]).max_pool2d((2, 2)), [Some(2), None]),
    (
        "a write",
        |x| {
            let y = x.copy();
            y.set(s![1..4, 2], 9.0);
            y
        },
        [Some(0), Some(1)],
    ),
    (
        "random numbers",
        |x| x + &kiln::Rng::new(3).rand_with([6, 4], (DType::F32, x.device())),
        [Some(0), Some(1)],
    ),
];

#[test]
fn what_happens_to_each_operation() {
    for (name, run, wanted) in TABLE {
        let x = numbers(&[6, 4]);
        let whole = run(&placed(&x, None));
        let expected: Vec<f64> = whole.cast(DType::F64).to_vec().expect(name);
        for (lie, wanted) in
            [(Some(None), None), (Some(Some(0)), wanted[0]), (Some(Some(1)), wanted[1])]
        {
            let y = run(&placed(&x, lie));
            assert_eq!(y.shape(), whole.shape(), "{name} {lie:?}");
            let found: Vec<f64> =
                y.cast(DType::F64).to_vec().unwrap_or_else(|e| panic!("{name}: {e}"));
            let close = |(a, b): (&f64, &f64)| {
                (a - b).abs() <= 1e-5 * a.abs().max(1.0) || a.is_nan() && b.is_nan()
            };
            assert!(
                found.iter().zip(&expected).all(close),
                "{name} {lie:?}: {found:?} {expected:?}"
            );
            assert_eq!(lie_of(&y), wanted, "{name} {lie:?}");
        }
    }
}

/// Copies and bytes of each pattern, with three devices.
#[test]
fn what_is_copied() {
    let at = |t: &Tensor, axis| {
        let t = t.shard(DEVICES, axis);
        t.realize().expect("computes");
        t
    };
    let (x, w) = (at(&numbers(&[6, 4]), Some(0)), at(&numbers(&[4, 3]), None));
    let run = |t: Tensor| copies(|| t.realize().map(drop).expect("computes")).1;
    assert_eq!(run(&x * 2.0 + 1.0), [0, 0], "each has its own part");
    assert_eq!(run(x.matmul(&w)), [0, 0], "rows by a whole matrix");
    assert_eq!(run(x.sum(1)), [0, 0], "within parts");
    assert_eq!(run(x.sum(0)), [6, 6 * 16], "each sends its sums to the two others");
    assert_eq!(run(x.flip(0) * 2.0), [6, 6 * 32], "each sends its part to the two others");
    let rows = at(&Tensor::from([1, 0, 5, 2, 2, 3]), Some(0));
    let whole = at(&numbers(&[6, 4]), None);
    assert_eq!(run(whole.index_select(0, &rows) * 2.0), [0, 0], "each looks up its own rows");
    let t = numbers(&[6, 4]);
    t.realize().expect("computes");
    let home = t.to("INTERP");
    home.realize().expect("computes");
    assert_eq!(run(home.shard(DEVICES, Some(0))), [2, 2 * 32], "only the parts are sent");
}

#[test]
fn large_sums_are_scattered() {
    let n = 300_000;
    let x = Tensor::arange_with(3 * n, (DType::I32, "NULL")).reshape([3, n]);
    let devices = ["NULL", "NULL:1", "NULL:2"];
    let x = x.shard(devices, 0).contiguous();
    x.realize().expect("computes");
    let (_, [times, bytes]) = copies(|| x.sum(0).realize().map(drop).expect("computes"));
    // reduce-scatter and all-gather: each of three pieces goes to two devices, twice
    assert_eq!((times, bytes), (12, 2 * 2 * 4 * n));
}

/// What helping threads do is counted, too.
#[test]
fn work_on_all_devices_is_measured() {
    let x = numbers(&[30, 100]).shard(DEVICES, 0);
    x.realize().expect("computes");
    let (_, counts) = kiln::measure(|| (&x * 2.0).realize().map(drop).expect("computes"));
    assert_eq!((counts.kernels, counts.flops, counts.peak_memory), (3, 3000, 12_000));
}

#[test]
fn uneven_parts_and_empty_ones() {
    for n in [1, 2, 3, 4, 7] {
        let x = numbers(&[n, 2]);
        let y = x.shard(DEVICES, 0);
        let lengths: Vec<usize> =
            y.shards().expect("computes").iter().map(|p| p.shape()[0]).collect();
        assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (3, n));
        assert!(lengths.iter().max().expect("3") - lengths.iter().min().expect("3") <= 1);
        for f in [
            |x: &Tensor| x.sum(0),
            |x: &Tensor| x.max(0),
            |x: &Tensor| x.softmax(0),
            |x: &Tensor| x * 2.0,
        ] {
            let (a, b): (Vec<f32>, Vec<f32>) =
                (f(&x).to_vec().expect("ok"), f(&y).to_vec().expect("ok"));
            assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5), "{n}: {a:?} {b:?}");
        }
    }
}

#[test]
fn mistakes_are_errors() {
    let x = numbers(&[6, 4]);
    let y = x.shard(DEVICES, 0);
    assert_eq!(y.device().name(), "INTERP+INTERP:1+INTERP:2");
    let error = |t: Tensor| t.realize().map(drop).expect_err("a mistake").to_string();
    assert!(error(&x.to("INTERP") + &y).contains("INTERP+INTERP:1+INTERP:2"));
    assert!(error(x.shard(DEVICES, 2)).contains("shard"), "{}", error(x.shard(DEVICES, 2)));
    assert!(error(x.shard(["INTERP", "INTERP"], 0)).contains("twice"));
    assert!(error(x.shard(["INTERP", "CUDA"], 0)).contains("no device \"CUDA\""));
    assert!(error(x.shard([""; 0], 0)).contains("no devices"));
    let one = x.shard(["INTERP:2"], 0);
    assert_eq!(
        (one.device().name(), one.to_vec::<f32>().ok()),
        ("INTERP:2", x.to_vec::<f32>().ok())
    );
    let home = y.to("INTERP:1") + 1.0;
    assert_eq!(home.to_vec::<f32>().expect("ok"), (&x + 1.0).to_vec::<f32>().expect("ok"));
    let again = y.shard(DEVICES, 1) * 2.0;
    assert_eq!(lie_of(&again), Some(1));
    assert_eq!(again.to_vec::<f32>().expect("ok"), (&x * 2.0).to_vec::<f32>().expect("ok"));
}

#[test]
fn gradients_go_back() {
    let x = numbers(&[6, 4]).set_requires_grad(true);
    let w = numbers(&[4, 3]).shard(DEVICES, None).set_requires_grad(true);
    let y = (x.shard(DEVICES, 0).matmul(&w).sigmoid() * 3.0).to("INTERP:1");
    y.sum(..).backward().expect("differentiable");
    let (x1, w1) =
        (numbers(&[6, 4]).set_requires_grad(true), numbers(&[4, 3]).set_requires_grad(true));
    (x1.matmul(&w1).sigmoid() * 3.0).sum(..).backward().expect("differentiable");
    for (a, b) in [(&x, &x1), (&w, &w1)] {
        let (ga, gb) = (a.grad().expect("wanted"), b.grad().expect("wanted"));
        assert_eq!(ga.device(), a.device());
        let (ga, gb): (Vec<f32>, Vec<f32>) = (ga.to_vec().expect("ok"), gb.to_vec().expect("ok"));
        assert!(ga.iter().zip(&gb).all(|(a, b)| (a - b).abs() < 1e-4), "{ga:?} {gb:?}");
    }
}

/// Data-parallel: batches are split, weights are whole; or weights and the optimizer's state are split as well.
fn trained(devices: &[&str], weights: Option<isize>) -> Result<Vec<Vec<f32>>, Error> {
    let (first, second) = (nn::Linear::new(6, 9), nn::Linear::new(9, 3));
    let filled = |t: &Tensor| {
        no_grad(|| placed_on(devices, &(numbers(t.shape()) * 0.1), weights).contiguous())
    };
    let mut layers = [first, second];
    for layer in &mut layers {
        layer.weight = filled(&layer.weight).set_requires_grad(true);
        let bias = layer.bias.as_ref().map(|b| filled(b).set_requires_grad(true));
        layer.bias = bias;
    }
    let all: Vec<Tensor> =
        layers.iter().flat_map(|l| [Some(l.weight.clone()), l.bias.clone()]).flatten().collect();
    let adam = optim::Adam::new(&all, 0.05);
    let x = placed_on(devices, &numbers(&[10, 6]), Some(0));
    let labels = placed_on(devices, &Tensor::from([0, 2, 1, 1, 0, 2, 2, 1, 0, 1]), Some(0));
    for _ in 0..5 {
        let loss = layers[1].forward(&layers[0].forward(&x).relu()).cross_entropy(&labels);
        adam.zero_grad();
        loss.backward()?;
        adam.step()?;
    }
    all.iter().map(|w| w.to_vec::<f32>()).collect()
}

fn placed_on(devices: &[&str], t: &Tensor, axis: Option<isize>) -> Tensor {
    if devices.len() == 1 { t.to(devices[0]) } else { t.shard(devices, axis) }
}

#[test]
fn training_is_training_on_one_device() {
    let one = trained(&["INTERP"], None).expect("trains");
    for (weights, devices) in
        [(None, &DEVICES[..]), (Some(0), &DEVICES[..]), (None, &["CPU", "CPU:1"])]
    {
        let several = trained(devices, weights).expect("trains");
        assert_eq!(several, trained(devices, weights).expect("trains"), "bit for bit with itself");
        for (a, b) in one.iter().flatten().zip(several.iter().flatten()) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }
}

/// Programs of views, writes and sums over integers held as floats, where every order is exact.
#[test]
fn random_programs() {
    for seed in seeds(40) {
        let run = |lie: [Lie; 2]| program(seed, lie);
        let whole = run([None, None]);
        let mut rng = Rng(seed ^ 0x5eed);
        let mut lie = || Some([None, Some(0), Some(1)][rng.below(3)]);
        let lies = [lie(), lie()];
        assert_eq!(run(lies), whole, "seed {seed} {lies:?}");
    }
}

fn program(seed: u64, lies: [Lie; 2]) -> Vec<Vec<f32>> {
    let mut rng = Rng(seed);
    let shape = [1 + rng.below(5), 1 + rng.below(5)];
    let mut all: Vec<Tensor> = lies.iter().map(|&lie| placed(&numbers(&shape), lie)).collect();
    let mut read = Vec::new();
    for _ in 0..3 + rng.below(8) {
        let (a, b) = (rng.below(all.len()), rng.below(all.len()));
        let (x, y) = (&all[a], &all[b]);
        let new = match rng.below(12) {
            0 | 1 if x.shape() == y.shape() => x + y,
            2 if x.shape() == y.shape() => x.maximum(y),
            3 => x * 2.0 - 1.0,
            4 if x.ndim() > 1 => x.permute([1, 0]),
            5 if x.ndim() > 1 && x.shape() == y.shape() => x.matmul(&y.permute([1, 0])).fmod(64.0),
            6 => x.flip(0),
            7 => x.get(s![rng.below(x.shape()[0])..]),
            8 => x.sum_keepdim(rng.below(x.ndim())).expand(x.shape()).copy(),
            9 => Tensor::cat([x, x], 0),
            10 => {
                x.set(s![..;2], rng.below(9) as f32);
                continue;
            }
            11 => {
                read.push(x.to_vec::<f32>().expect("computes"));
                continue;
            }
            _ => x.clone(),
        };
        if new.numel() <= 200 {
            all.push(new);
        }
    }
    read.extend(all.iter().map(|t| t.to_vec::<f32>().expect("computes")));
    read
}

/// A convolutional network on four devices, each with a part of each batch.
#[test]
fn a_convolutional_network_is_trained_on_four_devices() {
    use nn::Module;
    let run = |devices: &[&str]| -> Result<Vec<Vec<f32>>, Error> {
        let mut conv = nn::Conv2d::new(1, 4, 3);
        let mut last = nn::Linear::new(4 * 9, 10);
        for w in conv.state_dict().values().chain(last.state_dict().values()) {
            no_grad(|| w.assign(numbers(w.shape()) * 0.05));
        }
        if let [one] = devices {
            conv.to(*one)?;
            last.to(*one)?;
        } else {
            conv.shard(devices, None)?;
            last.shard(devices, None)?;
        }
        let weights: Vec<Tensor> =
            conv.state_dict().into_values().chain(last.state_dict().into_values()).collect();
        let sgd = optim::SGD::new(&weights, 0.1).momentum(0.9);
        let labels: Vec<i32> = (0..10).collect();
        let x = placed_on(devices, &numbers(&[10, 1, 8, 8]), Some(0));
        let labels = placed_on(devices, &Tensor::from(labels), Some(0));
        for _ in 0..3 {
            let y = conv.forward(&x).relu().max_pool2d((2, 2)).flatten_axes(1, -1);
            let loss = last.forward(&y).cross_entropy(&labels);
            sgd.zero_grad();
            loss.backward()?;
            sgd.step()?;
        }
        weights.iter().map(Tensor::to_vec::<f32>).collect()
    };
    let one = run(&["CPU"]).expect("trains");
    let devices = ["CPU", "CPU:1", "CPU:2", "CPU:3"];
    let four = run(&devices).expect("trains");
    assert_eq!(four, run(&devices).expect("trains"), "bit for bit with itself");
    for (a, b) in one.iter().flatten().zip(four.iter().flatten()) {
        assert!((a - b).abs() <= 1e-4 * a.abs().max(1.0), "{a} {b}");
    }
}

#[test]
fn a_set_is_a_device() {
    let set = Device::parse("interp+interp:1").expect("a set");
    assert_eq!(set.name(), "INTERP+INTERP:1");
    let x = Tensor::from_vec_on(vec![1.0f32, 2.0], [2], &set) + Tensor::ones_with([2], &set);
    assert_eq!(
        (x.to_vec::<f32>().expect("ok"), x.shards().expect("ok").len()),
        (vec![2.0, 3.0], 2)
    );
    assert!(x.item::<f32>().is_err());
    assert_eq!(x.to(DType::I32).get(s![1]).item::<i32>().expect("ok"), 3);
}
