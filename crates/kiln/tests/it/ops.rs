//! Products, windows, losses, random numbers. Expected values are NumPy's, PyTorch's and JAX's.

use kiln::{DType, Tensor, manual_seed, s};

fn f32s(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("readable")
}

fn close(a: &[f32], b: &[f32], tolerance: f32) {
    assert_eq!(a.len(), b.len());
    assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance), "{a:?}\n{b:?}");
}

fn counted(shape: &[usize]) -> Tensor {
    Tensor::arange(shape.iter().product::<usize>()).cast(DType::F32).reshape(shape)
}

#[test]
fn matmul_shapes() {
    let (a, b) = (counted(&[2, 3]), counted(&[3, 4]));
    assert_eq!(f32s(&a.matmul(&b)), [20.0, 23.0, 26.0, 29.0, 56.0, 68.0, 80.0, 92.0]);
    let v = Tensor::from([1.0f32, 2.0, 3.0]);
    assert_eq!(f32s(&a.matmul(&v)), [8.0, 26.0]);
    assert_eq!(v.matmul(&b).shape(), [4]);
    assert_eq!(v.matmul(&v).shape(), [] as [usize; 0]);
    assert_eq!(counted(&[5, 1, 2, 3]).matmul(&counted(&[7, 3, 4])).shape(), [5, 7, 2, 4]);
    let text = a.matmul(&counted(&[4, 5])).error().unwrap().to_string();
    assert!(
        text.starts_with("matmul: inner dimensions differ, lhs [2, 3], rhs [4, 5] at "),
        "{text}"
    );
    assert!(text.contains("ops.rs:"), "{text}");
    assert!(Tensor::from(1.0f32).matmul(&v).error().is_some());
    let small = Tensor::from([[100i8, 100]]);
    assert_eq!(small.matmul(&small.permute([1, 0])).item::<i32>().unwrap(), 20000);
    let batch = counted(&[2, 2, 2]);
    assert_eq!(f32s(&batch.matmul(&batch)), [2.0, 3.0, 6.0, 11.0, 46.0, 55.0, 66.0, 79.0]);
}

#[test]
fn a_letter_of_one_operand_is_a_diagonal_of_one_length() {
    let of = |equation: &str, shape: [usize; 2]| Tensor::einsum(equation, [Tensor::ones(shape)]);
    for shape in [[1, 3], [3, 1]] {
        let text = of("ii->i", shape).error().expect("no square").to_string();
        assert!(text.starts_with("einsum: 'i' stands twice in \"ii\", for "), "{text}");
    }
    assert_eq!(of("ii->i", [3, 3]).to_vec::<f32>().unwrap(), [1.0; 3]);
    // between operands a length of 1 does stretch
    let both = Tensor::einsum("ii,i->i", [Tensor::ones([1, 1]), Tensor::ones([3])]);
    assert_eq!(both.to_vec::<f32>().unwrap(), [1.0; 3]);
}

/// The definition, loop by loop.
#[allow(clippy::too_many_arguments)]
fn conv_by_hand(
    x: &[f32],
    xs: [usize; 4],
    w: &[f32],
    ws: [usize; 4],
    groups: usize,
    stride: [usize; 2],
    dilation: [usize; 2],
    padding: [usize; 2],
) -> Vec<f32> {
    let [n, c, h, wd] = xs;
    let [o, i, kh, kw] = ws;
    let rows = (h + 2 * padding[0] - dilation[0] * (kh - 1) - 1) / stride[0] + 1;
    let cols = (wd + 2 * padding[1] - dilation[1] * (kw - 1) - 1) / stride[1] + 1;
    let mut out = Vec::new();
    for b in 0..n {
        for oc in 0..o {
            for r in 0..rows {
                for q in 0..cols {
                    let mut sum = 0.0;
                    for ic in 0..i {
                        for ky in 0..kh {
                            for kx in 0..kw {
                                let y = (r * stride[0] + ky * dilation[0]).wrapping_sub(padding[0]);
                                let z = (q * stride[1] + kx * dilation[1]).wrapping_sub(padding[1]);
                                if y < h && z < wd {
                                    let channel = oc / (o / groups) * i + ic;
                                    sum += x[((b * c + channel) * h + y) * wd + z]
                                        * w[((oc * i + ic) * kh + ky) * kw + kx];
                                }
                            }
                        }
                    }
                    out.push(sum);
                }
            }
        }
    }
    out
}

#[test]
fn convolutions() {
    let cases = [
        (1, [1, 1], [1, 1], [0, 0]),
        (1, [2, 1], [1, 2], [1, 2]),
        (2, [1, 2], [2, 1], [2, 0]),
        (2, [3, 3], [1, 1], [1, 1]),
    ];
    for (groups, stride, dilation, padding) in cases {
        let (xs, ws) = ([2, 4, 6, 5], [4, 4 / groups, 3, 2]);
        let x = (counted(&xs) % 7.0) - 3.0;
        let w = (counted(&ws) % 5.0) - 2.0;
        let y = x.conv2d(&w, None, groups, stride, dilation, padding);
        let expected =
            conv_by_hand(&f32s(&x), xs, &f32s(&w), ws, groups, stride, dilation, padding);
        assert_eq!(f32s(&y), expected, "{groups} {stride:?} {dilation:?} {padding:?}");
    }
    let x = counted(&[1, 1, 2, 2]);
    let biased =
        x.conv2d(&Tensor::ones([2, 1, 1, 1]), Some(&Tensor::from([10.0f32, 20.0])), 1, 1, 1, 0);
    assert_eq!(f32s(&biased), [10.0, 11.0, 12.0, 13.0, 20.0, 21.0, 22.0, 23.0]);
    assert!(x.conv2d(&Tensor::ones([1, 1, 3, 3]), None, 1, 1, 1, 0).error().is_some());
    assert!(x.conv2d(&Tensor::ones([1, 2, 1, 1]), None, 1, 1, 1, 0).error().is_some());
}

#[test]
fn pools() {
    let t = counted(&[1, 5, 5]);
    assert_eq!(f32s(&t.max_pool2d(2)), [6.0, 8.0, 16.0, 18.0]);
    assert_eq!(
        f32s(&t.max_pool2d_with(3, 2, 1, 1)),
        [6.0, 8.0, 9.0, 16.0, 18.0, 19.0, 21.0, 23.0, 24.0]
    );
    assert_eq!(f32s(&t.avg_pool2d(2)), [3.0, 5.0, 13.0, 15.0]);
    let negative = Tensor::from([[-5i32, -6], [-7, -8]]).max_pool2d_with(2, 2, 1, 1);
    assert_eq!(negative.to_vec::<i32>().unwrap(), [-5, -6, -7, -8]);
}

#[test]
fn softmaxes() {
    let t = Tensor::from([[1.0f32, 2.0, 3.0], [1000.0, 1000.0, -1000.0]]);
    close(&f32s(&t.softmax(-1)), &[0.09003057, 0.24472847, 0.66524096, 0.5, 0.5, 0.0], 1e-6);
    close(&f32s(&t.log_softmax(1))[..3], &[-2.407606, -1.4076059, -0.40760595], 1e-6);
    close(&f32s(&t.logsumexp(1)), &[3.407606, 1000.6931], 1e-4);
    let none = Tensor::full([2], f64::NEG_INFINITY);
    assert_eq!(none.logsumexp(0).item::<f32>().unwrap(), f32::NEG_INFINITY);
    assert!(t.softmax(2).error().is_some());
    let half = Tensor::from([1.0f32, 2.0]).cast(DType::F16).softmax(0);
    assert_eq!(half.dtype(), DType::F16);
}

#[test]
fn losses_and_norms() {
    let logits = Tensor::from([[1.0f32, 2.0, 3.0], [3.0, 2.0, 1.0]]);
    let loss = logits.cross_entropy(&Tensor::from([2, 1])).item::<f32>().unwrap();
    close(&[loss], &[(0.40760595 + 1.4076059) / 2.0], 1e-6);
    assert!(logits.cross_entropy(&Tensor::from([2])).error().is_some());
    assert!(logits.cross_entropy(&Tensor::from([2.0f32, 1.0])).error().is_some());
    let y = logits.layernorm(-1);
    close(&f32s(&y)[..3], &[-1.2247356, 0.0, 1.2247356], 1e-5);
    let bytes = logits.cross_entropy(&Tensor::from([2u8, 1])).item::<f32>().unwrap();
    assert_eq!(bytes, loss);
    for no_class in [-1, 3] {
        let one = logits.cross_entropy(&Tensor::from([no_class, 1])).item::<f32>().unwrap();
        // it has no loss, and does not count in the mean
        close(&[one], &[1.4076059], 1e-6);
    }
    let masked = logits.cross_entropy(&Tensor::from([-100i64, 1]));
    close(&[masked.item::<f32>().unwrap()], &[1.4076059], 1e-6);
    assert_eq!(Tensor::from([255u8]).one_hot(256).sum(..).item::<i32>().unwrap(), 1);
}

#[test]
fn attention() {
    let (q, k) = (counted(&[1, 2, 2]) / 10.0, counted(&[1, 3, 2]) / 10.0);
    let full = q.scaled_dot_product_attention(&k, &k, None, false);
    assert_eq!(full.shape(), [1, 2, 2]);
    let causal = q.scaled_dot_product_attention(&k, &k, None, true);
    close(&f32s(&causal)[..2], &[0.0, 0.1], 1e-6);
    let mask = Tensor::from([[true, false, false], [true, true, true]]);
    let masked = q.scaled_dot_product_attention(&k, &k, Some(&mask), false);
    close(&f32s(&masked)[..2], &[0.0, 0.1], 1e-6);
    close(&f32s(&masked)[2..], &f32s(&full)[2..], 1e-6);
}

#[test]
fn joining() {
    let (a, b) = (Tensor::from([[1, 2], [3, 4]]), Tensor::from([[5], [6]]));
    let ints = |t: &Tensor| t.to_vec::<i32>().unwrap();
    assert_eq!(ints(&Tensor::cat([&a, &b], 1)), [1, 2, 5, 3, 4, 6]);
    assert_eq!(ints(&Tensor::stack([&a, &a], -1)), [1, 1, 2, 2, 3, 3, 4, 4]);
    let many: Vec<Tensor> = (0..20).map(|i| Tensor::full([2], i)).collect();
    assert_eq!(ints(&Tensor::cat(&many, 0)), (0..40).map(|i| i / 2).collect::<Vec<i32>>());
    assert!(Tensor::cat([&a, &b], 0).error().is_some());
    assert!(Tensor::cat(Vec::<Tensor>::new(), 0).error().is_some());
    assert_eq!(Tensor::cat([&a, &Tensor::zeros([1, 2])], 0).dtype(), DType::F32);
    let signed = Tensor::cat([Tensor::from([-0.0f32]), Tensor::from([1.0f32])], 0);
    assert!(f32s(&signed)[0].is_sign_negative());
    assert_eq!(ints(&a.pad([(1, 0), (0, 1)])), [0, 0, 0, 1, 2, 0, 3, 4, 0]);
    assert_eq!(ints(&b.repeat([1, 2])), [5, 5, 6, 6]);
    let parts = Tensor::arange(7).chunk(3, 0);
    assert_eq!(parts.iter().map(Tensor::numel).collect::<Vec<_>>(), [3, 3, 1]);
    parts[1].set(s![0], 0);
    assert!(Tensor::arange(7).split([3, 3], 0)[0].error().is_some());
    assert_eq!(ints(&a.tril(-1)), [0, 0, 3, 0]);
    assert_eq!(ints(&a.triu(1)), [0, 2, 0, 0]);
}

#[test]
fn random_bits_are_jaxs() {
    // threefry's published test vector: key 0, counter 0 gives 6b200159 99ba4efe, whose exclusive or is f29a4fa7
    // drawn at once: other tests draw from the same sequence
    manual_seed(0);
    let (first, second) = (Tensor::rand([4]), Tensor::rand([2]));
    let expected = f32::from_bits(0xf29a_4fa7 >> 9 | 1.0f32.to_bits()) - 1.0;
    assert_eq!(f32s(&first)[0], expected);
    manual_seed(0);
    let both = Tensor::rand([6]);
    assert_eq!(f32s(&both), [f32s(&first), f32s(&second)].concat());
    let normal = f32s(&Tensor::randn([4000]));
    let mean = normal.iter().sum::<f32>() / 4000.0;
    let var = normal.iter().map(|x| x * x).sum::<f32>() / 4000.0;
    assert!(mean.abs() < 0.05 && (var - 1.0).abs() < 0.1, "{mean} {var}");
    let dice = Tensor::randint(1, 7, [600]).to_vec::<i32>().unwrap();
    assert!((1..7).all(|d| (60..140).contains(&dice.iter().filter(|&&x| x == d).count())));
    assert!(Tensor::randint(3, 3, [1]).error().is_some());
    let doubles = Tensor::rand_with([100], DType::F64).to_vec::<f64>().unwrap();
    assert!(doubles.iter().all(|x| (0.0..1.0).contains(x)));
    assert!(
        Tensor::rand_with([100], DType::BF16).max(0).cast(DType::F32).item::<f32>().unwrap() < 1.0
    );
}

/// Lanes of a vector that are loaded one by one, as halves of something wider, and some that are 0.
#[test]
fn halves_that_are_loaded_apart_are_put_together() {
    let halves: Vec<f32> = (0..4).flat_map(|i| f64_halves(i as f64 + 0.5)).collect();
    let wide = Tensor::from(halves).bitcast(DType::F64);
    let joined = Tensor::cat([&wide, &Tensor::from([7.0f64, 8.0, 9.0, 10.0])], 0);
    let expected = [0.5, 1.5, 2.5, 3.5, 7.0, 8.0, 9.0, 10.0];
    assert_eq!(joined.to_vec::<f64>().unwrap(), expected);
}

fn f64_halves(x: f64) -> [f32; 2] {
    let bits = x.to_bits();
    [bits as u32, (bits >> 32) as u32].map(f32::from_bits)
}

/// The logarithm of the variance grows without end, and so does the loss.
#[test]
fn an_infinite_variance_has_an_infinite_loss() {
    let [x, target] = [1.0f64, 3.0].map(|v| Tensor::from([v]));
    for (variance, want) in [(f64::INFINITY, f64::INFINITY), (1.0, 2.0), (f64::NAN, f64::NAN)] {
        let loss = x.gaussian_nll_loss(&target, &Tensor::from([variance]), kiln::Reduce::Sum);
        let loss = loss.item::<f64>().expect("f64");
        assert!(loss == want || loss.is_nan() && want.is_nan(), "{variance}: {loss}");
    }
}
