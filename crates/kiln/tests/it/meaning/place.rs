//! In place where nobody can tell, a copy where somebody could: what is launched, moved and allocated.

use super::{filled, floats, iota};
use kiln::optim::{AdamW, SGD};
use kiln::{Counts, DType, Tensor, measure, realize, s};

/// Runs `f`, which computes `t`.
fn cost(t: &Tensor, f: impl FnOnce()) -> Counts {
    measure(|| {
        f();
        t.realize().map(drop).expect("computes");
    })
    .1
}

#[test]
fn one_element_is_one_kernel_that_writes_four_bytes() {
    for dtype in [DType::F32, DType::I32] {
        let t = iota(1 << 12).cast(dtype);
        t.realize().unwrap();
        let n = cost(&t, || t.set(s![3], 5.0));
        assert_eq!((n.kernels, n.bytes, n.peak_memory), (1, 4, 0));
        assert_eq!(floats(&t)[2..5], [2.0, 5.0, 4.0]);
    }
}

#[test]
fn an_update_of_a_cache_touches_its_slice_only() {
    let (heads, length, width) = (4usize, 256usize, 16usize);
    let cache = filled(heads * length * width, 0.0).reshape([heads, length, width]);
    for at in 0..5usize {
        let new = filled(heads * width, at as f32 + 1.0).reshape([heads, 1, width]);
        let n = cost(&cache, || cache.set(s![.., at..at + 1], &new));
        assert_eq!(n.kernels, 1);
        assert!(n.bytes <= (2 * heads * width * 4) as u64, "{} bytes", n.bytes);
        assert_eq!(n.peak_memory, 0);
    }
    assert_eq!(floats(&cache.get(s![2, ..6, 3])), [1.0, 2.0, 3.0, 4.0, 5.0, 0.0]);
}

#[test]
fn a_hundred_realized_writes_compile_two_kernels() {
    let t = filled(100, 0.0);
    let ((), n) = measure(|| {
        for i in 0..100usize {
            t.set(s![i * 37 % 100], i as f32 * 0.5);
            t.realize().unwrap();
        }
    });
    assert_eq!(n.kernels, 100);
    assert!(n.compiled + n.loaded <= 2, "{n:?}");
    assert_eq!(floats(&t.get(s![37])), [0.5]);
}

#[test]
fn a_hundred_steps_of_a_cache_compile_two_kernels() {
    let cache = filled(2 * 100 * 4, 0.0).reshape([2, 100, 4]);
    let ((), n) = measure(|| {
        for i in 0..100usize {
            cache.set(s![.., i], Tensor::from(vec![i as f32; 4]));
            cache.realize().unwrap();
        }
    });
    assert_eq!(n.kernels, 100);
    assert!(n.compiled + n.loaded <= 2, "{n:?}");
    assert_eq!(floats(&cache.get(s![1, .., 2])), floats(&iota(100)));
}

#[test]
fn values_of_writes_at_moving_offsets() {
    let t = filled(60, 0.0);
    let mut expected = vec![0.0; 60];
    for i in 0..20usize {
        let at = i * 7 % 57;
        t.set(s![at..at + 3], i as f32 + 0.25);
        t.realize().unwrap();
        expected[at..at + 3].fill(i as f32 + 0.25);
    }
    assert_eq!(floats(&t), expected);
}

/// `test_simple_assignment`: the sum takes the memory of its first operand.
#[test]
fn an_operator_with_equals_allocates_nothing() {
    let (a, b) = (iota(1 << 14), iota(1 << 14));
    for _ in 0..3 {
        let n = cost(&a, || {
            let mut a = a.clone();
            a += &b;
        });
        assert_eq!((n.kernels, n.peak_memory), (1, 0));
    }
    assert_eq!(floats(&a)[100], 400.0);
}

#[test]
fn a_softmax_is_assigned_in_place() {
    let x = iota(64 * 64).reshape([64, 64]) * 1e-3;
    x.realize().unwrap();
    let n = cost(&x, || drop(x.assign(x.softmax(-1))));
    assert_eq!(n.kernels, 1);
    // a row at most, not all of it
    assert!(n.peak_memory <= 1024, "{} bytes", n.peak_memory);
}

#[test]
fn a_whole_overwrite_of_what_is_held_takes_fresh_memory_and_copies_nothing() {
    const BYTES: u64 = 4 << 12;
    let w = iota(1 << 12);
    let held = &w * 2.0;
    let n = cost(&w, || drop(w.assign(5.0)));
    assert!(n.bytes <= BYTES && n.peak_memory <= BYTES, "{n:?}");
    assert_eq!((floats(&held)[7], floats(&w)[7]), (14.0, 5.0));
}

#[test]
fn a_partial_overwrite_of_what_is_held_copies_the_rest() {
    let w = iota(1 << 12);
    let (held, snapshot) = (&w * 2.0, w.copy());
    w.set(s![7], 5.0);
    w.realize().unwrap();
    assert_eq!((floats(&held)[7], floats(&snapshot)[7]), (14.0, 7.0));
    assert_eq!(floats(&w)[6..9], [6.0, 5.0, 8.0]);
}

/// The schedule of the first step is used again when somebody holds the old value.
#[test]
fn a_remembered_schedule_is_right_when_the_old_value_is_held() {
    let w = iota(8);
    let step = || {
        w.assign(&w * 2.0);
        w.set(s![0], 1.0);
        w.realize().unwrap();
    };
    step();
    step();
    let (held, copied) = (&w + 0.5, w.copy());
    step();
    assert_eq!(floats(&held), [1.5, 4.5, 8.5, 12.5, 16.5, 20.5, 24.5, 28.5]);
    assert_eq!(floats(&copied)[1..3], [4.0, 8.0]);
    assert_eq!(floats(&w)[..3], [1.0, 8.0, 16.0]);
}

/// Which storages are one is part of a schedule's key.
#[test]
fn a_remembered_schedule_is_right_when_operands_overlap() {
    let step = |to: &Tensor, from: &Tensor| {
        to.assign(to * 2.0 + from);
        to.realize().unwrap();
    };
    let apart = [iota(6), iota(6)];
    step(&apart[0].get(s![..4]), &apart[1].get(s![2..]));
    step(&apart[0].get(s![..4]), &apart[1].get(s![2..]));
    assert_eq!(floats(&apart[0]), [6.0, 13.0, 20.0, 27.0, 4.0, 5.0]);
    let one = iota(6);
    step(&one.get(s![..4]), &one.get(s![2..]));
    assert_eq!(floats(&one), [2.0, 5.0, 8.0, 11.0, 4.0, 5.0]);
    step(&one.get(s![..4]), &one.get(s![..4]));
    assert_eq!(floats(&one), [6.0, 15.0, 24.0, 33.0, 4.0, 5.0]);
    step(&one, &one.flip(0));
    assert_eq!(floats(&one), [17.0, 34.0, 81.0, 90.0, 23.0, 16.0]);
}

/// Constants that change become arguments, also where two of them happened to be one number.
#[test]
fn a_remembered_schedule_is_right_for_other_constants() {
    for (a, b) in [(2.0, 2.0), (2.0, 3.0), (3.0, 3.0), (1.0, 0.0), (0.0, 1.0), (-1.0, f32::NAN)] {
        let x = iota(5);
        x.assign(&x * a + b);
        x.set(s![1], a);
        for (i, y) in floats(&x).into_iter().enumerate() {
            let expected = if i == 1 { a } else { i as f32 * a + b };
            assert!(y == expected || y.is_nan() && expected.is_nan(), "{a} {b}: {y} at {i}");
        }
    }
}

#[test]
fn interior_values_that_are_held_are_kept() {
    let x = iota(4);
    let y = &x * 2.0;
    let z = (&y + 1.0).sum(..);
    z.realize().unwrap();
    x.assign(0.0);
    x.realize().unwrap();
    assert_eq!((floats(&y), super::item(&z)), (vec![0.0, 2.0, 4.0, 6.0], 16.0));
}

/// Nobody holds the old value but something uncomputed, several nodes away, that reaches it.
#[test]
fn what_only_an_uncomputed_value_reaches_is_held() {
    let w = iota(8);
    let far = ((&w + 1.0).reshape([2, 4]).permute([1, 0]) * 2.0).sum(1);
    for i in 0..3 {
        w.set(s![i], 100.0);
        w.realize().unwrap();
    }
    assert_eq!(floats(&far), [12.0, 16.0, 20.0, 24.0]);
}

#[test]
fn a_loop_of_writes_and_reads_keeps_its_memory() {
    let w = iota(1 << 12);
    let ((), n) = measure(|| {
        for i in 0..20usize {
            let mut w = w.clone();
            w += 1.0;
            w.set(s![i], 0.0);
            super::item(&w.sum(..));
        }
    });
    assert!(n.peak_memory <= 4 << 12, "{} bytes", n.peak_memory);
}

/// One kernel reads inputs that are its outputs' memory: each is read before it is gone.
#[test]
fn several_outputs_take_the_memory_of_several_inputs() {
    const N: usize = 1000;
    for turn in 0..4 {
        let all: Vec<Tensor> = (0..4).map(|i| iota(N) + i as f32).collect();
        realize(&all).unwrap();
        let sum = |weights: [f32; 4]| {
            let terms = all.iter().zip(weights).filter(|(_, w)| *w != 0.0).map(|(t, w)| t * w);
            terms.reduce(|a, b| a + b).unwrap()
        };
        let rotated = |mut weights: [f32; 4]| {
            weights.rotate_right(turn);
            weights
        };
        let outs = [[0.0, 2.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 3.0], [1.0; 4]]
            .map(rotated);
        let new = outs.map(sum);
        drop(all);
        let (done, n) = measure(|| realize(&new));
        done.unwrap();
        assert_eq!((n.kernels, n.peak_memory), (1, 0));
        for (t, weights) in new.iter().zip(outs) {
            let at = |k: usize| (0..4).map(|i| weights[i] * (k + i) as f32).sum::<f32>();
            assert_eq!(floats(t), (0..N).map(at).collect::<Vec<_>>(), "{turn} {weights:?}");
        }
    }
}

fn parameters() -> Vec<Tensor> {
    let ones = |shape: [usize; 2]| Tensor::ones(shape).contiguous().set_requires_grad(true);
    [[128, 64], [256, 16]].map(ones).into()
}

fn loss_of(parameters: &[Tensor]) -> Tensor {
    parameters.iter().map(|p| (p * 3.0).square().sum(..)).reduce(|a, b| a + b).unwrap()
}

#[test]
fn adamw_updates_in_place_with_one_kernel_a_parameter() {
    let parameters = parameters();
    let n: usize = parameters.iter().map(Tensor::numel).sum();
    let opt = AdamW::new(&parameters, 1e-3);
    for step in 0..4 {
        opt.zero_grad();
        let loss = loss_of(&parameters);
        loss.backward().unwrap();
        let grads: Vec<Tensor> = parameters.iter().map(|p| p.grad().unwrap()).collect();
        realize(grads.iter().chain([&loss])).unwrap();
        drop(grads);
        let ((), counts) = measure(|| opt.step().unwrap());
        assert_eq!(counts.kernels, 2, "step {step}");
        // the weight and both moments are read and written, the gradient is read
        assert!(counts.bytes <= (7 * 4 * n + 64) as u64, "{} bytes", counts.bytes);
        if step > 0 {
            assert_eq!(counts.peak_memory, 0, "step {step}");
        }
    }
}

#[test]
fn training_holds_no_old_weights_and_knows_its_loss() {
    let parameters = parameters();
    let bytes: usize = parameters.iter().map(|p| 4 * p.numel()).sum();
    let opt = AdamW::new(&parameters, 1e-3);
    for step in 0..5 {
        let (loss, n) = measure(|| {
            opt.zero_grad();
            let loss = loss_of(&parameters);
            loss.backward().unwrap();
            opt.step().unwrap();
            loss
        });
        // gradients are new memory
        assert!(step == 0 || n.peak_memory <= bytes as u64 + 4096, "{} bytes", n.peak_memory);
        let (value, read) = measure(|| loss.item::<f32>().unwrap());
        assert!(value.is_finite());
        assert_eq!(read.kernels, 0);
    }
}

/// Elements that a kernel reads where it writes them do not mind the sum of products beside them.
#[test]
fn an_update_that_computes_the_gradient_of_a_product_is_in_place() {
    for (rows, inner, columns) in [(8, 256, 512), (33, 70, 50), (5, 1, 3), (300, 129, 17)] {
        let weights = |held: bool| {
            let x = iota(rows * inner).reshape([rows, inner]).sin().contiguous();
            let w = iota(inner * columns).reshape([inner, columns]).cos().contiguous();
            let w = w.set_requires_grad(true);
            realize([&x, &w]).unwrap();
            let (opt, bytes) = (AdamW::new([&w], 1e-2), 4 * inner * columns);
            for step in 0..3 {
                opt.zero_grad();
                let before = held.then(|| (w.copy(), opt.state_dict()));
                x.matmul(&w).square().sum(..).backward().unwrap();
                let ((), n) = measure(|| opt.step().unwrap());
                // the gradient is new memory, and so is what is between the two products
                let most = (bytes + 4 * rows * columns + 4096) as u64;
                assert!(held || step == 0 || n.peak_memory <= most, "{} bytes", n.peak_memory);
                drop(before);
            }
            floats(&w)
        };
        assert_eq!(weights(false), weights(true), "{rows} {inner} {columns}");
    }
}

/// `test_loss_read_after_step_is_the_pre_step_loss`
#[test]
fn a_loss_read_after_the_step_is_that_of_before() {
    let (w, x) = (filled(1, 2.0).set_requires_grad(true), filled(1, 3.0));
    let opt = SGD::new([&w], 0.1);
    let loss = (&w * &x).sum(..);
    loss.backward().unwrap();
    opt.step().unwrap();
    assert_eq!((super::item(&loss), super::item(&w)), (6.0, 1.7));
}

#[test]
fn a_changing_learning_rate_compiles_nothing_after_the_second_step() {
    let w = filled(37, 2.0).set_requires_grad(true);
    let opt = SGD::new([&w], 0.1);
    for step in 0..6 {
        opt.set_lr(0.1 / f64::from(step + 1));
        opt.zero_grad();
        w.square().sum(..).backward().unwrap();
        let ((), n) = measure(|| opt.step().unwrap());
        assert!(step < 2 || n.scheduled + n.compiled + n.loaded == 0, "step {step} {n:?}");
    }
}

#[test]
fn reading_a_view_of_a_computed_value_computes_the_view_only() {
    let x = iota(1 << 12);
    let y = (&x * 2.0).exp2();
    let (value, n) = measure(|| y.get(s![3]).item::<f32>().unwrap());
    assert_eq!(value, 64.0);
    assert!(n.bytes <= 16, "{} bytes", n.bytes);
}
