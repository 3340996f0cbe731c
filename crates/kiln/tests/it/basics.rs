use kiln::{DType, Tensor, s};

fn ints(t: &Tensor) -> Vec<i32> {
    t.to_vec().expect("readable")
}

#[test]
fn creation() {
    assert_eq!(Tensor::from([[1i64, 2], [3, 4]]).to_vec::<i64>().unwrap(), [1, 2, 3, 4]);
    assert_eq!(Tensor::from(vec![1u8, 2]).shape(), [2]);
    assert_eq!(Tensor::from([1.0, 2.0]).dtype(), DType::F64);
    assert_eq!(Tensor::from(3.5f32).item::<f32>().unwrap(), 3.5);
    let z = Tensor::zeros(&[2usize, 3][..]);
    assert_eq!((z.shape(), z.dtype(), z.numel(), z.ndim()), (&[2, 3][..], DType::F32, 6, 2));
    assert!(Tensor::zeros([-1, 2]).error().is_some());
    assert!(Tensor::zeros([usize::MAX, 2]).error().is_some());
    assert_eq!(Tensor::eye(3).sum(..).item::<f32>().unwrap(), 3.0);
    assert_eq!(Tensor::linspace(1.0, 2.0, 5).to_vec::<f32>().unwrap(), [1.0, 1.25, 1.5, 1.75, 2.0]);
    assert_eq!(ints(&Tensor::arange(0)), [] as [i32; 0]);
}

#[test]
fn arithmetic_mixes() {
    let a = Tensor::from([1.0f32, -2.0]);
    let y: Tensor = 2.0 * &a - 1 + &a * &a / 2.0;
    let v = y.to_vec::<f32>().unwrap();
    assert_eq!(v, [1.5, -3.0]);
    assert_eq!(ints(&(10 - Tensor::from([1, 2]))), [9, 8]);
    assert_eq!((Tensor::from([1, 2]) / 2).dtype(), DType::F32);
    assert_eq!((Tensor::from([1u8]) + 1.5).dtype(), DType::F32);
    assert_eq!((Tensor::from([1u8]) + 1).dtype(), DType::U8);
    assert_eq!((Tensor::from([1u8]) + Tensor::from([1i8])).dtype(), DType::I16);
    assert_eq!(ints(&(Tensor::from([-7, 7]) % 3)), [2, 1]);
    assert_eq!((!Tensor::from([true, false])).to_vec::<bool>().unwrap(), [false, true]);
    assert_eq!(ints(&(1 + Tensor::from([[1], [2]]) * Tensor::from([10, 20]))), [11, 21, 21, 41]);
}

#[test]
fn float_corners() {
    let x = Tensor::from([f32::NAN, -0.0, 0.0, -3.0, f32::NEG_INFINITY]);
    let bits =
        |t: Tensor| t.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let floats = |v: [f32; 5]| v.map(f32::to_bits).to_vec();
    assert_eq!(bits(x.abs()), floats([f32::NAN, 0.0, 0.0, 3.0, f32::INFINITY]));
    assert_eq!(bits(x.sign()), floats([f32::NAN, -0.0, 0.0, -1.0, -1.0]));
    assert_eq!(x.isnan().to_vec::<bool>().unwrap(), [true, false, false, false, false]);
    assert_eq!(x.isinf().to_vec::<bool>().unwrap(), [false, false, false, false, true]);
    let y = Tensor::from([-1.5f32, -0.5, 0.5, 1.5, 2.5]);
    assert_eq!(bits(y.round()), floats([-2.0, -0.0, 0.0, 2.0, 2.0]));
    assert_eq!(bits(y.floor()), floats([-2.0, -1.0, 0.0, 1.0, 2.0]));
    assert_eq!(bits(y.ceil()), floats([-1.0, -0.0, 1.0, 2.0, 3.0]));
    assert_eq!(bits(y.trunc()), floats([-1.0, -0.0, 0.0, 1.0, 2.0]));
    assert_eq!(x.ge(0).to_vec::<bool>().unwrap(), [false, true, true, false, false]);
}

#[test]
fn powers() {
    let x = Tensor::from([2.0f32, -2.0, 0.0]);
    assert_eq!(x.pow(3).to_vec::<f32>().unwrap(), [8.0, -8.0, 0.0]);
    assert_eq!(x.pow(0).to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0]);
    assert_eq!(x.pow(-1).to_vec::<f32>().unwrap(), [0.5, -0.5, f32::INFINITY]);
    assert_eq!(x.pow(Tensor::from([3.0f32, 3.0, 0.0])).to_vec::<f32>().unwrap(), [8.0, -8.0, 1.0]);
    assert!(x.pow(1.5).to_vec::<f32>().unwrap()[1].is_nan());
    assert_eq!(Tensor::from([3, 2]).pow(2).dtype(), DType::I32);
}

#[test]
fn views_alias() {
    let t = Tensor::arange(6).reshape([2, 3]);
    let p = t.permute([1, 0]);
    let row = t.get(s![1]);
    t.set(s![1, 1], 40);
    assert_eq!(ints(&p), [0, 3, 1, 40, 2, 5]);
    assert_eq!(ints(&row), [3, 40, 5]);
    p.assign(Tensor::arange(6).reshape([3, 2]));
    assert_eq!(ints(&t), [0, 2, 4, 1, 3, 5]);
    let mut c = row.clone();
    c += 100;
    assert_eq!(ints(&t), [0, 2, 4, 101, 103, 105]);
    let fixed = &t + 0;
    t.assign(0);
    assert_eq!(ints(&fixed), [0, 2, 4, 101, 103, 105]);
    assert_eq!(ints(&t.flip(0)), [0; 6]);
    assert_eq!(ints(&t.copy()), [0; 6]);
}

#[test]
fn python_slices() {
    let t = Tensor::arange(5);
    assert_eq!(ints(&t.get(s![1..3])), [1, 2]);
    assert_eq!(ints(&t.get(s![-2..])), [3, 4]);
    assert_eq!(ints(&t.get(s![..-2])), [0, 1, 2]);
    assert_eq!(ints(&t.get(s![..=-1])), [0, 1, 2, 3, 4]);
    assert_eq!(ints(&t.get(s![..100])), [0, 1, 2, 3, 4]);
    assert_eq!(ints(&t.get(s![3..1])), [] as [i32; 0]);
    assert_eq!(ints(&t.get(s![4..1;-2])), [4, 2]);
    assert_eq!(ints(&t.get(s![..;-1])), [4, 3, 2, 1, 0]);
    assert_eq!(ints(&t.get(s![1..;3])), [1, 4]);
    assert_eq!(ints(&t.get(s![-1])), [4]);
    let (i, n) = (2usize, 4usize);
    assert_eq!(ints(&t.get(s![i..n])), [2, 3]);
    assert!(t.get(s![5]).error().is_some());
    assert!(t.get(s![0, 0]).error().is_some());
    assert!(t.get(s![..;0]).error().is_some());
    let m = Tensor::arange(24).reshape([2, 3, 4]);
    assert_eq!(ints(&m.get(s![..., 1])), [1, 5, 9, 13, 17, 21]);
    assert_eq!(ints(&m.get(s![1, ..., 0])), [12, 16, 20]);
    assert_eq!(m.get(s![0, NewAxis, ..;2]).shape(), [1, 2, 4]);
    assert_eq!(m.get(s![]).shape(), [2, 3, 4]);
    assert_eq!(m.get(s![0,]).shape(), [3, 4]);
}

#[test]
fn views_cancel() {
    let t = Tensor::zeros([2, 3]);
    let mut v = t.clone();
    for _ in 0..1000 {
        v = v.permute([1, 0]).flip(0).unsqueeze(0).squeeze(0);
    }
    assert_eq!(v.shape(), [2, 3]);
    v.assign(&Tensor::arange(6).reshape([2, 3]).cast(DType::F32));
    assert_eq!(t.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn writes_through_expansions() {
    let t = Tensor::from([1, 2, 3]);
    let wide = t.expand([4, 3]);
    assert!(wide.try_assign(0).is_err());
    assert!(wide.try_set(s![.., 0], 0).is_err());
    wide.set(s![2], 7);
    assert_eq!(ints(&t), [7, 7, 7]);
    wide.permute([1, 0]).set(s![0, 3], 8);
    assert_eq!(ints(&t), [8, 7, 7]);
}

#[test]
fn write_dtypes() {
    let t = Tensor::from([1, 2, 3]);
    t.set(s![0], 7.9);
    assert_eq!(ints(&t), [7, 2, 3]);
    assert!(t.try_assign(&Tensor::from([1.0f32, 2.0, 3.0])).is_err());
    assert!(t.try_assign(&Tensor::from([1i64, 2, 3])).is_err());
    t.assign(&Tensor::from([1u8, 2, 3]));
    assert_eq!(ints(&t), [1, 2, 3]);
    let f = Tensor::zeros([3]);
    f.assign(&t);
    assert_eq!(f.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
    assert!(t.try_assign(&Tensor::zeros_with([4], DType::I32)).is_err());
}

#[test]
fn errors_carry_the_first_and_the_line() {
    let bad = Tensor::zeros([2, 3]).reshape([4]);
    let worse = (bad.exp() + Tensor::zeros([7])).sum(9).permute([3, 1]);
    let text = worse.to_vec::<f32>().unwrap_err().to_string();
    assert!(text.starts_with("reshape: [2, 3] has 6 elements"), "{text}");
    assert!(text.contains("basics.rs:"), "{text}");
    assert_eq!((worse.shape(), worse.dtype()), (&[][..], DType::F32));
}

#[test]
fn invalid_writes_poison_until_cleared() {
    let t = Tensor::from([1, 2]);
    let alias = t.flip(0);
    let before = &t + 1;
    t.set(s![9], 0);
    assert!(
        alias.to_vec::<i32>().unwrap_err().to_string().starts_with("set: index 9 is out of range")
    );
    assert_eq!(ints(&before), [2, 3]);
    t.clear_error();
    assert_eq!(ints(&alias), [2, 1]);
    t.set(s![9], 0);
    alias.assign(&Tensor::from([5, 6]));
    assert_eq!(ints(&t), [6, 5]);
}

#[test]
fn reductions() {
    let t = Tensor::from([[1.0f32, 5.0, 3.0], [4.0, 2.0, 6.0]]);
    assert_eq!(t.sum(..).item::<f32>().unwrap(), 21.0);
    assert_eq!(t.sum([0, 1]).item::<f32>().unwrap(), 21.0);
    assert_eq!(t.sum(-1).to_vec::<f32>().unwrap(), [9.0, 12.0]);
    assert_eq!(t.mean(0).to_vec::<f32>().unwrap(), [2.5, 3.5, 4.5]);
    assert_eq!(t.argmax(1).to_vec::<i32>().unwrap(), [1, 2]);
    assert_eq!(t.argmin(..).item::<i32>().unwrap(), 0);
    assert_eq!(t.var(1).to_vec::<f32>().unwrap(), [4.0, 4.0]);
    assert_eq!(Tensor::from([200u8, 100]).sum(0).item::<u32>().unwrap(), 300);
    assert_eq!(Tensor::from([true, true]).sum(0).item::<i32>().unwrap(), 2);
    assert_eq!(Tensor::zeros([0]).sum(0).item::<f32>().unwrap(), 0.0);
    assert!(Tensor::zeros([0]).max(0).error().is_some());
    assert!(t.sum(2).error().is_some());
    assert!(t.sum([0, -2]).error().is_some());
    assert_eq!(Tensor::from([1.0f32, f32::NAN]).argmax(0).item::<i32>().unwrap(), 1);
    let long = Tensor::arange(1000).cumsum(0).to_vec::<i32>().unwrap();
    assert!(long.iter().enumerate().all(|(i, &x)| x as usize == i * (i + 1) / 2));
    assert_eq!(ints(&Tensor::arange(6).reshape([3, 2]).cumsum(0)), [0, 1, 2, 4, 6, 9]);
}

#[test]
fn printing() {
    assert_eq!(Tensor::from([1.0, 2.5]).to_string(), "[1.  2.5]");
    assert_eq!(Tensor::from([[1, 20], [3, 4]]).to_string(), "[[ 1 20]\n [ 3  4]]");
    assert_eq!(Tensor::from([1e10, 1.0]).to_string(), "[1.e+10 1.e+00]");
    assert_eq!(Tensor::from([0.1f32, f32::NAN, f32::INFINITY]).to_string(), "[0.1 nan inf]");
    assert_eq!(Tensor::from([true, false]).to_string(), "[ True False]");
    assert_eq!(Tensor::arange(2000).to_string(), "[   0    1    2 ... 1997 1998 1999]");
    let zeros = Tensor::zeros_with([2], (DType::F32, "CPU"));
    assert_eq!(format!("{zeros:?}"), "Tensor([2], f32, CPU, [0. 0.])");
}
