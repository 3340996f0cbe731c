//! Devices with memory of their own. Copies are lazy and made once; a program over several devices has the same results
//! as on one.

use kiln::{Device, Error, Tensor, nn, optim, s};
use kiln_ir::observe::{self, Event, Kind, Observer};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn device(name: &str) -> Device {
    Device::parse(name).expect("a name")
}

fn ints(t: &Tensor) -> Vec<i32> {
    t.to_vec().expect("computes")
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("computes")
}

/// A launch or a copy.
#[derive(Clone, Debug)]
struct Step {
    what: String,
    device: String,
    start: Instant,
    end: Instant,
}

#[derive(Default)]
struct Steps(Mutex<Vec<Step>>);

impl Observer for Steps {
    fn see(&self, event: &Event<'_>) {
        let (what, device, start, end) = match event {
            Event::Launched { device, start, end, .. } => ("run".to_owned(), device, start, end),
            Event::Copied { device, from, bytes, start, end } => {
                (format!("{bytes} B from {from}"), device, start, end)
            }
            _ => return,
        };
        let (device, start, end) = (device.to_string(), *start, *end);
        self.0.lock().expect("no panic").push(Step { what, device, start, end });
    }

    fn wants(&self, kind: Kind) -> bool {
        kind == Kind::Runs
    }
}

fn steps<R>(program: impl FnOnce() -> R) -> (R, Vec<Step>) {
    let seen = Arc::new(Steps::default());
    let result = observe::with(Some(seen.clone()), program);
    let steps = seen.0.lock().expect("no panic").clone();
    (result, steps)
}

fn texts(steps: &[Step]) -> Vec<String> {
    steps.iter().map(|step| format!("{}: {}", step.device, step.what)).collect()
}

#[test]
fn names_have_a_number() {
    let name = |name: &str| Device::parse(name).expect("a name").name().to_owned();
    assert_eq!([name("cpu:0"), name("cpu:1"), name("CPU:01")], ["CPU", "CPU:1", "CPU:1"]);
    assert_eq!([name("cpu:0:llvm"), name("cpu:2:llvm")], ["CPU:LLVM", "CPU:2:LLVM"]);
    assert_eq!(name("cpu:1:llvm:x86_64,haswell"), "CPU:1:LLVM:x86_64,haswell");
    let described = |name: &str| Device::parse(name).expect("a name").describe().expect("opens");
    assert_eq!(described("CPU:3"), described("CPU"));
    assert_eq!(described("INTERP:1"), described("INTERP"));
    let nowhere =
        Tensor::zeros_with([2], "CUDA:1").realize().map(drop).expect_err("no such device");
    assert!(nowhere.to_string().contains("no device \"CUDA:1\""), "{nowhere}");
}

#[test]
fn paths_are_no_sets() {
    let path = std::env::temp_dir().join(format!("kiln+cpu@0:1-{}", std::process::id()));
    let name = format!("DISK:{}", path.display());
    let t = Tensor::empty_with([3], (kiln::DType::U8, name.as_str()));
    t.assign(Tensor::from([1u8, 2, 3]));
    assert_eq!(t.to_vec::<u8>().expect("reads"), [1, 2, 3]);
    assert_eq!((t.to("CPU:1") + 1).to_vec::<u8>().expect("reads"), [2, 3, 4]);
    drop(t);
    std::fs::remove_file(&path).expect("it was written");
}

/// A copy is made when its value is needed, once.
#[test]
fn copies_are_lazy() {
    let x = Tensor::from([1, 2, 3]);
    let (y, none) = steps(|| (&x * 2).to("CPU:1") + 1);
    assert!(none.is_empty(), "{none:?}");
    let (values, all) = steps(|| ints(&y));
    assert_eq!(values, [3, 5, 7]);
    let own = x.device().name();
    let wanted = [format!("{own}: run"), format!("CPU:1: 12 B from {own}"), "CPU:1: run".into()];
    assert_eq!(texts(&all), wanted);
    let (_, again) = steps(|| ints(&y));
    assert!(again.is_empty(), "{again:?}");
    // what is there needs no copy
    let (here, steps) = steps(|| ints(&x.to(x.device())));
    assert_eq!((here, steps.len()), (vec![1, 2, 3], 0));
}

/// Only the parts that are needed are copied; a constant is made where it is needed.
#[test]
fn what_is_copied_is_what_is_used() {
    let x = Tensor::arange_with(100, kiln::DType::I32)
        .contiguous()
        .realize()
        .expect("computes")
        .clone();
    let (values, all) = steps(|| ints(&x.get(s![10..12]).to("CPU:1")));
    assert_eq!(values, [10, 11]);
    assert!(texts(&all).iter().any(|t| t.starts_with("CPU:1: 8 B")), "{all:?}");
    let (values, all) =
        steps(|| ints(&(x.to("CPU:1").get(s![0..2]) + x.to("CPU:1").get(s![1..3]))));
    assert_eq!(values, [1, 3]);
    let copies = texts(&all).iter().filter(|t| t.contains("from")).count();
    assert_eq!(copies, 1, "one value, one copy: {all:?}");
}

#[test]
fn a_copy_is_a_value_of_its_own() {
    let x = Tensor::from([1, 2, 3]);
    let there = x.to("CPU:1");
    x.set(s![0], 9);
    assert_eq!((ints(&there), ints(&x)), (vec![1, 2, 3], vec![9, 2, 3]));
    there.set(s![1], 7);
    assert_eq!((ints(&there), ints(&x)), (vec![1, 7, 3], vec![9, 2, 3]));
    let back = there.to(x.device()) + &x;
    assert_eq!(ints(&back), [10, 9, 6]);
}

#[test]
fn nothing_moves_by_itself() {
    let (x, y) = (Tensor::from([1.0f32]), Tensor::ones_with([1], "CPU:1"));
    let error = (&x + &y).realize().map(drop).expect_err("two devices").to_string();
    assert!(error.contains(x.device().name()) && error.contains("CPU:1"), "{error}");
    assert!(x.try_assign(&y).is_err());
    assert_eq!(floats(&x), [1.0]);
    assert_eq!((&y + 1.0).sum(..).device().name(), "CPU:1");
}

/// Writes that become a table are a table of their own device, not of the one that asks.
#[test]
fn writes_are_combined_where_they_are() {
    let x = Tensor::zeros_with([20], kiln::DType::I32);
    (0..20).for_each(|i| x.set(s![i], i * i % 7));
    let wanted: Vec<i32> = (0..20).map(|i| i * i % 7 + 1).collect();
    assert_eq!(ints(&(x.to("CPU:1") + 1)), wanted);
    // and with writes on the way
    let there = x.to("CPU:1");
    (0..20).for_each(|i| there.set(s![19 - i], i * i % 7));
    let back = there.to("CPU:2").copy();
    (0..10).for_each(|i| back.set(s![2 * i], i % 3));
    let sums = &back.to(x.device()) + &x;
    let value = |i: i32| if i % 2 == 0 { i / 2 % 3 } else { (19 - i) * (19 - i) % 7 };
    assert_eq!(ints(&sums), (0..20).map(|i| value(i) + i * i % 7).collect::<Vec<_>>());
}

/// No recursion follows the program, and each copy is made once.
#[test]
fn back_and_forth() {
    let mut x = Tensor::from([0i64]);
    let home = x.device().clone();
    for _ in 0..500 {
        x = (x + 1).to("CPU:1");
        x = (x + 1).to(&home);
    }
    let (values, all) = steps(|| x.to_vec::<i64>().expect("computes"));
    assert_eq!(values, [1000]);
    assert_eq!(texts(&all).iter().filter(|t| t.contains("from")).count(), 1000);
}

#[test]
fn gradients_cross() {
    let x = Tensor::from([1.0f32, 2.0, 3.0]).set_requires_grad(true);
    let w =
        Tensor::from_vec_on(vec![2.0f32, 3.0, 4.0], [3], &device("CPU:1")).set_requires_grad(true);
    let loss = ((&x * &x).to("CPU:1") * &w).to("CPU:2").exp().log().sum(..);
    loss.backward().expect("differentiable");
    let (dx, dw) = (x.grad().expect("wanted"), w.grad().expect("wanted"));
    assert_eq!((dx.device(), dw.device()), (x.device(), w.device()));
    let close = |a: &Tensor, b: [f32; 3]| {
        floats(a).iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 1e-4, "{a} {b}"));
    };
    close(&dx, [4.0, 12.0, 24.0]);
    close(&dw, [1.0, 4.0, 9.0]);
    // a sum of constants, whose gradient is made of nothing but numbers
    let z = Tensor::zeros([3]).set_requires_grad(true);
    z.to("CPU:1").sum(..).backward().expect("differentiable");
    assert_eq!(floats(&z.grad().expect("wanted")), [1.0; 3]);
    assert_eq!(z.grad().expect("wanted").device(), z.device());
    // of second order
    let y = Tensor::from([2.0f32]).set_requires_grad(true);
    let cube = (&y * &y).to("CPU:1") * y.to("CPU:1");
    let first = cube.sum(..).gradient([&y]).expect("differentiable").remove(0);
    let second = first.sum(..).gradient([&y]).expect("differentiable").remove(0);
    assert_eq!((floats(&first), floats(&second)), (vec![12.0], vec![12.0]));
}

/// A layer on each device, against both on one.
fn trained(devices: [&str; 2]) -> Result<Vec<Vec<f32>>, Error> {
    let build = |name: &str, inputs, outputs| {
        let there = device(name);
        let mut layer = nn::Linear::new(inputs, outputs);
        let numbers: Vec<f32> =
            (0..inputs * outputs).map(|i| (i * 7 % 11) as f32 / 11.0 - 0.5).collect();
        layer.weight =
            Tensor::from_vec_on(numbers, [outputs, inputs], &there).set_requires_grad(true);
        layer.bias = Some(Tensor::zeros_with([outputs], name).set_requires_grad(true));
        layer
    };
    let [first, second] = [build(devices[0], 6, 5), build(devices[1], 5, 3)];
    let weights = [&first, &second].map(|l| [Some(l.weight.clone()), l.bias.clone()]);
    let weights: Vec<Tensor> = weights.into_iter().flatten().flatten().collect();
    let adam = optim::Adam::new(&weights, 0.05);
    let x: Vec<f32> = (0..24).map(|i| (i * 5 % 13) as f32 / 13.0).collect();
    let x = Tensor::from_vec_on(x, [4, 6], &device(devices[0]));
    let labels = Tensor::from_vec_on(vec![0i32, 2, 1, 1], [4], &device(devices[1]));
    for _ in 0..10 {
        // a copy stores its value; `contiguous` does, too
        let hidden = first.forward(&x).relu().contiguous().to(devices[1]);
        let loss = second.forward(&hidden).cross_entropy(&labels);
        adam.zero_grad();
        loss.backward()?;
        adam.step()?;
    }
    weights.iter().map(|w| w.to_vec::<f32>()).collect()
}

/// A general kernel adds in another order, so each graph has its own kernels here.
#[test]
fn a_network_over_two_devices_trains_like_one() {
    let trained = |devices| kiln::with([("LENGTHS", 0)], || trained(devices)).expect("a setting");
    let together = trained(["CPU", "CPU"]).expect("trains");
    assert_eq!(trained(["CPU", "CPU:1"]).expect("trains"), together);
    assert_ne!(together[3], vec![0.0; 3], "the last bias has learned");
    assert_eq!(trained(["CPU:2", "CPU:1"]).expect("trains"), together);
}

/// Whether a kernel of one device runs while one of the other does. Each has a chain of several, and `n` rows.
fn overlap(names: [&str; 2], n: usize) -> bool {
    let xs = names.map(|device| Tensor::full_with([n, n], 0.01f64, device).contiguous());
    kiln::realize(&xs).expect("computes");
    let busy = |x: &Tensor| (0..4).fold(x.clone(), |x, _| x.matmul(&x).contiguous());
    let ((), all) = steps(|| kiln::realize(&xs.each_ref().map(busy)).expect("computes"));
    let [a, b] = names.map(|device| all.iter().filter(|s| s.device == device).collect::<Vec<_>>());
    assert!(a.len() >= 4 && a.len() == b.len(), "several kernels: {all:?}");
    a.iter().any(|a| b.iter().any(|b| a.start < b.end && b.start < a.end))
}

/// What several devices compute for one realize, they compute at the same time.
#[test]
fn devices_work_side_by_side() {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() == 1) {
        return; // one after the other
    }
    for (names, n) in [(["INTERP", "INTERP:1"], 30), (["CPU", "CPU:1"], 400)] {
        // processors and threads may be busy with other tests for a while
        let start = Instant::now();
        let is_early = |_: &bool| start.elapsed() < Duration::from_secs(120);
        let mut tries = std::iter::repeat_with(|| overlap(names, n)).take_while(is_early);
        assert!(tries.any(|overlaps| overlaps), "{names:?} never at the same time");
    }
}

#[test]
fn what_fails_on_one_device_fails_what_needs_it() {
    let bad = Tensor::from([1.0f32, 2.0]).take(&Tensor::from([5i32]).realize().expect("ok").abs());
    let there = bad.to("CPU:1") + 1.0;
    let error = there.to_vec::<f32>().expect_err("out of range").to_string();
    assert!(error.contains("out of range"), "{error}");
    assert_eq!(floats(&Tensor::from([1.0f32]).to("CPU:1")), [1.0]);
}
