//! Errors name the method that the program called, and the program's line; never one of kiln's own.

use kiln::{CtcLoss, DType, Resize, Tensor, nn, s};

/// An index that only computing shows to be out of range.
fn unknown() -> Tensor {
    Tensor::from([9, 1]) * 2 - Tensor::from([9, 1])
}

/// What only computing shows to be an error.
fn wrong() -> Tensor {
    Tensor::from([1.0f32, 2.0, 3.0]).take(&unknown())
}

fn is_ours(error: Option<kiln::Error>, method: &str) {
    let text = error.expect("an error").to_string();
    assert!(text.starts_with(&format!("{method}: ")), "{text}, not of {method}");
    assert!(text.contains("tests/it/blame.rs:"), "{text}");
    assert!(!text.contains("/src/"), "{text}");
}

#[test]
fn errors_are_at_the_line_that_computes() {
    let (t, mask) = (Tensor::from([1, 2]), wrong().gt(0));
    is_ours(t.masked_select(&mask).error(), "masked_select");
    is_ours(t.get(s![&mask]).error(), "get");
    is_ours(t.try_set(s![&mask], Tensor::from([1, 2])).err(), "set");
    is_ours(wrong().nonzero().error(), "nonzero");
    is_ours(wrong().to("INTERP").realize().map(drop).err(), "realize");
    is_ours(wrong().to_vec::<f32>().err(), "to_vec");
    is_ours(wrong().sum(..).item::<f32>().err(), "item");
    is_ours(wrong().realize().map(drop).err(), "realize");
}

#[test]
fn errors_are_of_the_method_that_was_called() {
    let (x, w) = (Tensor::ones([2, 3]), Tensor::ones([4, 5]));
    is_ours(x.linear(&w, None).error(), "linear");
    is_ours(x.linear(&Tensor::ones([3, 2]), Some(&Tensor::ones([7]))).error(), "linear");
    is_ours(nn::Linear::new(4, 2).forward(&x).error(), "linear");
    is_ours(
        x.scaled_dot_product_attention(&w, &w, None, false).error(),
        "scaled_dot_product_attention",
    );
    is_ours(x.clamp(&w, 1.0).error(), "clamp");
    is_ours(x.cross_entropy(&w).error(), "cross_entropy");
    is_ours(x.layernorm(7).error(), "layernorm");
    is_ours(Tensor::from([1]).frexp().0.error(), "frexp");
    let planes = Tensor::ones([1, 1, 4, 4]);
    is_ours(planes.max_unpool2d(&planes, 2).error(), "max_unpool2d");
    is_ours(planes.adaptive_avg_pool2d(0).error(), "adaptive_avg_pool2d");
    is_ours(planes.adaptive_avg_pool2d(1i64 << 40).error(), "adaptive_avg_pool2d");
    is_ours(planes.interpolate(&Resize::by(1e12)).error(), "interpolate");
    is_ours(planes.prelu(&Tensor::ones([3])).error(), "prelu");
    is_ours(Tensor::from(3.0f32).sort(5, false).0.error(), "sort");
    is_ours(Tensor::tril_indices(usize::MAX, 2, 0).error(), "tril_indices");
    is_ours(planes.histc(usize::MAX, 0.0, 1.0).error(), "histc");
    // and what comes after is of its own
    is_ours(x.matmul(&w).error(), "matmul");
    is_ours((&x + &w).error(), "add");
}

#[test]
fn labels_and_lengths_that_are_not_there_are_errors_of_the_loss() {
    let logs = Tensor::zeros([3, 2, 4]).log_softmax(2);
    let loss = |labels: [[i32; 2]; 2], steps: [i32; 2], counts: [i32; 2]| {
        let [steps, counts] = [steps, counts].map(Tensor::from);
        logs.ctc_loss(&Tensor::from(labels), &steps, &counts, CtcLoss::default()).item::<f32>()
    };
    assert!(
        loss([[1, 9], [2, 3]], [3, 3], [1, 2]).is_ok(),
        "what is past the labels is not looked at"
    );
    for (labels, steps, counts) in [
        ([[1, 9], [2, 3]], [3, 3], [2, 2]),
        ([[1, 2], [2, 3]], [3, 4], [2, 2]),
        ([[1, 2], [2, 3]], [3, 3], [2, 3]),
    ] {
        let error = loss(labels, steps, counts).expect_err("is not there").to_string();
        assert!(error.contains("out of range") && error.contains("blame.rs"), "{error}");
    }
}

#[test]
fn printing_says_what_is_wrong_and_no_line_of_ours() {
    for text in [format!("{}", wrong()), format!("{:?}", wrong())] {
        assert!(text.contains("out of range") && text.contains("blame.rs"), "{text}");
        assert!(!text.contains("/src/") && !text.contains("display.rs"), "{text}");
    }
    let invalid = Tensor::ones([2]).reshape([3]);
    assert!(format!("{invalid:?} {invalid}").matches("blame.rs").count() == 2);
}

#[test]
fn values_print_as_they_are_asked_for() {
    let t = Tensor::from([[1.0f32, -2.345], [1e6, f32::NAN]]);
    assert_eq!(format!("{t:.2}"), "[[      1.00      -2.35]\n [1000000.00        nan]]");
    assert_eq!(format!("{t:.0}"), "[[      1      -2]\n [1000000     nan]]");
    assert_eq!(format!("{:.1}", Tensor::from(0.26f64)), "0.3");
    assert_eq!(format!("{:.2}", Tensor::from([1, 20])), "[ 1 20]");
    let two = Tensor::ones([2]) + 1.0;
    let on = two.device().to_string();
    assert_eq!(format!("{two:?}"), format!("Tensor([2], f32, {on}, [2. 2.])"));
    assert_eq!(format!("{two:.1?}"), format!("Tensor([2], f32, {on}, [2.0 2.0])"));
    let grid = Tensor::arange(4).reshape([2, 2]).cast(DType::U8);
    assert_eq!(format!("{grid:?}"), format!("Tensor([2, 2], u8, {on},\n[[0 1]\n [2 3]])"));
}

#[test]
fn what_leads_nowhere_says_what_to_do() {
    let (x, w) = (Tensor::ones([2]), Tensor::ones([2]).set_requires_grad(true));
    let nowhere = [x.sum(..), w.detach().sum(..)].map(|t| t.backward().unwrap_err().to_string());
    assert!(nowhere.iter().all(|text| text.contains("set_requires_grad(true)")), "{nowhere:?}");
    let text = w.sum(..).gradient([&x]).unwrap_err().to_string();
    assert!(text.contains("set_requires_grad(true)"), "{text}");
}

#[test]
fn a_mode_goes_to_other_threads() {
    let seen = |mode: nn::Mode| {
        std::thread::scope(|threads| {
            let run = threads.spawn(move || (mode.run(nn::is_training), nn::is_training()));
            run.join().expect("runs")
        })
    };
    assert_eq!(nn::train(|| seen(nn::mode())), (true, false));
    assert_eq!(nn::train(|| nn::eval(|| seen(nn::mode()))), (false, false));
    assert_eq!(seen(nn::mode()), (false, false));
}

/// A layer that is made of others names the line of the program, not one of kiln's.
#[test]
fn errors_of_layers_are_at_the_line_that_calls_them() {
    let here = |y: Tensor| {
        let text = y.error().expect("shapes that do not fit").to_string();
        assert!(text.contains("tests/it/blame.rs:") && !text.contains("/src/"), "{text}");
    };
    let narrow = Tensor::ones([2, 5, 7]);
    let encoder = nn::TransformerEncoderLayer::new(8, 2, 32);
    here(encoder.forward(&narrow, None, false));
    here(encoder.norm_first(true).forward(&narrow, None, false));
    let decoder = nn::TransformerDecoderLayer::new(8, 2, 32);
    here(decoder.forward(&narrow, &narrow, None, false));
    here(decoder.forward(&Tensor::ones([2, 5, 8]), &narrow, None, false));
    here(nn::RNN::new(4, 3).forward(&narrow, None).0);
    here(nn::LSTM::new(4, 3).forward(&narrow, None).0);
}
