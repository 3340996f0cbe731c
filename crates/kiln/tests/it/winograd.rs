//! `WINO=1` against the direct form: values, gradients, and how much is multiplied.

use kiln::{ConvOptions, DType, Rng, Tensor, measure, with};

/// Batch, channels, rows, columns; outputs; groups; padding.
const CASES: [([usize; 4], usize, usize, usize); 8] = [
    ([1, 1, 3, 3], 1, 1, 0),
    ([1, 1, 1, 1], 1, 1, 1),
    ([2, 3, 8, 8], 4, 1, 1),
    ([2, 4, 7, 5], 6, 2, 0),
    ([1, 8, 6, 9], 8, 8, 1),
    ([3, 16, 4, 11], 5, 1, 2),
    ([1, 64, 10, 10], 8, 1, 1),
    ([1, 2, 3, 4], 2, 1, 0),
];

fn winograd<R>(f: impl FnOnce() -> R) -> R {
    with([("WINO", 1)], f).expect("a setting")
}

struct Given {
    x: Tensor,
    w: Tensor,
    bias: Tensor,
    groups: usize,
    padding: usize,
}

impl Given {
    fn new(case: &([usize; 4], usize, usize, usize), dtype: DType) -> Given {
        let &(shape, outputs, groups, padding) = case;
        let rng = Rng::new(shape.iter().sum::<usize>() as u64);
        let make = |shape: &[usize]| {
            let t = rng.randn_with(shape, DType::F64).cast(dtype).copy();
            t.realize().expect("random");
            t.set_requires_grad(true)
        };
        let (x, w) = (make(&shape), make(&[outputs, shape[1] / groups, 3, 3]));
        Given { x, w, bias: make(&[outputs]), groups, padding }
    }

    fn convolved(&self) -> Tensor {
        self.x.conv2d(&self.w, Some(&self.bias), self.groups, 1, 1, self.padding)
    }

    /// The result, and the gradients of a sum of it with weights.
    fn results(&self) -> Vec<Vec<f64>> {
        let y = self.convolved();
        let weights = Tensor::arange(y.numel()).modulo(5).sub(2).reshape(y.shape());
        let loss = (&y * weights.cast(y.dtype())).sum(..);
        let grads = loss.gradient([&self.x, &self.w, &self.bias]).expect("gradients");
        let numbers = |t: &Tensor| t.cast(DType::F64).to_vec::<f64>().expect("f64");
        [y].iter().chain(&grads).map(numbers).collect()
    }

    /// With all numbers without their signs.
    fn sizes(&self) -> Given {
        let size = |t: &Tensor| t.detach().abs().copy().set_requires_grad(true);
        let (x, w, bias) = (size(&self.x), size(&self.w), size(&self.bias));
        Given { x, w, bias, ..*self }
    }
}

/// What the module promises: 32 rounding errors of the sum of all products without their signs, here of the largest one.
/// Gradients are such sums too, of weights up to 2.
#[test]
fn results_and_gradients_are_those_of_the_direct_form() {
    for (dtype, rounding) in [(DType::F64, f64::EPSILON / 2.0), (DType::F32, f64::exp2(-24.0))] {
        for case in &CASES {
            let given = Given::new(case, dtype);
            let (direct, fast) = (given.results(), winograd(|| given.results()));
            for (number, (want, got)) in direct.iter().zip(&fast).enumerate() {
                let of_sizes =
                    given.sizes().results()[number].iter().fold(0.0f64, |m, v| m.max(v.abs()));
                let most = want.iter().fold(of_sizes, |m, v| m.max(v.abs()));
                let allowed = 32.0 * rounding * 4.0 * most.max(1.0);
                let far = want.iter().zip(got).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(far <= allowed, "{case:?} {dtype} result {number}: {far} of {allowed}");
            }
        }
    }
}

#[test]
fn only_what_is_meant_is_computed_so() {
    let given = Given::new(&CASES[2], DType::F32);
    let bits = |t: Tensor| t.to_vec::<f32>().expect("f32");
    let strided = || bits(given.x.conv2d(&given.w, None, 1, 2, 1, 1));
    let dilated = || bits(given.x.conv2d(&given.w, None, 1, 1, 2, 1));
    let options = ConvOptions::new();
    let large = Tensor::ones([4, 3, 5, 5]);
    let other = || bits(given.x.conv2d_with(&large, None, &options));
    assert_eq!(winograd(strided), strided());
    assert_eq!(winograd(dilated), dilated());
    assert_eq!(winograd(other), other());
    // too small an image is an error, and none at all is none
    let small = || Tensor::ones([1, 3, 2, 2]).conv2d(&given.w, None, 1, 1, 1, 0);
    assert!(winograd(small).error().is_some());
    let none = || bits(Tensor::zeros([0, 3, 4, 4]).conv2d(&given.w, None, 1, 1, 1, 1));
    assert!(winograd(none).is_empty());
    let half =
        winograd(|| given.x.cast(DType::F16).conv2d(&given.w.cast(DType::F16), None, 1, 1, 1, 1));
    assert_eq!(half.dtype(), DType::F16);
}

/// 64 channels: 16 products instead of 36, and the transforms.
#[test]
fn fewer_products_are_computed() {
    let x = Rng::new(1).randn([1, 64, 32, 32]);
    let w = Rng::new(2).randn([64, 64, 3, 3]);
    kiln::realize([&x, &w]).expect("random");
    let run = || measure(|| _ = x.conv2d(&w, None, 1, 1, 1, 1).realize().expect("computed")).1;
    let (direct, fast) = (run(), winograd(run));
    assert!(fast.flops * 10 < direct.flops * 8, "{} of {}", fast.flops, direct.flops);
}
