//! What is asked of gradients: targets, seeds, scopes, directions and gradients of one's own.

use kiln::{Tensor, checkpoint, enable_grad, gradcheck, gradgradcheck, measure, no_grad, s};

fn floats(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().expect("values")
}

/// The gradient of a sum.
fn slope(y: &Tensor, x: &Tensor) -> Vec<f64> {
    floats(&y.sum(..).gradient([x]).expect("a gradient")[0])
}

#[test]
fn targets_need_no_mark() {
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let h = &x * 2.0;
    let y = h.square() + &x;
    assert_eq!(slope(&y, &x), [9.0, 17.0, 25.0]);
    assert_eq!(slope(&y, &h), [4.0, 8.0, 12.0]);
    // a view of the target, and a target that was computed meanwhile
    assert_eq!(slope(&y, &x.get(s![1..])), [17.0, 25.0]);
    h.realize().expect("computed");
    assert_eq!(slope(&y, &h), [4.0, 8.0, 12.0]);
    // beside one that is marked, and again
    let w = Tensor::from([5.0, 6.0, 7.0]).set_requires_grad(true);
    let y = (&w * &x).square().sum(..);
    let grads = y.gradient([&x, &w]).expect("two");
    assert_eq!([floats(&grads[0]), floats(&grads[1])], [[50.0, 144.0, 294.0], [10.0, 48.0, 126.0]]);
    assert_eq!(slope(&grads[0], &x), [50.0, 72.0, 98.0]);
    // a detached handle is a value of its own
    let d = x.detach();
    assert_eq!(slope(&(&d * &x), &d), [1.0, 2.0, 3.0]);
}

#[test]
fn targets_that_are_not_read_say_so() {
    let x = Tensor::from([1.0, 2.0]);
    let why = |y: Tensor, x: &Tensor| y.sum(..).gradient([x]).expect_err("none").to_string();
    assert!(why(&x * 2.0, &Tensor::from([1.0, 2.0])).contains("gradient: target 0 is not read"));
    let zeros = Tensor::zeros([2]);
    assert!(why(&x * &zeros, &zeros).contains("target 0 is a constant"));
    assert!(why(x.detach() * 2.0, &x).contains("autograd.rs"));
    let one = (&x * 2.0).sum(..).realize().expect("computed").clone();
    assert!(one.gradient([&x]).expect_err("forgotten").why().contains("before the gradient"));
    assert!((&x * 2.0).gradient([&x]).expect_err("two").why().contains("wants one float"));
}

#[test]
fn seeds_weigh_elements() {
    let x = Tensor::from([[1.0, 2.0], [3.0, 4.0]]).set_requires_grad(true);
    let seed = Tensor::from([1.0, 10.0]);
    let grads = x.square().gradient_with([&x], &seed).expect("a gradient");
    assert_eq!(floats(&grads[0]), [2.0, 40.0, 6.0, 80.0]);
    x.square().backward_with(2).expect("reached");
    x.square().backward_with(seed).expect("reached");
    assert_eq!(floats(&x.grad().expect("reached")), [6.0, 48.0, 18.0, 96.0]);
    for bad in [Tensor::ones([3]), Tensor::ones([1, 2, 2])] {
        let why = x.square().gradient_with([&x], bad).expect_err("a shape").to_string();
        assert!(why.contains("does not fit") && why.contains("autograd.rs"), "{why}");
    }
    let whole = Tensor::from([1, 2]);
    assert!(whole.backward_with(1).expect_err("integers").why().contains("wants floats"));
}

#[test]
fn scopes_say_whether_reads_count() {
    let w = Tensor::from([2.0, 3.0]).set_requires_grad(true);
    let (fixed, view, counted) = no_grad(|| (w.square(), w.get(s![..1]), enable_grad(|| &w * 3.0)));
    assert_eq!(slope(&(fixed * &w), &w), [4.0, 9.0]);
    assert_eq!(slope(&counted, &w), [3.0, 3.0]);
    assert!((view * 2.0).sum(..).backward().is_err());
    assert!(no_grad(|| w.sum(..).backward()).is_err());
    // a step by hand leaves a storage where gradients end
    no_grad(|| w.assign(&w - &w * 0.5));
    assert_eq!(slope(&w.square(), &w), [2.0, 3.0]);
    // the scope ends with a panic too, and is the thread's
    let caught = std::panic::catch_unwind(|| no_grad(|| panic!("on purpose")));
    assert!(caught.is_err() && kiln::is_grad_enabled());
    no_grad(|| std::thread::scope(|t| t.spawn(|| assert!(kiln::is_grad_enabled())).join()))
        .expect("no panic");
}

#[test]
fn gradients_of_ones_own() {
    let x = Tensor::from([0.4, -1.6]).set_requires_grad(true);
    // reversed and scaled; through what the input is computed from
    let h = &x * 2.0;
    let y = h.exp().with_gradient([&h], |g| [g * -3.0]);
    assert_eq!(floats(&y), floats(&h.exp()));
    assert_eq!(slope(&y, &x), [-6.0, -6.0]);
    // what is not linear in the gradient sees the whole of it
    let limited = x.copy().with_gradient([&x], |g| [g.clamp(-1, 1)]);
    assert_eq!(slope(&(&limited * 0.25 + &limited * 5.0), &x), [1.0, 1.0]);
    // only inputs get one, and each its own
    let (a, b) = (Tensor::from([1.0, 2.0]), Tensor::from([3.0, 5.0]));
    let y = (&a * &b * &x).with_gradient([&a, &b], |g| [g * &b, g * &a]).sum(..);
    let grads = y.gradient([&a, &b, &x]).expect("three");
    assert_eq!([0, 1, 2].map(|i| floats(&grads[i])), [[3.0, 5.0], [1.0, 2.0], [0.0, 0.0]]);
    // integers on the way, and twice
    let steps = x.cast(kiln::DType::I32).cast(kiln::DType::F64);
    let y = steps.with_gradient([&x], |g| [g * x.square()]);
    let first = y.sum(..).gradient([&x]).expect("a gradient").remove(0);
    assert_eq!(floats(&first), floats(&x.square()));
    assert_eq!(slope(&first, &x), [0.8, -3.2]);
    // computed before, and backward
    y.realize().expect("computed");
    y.sum(..).backward().expect("reached");
    assert_eq!(floats(&x.grad().expect("reached")), floats(&x.square()));
}

#[test]
fn gradients_of_ones_own_are_checked() {
    let x = Tensor::from([1.0, 2.0]);
    let why = |t: Tensor| t.error().expect("an error").to_string();
    let shape = why(x.exp().with_gradient([&x], |g| [g.sum(..)]));
    assert!(shape.contains("with_gradient: gradient 0 is f64 [] on"), "{shape}");
    assert!(shape.contains("autograd.rs"), "{shape}");
    let whole = Tensor::from([1, 2]);
    assert!(why(whole.with_gradient([&x], |g| [g.clone()])).contains("wants floats, not i32"));
    assert!(why(x.with_gradient([&x], |g| [g.reshape([7])])).contains("reshape"));
    // what wants no gradient keeps no history
    let y = x.exp().with_gradient([&x], |g| [g.clone()]);
    assert!(y.sum(..).backward().is_err());
}

#[test]
fn directions_and_jacobians() {
    let (x, v) = (Tensor::from([0.5, -1.0, 2.0]), Tensor::from([1.0, 2.0, -0.5]));
    let y = Tensor::cat([&x.sin(), &x.cumsum(0).square()], 0);
    let jacobian = y.jacobian(&x).expect("a matrix");
    assert_eq!(jacobian.shape(), [6, 3]);
    let along = y.jvp([(&x, &v)]).expect("a direction");
    assert!(along.allclose(&jacobian.matmul(&v), 1e-12, 1e-12).expect("numbers"));
    // zeros of functions that must not be multiplied by infinity
    let inf = Tensor::from([f64::INFINITY, 1.0]);
    assert_eq!(floats(&inf.maximum(0.0).jvp([(&inf, &inf.ones_like())]).expect("one")), [1.0, 1.0]);
    let hessian = (x.pow(3).sum(..) + x.prod(..)).hessian(&x).expect("a matrix");
    let want = [3.0, 2.0, -1.0, 2.0, -6.0, 0.5, -1.0, 0.5, 12.0];
    assert!(hessian.flatten().allclose(&Tensor::from(want), 1e-12, 1e-12).expect("numbers"));
    assert_eq!(floats(&x.sum(..).hessian(&x).expect("zeros")), [0.0; 9]);
    assert!(y.jacobian(&v).is_err());
    // a value that the first row computes
    let (w, v) = (waves([3, 2]), waves([2, 1]));
    let of = |v: &Tensor| w.matmul(v).tanh().jacobian(v).expect("a matrix");
    let marked = of(&waves([2, 1]).set_requires_grad(true));
    assert_eq!(of(&v).to_vec::<f32>().expect("numbers"), marked.to_vec::<f32>().expect("numbers"));
}

#[test]
fn wrong_gradients_are_found() {
    let x = Tensor::from([[0.3, -0.7], [1.9, 2.4]]);
    let w = Tensor::from([[1.1], [-0.4]]);
    gradcheck(|x| x[0].tanh().matmul(&x[1]), [&x, &w]).expect("right");
    gradgradcheck(|x| x[0].tanh().matmul(&x[1]).square(), [&x, &w]).expect("right");
    gradcheck(|x| &x[0] * 0.0 + 1.0, [&x]).expect("flat");
    let wrong = |x: &[Tensor]| x[0].exp().with_gradient([&x[0]], |g| [g * 2.0]);
    let why = gradcheck(wrong, [&x]).expect_err("wrong").to_string();
    assert!(why.contains("result 0 by element 0 of input 0: the gradient is 2"), "{why}");
    // right once and wrong twice
    let wrong = |x: &[Tensor]| x[0].exp().with_gradient([&x[0]], |g| [g * x[0].detach().exp()]);
    gradcheck(wrong, [&x]).expect("right once");
    assert!(gradgradcheck(wrong, [&x]).is_err());
    let norm = kiln::nn::BatchNorm::new(2).without_affine();
    let f = |x: &[Tensor]| kiln::nn::train(|| norm.forward(&x[0])) * &x[0];
    gradcheck(f, [&x]).expect("right");
    gradgradcheck(f, [&x]).expect("right twice");
    let narrow = Tensor::from([1.0f32]);
    assert!(gradcheck(|x| x[0].exp(), [&narrow]).expect_err("f32").why().contains("want F64"));
}

#[test]
fn gradients_of_linear_algebra() {
    let x = Tensor::from([[2.0, 0.5, -0.3], [0.4, 3.0, 0.2], [-0.1, 0.6, 1.5]]);
    let tall = Tensor::from([[2.0, 0.5], [0.4, 3.0], [-0.1, 0.6]]);
    let square: [fn(&Tensor) -> Tensor; 10] = [
        Tensor::inv,
        Tensor::det,
        |x| x.slogdet().1,
        |x| x.solve(&Tensor::from([1.0, 2.0, -1.0])),
        |x| x.solve_triangular(&x.narrow(1, 0, 1), true, false),
        |x| (x.matmul(&x.transpose(0, 1))).cholesky(false),
        |x| (x + x.transpose(0, 1)).eigh().1,
        |x| (x + x.transpose(0, 1)).eigvalsh(),
        |x| x.inv().inv().matmul(x),
        |x| x.det() * x.inv(),
    ];
    let any: [fn(&Tensor) -> Tensor; 8] = [
        |x| x.qr().0,
        |x| x.qr().1,
        |x| x.svd(false).0,
        |x| x.svd(false).2,
        Tensor::svdvals,
        |x| x.svd(true).0.narrow(1, 0, 2),
        Tensor::pinv,
        |x| x.lstsq(&x.narrow(1, 0, 1)),
    ];
    for f in square.into_iter().chain(any) {
        gradcheck(|x| f(&x[0]), [&x]).expect("right");
        gradgradcheck(|x| f(&x[0]), [&x]).expect("twice");
    }
    for x in [&tall, &tall.transpose(0, 1)] {
        any.iter().for_each(|f| gradcheck(|x| f(&x[0]), [x]).expect("right"));
        [any[1], any[6]].iter().for_each(|f| gradgradcheck(|x| f(&x[0]), [x]).expect("twice"));
    }
}

/// Of rank 2, 1 and 0, and of one that elimination takes for regular, as its last pivot is rounded. Beside each is a regular one.
#[test]
fn determinants_of_singular_matrices_have_two_derivatives() {
    let rank_2 = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [-1.0, 1.0, 0.5]];
    let rank_1 = [[1.0, 2.0, -1.0], [2.0, 4.0, -2.0], [-0.5, -1.0, 0.5]];
    let regular = [[2.0, 0.5, -0.3], [0.4, 3.0, 0.2], [-0.1, 0.6, 1.5]];
    let rounded = [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]];
    for x in [rank_2, rank_1, rounded, [[0.0; 3]; 3]] {
        let x = Tensor::stack([&Tensor::from(x), &Tensor::from(regular)], 0);
        gradcheck(|x| x[0].det(), [&x]).expect("right");
        gradgradcheck(|x| x[0].det(), [&x]).expect("twice");
    }
}

/// Whole numbers have formulas of their own next to poles, and 0 is where a quotient has a limit.
#[test]
fn special_functions_have_derivatives_of_derivatives_at_whole_numbers() {
    let functions: [fn(&Tensor) -> Tensor; 6] = [
        Tensor::lgamma,
        Tensor::digamma,
        |x| x.polygamma(1),
        |x| x.polygamma(4),
        Tensor::i0,
        Tensor::erfinv,
    ];
    for (i, f) in functions.into_iter().enumerate() {
        let at = match i {
            4 => vec![0.0, 1.0, -2.0, 7.0],
            5 => vec![0.0, 0.5, -0.25],
            _ => vec![1.0, 2.0, 3.0, 7.0, 0.5, -0.5, -2.25],
        };
        let x = Tensor::from(at);
        gradcheck(|x| f(&x[0]), [&x]).expect("right");
        gradgradcheck(|x| f(&x[0]), [&x]).expect("twice");
    }
}

#[test]
fn polygammas_have_no_value_at_minus_infinity() {
    let x = Tensor::from([f64::NEG_INFINITY]);
    assert!((0..6).all(|n| floats(&x.polygamma(n))[0].is_nan()));
}

/// A path through a factorization counts beside another one, whether the target is marked or not, and whether what is
/// factorized is the target or computed from it.
#[test]
fn factorizations_lead_to_targets_without_a_mark() {
    let functions: [fn(&Tensor) -> Tensor; 8] = [
        Tensor::inv,
        Tensor::det,
        |x| x.slogdet().1,
        |x| x.solve(&x.narrow(1, 0, 1)),
        |x| x.matmul(&x.transpose(0, 1)).cholesky(false),
        |x| x.qr().0,
        |x| x.svd(false).0,
        |x| x.eigh().1,
    ];
    for f in functions {
        let loss = |x: &Tensor| f(&(x * 2.0)).sum(..) + f(x).square().sum(..) + x.sum(..);
        let numbers = [[2.0, 0.5, -0.3], [0.4, 3.0, 0.2], [-0.1, 0.6, 1.5]];
        let (plain, marked) =
            (Tensor::from(numbers), Tensor::from(numbers).set_requires_grad(true));
        let plain = loss(&plain).gradient([&plain]).expect("a gradient").remove(0);
        let of = |loss: Tensor| floats(&loss.gradient([&marked]).expect("a gradient")[0]);
        assert_eq!(floats(&plain), of(loss(&marked)));
        assert_eq!(floats(&plain), of(checkpoint(|[x]| loss(x), [&marked])));
    }
}

/// A value that no gradient is wanted of does not keep what it was computed from.
#[test]
fn a_realized_value_without_a_mark_forgets_what_it_was_computed_from() {
    let functions: [fn(&Tensor) -> Tensor; 5] =
        [Tensor::inv, Tensor::erf, Tensor::gelu_erf, Tensor::lgamma, |x| x.softmax(-1)];
    for (i, f) in functions.into_iter().enumerate() {
        let steps = |n: usize| {
            let mut x = Tensor::eye(64).contiguous();
            let all = || (0..n).for_each(|_| x = f(&x).realize().expect("computed").clone());
            measure(all).1.peak_memory
        };
        let (few, many) = (steps(3), steps(30));
        assert!(many <= few, "function {i}: {few} {many}");
    }
}

/// The first columns of this matrix are not independent: its factors exist, their derivatives do not.
#[test]
fn a_matrix_without_full_rank_has_factors_and_no_gradient() {
    let x = Tensor::from([[1.0, 1.0], [1.0, 1.0]]).set_requires_grad(true);
    let (q, r) = x.qr();
    assert!(floats(&q.matmul(&r).sub(&x).abs()).iter().all(|x| *x < 1e-12));
    let slope = r.sum(..).gradient([&x]).expect("a gradient").remove(0);
    assert!(floats(&slope).iter().all(|x| x.is_nan()), "{slope}");
}

/// Numbers that are not alike, in memory.
fn waves(shape: [usize; 2]) -> Tensor {
    let data = (0..shape[0] * shape[1]).map(|i| (i as f32 * 1.7).sin()).collect();
    Tensor::from_vec(data, shape)
}

/// The slopes of a layer and a batch norm, with each value computed as soon as it is there, or all at once.
fn slopes_of_norm(at_once: bool) -> Vec<f32> {
    let (w, norm) = (waves([5, 5]), kiln::nn::BatchNorm::new(5));
    for running in [&norm.running_mean, &norm.running_var] {
        running.assign(waves([1, 5]).reshape([5]) * 0.5 + 1.0);
    }
    let x = waves([3, 5]).set_requires_grad(true);
    let inner = x.matmul(&w);
    if !at_once {
        inner.realize().expect("computes");
    }
    let y = kiln::nn::train(|| norm.forward(&inner));
    if !at_once {
        y.realize().expect("computes");
    }
    let loss = (&y * waves([3, 5])).exp().sum(..);
    loss.backward().expect("a gradient");
    let all = [x.grad().expect("a gradient"), norm.running_mean.clone(), loss];
    kiln::realize(&all).expect("computes");
    all.iter().flat_map(|t| t.to_vec::<f32>().expect("is there")).collect()
}

/// Batch norm writes its statistics with the value that it gives. The gradient goes through that value, and not through the
/// write, whose old statistics are gone.
#[test]
fn a_gradient_goes_through_what_was_computed_with_a_write() {
    let (found, expected) = (slopes_of_norm(false), slopes_of_norm(true));
    let largest = expected.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    let off = found.iter().zip(&expected).fold(0.0f32, |a, (x, y)| a.max((x - y).abs()));
    assert!(off <= 64.0 * f32::EPSILON * largest, "{found:?}, {expected:?}");
}

/// The product of the elements that are in a group with `these` but none of them; 0 where not all are different
/// elements of one group.
fn of_the_rest(x: &[f64], group: impl Fn(usize) -> usize, these: &[usize]) -> f64 {
    let apart = (1..these.len()).all(|i| !these[..i].contains(&these[i]));
    let together = these.iter().all(|&i| group(i) == group(these[0]));
    let rest = (0..x.len()).filter(|i| group(*i) == group(these[0]) && !these.contains(i));
    if apart && together { rest.map(|i| x[i]).product() } else { 0.0 }
}

#[test]
fn products_have_second_derivatives_beside_zeros() {
    type Case = (fn(&Tensor) -> Tensor, fn(usize) -> usize);
    let cases: [Case; 4] = [
        (|x| x.prod(0), |i| i % 3),
        (|x| x.prod(-1), |i| i / 3),
        (|x| x.prod(..), |_| 0),
        (|x| x.reshape([5, 3, 1]).prod([0, 2]), |i| i % 3),
    ];
    for zeros in [&[][..], &[4], &[3, 5], &[1, 4, 7], &[0, 1, 2], &[4, 7, 8]] {
        let mut at: Vec<f64> = (0..15).map(|i| f64::from(i % 4) - 1.5).collect();
        zeros.iter().for_each(|&i| at[i] = 0.0);
        let x = Tensor::from(at.clone()).reshape([5, 3]);
        for (number, (f, group)) in cases.iter().enumerate() {
            let found = floats(&f(&x).sum(..).hessian(&x).expect("a matrix"));
            let pairs = (0..15).flat_map(|i| (0..15).map(move |j| [i, j]));
            let want: Vec<f64> = pairs.map(|pair| of_the_rest(&at, group, &pair)).collect();
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
            assert!(found.iter().zip(&want).all(close), "case {number}, {zeros:?}: {found:?}");
        }
    }
}

#[test]
fn products_have_third_derivatives_beside_zeros() {
    for at in
        [[4.0, 3.0, 2.0, 5.0], [0.0, 3.0, 2.0, 5.0], [0.0, 3.0, 0.0, 5.0], [0.0, 0.0, 0.0, 5.0]]
    {
        let x = Tensor::from(at);
        let first = x.prod(..).gradient([&x]).expect("one").remove(0);
        let second = |i| first.select(0, i).gradient([&x]).expect("one").remove(0);
        let pairs = (0..16).map(|pair| [pair / 4, pair % 4]);
        let third: Vec<f64> = pairs.flat_map(|[i, j]| slope(&second(i).select(0, j), &x)).collect();
        let triples = (0..64).map(|i| [i / 16, i / 4 % 4, i % 4]);
        let want: Vec<f64> = triples.map(|these| of_the_rest(&at, |_| 0, &these)).collect();
        let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * (1.0 + b.abs());
        assert!(third.iter().zip(&want).all(close), "{at:?}: {third:?}");
    }
    // of one element, and of none
    let x = Tensor::from([[2.0], [0.0]]);
    assert_eq!(floats(&x.prod(1).sum(..).hessian(&x).expect("zeros")), [0.0; 4]);
    let none = Tensor::zeros([2, 0]).set_requires_grad(true);
    let first = none.prod(1).sum(..).gradient([&none]).expect("one").remove(0);
    assert_eq!(first.sum(..).gradient([&none]).expect("one")[0].shape(), [2, 0]);
}
