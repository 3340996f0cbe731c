//! Kernels that are written for other processors than this one mean the same.

use kiln::{DType, Device, Tensor, s};

/// Those of other processors that this machine can imitate; the others say what it lacks.
fn others() -> Vec<Device> {
    let devices = ["haswell", "x86-64", "x86-64-v2", "skylake-avx512", "sapphirerapids"];
    let devices = devices.map(|cpu| Device::parse(&format!("CPU:LLVM:x86_64,{cpu}")).unwrap());
    let usable = |device: &Device| match device.describe() {
        Ok(_) => true,
        Err(why) => {
            let why = why.to_string();
            assert!(why.contains("this machine"), "{why}");
            false
        }
    };
    devices.into_iter().filter(usable).collect()
}

fn numbers(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 31 + 5) as f64 * 0.77).sin() as f32 * ((i % 7) as f32 + 0.3)).collect()
}

/// Functions are the same to the last bit where products are added without rounding, and close elsewhere.
fn functions(device: &Device) -> Vec<f64> {
    let x = Tensor::from_vec_on(numbers(33 * 70), [33, 70], device);
    let parts = [x.exp() + x.sin() * 0.5, x.gelu(), x.cast(DType::BF16).tanh(), x.abs().log()];
    parts.iter().flat_map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap()).collect()
}

/// What no order of a sum changes is the same to the last bit.
fn exact(device: &Device) -> Vec<f64> {
    let x = Tensor::from_vec_on(numbers(33 * 70), [33, 70], device);
    let whole = (&x * 10.0).cast(DType::I32);
    let large = Tensor::from_vec_on(numbers(50 * 130), [50, 130], device);
    let bf16 = (&large * 3.0).cast(DType::I32).cast(DType::BF16);
    let bytes = (&large * 10.0).cast(DType::I8);
    let parts = [
        x.cast(DType::F16) * 3.0,
        x.abs().sqrt() / 3.0,
        x.max(1),
        whole.matmul(&whole.transpose(0, 1)),
        bf16.matmul(&bf16.transpose(0, 1)),
        bytes.matmul(&bytes.transpose(0, 1)),
        whole.cast(DType::I8).cumsum(1),
        x.transpose(0, 1).gt(0.5),
    ];
    parts.iter().flat_map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap()).collect()
}

/// What it does change is close.
fn close(device: &Device) -> Vec<f64> {
    let x = Tensor::from_vec_on(numbers(50 * 131), [50, 131], device);
    let y = x.cast(DType::F64);
    let image = x.reshape(&[1, 2, 25, 131][..]);
    let filters = Tensor::from_vec_on(numbers(5 * 2 * 9), &[5, 2, 3, 3][..], device);
    let parts = [
        x.matmul(&x.transpose(0, 1)) / 100.0,
        y.transpose(0, 1).matmul(&y) / 100.0,
        x.cast(DType::BF16).cast(DType::F32).softmax(1),
        x.layernorm(-1),
        image.conv2d(&filters, None, 1, 1, 1, 1) / 10.0,
        x.sum(0) / 50.0,
    ];
    parts.iter().flat_map(|t| t.cast(DType::F64).to_vec::<f64>().unwrap()).collect()
}

#[test]
fn other_processors_compute_the_same() {
    let interp = Device::parse("INTERP").unwrap();
    let (same, near, of_functions) = (exact(&interp), close(&interp), functions(&interp));
    for device in others() {
        let found = exact(&device);
        assert_eq!((found.len(), first_other(&found, &same)), (same.len(), None), "{device}");
        for (i, (a, b)) in close(&device).iter().zip(&near).enumerate() {
            assert!((a - b).abs() <= 1e-4, "{device} {i}: {a} is not {b}");
        }
        let fused = !["x86-64", "x86-64-v2"].iter().any(|cpu| device.name().ends_with(cpu));
        let found = functions(&device);
        assert!(!fused || first_other(&found, &of_functions).is_none(), "{device}");
        for (i, (a, b)) in found.iter().zip(&of_functions).enumerate() {
            // bf16 is among them: a unit of its last place
            assert!((a - b).abs() <= 0.008 * b.abs(), "{device} {i}: {a} is not {b}");
        }
    }
}

/// Where numbers differ first, in any bit.
fn first_other(a: &[f64], b: &[f64]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits())
}

#[test]
fn c_picks_lanes_out_of_what_lies_between() {
    let Some(c) = Some(Device::parse("CPU:C").unwrap()).filter(|c| c.describe().is_ok()) else {
        return;
    };
    for stride in 2..=5usize {
        let x = Tensor::from_vec_on(numbers(64 * stride), [64, stride], &c);
        let column = x.get(s![.., stride - 1]) * 2.0;
        let right: Vec<f32> =
            numbers(64 * stride).chunks(stride).map(|row| row[stride - 1] * 2.0).collect();
        assert_eq!(column.to_vec::<f32>().unwrap(), right, "{stride}");
    }
}

#[test]
fn a_processor_that_the_compiler_does_not_know_is_an_error() {
    // newer than LLVM 15, which has no name for them; whichever this machine has, the process goes on
    for cpu in ["znver4", "znver5", "sapphirerapids"] {
        let device = Device::parse(&format!("CPU:LLVM:x86_64,{cpu}")).unwrap();
        let why = device.describe().err().map(|e| e.to_string());
        assert!(why.is_none_or(|w| w.contains("this machine") || w.contains(cpu)), "{cpu}");
    }
}

#[test]
fn processors_are_named_as_compilers_name_them() {
    let name = |text: &str| Device::parse(text).map(|d| d.name().to_owned());
    assert_eq!(name("cpu:llvm:X86_64,Haswell").unwrap(), "CPU:LLVM:x86_64,haswell");
    assert_eq!(name("CPU:LLVM:x86_64,x86-64-v3").unwrap(), "CPU:LLVM:x86_64,x86-64-v3");
    for wrong in ["CPU,haswell", "CPU:LLVM:x86_64,", "CPU:LLVM:x86_64,a b"] {
        assert!(name(wrong).is_err(), "{wrong}");
    }
    let unknown = Device::parse("CPU:LLVM:x86_64,pentium").unwrap().describe().unwrap_err();
    assert!(unknown.to_string().contains("haswell"), "{unknown}");
}
