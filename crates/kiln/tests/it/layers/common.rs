//! Functions of one tensor, modules of every form, other dtypes, and what layers are made of.

use kiln::nn::{self, Build, Forward, Layer, Linear, Module, Sequential};
use kiln::{DType, Rng, Tensor};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

fn names(module: &impl Module) -> Vec<String> {
    let mut names = Vec::new();
    module.visit("", &mut |name, _| names.push(name.to_owned()));
    names
}

fn apply(layer: &impl Forward, x: f32) -> f32 {
    layer.forward(&Tensor::from([[x]])).item().expect("one")
}

fn twice(x: &Tensor) -> Tensor {
    x * 2.0
}

#[test]
fn functions_of_one_tensor_are_layers() {
    let three = || Linear { weight: Tensor::full([1, 1], 3.0f32), bias: None };
    assert_eq!(apply(&three(), 2.0), 6.0);
    assert_eq!(apply(&|x: &Tensor| x + 1.0, 2.0), 3.0);
    assert_eq!(apply(&(three(), twice, Tensor::square, |x: &Tensor| x - 1.0), 1.0), 35.0);
    assert_eq!(apply(&vec![three(), three()], 1.0), 9.0);
    assert_eq!(apply(&[twice as fn(&Tensor) -> Tensor, Tensor::neg], 1.0), -2.0);
    assert_eq!(apply(&(Arc::new(three()), Rc::new(three())), 1.0), 9.0);
    assert_eq!(apply(&(Some(three()), None::<Linear>), 1.0), 3.0);
    let boxed: Vec<Box<dyn Layer>> = vec![Box::new(three()), Box::new(nn::ReLU)];
    assert_eq!((apply(&boxed, -1.0), names(&boxed)), (0.0, vec!["0.weight".to_owned()]));
}

#[test]
fn a_sequential_is_a_module() {
    kiln::manual_seed(1);
    let inner = Sequential::new().add(Linear::new(3, 2)).add_named("last", nn::Dropout::new(0.5));
    let mut net = Sequential::new().add(Linear::new(1, 3)).add(nn::ReLU).add(inner);
    assert_eq!(names(&net), ["0.weight", "0.bias", "2.0.weight", "2.0.bias"]);
    assert_eq!((net.len(), net.forward(&Tensor::ones([4, 1])).shape()), (3, &[4, 2][..]));
    net.to(DType::F64).expect("all are its own");
    assert!(net.parameters().iter().all(|p| p.dtype() == DType::F64));
    let error = net.forward(&Tensor::ones([4, 2])).error().expect("wants one").to_string();
    assert!(error.starts_with("linear") && error.contains("common.rs"), "{error}");
}

#[derive(Module)]
enum Head {
    None,
    Plain(Linear),
    Scaled { scale: Tensor, inner: Box<Head> },
}

#[derive(Module)]
struct Fields {
    by_name: BTreeMap<String, Linear>,
    by_number: HashMap<u8, Tensor>,
    shared: Arc<Linear>,
    counted: Rc<Tensor>,
    #[module(rename = "gamma")]
    weight: Tensor,
    #[module(flatten)]
    head: Head,
    #[module(skip)]
    hidden: Tensor,
}

fn fields() -> Fields {
    let plain = || Linear::new(1, 1).without_bias();
    Fields {
        by_name: [("b".to_owned(), plain()), ("a".to_owned(), plain())].into(),
        by_number: (0..12).map(|i| (i, Tensor::ones([1]))).collect(),
        shared: Arc::new(plain()),
        counted: Rc::new(Tensor::ones([1])),
        weight: Tensor::ones([1]),
        head: Head::Scaled { scale: Tensor::ones([1]), inner: Box::new(Head::Plain(plain())) },
        hidden: Tensor::ones([1]),
    }
}

#[test]
fn fields_of_every_form_are_visited() {
    let numbered = [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9].map(|i| format!("by_number.{i}"));
    let before = ["by_name.a.weight", "by_name.b.weight"].map(str::to_owned);
    let after = ["shared.weight", "counted", "gamma", "scale", "inner.0.weight"].map(str::to_owned);
    let net = fields();
    assert_eq!(names(&net), [&before[..], &numbered, &after].concat());
    assert_eq!(net.hidden.numel(), 1);
    assert!(names(&Head::None).is_empty());
    let trained: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
    let wanted = ["by_name.a.weight", "by_name.b.weight", "shared.weight", "inner.0.weight"];
    assert_eq!(trained, wanted);
}

#[derive(Module)]
struct Tied {
    table: nn::Embedding,
    head: Tensor,
    turned: Tensor,
    norm: nn::BatchNorm,
    count: Tensor,
}

#[test]
fn modules_change_their_dtype() {
    let table = nn::Embedding::new(3, 3);
    let head = table.weight.clone();
    let turned = table.weight.transpose(0, 1);
    let norm = nn::BatchNorm::new(2);
    let mut net = Tied { table, head, turned, norm, count: Tensor::from([7i64]) };
    let before = net.head.to_vec::<f32>().expect("f32");
    net.to((DType::F64, "INTERP")).expect("all are its own");
    let after = net.head.to_vec::<f64>().expect("f64");
    assert!(before.iter().zip(&after).all(|(&a, &b)| f64::from(a) == b));
    assert_eq!((net.count.dtype(), net.count.device().name()), (DType::I64, "INTERP"));
    assert_eq!(net.norm.running_var.dtype(), DType::F64);
    assert!(net.table.weight.requires_grad() && !net.norm.running_var.requires_grad());
    // what was one tensor still is
    net.head.assign(2.0);
    assert_eq!(net.table.weight.to_vec::<f64>().expect("f64"), [2.0; 9]);
    assert_eq!(net.turned.shape(), [3, 3]);
    let mut shared = (Arc::new(Linear::new(1, 1)), 3);
    shared.to(DType::F64).expect("nobody else holds it");
    let other = shared.0.clone();
    let error = shared.to(DType::F32).expect_err("shared").to_string();
    assert!(error.contains("0.weight cannot be changed: it is shared"), "{error}");
    assert_eq!(other.weight.dtype(), DType::F64);
    assert!(Linear::new(1, 1).to("no such device").is_err());
}

#[test]
fn layers_are_made_of_what_is_asked_for() {
    let make = |seed| {
        let build = Build::new((DType::F64, "INTERP")).rng(Rng::new(seed));
        build.run(|| (Linear::new(3, 2), nn::BatchNorm::new(2), nn::LayerNorm::new([2])))
    };
    let (a, b, c) = (make(3), make(3), make(4));
    let bits =
        |net: &(Linear, nn::BatchNorm, nn::LayerNorm)| net.0.weight.to_vec::<f64>().expect("f64");
    assert_eq!(bits(&a), bits(&b));
    assert_ne!(bits(&a), bits(&c));
    let of = |net: &(Linear, nn::BatchNorm, nn::LayerNorm)| {
        let mut all = Vec::new();
        net.visit("", &mut |name, t| all.push((name.to_owned(), t.dtype(), t.device().clone())));
        all
    };
    let floats = of(&a).into_iter().filter(|(name, ..)| !name.ends_with("tracked"));
    assert!(floats.clone().count() == 8);
    for (name, dtype, device) in floats {
        assert_eq!((dtype, device.name()), (DType::F64, "INTERP"), "{name}");
    }
    // the scope has ended, and the shared sequence was not drawn from
    let drawn = |before: &dyn Fn()| {
        kiln::manual_seed(9);
        before();
        Linear::new(1, 4).weight.to_vec::<f32>().expect("f32")
    };
    // other tests may have drawn meanwhile, but not every time
    assert!((0..9).any(|_| drawn(&|| ()) == drawn(&|| drop(make(3)))));
}

/// The layer is named, not a method that it is made of.
#[test]
fn recurrent_layers_say_which_shape_they_want() {
    let said = |x: &[usize]| {
        let (y, _) = nn::GRU::new(3, 4).forward(&Tensor::ones(x), None);
        y.error().expect("the shape is wrong").to_string()
    };
    let text = said(&[2, 5, 7]);
    assert!(text.contains("GRU") && text.contains("3 inputs, not [2, 5, 7]"), "{text}");
    assert!(said(&[2, 3]).contains("[length, batch, inputs]"));
    let (_, (h, _)) = nn::LSTM::new(3, 4).forward(&Tensor::ones([2, 5, 7]), None);
    assert!(h.error().expect("the shape is wrong").to_string().contains("LSTM"));
}
