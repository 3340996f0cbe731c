//! A program means what it would mean if every line ran at once.

use kiln::optim::SGD;
use kiln::{DType, Tensor, measure, realize, s};

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("readable")
}

fn item(t: &Tensor) -> f32 {
    t.item().expect("readable")
}

#[test]
fn views_see_later_writes() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let views = [t.reshape([4]), t.flip(0), t.get(s![1, ..]), t.detach(), t.expand([3, 2, 2])];
    let sums = views.each_ref().map(|v| v.sum(..));
    t.set(s![1, 0], 30.0);
    assert_eq!(sums.each_ref().map(item), [10.0, 10.0, 7.0, 10.0, 30.0]);
    assert_eq!(views.map(|v| item(&v.sum(..))), [37.0, 37.0, 34.0, 37.0, 111.0]);
}

#[test]
fn a_view_of_something_uncomputed_follows_it() {
    let lazy = Tensor::from([1.0f32, 2.0, 3.0]) * 2.0;
    let tail = lazy.get(s![1..]);
    lazy.set(s![2], 0.0);
    assert_eq!(floats(&tail), [4.0, 0.0]);
    tail.assign(9.0);
    assert_eq!(floats(&lazy), [2.0, 9.0, 9.0]);
}

#[test]
fn a_bitcast_aliases() {
    let t = Tensor::from([1.0f32, 2.0]);
    let bits = t.bitcast(DType::U32);
    t.set(s![0], -0.0);
    assert_eq!(bits.to_vec::<u32>().expect("readable"), [1 << 31, 1 << 30]);
    bits.set(s![1], 0x3f80_0000);
    assert_eq!(floats(&t), [-0.0, 1.0]);
}

#[test]
fn values_are_fixed_at_their_line() {
    let t = Tensor::from([1.0f32, 2.0]);
    let fixed = [
        t.cast(DType::F32),
        t.copy(),
        t.pad([(0, 0)]),
        Tensor::cat([&t], 0),
        t.contiguous(),
        t.repeat([1]),
        &t + 0.0,
    ];
    t.assign(5.0);
    for (i, value) in fixed.iter().enumerate() {
        assert_eq!(floats(value), [1.0, 2.0], "value {i}");
    }
    fixed[1].assign(7.0);
    assert_eq!(floats(&t), [5.0, 5.0]);
}

#[test]
fn an_assignment_goes_through_a_permute() {
    let a = Tensor::zeros([2, 3]);
    let b = Tensor::arange(6).reshape([3, 2]);
    let written = a.permute([1, 0]).assign(&b);
    assert_eq!(floats(&a), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    a.set(s![0, 0], 9.0);
    assert_eq!(floats(&written), [9.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn operators_that_assign_write_for_all_aliases() {
    let a = Tensor::from([1.0f32, 2.0]);
    let mut alias = a.clone();
    let before = &a + 1.0;
    alias += 1.0;
    assert_eq!(floats(&a), [2.0, 3.0]);
    assert_eq!(floats(&(&a + 1.0)), [3.0, 4.0]);
    assert_eq!(floats(&before), [2.0, 3.0]);
    let mut row = a.get(s![1]);
    row *= 10;
    assert_eq!(floats(&a), [2.0, 30.0]);
}

#[test]
fn a_value_that_reads_its_target_reads_before_the_write() {
    let t = Tensor::from([1.0f32, 2.0, 3.0, 4.0]);
    t.get(s![1..]).assign(t.get(s![..3]));
    assert_eq!(floats(&t), [1.0, 1.0, 2.0, 3.0]);
    t.assign(t.flip(0));
    assert_eq!(floats(&t), [3.0, 2.0, 1.0, 1.0]);
    let m = Tensor::from([[0.0f32, 0.0], [1000.0, 1000.0]]);
    m.realize().expect("computes");
    m.assign(m.softmax(-1));
    assert_eq!(floats(&m), [0.5; 4]);
}

#[test]
fn equal_computations_around_a_write_differ() {
    let mut b = Tensor::from([1.0f32]);
    let first = &b + 1.0;
    realize([&first]).expect("computes");
    b += 1.0;
    realize([&b]).expect("computes");
    assert_eq!((item(&(&b + 1.0)), item(&first)), (3.0, 2.0));
}

#[test]
fn invalid_writes_leave_the_data() {
    let t = Tensor::from([1, 2]);
    let (alias, sum) = (t.flip(0), t.sum(..));
    t.assign(&Tensor::from([0.5f32, 0.5]));
    let text = alias.to_vec::<i32>().unwrap_err().to_string();
    assert!(text.contains("f32 does not go into i32") && text.contains("meaning.rs"), "{text}");
    assert_eq!(sum.item::<i32>().expect("read before"), 3);
    t.clear_error();
    assert_eq!(alias.to_vec::<i32>().expect("readable"), [2, 1]);
    t.set(s![0], &Tensor::from([1, 2, 3]));
    assert!(alias.error().is_some());
    alias.assign(7);
    assert_eq!(t.to_vec::<i32>().expect("readable"), [7, 7]);
    assert!(t.try_set(s![2], 0).is_err() && t.error().is_none());
}

#[test]
fn what_is_empty_holds_zeros() {
    let t = Tensor::empty([3]);
    let (a, b) = (floats(&t), floats(&t));
    assert_eq!((a, b), (vec![0.0; 3], vec![0.0; 3]));
    let (x, y) = (Tensor::empty([2]), Tensor::empty([2]));
    x.set(s![0], 1.0);
    assert_eq!((floats(&x), floats(&y)), (vec![1.0, 0.0], vec![0.0, 0.0]));
}

#[test]
fn writes_one_after_another() {
    let n = 200;
    let c = Tensor::zeros([n]);
    for i in 1..n {
        c.set(s![i], c.get(s![i - 1]) + 1.0);
    }
    assert!(floats(&c).iter().enumerate().all(|(i, &x)| x == i as f32));
    let (d, mut snaps) = (Tensor::zeros([n]), Vec::new());
    for i in 0..n {
        d.set(s![i], i);
        snaps.push(d.get(s![i]) * 1.0);
    }
    realize(&snaps).expect("computes");
    assert!(snaps.iter().enumerate().all(|(i, x)| item(x) == i as f32));
    assert_eq!(item(&d.sum(..)), (n * (n - 1) / 2) as f32);
}

#[test]
fn a_value_may_be_read_before_its_gradient() {
    let w = Tensor::from([1.0f32, 2.0]).set_requires_grad(true);
    let loss = (&w * &w).sum(..);
    assert_eq!(item(&loss), 5.0);
    loss.backward().expect("has a gradient");
    assert_eq!(floats(&w.grad().expect("reached")), [2.0, 4.0]);
    let again = (&w * 3.0).sum(..);
    again.backward().expect("has a gradient");
    assert_eq!(floats(&w.grad().expect("reached")), [5.0, 7.0]);
    w.zero_grad();
    assert!(w.grad().is_none_or(|g| floats(&g) == [0.0, 0.0]));
}

#[test]
fn equal_parameters_have_gradients_of_their_own() {
    let (a, b) = (Tensor::zeros([2]), Tensor::zeros([2]));
    a.set_requires_grad(true);
    b.set_requires_grad(true);
    let x = Tensor::from([1.0f32, 2.0]);
    ((&x * 2.0 + &a).square() + &b * 3.0).sum(..).backward().expect("has gradients");
    assert_eq!(floats(&a.grad().expect("reached")), [4.0, 8.0]);
    assert_eq!(floats(&b.grad().expect("reached")), [3.0, 3.0]);
    let c = Tensor::zeros([2]).set_requires_grad(true);
    assert!((&a * 2.0).sum(..).gradient([&c]).is_err());
}

#[test]
fn gradients_go_through_writes() {
    let (base, value) = (Tensor::from([1.0f32, 2.0, 3.0]), Tensor::from(5.0f32));
    base.set_requires_grad(true);
    value.set_requires_grad(true);
    let t = &base * 1.0;
    t.set(s![1], &value);
    let loss = (t.square()).sum(..);
    let gradients = loss.gradient([&base, &value]).expect("reached");
    assert_eq!(floats(&gradients[0]), [2.0, 0.0, 6.0]);
    assert_eq!(floats(&gradients[1]), [10.0]);
}

#[test]
fn training_holds_no_old_weights() {
    let w = Tensor::randn([64, 64]).set_requires_grad(true);
    let x = Tensor::randn([16, 64]);
    realize([&w, &x]).expect("computes");
    let opt = SGD::new([&w], 1e-4).momentum(0.9);
    let mut last = None;
    let mut run = |steps: usize| {
        let (result, n) = measure(|| {
            for _ in 0..steps {
                opt.zero_grad();
                let loss = x.matmul(&w).square().mean(..);
                loss.backward()?;
                opt.step()?;
                last = Some(loss);
            }
            Ok::<(), kiln::Error>(())
        });
        result.expect("trains");
        n
    };
    run(5);
    let (few, many) = (run(3), run(30));
    assert_eq!(few.peak_memory, many.peak_memory);
    assert_eq!((many.kernels, many.compiled, many.scheduled), (few.kernels * 10, 0, 0));
    let (loss, n) = measure(|| last.expect("a loss").item::<f32>());
    assert!(loss.expect("readable").is_finite());
    assert_eq!(n.kernels, 0);
}

#[test]
fn views_that_cancel_do_not_grow() {
    let base = Tensor::arange(6).reshape([2, 3]);
    let mut t = base.clone();
    for _ in 0..10_000 {
        t = t.permute([1, 0]);
    }
    base.set(s![0, 0], 7);
    assert_eq!(t.to_vec::<i32>().expect("readable"), [7, 1, 2, 3, 4, 5]);
}

#[test]
fn a_root_that_is_a_leafs_own_value_keeps_it() {
    let t = Tensor::from([1.0f32, 2.0]).detach();
    t.assign(&t);
    let double = &t * 2.0;
    realize([&t, &double]).expect("computes");
    assert_eq!((floats(&t), floats(&double)), (vec![1.0, 2.0], vec![2.0, 4.0]));
}

#[test]
fn a_view_of_a_computed_view_finds_its_data() {
    let t = Tensor::zeros([3]).get(s![..;-1]);
    t.assign(&Tensor::from_vec(vec![1.0f32, 2.0, 3.0], [1, 3]).reshape([3]));
    assert_eq!(floats(&t), [1.0, 2.0, 3.0]);
    assert_eq!(floats(&t.unsqueeze(0)), [1.0, 2.0, 3.0]);
    assert_eq!(floats(&t.flip(0)), [3.0, 2.0, 1.0]);
}

#[test]
fn an_index_that_is_not_read_lends_no_memory_of_another_size() {
    let short = Tensor::zeros([3, 3]).get(s![1, Tensor::from([0i16, 0, 1, 2])]);
    assert_eq!(floats(&short), [0.0; 4]);
    let long = Tensor::zeros(()).expand([2]).get(s![Tensor::from([[-1i64], [-1]])]);
    assert_eq!(floats(&long), [0.0; 2]);
}

#[test]
fn a_mask_of_nothing_writes_nothing() {
    let t = Tensor::from([1.0f32, 2.0]);
    t.get(s![1..1]).set(s![Tensor::from_vec::<bool>(vec![], [0])], 9.0);
    assert_eq!(floats(&t), [1.0, 2.0]);
}
