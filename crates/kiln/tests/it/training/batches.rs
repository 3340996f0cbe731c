//! Averages, scaled losses and batches.

use kiln::data::{DataLoader, Dataset, TensorDataset};
use kiln::optim::{ASGD, EMA, GradScaler, SGD, SWA};
use kiln::{DType, Tensor, measure};

#[test]
fn averages_follow_the_parameters() {
    let w = Tensor::from([1.0f64, -2.0]).set_requires_grad(true);
    let average = EMA::new([&w], 0.75);
    let (mut value, mut mean) = ([1.0, -2.0], [1.0, -2.0]);
    for step in 1..7 {
        w.detach().assign(w.detach() * 0.5 + f64::from(step));
        w.realize().expect("f64");
        let ((), n) = measure(|| average.update().expect("an update"));
        assert!(step < 3 || n.compiled + n.loaded == 0, "step {step}");
        value = value.map(|v| v * 0.5 + f64::from(step));
        mean = [0, 1].map(|i| mean[i] * 0.75 + value[i] * 0.25);
        assert_eq!(average.values()[0].to_vec::<f64>().expect("f64"), mean);
    }
    let seen = average.within(|| w.to_vec::<f64>().expect("f64")).expect("fits");
    assert_eq!((seen, w.to_vec::<f64>().expect("f64")), (mean.to_vec(), value.to_vec()));
    let other = EMA::new([Tensor::from([0.0f64, 0.0])], 0.75);
    other.load_state_dict(&average.state_dict()).expect("fits");
    assert_eq!(other.values()[0].to_vec::<f64>().expect("f64"), mean);
    assert!(EMA::new([&w], 1.5).update().is_err());
}

#[test]
fn equal_averages_go_on_from_a_state() {
    let w = Tensor::from([1.0f64, -2.0]).set_requires_grad(true);
    let average = SWA::new([&w]);
    let set = |value: f64| w.detach().assign(Tensor::from([value, -value]));
    for value in [1.0, 4.0] {
        set(value);
        average.update().expect("an update");
    }
    let other = SWA::new([&w]);
    other.load_state_dict(&average.state_dict()).expect("fits");
    set(7.0);
    other.update().expect("an update");
    let mean = other.values()[0].to_vec::<f64>().expect("f64");
    assert!((mean[0] - 4.0).abs() < 1e-15 && mean[0] == -mean[1], "{mean:?}");
    assert_eq!(other.within(|| w.to_vec::<f64>().expect("f64")).expect("fits"), mean);
    assert_eq!(w.to_vec::<f64>().expect("f64"), [7.0, -7.0]);
    let mut state = other.state_dict();
    assert_eq!(state.remove("n_averaged").expect("a count").item::<i64>().expect("i64"), 3);
    assert!(
        other.load_state_dict(&state).expect_err("no count").to_string().contains("n_averaged")
    );
}

#[test]
fn counts_of_equal_averages_compile_nothing() {
    let w = Tensor::from([1.0f32, -2.0]).set_requires_grad(true);
    let average = SWA::new([&w]);
    // the first one computes the copy
    (0..2).for_each(|_| average.update().expect("an update"));
    for step in 3..7 {
        let ((), n) = measure(|| average.update().expect("an update"));
        assert_eq!((n.scheduled, n.compiled, n.loaded), (0, 0, 0), "update {step}");
    }
}

/// From the step after `t0` on the mean is of the parameters since.
#[test]
fn asgd_keeps_the_mean() {
    let w = Tensor::from([0.0f64]).set_requires_grad(true);
    let opt = ASGD::new([&w], 1.0).lambd(0.0).alpha(0.0).t0(1.0);
    let mut seen = Vec::new();
    for _ in 0..6 {
        opt.zero_grad();
        (-&w).sum(..).backward().expect("a loss");
        opt.step().expect("a step");
        seen.push(opt.state_dict()["state.0.ax"].item::<f64>().expect("f64"));
    }
    // 1, 2, 3 themselves, then the means of 3 and 4, of these and 5, and of these and 6
    let want = [1.0, 2.0, 3.0, 3.5, 4.0, 4.5];
    assert!(seen.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-14), "{seen:?}");
}

/// The gradient 2^-20 is 0 in f16 when it is multiplied by 2^-10 on its way; scaled by 2^16 it is not.
#[test]
fn small_gradients_survive_half_precision() {
    let run = |scale: f64| {
        let w = Tensor::from([1.0f32]).set_requires_grad(true);
        let (opt, scaler) = (SGD::new([&w], 1.0), GradScaler::new().init_scale(scale));
        let half = w.cast(DType::F16) * f64::exp2(-10.0);
        let loss = (half * f64::exp2(-10.0)).cast(DType::F32) * f64::exp2(-10.0);
        scaler.scale(&loss.sum(..)).backward().expect("a loss");
        assert!(scaler.step(&opt).expect("a step"));
        w.grad().expect("one").item::<f32>().expect("f32")
    };
    assert_eq!((run(1.0), run(65536.0)), (0.0, f32::exp2(-30.0)));
}

#[test]
fn the_scale_follows_what_is_finite() {
    let w = Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    let opt = SGD::new([&w], 0.5);
    let scaler = GradScaler::new().init_scale(4.0).growth_interval(2);
    let mut scales = Vec::new();
    for factor in [1.0, f64::INFINITY, 0.0, 0.0, 0.0, f64::NAN, 0.0] {
        w.zero_grad();
        let loss = (&w * Tensor::from([factor as f32, 0.0])).sum(..);
        scaler.scale(&loss).backward().expect("a loss");
        let stepped = scaler.step(&opt).expect("a step");
        assert_eq!(stepped, factor.is_finite());
        scales.push(scaler.get_scale());
    }
    assert_eq!(scales, [4.0, 2.0, 2.0, 4.0, 4.0, 2.0, 2.0]);
    assert_eq!(w.to_vec::<f32>().expect("f32"), [0.5, 2.0]);
    assert!(GradScaler::new().init_scale(0.0).step(&opt).is_err());
    w.zero_grad();
    assert!(scaler.step(&opt).expect_err("no gradient").to_string().contains("backward"));
}

fn numbers(loader: &DataLoader<TensorDataset>, epoch: u64) -> Vec<Vec<i32>> {
    loader.epoch(epoch).map(|batch| batch[0].to_vec::<i32>().expect("i32")).collect()
}

fn loader(n: usize) -> DataLoader<TensorDataset> {
    DataLoader::new(TensorDataset::new([Tensor::arange(n)]).expect("rows"), 4)
}

#[test]
fn batches_come_in_an_order_that_the_seed_decides() {
    assert_eq!(numbers(&loader(10), 0), [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![8, 9]]);
    assert_eq!(numbers(&loader(10).drop_last(true), 3).len(), 2);
    assert!(numbers(&loader(0), 0).is_empty());
    let shuffled = numbers(&loader(40).shuffle(5), 0);
    let mut all = shuffled.concat();
    assert_ne!(all, (0..40).collect::<Vec<i32>>());
    all.sort();
    assert_eq!(all, (0..40).collect::<Vec<i32>>());
    for workers in [1, 3] {
        assert_eq!(numbers(&loader(40).shuffle(5).workers(workers), 0), shuffled);
    }
    assert_ne!(numbers(&loader(40).shuffle(5), 1), shuffled);
    assert_ne!(numbers(&loader(40).shuffle(6), 0), shuffled);
    // an epoch that nobody finishes ends its threads
    assert!(loader(40).workers(2).epoch(0).next().is_some());
}

/// Items of two tensors; the last one does not fit.
struct Items;

impl Dataset for Items {
    fn len(&self) -> usize {
        5
    }

    fn get(&self, i: usize) -> Vec<Tensor> {
        let width = if i == 4 { 3 } else { 2 };
        vec![Tensor::full([width], i as f32), Tensor::from(i as i64)]
    }
}

#[test]
fn items_are_stacked() {
    for workers in [0, 2] {
        let batches: Vec<_> = DataLoader::new(Items, 3).workers(workers).epoch(0).collect();
        assert_eq!(batches[0][0].to_vec::<f32>().expect("f32"), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
        assert_eq!(batches[0][1].to_vec::<i64>().expect("i64"), [0, 1, 2]);
        let error = batches[1][0].to_vec::<f32>().expect_err("does not fit").to_string();
        assert!(error.contains("stack"), "{error}");
        assert_eq!(batches[1][1].to_vec::<i64>().expect("i64"), [3, 4]);
    }
}
