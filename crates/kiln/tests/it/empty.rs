//! Axes of length 0. Elementwise operations give no elements. Reductions give the result of reducing nothing, such as 0
//! for a sum. Operations that need an element (`max`) are an error.

use kiln::{DType, MatrixNorm, Tensor, s};

const SHAPES: [&[usize]; 5] = [&[0], &[0, 3], &[3, 0], &[2, 0, 4], &[0, 0]];

fn empty(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape.to_vec())
}

fn shape_of(what: &str, t: Tensor) -> Vec<usize> {
    let numbers: Vec<f32> = t.cast(DType::F32).to_vec().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(numbers.len(), t.numel(), "{what}");
    t.shape().to_vec()
}

#[test]
fn keep_their_shape_where_each_element_gives_one() {
    for shape in SHAPES {
        let t = empty(shape);
        let last = shape.len() - 1;
        for axis in 0..shape.len() {
            let along: [(&str, Tensor); 8] = [
                ("cumsum", t.cumsum(axis)),
                ("softmax", t.softmax(axis)),
                ("log_softmax", t.log_softmax(axis)),
                ("layernorm", t.layernorm(axis)),
                ("rmsnorm", t.rmsnorm(axis)),
                ("flip", t.flip(axis)),
                ("cat", Tensor::cat([&t], axis)),
                ("gather", t.gather(axis, &empty(shape).cast(DType::I32))),
            ];
            for (what, y) in along {
                assert_eq!(shape_of(what, y), shape, "{what} along {axis}");
            }
            let twice = Tensor::cat([&t, &t], axis);
            assert_eq!(shape_of("cat", twice)[axis], 2 * shape[axis]);
            assert!(t.chunk(2, axis).iter().all(|part| part.error().is_none()));
        }
        let each: [(&str, Tensor); 9] = [
            ("exp", t.exp()),
            ("add", &t + 1.0),
            ("pow", t.pow(2.5)),
            ("gelu", t.gelu()),
            ("where", t.lt(0).where_(&t, 1.0)),
            ("clamp", t.clamp(-1, 1)),
            ("cast", t.cast(DType::I8)),
            ("contiguous", t.contiguous()),
            ("rand", t.rand_like()),
        ];
        for (what, y) in each {
            assert_eq!(shape_of(what, y), shape, "{what}");
        }
        if last > 0 {
            assert_eq!(shape_of("tril", t.tril(0)), shape);
            assert_eq!(shape_of("triu", t.triu(1)), shape);
        }
        let hot = t.cast(DType::I32).one_hot(4);
        assert_eq!(shape_of("one_hot", hot), [shape, &[4]].concat());
        assert_eq!(shape_of("randn", Tensor::randn(shape.to_vec())), shape);
        assert_eq!(shape_of("masked_select", t.masked_select(&t.lt(0))), [0]);
        assert_eq!(shape_of("nonzero", t.nonzero())[0], 0);
        t.assign(3.0);
        t.set(s![...], 4.0);
        assert_eq!(shape_of("assign", t), shape);
    }
}

#[test]
fn combine_to_what_nothing_gives() {
    for shape in SHAPES {
        let t = empty(shape);
        for axis in (0..shape.len()).filter(|&a| shape[a] == 0) {
            let numbers = |t: Tensor| t.cast(DType::F32).to_vec::<f32>().expect("computes");
            assert!(numbers(t.sum(axis)).iter().all(|&x| x == 0.0));
            assert!(numbers(t.prod(axis)).iter().all(|&x| x == 1.0));
            assert!(numbers(t.mean(axis)).iter().all(|x| x.is_nan()));
            assert!(numbers(t.var(axis)).iter().all(|x| x.is_nan()));
            assert!(numbers(t.std(axis)).iter().all(|x| x.is_nan()));
            assert!(numbers(t.logsumexp(axis)).iter().all(|&x| x == f32::NEG_INFINITY));
            assert!(numbers(t.lt(0).any(axis)).iter().all(|&x| x == 0.0));
            assert!(numbers(t.lt(0).all(axis)).iter().all(|&x| x == 1.0));
            for none in [t.max(axis), t.min(axis), t.argmax(axis), t.argmin(axis)] {
                let error = none.error().expect("there is none").to_string();
                assert!(error.contains("empty"), "{error}");
            }
        }
        assert_eq!(t.sum(..).item::<f32>().expect("computes"), 0.0);
        for axis in (0..shape.len()).filter(|&a| shape[a] != 0) {
            let others: Vec<usize> =
                (0..shape.len()).filter(|&a| a != axis).map(|a| shape[a]).collect();
            let each = [t.max(axis), t.argmax(axis), t.argmin(axis), t.sum(axis), t.std(axis)];
            for (i, y) in each.into_iter().enumerate() {
                assert_eq!(shape_of("reduction", y), others, "{i}");
            }
            let none = Tensor::zeros_with([0], DType::I32);
            let picked = t.index_select(axis, &none);
            assert_eq!(shape_of("index_select", picked)[axis], 0);
            let added =
                t.index_add(axis, &Tensor::from([0]), &t.index_select(axis, &Tensor::from([0])));
            assert_eq!(shape_of("index_add", added), shape);
        }
        let index = t.cast(DType::I32);
        assert_eq!(shape_of("scatter", t.scatter(0, &index, &t)), shape);
        assert_eq!(
            shape_of("scatter_reduce", t.scatter_reduce(0, &index, &t, "mean", true)),
            shape
        );
        assert_eq!(shape_of("take", Tensor::ones([3]).take(&index)), shape);
        let twice = vec![2; shape.len()];
        assert_eq!(
            shape_of("repeat", t.repeat(twice)),
            shape.iter().map(|n| 2 * n).collect::<Vec<_>>()
        );
        assert_eq!(shape_of("stack", Tensor::stack([&t, &t], 0)), [&[2], shape].concat());
    }
    let losses = Tensor::ones([0, 3]).cross_entropy(&Tensor::zeros_with([0], DType::I32));
    assert!(losses.item::<f32>().unwrap().is_nan());
    assert_eq!(shape_of("linspace", Tensor::linspace(0.0, 1.0, 0)), [0]);
    assert_eq!(shape_of("eye", Tensor::eye(0)), [0, 0]);
    let product = Tensor::ones([2, 0]).matmul(&Tensor::ones([0, 3]));
    assert_eq!(product.to_vec::<f32>().unwrap(), [0.0; 6]);
    let (q, k) = (Tensor::ones([1, 2, 4]), Tensor::ones([1, 0, 4]));
    let blind = q.scaled_dot_product_attention(&k, &k, None, false);
    assert_eq!(blind.to_vec::<f32>().unwrap(), [0.0; 8]);
    let images = Tensor::ones([0, 3, 5, 5]).conv2d(&Tensor::ones([2, 3, 3, 3]), None, 1, 1, 1, 0);
    assert_eq!(shape_of("conv2d", images), [0, 2, 3, 3]);
    assert_eq!(shape_of("max_pool2d", Tensor::ones([0, 3, 4, 4]).max_pool2d(2)), [0, 3, 2, 2]);
}

/// A computed value without elements is read around: a list that begins empty.
#[test]
fn are_joined_with_others() {
    let none = || Tensor::zeros([0, 2]).contiguous();
    let numbers = |t: Tensor| t.to_vec::<f32>().expect("computes");
    assert_eq!(numbers(none().pad([(1, 1), (0, 1)])), [0.0; 6]);
    assert_eq!(numbers(none().transpose(0, 1).pad([(0, 0), (2, 0)]) + 1.0), [1.0; 4]);
    let mut list = none();
    for i in 0..3 {
        list = Tensor::cat([list, Tensor::full([1, 2], i as f32)], 0).contiguous();
    }
    assert_eq!(numbers(list), [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
    assert_eq!(numbers(Tensor::stack([none(), none() + 1.0], 1).sum(0)), [0.0; 4]);
    assert_eq!(numbers(none().matmul(&Tensor::ones([2, 3])).pad([(1, 0), (0, 0)])), [0.0; 3]);
}

#[test]
fn have_gradients_without_elements() {
    type Change = fn(&Tensor) -> Tensor;
    let changes: [(&str, Change); 6] = [
        ("cumsum", |t| t.cumsum(-1)),
        ("softmax", |t| t.softmax(-1)),
        ("log_softmax", |t| t.log_softmax(-1)),
        ("logsumexp", |t| t.logsumexp(-1)),
        ("prod", |t| t.prod(-1)),
        ("layernorm", |t| t.layernorm(-1)),
    ];
    for shape in SHAPES {
        for (what, change) in changes {
            let t = empty(shape).set_requires_grad(true);
            change(&t).sum(..).backward().unwrap_or_else(|e| panic!("{what} {shape:?}: {e}"));
            assert_eq!(shape_of(what, t.grad().expect("reached")), shape);
        }
    }
}

/// Reading no elements is reading: what they are read from has a gradient, which is zeros.
#[test]
fn what_no_elements_are_picked_from_has_zeros() {
    type Pick = fn(&Tensor) -> Tensor;
    let picks: [(&str, Pick); 4] = [
        ("index_select", |t| t.index_select(0, &Tensor::zeros_with([0], DType::I32))),
        ("gather", |t| t.gather(1, &Tensor::zeros_with([t.shape()[0], 0], DType::I32))),
        ("get", |t| t.get(s![.., &Tensor::zeros_with([0], DType::I32)])),
        ("masked_select", |t| t.masked_select(&Tensor::zeros_with(t.shape(), DType::Bool))),
    ];
    for shape in [[2, 3], [0, 3], [2, 0]] {
        for (what, pick) in picks {
            let t = Tensor::ones(shape).copy().set_requires_grad(true);
            let slopes = pick(&t).sum(..).gradient([&t]);
            let slopes = slopes.unwrap_or_else(|e| panic!("{what} {shape:?}: {e}"));
            let zeros = vec![0.0; shape.iter().product()];
            assert_eq!(slopes[0].to_vec::<f32>().expect("computes"), zeros, "{what} {shape:?}");
        }
    }
}

/// The determinant of nothing is 1, and its logarithm 0 (not -0).
#[test]
fn matrices_have_the_determinant_1() {
    let (sign, log) = empty(&[2, 0, 0]).slogdet();
    assert_eq!(sign.to_vec::<f32>().expect("signs"), [1.0, 1.0]);
    let bits: Vec<u32> = log.to_vec().expect("logarithms").into_iter().map(f32::to_bits).collect();
    assert_eq!(bits, [0, 0]);
}

/// An error of a norm names the shape of the matrices.
#[test]
fn matrices_have_no_largest_number() {
    let norms = [
        (MatrixNorm::Spectral, [2, 0, 3]),
        (MatrixNorm::LeastSingular, [2, 3, 0]),
        (MatrixNorm::Columns, [2, 3, 0]),
        (MatrixNorm::Rows, [2, 0, 3]),
    ];
    for (norm, shape) in norms {
        let error = empty(&shape).matrix_norm(norm).error().expect("empty").to_string();
        assert!(error.contains(&format!("{shape:?}")), "{norm:?}: {error}");
    }
    for (norm, shape) in [(MatrixNorm::Nuclear, [2, 0, 3]), (MatrixNorm::Columns, [2, 0, 3])] {
        let zeros: Vec<f32> = empty(&shape).matrix_norm(norm).to_vec().expect("zeros");
        assert_eq!(zeros, [0.0, 0.0], "{norm:?}");
    }
}
