//! Gradients: they belong to storages, and go through writes to the value inside the region and to the base outside it.

use super::{filled, floats, iota, item};
use kiln::optim::SGD;
use kiln::{Tensor, measure, realize, s};

fn marked(data: &[f32]) -> Tensor {
    Tensor::from(data).set_requires_grad(true)
}

fn grad(t: &Tensor) -> Vec<f32> {
    floats(&t.grad().expect("reached"))
}

/// `TestWithGrad.test_basic_setitem_works`, `test_set_backward`
#[test]
fn to_the_written_value() {
    let (z, x) = (Tensor::ones([4, 4]), marked(&[1.0; 16]));
    z.set(s![..], x.reshape([4, 4]));
    z.sum(..).backward().unwrap();
    assert_eq!(grad(&x), [1.0; 16]);
    let (z, row) = (Tensor::zeros([4, 3]), marked(&[1.0, 2.0, 3.0]));
    z.set(s![1..3], &row);
    (&z * &z).sum(..).backward().unwrap();
    // two rows of twice the value
    assert_eq!(grad(&row), [4.0, 8.0, 12.0]);
}

/// `test_set_nonleaf_backward`
#[test]
fn to_the_base_outside_the_region() {
    let x = marked(&[1.0, 2.0, 3.0, 4.0]);
    let z = &x * 2.0;
    z.set(s![..2], Tensor::from([10.0f32, 20.0]));
    z.sum(..).backward().unwrap();
    assert_eq!(grad(&x), [0.0, 0.0, 2.0, 2.0]);
}

/// `test_set_overlapping_backward`
#[test]
fn through_overlaps() {
    let (z, x, y) = (Tensor::zeros([6]), marked(&[1.0; 4]), marked(&[2.0; 4]));
    z.set(s![..4], &x);
    z.set(s![2..], &y);
    z.sum(..).backward().unwrap();
    assert_eq!((grad(&x), grad(&y)), (vec![1.0, 1.0, 0.0, 0.0], vec![1.0; 4]));
}

/// `test_set_iadd_backward`
#[test]
fn through_operators_with_equals() {
    let (w, x) = (marked(&[1.0, 2.0, 3.0, 4.0]), marked(&[10.0, 20.0]));
    let z = &w * 1.0;
    let mut head = z.get(s![..2]);
    head += &x;
    head *= 3.0;
    z.sum(..).backward().unwrap();
    assert_eq!((grad(&w), grad(&x)), (vec![3.0, 3.0, 1.0, 1.0], vec![3.0; 2]));
}

/// `TestWithGrad.test_set_used_before_setitem`
#[test]
fn set_used_before_setitem() {
    let z = marked(&[1.0, 2.0, 3.0, 4.0]) * 1.0;
    let before = z.sum(..);
    z.set(s![..2], Tensor::from([0.0f32, 0.0]));
    assert_eq!((item(&before), item(&z.sum(..))), (10.0, 7.0));
}

/// `TestWithGrad.test_setitem_raises_with_unrealized_downstream`
#[test]
fn setitem_with_unrealized_downstream() {
    let x = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    let y = &x * 2.0;
    x.set(s![0], 99.0);
    assert_eq!((floats(&y), floats(&x)), (vec![2.0, 4.0, 6.0, 8.0], vec![99.0, 2.0, 3.0, 4.0]));
}

/// `TestWithGrad.test_setitem_raises_on_unrealized_compute_base`
#[test]
fn setitem_on_unrealized_compute_base() {
    let y = Tensor::from([1.0f32, 2.0, 3.0, 4.0]) * 2.0;
    let view = y.get(s![..1]);
    y.set(s![0], 99.0);
    assert_eq!((floats(&view), floats(&y)), (vec![99.0], vec![99.0, 4.0, 6.0, 8.0]));
}

/// `TestWithGrad.test_setitem_raises_on_aliased_uop`
#[test]
fn setitem_on_aliased_uop() {
    let y = Tensor::from([1.0f32, 2.0, 3.0, 4.0]) * 2.0;
    let z = y.clone();
    y.set(s![0], 99.0);
    assert_eq!(floats(&z), [99.0, 4.0, 6.0, 8.0]);
}

#[test]
fn to_the_value_that_was_read_before_a_write() {
    let x = marked(&[1.0, 2.0, 3.0]);
    let z = &x * &x;
    let before = z.sum(..);
    z.set(s![1], 0.0);
    (before + z.sum(..)).backward().unwrap();
    assert_eq!(grad(&x), [4.0, 4.0, 12.0]);
}

#[test]
fn through_views_of_every_kind() {
    let x = marked(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let z = Tensor::zeros([2, 3]);
    z.permute([1, 0]).flip(0).assign(x.reshape([3, 2]));
    (&z * &iota(6).reshape([2, 3])).sum(..).backward().unwrap();
    // z is [[5, 3, 1], [6, 4, 2]]
    assert_eq!(floats(&z), [5.0, 3.0, 1.0, 6.0, 4.0, 2.0]);
    assert_eq!(grad(&x), [2.0, 5.0, 1.0, 4.0, 0.0, 3.0]);
}

#[test]
fn of_a_storage_that_was_written_to() {
    let w = marked(&[1.0, 2.0, 3.0]);
    w.detach().set(s![1], 5.0);
    (&w * &w).sum(..).backward().unwrap();
    assert_eq!(grad(&w), [2.0, 10.0, 6.0]);
}

#[test]
fn through_each_from_the_one_before() {
    let x = marked(&[2.0]);
    let c = Tensor::zeros([6]);
    c.set(s![0..1], &x);
    for i in 1..6usize {
        c.set(s![i], c.get(s![i - 1]) * 2.0);
    }
    c.sum(..).backward().unwrap();
    assert_eq!(grad(&x), [63.0]);
}

fn chain(n: usize) -> (Tensor, Tensor) {
    let x = Tensor::from((0..n).map(|i| i as f32).collect::<Vec<_>>()).set_requires_grad(true);
    let z = Tensor::zeros([n]);
    for i in 0..n {
        z.set(s![i], x.get(s![i]) * 3.0);
    }
    (x, z)
}

#[test]
fn through_a_chain_of_writes() {
    for n in [5, 60] {
        let (x, z) = chain(n);
        z.sum(..).backward().unwrap();
        assert_eq!(grad(&x), vec![3.0; n]);
        assert_eq!(floats(&z), (0..n).map(|i| 3.0 * i as f32).collect::<Vec<_>>());
    }
}

/// What the gradients of some tensors cost, for twice as many writes. Tests run side by side, and what two of them make of
/// constants alone is one node, which each sees held by the other. So each has lengths of its own.
fn is_linear(writes: usize, build: impl Fn(usize) -> (Tensor, Tensor)) {
    let cost = |n: usize| {
        let (x, z) = build(n);
        let ((), counts) = measure(|| {
            z.sum(..).backward().unwrap();
            realize([&x.grad().unwrap()]).unwrap();
        });
        (counts.kernels, counts.bytes + counts.flops)
    };
    let (small, large) = (cost(writes), cost(2 * writes));
    assert!(large.0 <= 2 * small.0 + 4 && large.1 <= 3 * small.1 + 1000, "{small:?} {large:?}");
}

#[test]
fn through_a_chain_of_writes_is_linear() {
    is_linear(64, |n| {
        let (w, z) = (marked(&[2.0]), Tensor::zeros([n]));
        for i in 0..n {
            z.set(s![i..i + 1], &w * i as f32);
        }
        (w, z)
    });
    is_linear(64, |n| {
        let w = Tensor::from(vec![2.0f32; n]).set_requires_grad(true);
        let z = &w * 1.0;
        for i in 0..n {
            z.set(s![i], i);
        }
        (w, z)
    });
}

#[test]
fn through_a_chain_of_reads_and_writes_is_linear() {
    is_linear(70, chain);
}

#[test]
fn two_equal_parameters_stay_apart() {
    let (a, b) = (Tensor::zeros([2]), Tensor::zeros([2]));
    a.set_requires_grad(true);
    b.set_requires_grad(true);
    (&a * 2.0 + &b * 3.0).sum(..).backward().unwrap();
    assert_eq!((grad(&a), grad(&b)), (vec![2.0; 2], vec![3.0; 2]));
}

#[test]
fn item_may_come_before_backward() {
    let w = marked(&[1.0, 2.0]);
    let hidden = (&w * 2.0).exp2();
    hidden.realize().unwrap();
    let loss = hidden.square().sum(..);
    assert_eq!(item(&loss), 16.0 + 256.0);
    loss.backward().unwrap();
    let ln2 = std::f32::consts::LN_2;
    for (g, expected) in grad(&w).into_iter().zip([4.0 * 16.0 * ln2, 4.0 * 256.0 * ln2]) {
        assert!((g - expected).abs() < 1e-2, "{g} {expected}");
    }
}

/// What a computed loss was computed from is gone after backward; what is not computed can be walked again.
#[test]
fn backward_drops_the_history() {
    let w = marked(&[1.0, 2.0]);
    let loss = w.square().sum(..);
    loss.backward().unwrap();
    loss.backward().unwrap();
    assert_eq!(grad(&w), [4.0, 8.0]);
    loss.realize().unwrap();
    assert!(loss.backward().is_err());
    let early = w.square().sum(..);
    early.realize().unwrap();
    early.backward().unwrap();
    assert!(early.backward().is_err());
    assert_eq!(grad(&w), [6.0, 12.0]);
}

#[test]
fn whose_mark_it_is_is_no_part_of_a_schedule() {
    let compute = |t: &Tensor| floats(&((t * 0.125 - 7.0).square() + 0.375));
    let (a, b) = (iota(13).set_requires_grad(true), iota(13).set_requires_grad(true));
    let expected = compute(&a);
    let (values, n) = measure(|| compute(&b));
    assert_eq!((values, n.scheduled, n.compiled + n.loaded), (expected, 0, 0));
}

#[test]
fn gradients_add_up_until_they_are_cleared() {
    let w = marked(&[3.0]);
    for times in 1..4 {
        (&w * 2.0).sum(..).backward().unwrap();
        assert_eq!(grad(&w), [2.0 * times as f32]);
    }
    w.zero_grad();
    assert!(w.grad().is_none());
}

#[test]
fn backward_is_an_error_where_there_is_nothing_to_find() {
    let w = marked(&[1.0, 2.0]);
    assert!(filled(2, 1.0).sum(..).backward().is_err());
    assert!((&w * 2.0).backward().is_err());
    let other = marked(&[1.0]);
    let error = super::why(w.sum(..).gradient([&other]));
    assert!(error.contains("not read on the way"), "{error}");
    assert!(w.sum(..).gradient([&filled(1, 0.0)]).is_err());
    assert!(w.detach().sum(..).backward().is_err());
    let error =
        w.detach().set_requires_grad(true).error().expect("its reads never count").to_string();
    assert!(error.contains("copy()"), "{error}");
}

/// A target without a mark is found whatever of it is in memory by then, if a marked storage made that be remembered.
#[test]
fn a_target_whose_operands_were_computed_before() {
    let w = marked(&[0.0, 0.0]);
    let a = w.exp();
    let see = |t: &Tensor| t.realize().map(drop).expect("computes");
    see(&a);
    let b = &a * 3.0;
    let slope = |b: &Tensor| {
        let grads = b.square().sum(..).gradient([b, &a, &w]).expect("all are on the way");
        grads.iter().map(floats).collect::<Vec<_>>()
    };
    let expected = vec![vec![6.0; 2], vec![18.0; 2], vec![18.0; 2]];
    assert_eq!(slope(&b), expected);
    see(&b);
    assert_eq!(slope(&b), expected);
    let own = b.exp().sum(..).gradient([&b]).expect("b is on the way");
    assert_eq!(floats(&own[0]), floats(&b.exp()));
}

#[test]
fn no_gradient_runs_into_an_earlier_step() {
    let w = marked(&[1.0]);
    let opt = SGD::new([&w], 0.5);
    for _ in 0..3 {
        opt.zero_grad();
        w.sum(..).backward().unwrap();
        opt.step().unwrap();
    }
    w.zero_grad();
    w.square().sum(..).backward().unwrap();
    // twice the weight, which is 1 - 3 / 2
    assert_eq!(grad(&w), [-1.0]);
}

#[test]
fn a_view_of_a_marked_storage_has_that_part_of_the_gradient() {
    let w = marked(&[1.0, 2.0, 3.0]);
    (&w * &w).sum(..).backward().unwrap();
    let part = w.get(s![1..]).grad().expect("of the storage");
    assert_eq!(floats(&part), [4.0, 6.0]);
}

/// A gradient that reaches a storage goes on to the values that were written to it, also if the storage wants a
/// gradient itself.
#[test]
fn through_a_write_to_a_storage_that_wants_one() {
    for realized in [false, true] {
        let (z, x, y) = (marked(&[1.0, 2.0, 3.0]), marked(&[4.0, 5.0, 6.0]), marked(&[7.0]));
        let see = |t: &Tensor| realized.then(|| t.realize().map(drop).expect("computes"));
        z.set(s![..], &x * 2.0);
        see(&z);
        (&z * &iota(3)).sum(..).backward().unwrap();
        assert_eq!((grad(&z), grad(&x)), (vec![0.0, 1.0, 2.0], vec![0.0, 2.0, 4.0]));
        // a part: the rest is still of x
        [&x, &z].iter().for_each(|t| t.zero_grad());
        z.assign(&x * 2.0);
        z.set(s![1..2], &y);
        see(&z);
        let loss = z.square().sum(..);
        let grads = loss.gradient([&z, &x, &y]).unwrap();
        assert_eq!(floats(&grads[0]), [16.0, 14.0, 24.0]);
        assert_eq!((floats(&grads[1]), floats(&grads[2])), (vec![32.0, 0.0, 48.0], vec![14.0]));
        // what has no gradient ends it again, and so does a handle that is detached
        z.assign(Tensor::from([1.0f32, 1.0, 1.0]));
        z.detach().set(s![0], &y.get(s![0]));
        z.sum(..).backward().unwrap();
        assert_eq!(grad(&z), [1.0; 3]);
        assert!(x.grad().is_none() && y.grad().is_none());
    }
}

/// Its own gradient is that of its reads: not what reaches these through later values of it.
#[test]
fn of_reads_before_and_after_a_write() {
    for realized in [false, true] {
        let (z, x) = (marked(&[3.0, 5.0]), marked(&[7.0, 11.0]));
        let before = z.square().sum(..);
        z.assign(&z * &x);
        if realized {
            realize([&z, &before]).unwrap();
        }
        let loss = before + (&z * 10.0).sum(..);
        loss.backward().unwrap();
        assert_eq!((grad(&z), grad(&x)), (vec![16.0, 20.0], vec![30.0, 50.0]));
    }
}

/// What was there before others were written to it is the storage's own, whatever it was computed from.
#[test]
fn not_to_what_was_there_before_it_was_marked() {
    let (x, y) = (marked(&[1.0, 2.0]), marked(&[3.0]));
    let z = (&x * 2.0).set_requires_grad(true);
    z.set(s![..1], &y);
    z.sum(..).backward().unwrap();
    assert_eq!((grad(&z), grad(&y)), (vec![1.0, 1.0], vec![1.0]));
    assert!(x.grad().is_none());
    // of a storage that wants none, a detached handle hands on nothing either
    let plain = Tensor::zeros([2]);
    plain.detach().set(s![..1], &y);
    assert!((&plain * 1.0).sum(..).backward().is_err());
}

/// An update from its own value ends gradients as a whole: history does not grow, and memory does not.
#[test]
fn not_into_earlier_values_of_its_own() {
    let mut w = marked(&[1.0]);
    let visited = |w: &mut Tensor| {
        let ((), n) = measure(|| {
            w.square().sum(..).backward().unwrap();
            let step = w.grad().unwrap() * 0.25;
            *w -= step;
            w.zero_grad();
            w.realize().unwrap();
        });
        n.visited
    };
    let counts: Vec<u64> = (0..8).map(|_| visited(&mut w)).collect();
    assert_eq!(counts[2..], vec![counts[2]; 6]);
    assert_eq!(floats(&w), [0.5f32.powi(8)]);
}
