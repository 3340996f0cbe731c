//! The public names as programs write them: what compiles here has to go on compiling.

use kiln::nn::{Conv2d, LayerNorm, Linear, Module, train};
use kiln::optim::{AdamW, SGD};
use kiln::{DType, Device, Error, Rng, Tensor, manual_seed, s};
use std::fmt::{Debug, Display};
use std::hash::Hash;

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().expect("readable")
}

#[test]
fn a_literal_on_the_left_needs_no_annotation() {
    let a = Tensor::from([1.0f32, 2.0]);
    assert_eq!((2.0 * &a).sum(..).item::<f32>().unwrap(), 6.0);
    assert_eq!((1 - &a).abs().sum(..).item::<f32>().unwrap(), 1.0);
    let y = 1.0 / (1.0 + (-&a).exp());
    assert_eq!(floats(&(&y - a.sigmoid()).abs().lt(1e-6).cast(DType::F32)), [1.0, 1.0]);
    let k = 3;
    assert_eq!(floats(&(k * a.clone())), [3.0, 6.0]);
    assert_eq!((true & a.gt(1)).to_vec::<bool>().unwrap(), [false, true]);
    let typed = 0.5f32;
    assert_eq!(floats(&(f64::from(typed) * &a * typed)), [0.25, 0.5]);
}

#[test]
fn operators_mix() {
    let (mut x, y) = (Tensor::from([1.0f32, 2.0]), Tensor::from([3.0f32, 4.0]));
    let z = x.relu() * &x + &x - y.clone() + (y.clone() - &y);
    assert_eq!(floats(&z), [-1.0, 2.0]);
    x += 1.0;
    x += &y;
    x *= 2;
    x -= y;
    x /= 2usize;
    assert_eq!(floats(&x), [3.5, 5.0]);
    assert_eq!(floats(&(&x * 2f32 * 2u8 * true).clamp(-1e6, 15)), [14.0, 15.0]);
    let i = Tensor::from([5, 6]);
    assert_eq!((((&i & 3) | 8) ^ 1).to_vec::<i32>().unwrap(), [8, 11]);
    assert_eq!(((1 << &i) >> 1usize).to_vec::<i32>().unwrap(), [16, 32]);
}

#[test]
fn shapes_and_axes_of_every_kind() {
    let (a, b, c, d) = (2usize, 2isize, 2i32, 2i64);
    for t in [
        Tensor::zeros([a, 3]),
        Tensor::zeros([b, 3]),
        Tensor::zeros([c, 3]),
        Tensor::zeros([d, 3]),
        Tensor::zeros(vec![a, 3]),
        Tensor::zeros(&vec![b, 3]),
        Tensor::zeros(&[c, 3][..]),
        Tensor::zeros(&[d, 3]),
    ] {
        assert_eq!(t.shape(), [2, 3]);
    }
    let t = Tensor::ones([2, 3, 4]);
    assert_eq!(t.sum([0, 2]).shape(), [3]);
    assert_eq!(t.sum(-1).shape(), t.sum(2usize).shape());
    assert_eq!(t.sum(vec![0i64, 1]).shape(), t.sum(&[0usize, 1][..]).shape());
    assert_eq!(t.sum_keepdim(..).shape(), [1, 1, 1]);
    assert_eq!(t.permute([-1, 0, 1]).reshape([1, a, 24 / a]).shape(), [1, 2, 12]);
    assert_eq!((Tensor::zeros([6]).dtype(), Tensor::zeros(6).shape()), (DType::F32, &[6][..]));
}

#[test]
fn indices_of_every_kind() {
    let t = Tensor::arange(24).reshape([2, 3, 4]);
    let (a, b, c, d) = (1usize, 1isize, 1i32, 1i64);
    for view in [t.get(s![a]), t.get(s![b]), t.get(s![c]), t.get(s![d]), t.get(s![-1])] {
        assert_eq!(view.shape(), [3, 4]);
    }
    assert_eq!(t.get(s![a..2, b.., ..=c, NewAxis]).shape(), [1, 2, 2, 1]);
    assert_eq!(t.get(s![.., ..d, a + 1]).shape(), [2, 1]);
    assert_eq!(t.get(s![..., 3..0;-a.cast_signed()]).shape(), [2, 3, 3]);
    assert_eq!(t.get(s![t.shape()[0] - 1, 2 * a - 1]).shape(), [4]);
    for row in 0..t.shape()[0] {
        t.set(s![row, 0, 0], row);
    }
    assert_eq!(t.get(s![.., 0, 0]).to_vec::<i32>().unwrap(), [0, 1]);
}

#[test]
fn rust_data_of_every_kind() {
    assert_eq!(Tensor::from([1.0, 2.0]).dtype(), DType::F64);
    for t in [
        Tensor::from(vec![vec![1, 2], vec![3, 4]]),
        Tensor::from(vec![[1, 2], [3, 4]]),
        Tensor::from(&vec![[1, 2], [3, 4]]),
        Tensor::from(&[[1, 2], [3, 4]]),
        Tensor::from(&[[1, 2], [3, 4]][..]),
        Tensor::from([[1, 2].as_slice(), &[3, 4]]),
    ] {
        assert_eq!((t.shape(), t.to_vec::<i32>().unwrap()), (&[2, 2][..], vec![1, 2, 3, 4]));
    }
    let ragged = Tensor::from(vec![vec![1, 2], vec![3, 4, 5], vec![6]]).item::<i32>();
    let text = ragged.unwrap_err().to_string();
    assert!(text.starts_with("from: rows differ") && text.contains("api.rs"), "{text}");
    assert_eq!(Tensor::from(Vec::<Vec<f32>>::new()).shape(), [0]);
}

#[test]
fn options_of_every_kind() {
    let cpu = Device::default_device();
    for t in [
        Tensor::zeros_with([2], (DType::F16, "cpu")),
        Tensor::ones_with([2], (DType::F16, &cpu)),
        Tensor::empty_with([2], (DType::F16, cpu.clone())),
        Tensor::full_with([2], 3, DType::F16),
        Tensor::randn_with([2], DType::F16),
    ] {
        assert_eq!((t.dtype(), t.shape()), (DType::F16, &[2][..]));
    }
    assert_eq!(Tensor::zeros_with([2], "interp").device().name(), "INTERP");
}

#[test]
fn moving_between_devices() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let (here, there) = (t.to(t.device()), t.permute([1, 0]).to("INTERP"));
    t.set(s![0], 0.0);
    assert_eq!(floats(&here), [0.0, 0.0, 3.0, 4.0]);
    assert_eq!(floats(&(&there * 2.0)), [2.0, 6.0, 4.0, 8.0]);
    assert_eq!(t.to(DType::I8).dtype(), DType::I8);
    assert_eq!(floats(&there.to("cpu").get(s![1])), [2.0, 4.0]);
    let mixed = (&t + &there).realize().map(drop).unwrap_err().to_string();
    assert!(mixed.contains("INTERP") && mixed.contains("api.rs"), "{mixed}");
    let nowhere = t.to("cuda:1").realize().map(drop).unwrap_err().to_string();
    assert!(nowhere.contains("no device \"CUDA:1\"") && nowhere.contains("api.rs"), "{nowhere}");
}

#[test]
fn random_sequences_of_ones_own() {
    let draws = |rng: &Rng| (floats(&rng.randn([5])), rng.randint(-3, 3, [5]).to_vec::<i32>());
    let alone = draws(&Rng::new(3));
    assert!(alone.0 != draws(&Rng::new(4)).0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (floats, ints) = draws(&Rng::new(3));
                assert_eq!((&floats, ints.unwrap()), (&alone.0, alone.1.clone().unwrap()));
            });
        }
    });
    let bytes = Rng::new(0).randint_with(-128, 128, [4000], DType::I8).to_vec::<i8>().unwrap();
    assert!((-128..=127).all(|i| bytes.contains(&i)));
    let words = Rng::new(0).randint_with(0, 1i64 << 32, [64], DType::I64).to_vec::<i64>().unwrap();
    assert!(words.iter().any(|&w| w > 1 << 31) && words.iter().all(|&w| w >> 32 == 0));
    assert!(Tensor::randint(0, 300usize, [2]).error().is_none());
    assert!(Tensor::randint_with(0, 300, [2], DType::U8).error().is_some());
    assert!(Tensor::randint(3, 3, [2]).error().is_some());
}

#[test]
fn dropout_keeps_the_mean() {
    let x = Tensor::ones([4000]);
    assert_eq!(floats(&x.dropout(0.25)), [1.0; 4000]);
    manual_seed(1);
    let kept = floats(&train(|| x.dropout(0.25)));
    let dropped = kept.iter().filter(|&&x| x == 0.0).count();
    assert!((900..1100).contains(&dropped), "{dropped}");
    assert!(kept.iter().all(|&x| x == 0.0 || x == 4.0f32 / 3.0));
}

#[test]
fn layers_and_optimizers() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (x, w, b) = (Tensor::randn([2, 3, 8, 8]), Tensor::randn([6, 3, 3, 3]), Tensor::zeros([6]));
    assert_eq!(x.conv2d(&w, None, 1, 1, 1, 0).shape(), [2, 6, 6, 6]);
    assert_eq!(x.conv2d(&w, Some(&b), 1, [2, 1], (1, 2), [1, 0]).shape(), [2, 6, 4, 4]);
    let y = LayerNorm::new(6).forward(&Conv2d::new(3, 4, 3).forward(&x));
    let q = y.scaled_dot_product_attention(&y, &y, None, false);
    assert_eq!(q.shape(), [2, 4, 6, 6]);
    let (v, m) = (Tensor::from([1.0f32, 2.0]), Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]));
    assert_eq!(v.matmul(&v).item::<f32>()?, 5.0);
    assert_eq!((floats(&v.matmul(&m)), floats(&m.matmul(&v))), (vec![7.0, 10.0], vec![5.0, 11.0]));
    let layer = Linear::new(2, 3);
    let (sgd, adamw) = (SGD::new(layer.parameters(), 0.1), AdamW::new([&v], 1e-3));
    let loss = layer.forward(&v).square().mean(..);
    let direct = loss.gradient([&layer.weight])?;
    loss.backward()?;
    assert_eq!(floats(&direct[0]), floats(&layer.weight.grad().expect("reached")));
    sgd.step()?;
    adamw.zero_grad();
    Ok(())
}

#[test]
fn traits_that_programs_rely_on() {
    fn error<T: Debug + Display + std::error::Error + Send + Sync + Clone + 'static>() {}
    fn value<T: Copy + Eq + Hash + Debug + Send + Sync>() {}
    fn handle<T: Clone + Send + Sync + Debug + Display>() {}
    error::<Error>();
    value::<DType>();
    handle::<Tensor>();
    handle::<Device>();
}
