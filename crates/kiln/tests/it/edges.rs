//! Random programs at the edges: equal positions in writes that have gradients, numbers that a dtype does not hold, axes of
//! length 0 and 1.

use crate::fuzz::{Rng, seeds};
use kiln::{DType, Tensor, s};

/// Lengths of which many are 0 or 1.
fn shape(rng: &mut Rng, least: usize) -> Vec<usize> {
    (0..1 + rng.below(3)).map(|_| rng.pick(&[0, 1, 1, 2, 3, 5]).max(least)).collect()
}

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("computes")
}

/// Sections along an axis are overwritten at random places: who was last has the gradient.
fn write_sections(seed: u64) {
    let rng = &mut Rng(seed);
    let shape = shape(rng, 1);
    let axis = rng.below(shape.len());
    let (n, writes) = (shape[axis], 1 + rng.below(5));
    let places: Vec<i32> = (0..writes).map(|_| rng.below(2 * n) as i32 - n as i32).collect();
    let mut written = shape.clone();
    written[axis] = writes;
    let numbers = |shape: &[usize]| Tensor::arange(shape.iter().product::<usize>()).reshape(shape);
    let x = numbers(&written).cast(DType::F32).contiguous().set_requires_grad(true);
    let w = numbers(&shape).cast(DType::F32).contiguous().set_requires_grad(true);
    let weights = (numbers(&shape) % 7 + 1).cast(DType::F32);
    let index = Tensor::from(places.clone());
    let index = if rng.one_in(2) { index * 1 + 0 } else { index };
    let z = &w * 1.0;
    let front = z.transpose(0, axis);
    front.set(s![&index], x.transpose(0, axis));
    // of what is overwritten as a whole nothing is left that would be reached
    let loss = (&z * &weights).sum(..) + (&w * 0.0).sum(..);
    let grads = loss.gradient([&x, &w]).expect("reached");
    let place = |p: i32| p.rem_euclid(n as i32) as usize;
    let inner: usize = shape[axis + 1..].iter().product();
    let weight = floats(&weights);
    // positions along the axis, and what is around them
    let split = |i: usize, len: usize| (i / (inner * len), i / inner % len, i % inner);
    let of_x = |i: usize| {
        let (outer, at, rest) = split(i, writes);
        let to = place(places[at]);
        let is_last = !places[at + 1..].iter().any(|&p| place(p) == to);
        if is_last { weight[(outer * n + to) * inner + rest] } else { 0.0 }
    };
    let of_w = |i: usize| {
        let kept = !places.iter().any(|&p| place(p) == split(i, n).1);
        if kept { weight[i] } else { 0.0 }
    };
    let what = format!("seed {seed}: {shape:?} along {axis} at {places:?}");
    assert_eq!(floats(&grads[0]), (0..x.numel()).map(of_x).collect::<Vec<_>>(), "{what}");
    assert_eq!(floats(&grads[1]), (0..w.numel()).map(of_w).collect::<Vec<_>>(), "{what}");
}

#[test]
fn writes_to_equal_places_have_the_gradient_of_the_last() {
    seeds(60).into_iter().for_each(write_sections);
}

/// A number of any size, often near where a dtype ends.
fn number(rng: &mut Rng) -> i64 {
    let near = (rng.below(5) as i64) - 2;
    let end = 1i64 << rng.pick(&[0, 7, 8, 15, 16, 31, 32, 40]);
    if rng.one_in(2) { near - end } else { near + end }
}

#[test]
fn integers_meet_numbers_of_any_size() {
    for seed in seeds(60) {
        let rng = &mut Rng(seed);
        let dtype =
            rng.pick(&[DType::I8, DType::I16, DType::I32, DType::U8, DType::U16, DType::U32]);
        let shape = shape(rng, 0);
        let data: Vec<i64> = (0..shape.iter().product()).map(|_| number(rng)).collect();
        let t = Tensor::from_vec(data, &shape).cast(dtype).contiguous();
        let held: Vec<i64> = t.cast(DType::I64).to_vec().expect("computes");
        let (low, high) = dtype.int_bounds();
        let (a, b) = (number(rng), number(rng));
        let what = format!("seed {seed}: {dtype} {held:?} and {a}, {b}");
        let bools = |t: Tensor| t.to_vec::<bool>().expect("computes");
        let each = |f: &dyn Fn(i64) -> bool| held.iter().map(|&x| f(x)).collect::<Vec<_>>();
        assert_eq!(bools(t.lt(a)), each(&|x| x < a), "{what}");
        assert_eq!(bools(t.le(a)), each(&|x| x <= a), "{what}");
        assert_eq!(bools(t.gt(a)), each(&|x| x > a), "{what}");
        assert_eq!(bools(t.ge(a)), each(&|x| x >= a), "{what}");
        assert_eq!(bools(t.eq(a)), each(&|x| x == a), "{what}");
        assert_eq!(bools(t.ne(a)), each(&|x| x != a), "{what}");
        let clamped = t.clamp(a, b).cast(DType::I64).to_vec::<i64>().expect("computes");
        let [a, b] = [a, b].map(|n| n.clamp(low, high));
        let expected: Vec<i64> = held.iter().map(|&x| x.max(a).min(b)).collect();
        assert_eq!(clamped, expected, "{what}");
    }
}

/// Running sums and softmax against loops, over axes that are often short.
#[test]
fn scans_run_over_axes_of_any_length() {
    for seed in seeds(60) {
        let rng = &mut Rng(seed);
        let shape = shape(rng, 0);
        let axis = rng.below(shape.len());
        let data: Vec<f32> =
            (0..shape.iter().product()).map(|_| rng.below(9) as f32 - 4.0).collect();
        let t = Tensor::from_vec(data.clone(), &shape).set_requires_grad(true);
        let (sums, shares) = (t.cumsum(axis), t.softmax(axis));
        assert_eq!((sums.shape(), shares.shape()), (&shape[..], &shape[..]), "seed {seed}");
        let inner: usize = shape[axis + 1..].iter().product();
        let line = |i: usize| -> Vec<usize> {
            let first = i / (inner * shape[axis]) * inner * shape[axis] + i % inner;
            (0..shape[axis]).map(|k| first + k * inner).collect()
        };
        let sum = |i: usize| line(i).into_iter().filter(|&k| k <= i).map(|k| data[k]).sum::<f32>();
        assert_eq!(floats(&sums), (0..data.len()).map(sum).collect::<Vec<_>>(), "seed {seed}");
        for (i, share) in floats(&shares).into_iter().enumerate() {
            let all: f32 = line(i).into_iter().map(|k| (data[k] - data[i]).exp()).sum();
            assert!((share - 1.0 / all).abs() <= 1e-6, "seed {seed}: {share}, element {i}");
        }
        let later = |i: usize| line(i).into_iter().filter(|&k| k >= i).count() as f32;
        let grad = sums.sum(..).gradient([&t]).expect("reached").remove(0);
        assert_eq!(floats(&grad), (0..data.len()).map(later).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// The least number of a dtype has no positive one of its size.
#[test]
fn common_divisors_of_the_least_number_are_positive() {
    let least = Tensor::from([i8::MIN; 4]);
    let (some, wanted) = (Tensor::from([6i8, 0, i8::MIN, 100]), [2, i8::MIN, i8::MIN, 4]);
    assert_eq!(some.gcd(&least).to_vec::<i8>().expect("computes"), wanted);
    assert_eq!(least.gcd(&some).to_vec::<i8>().expect("computes"), wanted);
}

fn euclid(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { euclid(b, a % b) }
}

/// Divisors and multiples of numbers of a dtype, whose sizes are those of `of`, against Euclid's algorithm.
macro_rules! divisors_of {
    ($($t:ty),*) => { $({
        let rng = &mut Rng(seeds(1)[0]);
        let mut all = vec![0, 1, 2, 3, <$t>::MIN, <$t>::MAX, <$t>::MIN + 1, <$t>::MAX - 1];
        all.extend([<$t>::MAX / 2, <$t>::MAX / 2 + 1, <$t>::MAX / 3]);
        // what takes the most steps with remainders of any size, and with small ones
        for ahead in 1..=2 {
            let mut pair: [u128; 2] = [1, ahead];
            while let Ok(next) = <$t>::try_from(pair[1]) {
                all.push(next);
                pair = [pair[1], ahead * pair[1] + pair[0]];
            }
        }
        let mut pairs: Vec<($t, $t)> = Vec::new();
        all.iter().for_each(|&a| pairs.extend(all.iter().map(|&b| (a, b))));
        for _ in 0..4000 {
            let mut some = || (rng.next() >> rng.below(64)) as $t;
            let (a, b, c) = (some(), some(), some() % 100);
            pairs.push((a, b));
            pairs.push((a.wrapping_mul(c), b.wrapping_mul(c)));
        }
        let (a, b): (Vec<$t>, Vec<$t>) = pairs.iter().copied().unzip();
        let (x, y) = (Tensor::from(a), Tensor::from(b));
        let divisors: Vec<$t> = x.gcd(&y).to_vec().expect("computes");
        let multiples: Vec<$t> = x.lcm(&y).to_vec().expect("computes");
        for (i, (a, b)) in pairs.into_iter().enumerate() {
            let [m, n] = [a, b].map(|x| (x as i128).unsigned_abs());
            let divisor = euclid(m, n);
            assert_eq!(divisors[i], divisor as $t, "{a} and {b}");
            assert_eq!(multiples[i], (m / divisor.max(1) * n) as $t, "{a} and {b}");
        }
    })* };
}

#[test]
fn common_divisors_are_euclids() {
    divisors_of!(i8, u8, i16, u16, i32, u32, i64, u64);
}

/// No product on the way overflows before the result does, and infinity is no exception.
#[test]
fn bessel_functions_far_out_are_infinite() {
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::F16] {
        let largest = if dtype == DType::F16 { 65504.0 } else { 1e38 };
        let x = Tensor::from([largest, -largest / 2.0, f64::INFINITY, f64::NEG_INFINITY, 800.0]);
        let x = Tensor::cat(&[x.clone(), Tensor::from([f64::MAX, -f64::MAX])], 0).cast(dtype);
        let values = x.i0().cast(DType::F64).to_vec::<f64>().expect("computes");
        assert_eq!(values, [f64::INFINITY; 7], "{dtype}");
    }
    let nan = Tensor::from([f64::NAN]).i0().to_vec::<f64>().expect("computes");
    assert!(nan[0].is_nan());
    let x = Tensor::from([1e308, -1e308]).set_requires_grad(true);
    let slopes = x.i0().sum(..).gradient([&x]).expect("a gradient").remove(0);
    assert_eq!(slopes.to_vec::<f64>().expect("computes"), [f64::INFINITY, f64::NEG_INFINITY]);
}

#[test]
fn a_matrix_of_zeros_has_a_spectrum() {
    for n in [1, 2, 5] {
        let both = Tensor::stack([&Tensor::zeros([n, n]), &Tensor::eye(n)], 0);
        let (values, vectors) = both.eigh();
        let wanted = [vec![0.0; n], vec![1.0; n]].concat();
        assert_eq!(floats(&values), wanted);
        let products = vectors.matmul(&vectors.transpose(-1, -2));
        assert_eq!(floats(&products), floats(&Tensor::eye(n).expand([2, n, n])));
    }
}

/// More numbers than an i32 counts: only those that are read are computed.
#[test]
fn long_lines_of_numbers_have_both_ends() {
    for n in [(1usize << 31) + 1, 1 << 33] {
        let line = Tensor::linspace_with(0.0, 1.0, n, DType::F64);
        let step = 1.0 / (n - 1) as f64;
        assert_eq!(line.get(s![..2]).to_vec::<f64>().expect("computes"), [0.0, step]);
        assert_eq!(line.get(s![n - 2..]).to_vec::<f64>().expect("computes"), [1.0 - step, 1.0]);
        assert_eq!(floats(&Tensor::logspace(0.0, 1.0, n).get(s![..1])), [1.0]);
    }
}

#[test]
fn slopes_are_for_channels() {
    let x = Tensor::full([1, 3, 2, 2], -1.0f32);
    assert_eq!(
        floats(&x.prelu(&Tensor::from([1.0f32, 2.0, 3.0])).sum([0, 2, 3])),
        [-4.0, -8.0, -12.0]
    );
    assert_eq!(floats(&x.prelu(&Tensor::from([2.0f32])).sum(..)), [-24.0]);
    assert_eq!(
        floats(&Tensor::full([2, 3], -1.0f32).prelu(&Tensor::from([1.0f32, 2.0, 3.0])))[..3],
        [-1.0, -2.0, -3.0]
    );
    for channels in [1, 2, 4] {
        let x = Tensor::full([2, channels, 2, 2], -1.0f32);
        assert!(x.prelu(&Tensor::ones([3])).error().is_some(), "{channels}");
    }
}
