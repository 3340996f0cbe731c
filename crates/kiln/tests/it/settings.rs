//! Variables of the environment as scopes in code, and defaults.

use kiln::{DType, Device, Tensor, default_float, nn, s};

#[test]
fn a_scope_sets_what_new_tensors_are() {
    let set = [("DEFAULT_FLOAT", "bf16"), ("DEV", "interp")];
    kiln::with(set, || {
        assert_eq!(default_float(), DType::BF16);
        let device = Device::parse("INTERP").expect("a device");
        let linear = nn::Linear::new(2, 3);
        let made = [
            Tensor::zeros([2]),
            Tensor::ones([2]),
            Tensor::rand([2]),
            Tensor::randn([2]),
            Tensor::eye(2),
            Tensor::full([2], 0.5),
            Tensor::linspace(0.0, 1.0, 2),
            Tensor::arange((0.0, 1.0, 0.5)),
            linear.weight,
        ];
        for t in made {
            assert_eq!((t.dtype(), t.device()), (DType::BF16, &device));
        }
        // of integers; literals and data keep their own
        let whole = Tensor::from([1, 4]);
        for t in [&whole * 0.5, whole.sqrt(), whole.mean(..), whole.softmax(0), &whole / 2] {
            assert_eq!(t.dtype(), DType::BF16);
        }
        assert_eq!(Tensor::full([2], 1).dtype(), DType::I32);
        assert_eq!(Tensor::from([0.5]).dtype(), DType::F64);
        assert_eq!((Tensor::from([0.5f32]) * 0.5).dtype(), DType::F32);
        assert_eq!(whole.sqrt().cast(DType::F32).to_vec::<f32>(), Ok(vec![1.0, 2.0]));
        // inner scopes add to outer ones, and an empty value is the default
        kiln::with([("DEFAULT_FLOAT", "")], || {
            assert_eq!(
                (Tensor::zeros([1]).dtype(), Tensor::zeros([1]).device()),
                (DType::F32, &device)
            );
        })
        .expect("settings");
        // another thread has its own
        std::thread::scope(|t| t.spawn(|| assert_eq!(default_float(), DType::F32)).join())
            .expect("no panic");
    })
    .expect("settings");
    assert_eq!((default_float(), Tensor::zeros([1]).dtype()), (DType::F32, DType::F32));
}

#[test]
fn a_scope_sets_how_kernels_are_compiled() {
    // no other test computes this
    let compiled = |n: usize| {
        let t = (Tensor::arange(n).cast(DType::F32) * 0.37).sin().sum(..);
        let (sum, counts) = kiln::measure(|| t.item::<f32>().expect("computes"));
        assert!(sum.is_finite());
        counts.compiled + counts.loaded
    };
    assert!(compiled(1237) > 0);
    assert_eq!(compiled(1237), 0);
    let unoptimized = kiln::with([("NOOPT", 1)], || (compiled(1237), compiled(1237)));
    assert!(unoptimized.is_ok_and(|(first, second)| first > 0 && second == 0));
    assert_eq!(compiled(1237), 0);
}

#[test]
fn settings_are_described_and_checked() {
    let debug =
        || kiln::env::describe().into_iter().find(|v| v.name == "SPEC").expect("known").value;
    assert_eq!(kiln::with([("SPEC", 1)], debug), Ok(Some("1".into())));
    let why = |name: &str, value: &str| -> String {
        let refused = kiln::with([(name, value)], || panic!("does not run"));
        refused.expect_err("refused").to_string()
    };
    assert!(why("BEEM", "1").starts_with("with: \"BEEM\" is no variable that kiln reads at"));
    assert!(why("BEAM", "-1").contains("BEAM cannot be \"-1\""));
    assert!(why("DEFAULT_FLOAT", "i32").contains("DEFAULT_FLOAT cannot be"));
    assert!(why("DEV", "?").contains("DEV cannot be"));
    assert!(why("KILN_THREADS", "2").contains("once for the process"));
    assert!(why("BEAM", "x").contains("settings.rs"));
    // also after a panic
    let caught = std::panic::catch_unwind(|| {
        let _ = kiln::with([("DEFAULT_FLOAT", "f64")], || panic!("on purpose"));
    });
    assert!(caught.is_err() && default_float() == DType::F32);
    let panics = || std::panic::catch_unwind(|| Tensor::zeros([2]).get(s![5])).is_err();
    assert_eq!(kiln::with([("KILN_PANIC", 1)], panics), Ok(true));
    assert!(!panics());
    let error = kiln::set_default_float(DType::I32).expect_err("no float");
    assert!(error.to_string().starts_with("set_default_float: wants a float, not i32"));
}
