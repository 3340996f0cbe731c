//! Tensors beside what Rust has: arrays, iterators, traits of the standard library.

use kiln::{DType, Device, ErrorKind, Tensor, assert_close, bf16, f16, s};

#[test]
fn arrays_are_values_of_writes() {
    let t = Tensor::zeros([2, 3]);
    t.set(s![0], [1, 2, 3]);
    t.set(s![1], vec![4.5, 5.5, 6.5]);
    t.set(s![.., 0], &[[7.0f32], [8.0]].concat());
    assert_eq!(t.to_vec::<f32>().expect("values"), [7.0, 2.0, 3.0, 8.0, 5.5, 6.5]);
    let bytes = Tensor::zeros_with([3], DType::U8);
    bytes.set(s![..], [1, 2, 3]);
    assert_eq!(bytes.to_vec::<u8>().expect("values"), [1, 2, 3]);
    assert!(bytes.try_set(s![..], [1.5, 2.5, 3.5]).is_err());
    assert!(bytes.try_set(s![..], [1, 2]).expect_err("two").why().contains("does not fit"));
    assert!(
        bytes
            .try_set(s![..], vec![vec![1], vec![2, 3]])
            .expect_err("ragged")
            .why()
            .contains("differ")
    );
    // on any device, and into files of floats
    let there = Tensor::zeros_with([2], "INTERP");
    there.set(s![..], [1.0, 2.0]);
    assert_eq!((&there + [1.0, 1.0]).to_vec::<f32>().expect("values"), [2.0, 3.0]);
}

#[test]
fn literals_take_the_dtype_of_a_float_tensor() {
    let t = Tensor::from([1.0f32, 2.0]);
    let literal = Tensor::from([0.5, 1.5]);
    assert_eq!(literal.dtype(), DType::F64);
    for y in
        [&t * &literal, &literal - &t, t.maximum(&literal), t.matmul(&literal), literal.dot(&t)]
    {
        assert_eq!(y.dtype(), DType::F32);
    }
    assert_eq!(Tensor::cat([&literal, &t], 0).dtype(), DType::F32);
    assert_eq!((t.cast(DType::F16) + [1.0, 2.0]).dtype(), DType::F16);
    assert_eq!((&t * vec![1.0, 2.0]).dtype(), DType::F32);
    t.assign(&literal);
    assert_eq!(t.to_vec::<f32>().expect("values"), [0.5, 1.5]);
    // not beside integers, not what was collected, and not past the first op
    assert_eq!((Tensor::from([1, 2]) * &literal).dtype(), DType::F64);
    assert_eq!((&t * Tensor::from(vec![1.0, 2.0])).dtype(), DType::F64);
    assert_eq!((&t * Tensor::from(2.0)).dtype(), DType::F64);
    for strong in [-&literal, literal.reshape([2]), literal.cast(DType::F64), &literal * 2.0] {
        assert_eq!((&t * &strong).dtype(), DType::F64);
    }
    // integers are as strong as ever
    assert_eq!((Tensor::from([1u8, 2]) + Tensor::from([1, 2])).dtype(), DType::I32);
}

#[test]
fn tensors_become_what_rust_has() {
    let t = Tensor::from([[1, 2, 3], [4, 5, 6]]);
    let nested: Vec<Vec<i32>> = (&t).try_into().expect("two axes");
    assert_eq!(nested, [[1, 2, 3], [4, 5, 6]]);
    let [[a, ..], _]: [[i32; 3]; 2] = (&t).try_into().expect("two rows of three");
    assert_eq!((a, i32::try_from(&t.sum(..))), (1, Ok(21)));
    assert_eq!(t.flatten().to_nested::<Vec<i32>>(), Ok(vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(Tensor::zeros([0, 3]).to_nested::<Vec<[f32; 3]>>(), Ok(vec![]));
    let why = t.to_nested::<[[i32; 2]; 2]>().expect_err("three").to_string();
    assert!(why.contains("to_nested: shape [2, 3] is not that of [[i32; 2]; 2]"), "{why}");
    assert!(why.contains("conversions.rs"), "{why}");
    assert!(Vec::<i32>::try_from(&t).is_err() && Vec::<Vec<f32>>::try_from(&t).is_err());
}

#[test]
fn iterators_become_tensors() {
    let t: Tensor = (0..4).map(|i| i as f32 * 0.5).collect();
    assert_eq!(t.to_vec::<f32>().expect("values"), [0.0, 0.5, 1.0, 1.5]);
    let rows = Tensor::from([[1, 2], [3, 4]]);
    assert_eq!(rows.rows().sum::<Tensor>().to_vec::<i32>(), Ok(vec![4, 6]));
    assert_eq!(rows.rows().rev().product::<Tensor>().to_vec::<i32>(), Ok(vec![3, 8]));
    assert_eq!([&t, &t].into_iter().sum::<Tensor>().to_vec::<f32>(), Ok(vec![0.0, 1.0, 2.0, 3.0]));
    assert_eq!(std::iter::empty::<Tensor>().sum::<Tensor>().item::<f32>(), Ok(0.0));
    assert_eq!(std::iter::empty::<&Tensor>().product::<Tensor>().item::<f32>(), Ok(1.0));
    // rows are views
    rows.rows().for_each(|row| row.set(s![0], 9));
    assert_eq!(rows.to_vec::<i32>(), Ok(vec![9, 2, 9, 4]));
    let mut none = Tensor::from(1).rows();
    assert_eq!((none.len(), Tensor::zeros([0, 2]).rows().len()), (1, 0));
    assert!(none.next().expect("one").error().expect("an error").why().contains("no rows"));
}

#[test]
fn memory_is_borrowed() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    let address = |t: &Tensor| t.with_slice(|s: &[f32]| s.as_ptr() as usize).expect("memory");
    let here = t.to("CPU");
    assert_eq!(address(&here) + 8, address(&here.get(s![1])));
    assert_eq!(t.t().with_slice(<[f32]>::to_vec), Ok(vec![1.0, 3.0, 2.0, 4.0]));
    assert_eq!((&t + 1).with_slice(|s: &[f32]| s.len()), Ok(4));
    assert_eq!(Tensor::zeros([0]).with_slice(|s: &[f32]| s.len()), Ok(0));
    assert_eq!(t.gt(2).with_slice(<[bool]>::to_vec), Ok(vec![false, false, true, true]));
    // what is written meanwhile goes elsewhere
    let seen = t.with_slice(|s: &[f32]| {
        t.set(s![0], 7.0);
        t.realize().expect("computed");
        s.to_vec()
    });
    assert_eq!(seen, Ok(vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(t.with_slice(|s: &[f32]| s[1]), Ok(7.0));
    let why = t.with_slice(|_: &[i32]| ()).expect_err("floats").to_string();
    assert!(why.starts_with("with_slice: elements are f32, not i32"), "{why}");
}

#[test]
fn names_are_read_and_errors_compared() {
    for dtype in DType::STORAGE {
        assert_eq!(dtype.name().parse::<DType>(), Ok(dtype));
    }
    assert_eq!("float16".parse(), Ok(DType::F16));
    assert_eq!("long".parse(), Ok(DType::I64));
    assert!("f8".parse::<DType>().expect_err("none").to_string().contains("\"f8\" names no dtype"));
    assert!("index".parse::<DType>().is_err());
    assert_eq!("cpu:llvm".parse::<Device>().expect("a device").name(), "CPU:LLVM");
    assert_eq!(Device::default(), Device::default_device());
    let at_one_line = || Tensor::zeros([2, 3]).reshape([4]).error().expect("no such shape");
    let error = at_one_line();
    assert_eq!(error, at_one_line());
    assert_ne!(error, Tensor::zeros([2, 3]).reshape([5]).error().expect("no such shape"));
    assert_eq!((error.kind(), error.op()), (ErrorKind::Invalid, "reshape"));
    assert!(error.location().file().ends_with("conversions.rs"));
    let failed = Tensor::zeros_with([1], "nowhere").to_vec::<f32>().expect_err("no device");
    assert_eq!(failed.kind(), ErrorKind::Failed);
}

#[test]
fn small_things() {
    let t = Tensor::from([1.0f32, 2.0, 3.0]);
    assert_eq!((t.nbytes(), t.half().nbytes(), t.element_size()), (12, 6, 4));
    assert!(t.bfloat16().is_floating_point() && !t.long().is_floating_point());
    assert_eq!(t.int().to_vec::<i32>(), Ok(vec![1, 2, 3]));
    assert_eq!((f16::from_f32(2.0) * &t.half()).dtype(), DType::F16);
    assert_eq!((bf16::from_f32(2.0) * t.bfloat16()).sum(..).float().item::<f32>(), Ok(12.0));
    let (i, n): (u32, u32) = (1, 2);
    assert_eq!(t.get(s![i]).item::<f32>(), Ok(2.0));
    assert_eq!(t.get(s![..n]).sum(i - 1).item::<f32>(), Ok(3.0));
    assert_eq!(Tensor::zeros([n, i]).shape(), [2, 1]);
}

#[test]
fn what_is_close_passes() {
    let t = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    assert_close!(&t, [[1.0, 2.000_001], [3.0, 4.0]]);
    assert_close!(t.sum(..), 10);
    assert_close!(&t, &t + 0.5, rtol = 0.0, atol = 0.5);
    assert_close!(Tensor::from([f32::INFINITY]), [f64::INFINITY]);
    let fails = |f: fn()| {
        let payload = std::panic::catch_unwind(f).expect_err("they differ");
        payload.downcast_ref::<String>().expect("a text").clone()
    };
    let text = fails(|| assert_close!(Tensor::from([[1, 2], [3, 4]]), [[1, 2], [3, 5]]));
    assert!(text.starts_with("element [1, 1] is 4, not 5; 1 of 4 differ"), "{text}");
    assert!(
        fails(|| assert_close!(Tensor::ones([2]), [1.0])).contains("the shape is [2], not [1]")
    );
    assert!(fails(|| assert_close!(Tensor::from([f64::NAN]), [f64::NAN])).contains("NaN"));
    assert!(fails(|| assert_close!(Tensor::ones([2]).reshape([3]), 1)).contains("cannot hold"));
}
