//! Input that makes no sense: every time an error that names the operation, what it was given, and the line.

use kiln::nn::state;
use kiln::{DType, Device, Error, Tensor, s};

/// Checks that an error says all of `parts` and the line of this file at which it arose.
#[track_caller]
fn says<T>(result: Result<T, Error>, parts: &[&str]) {
    let Err(error) = result else { panic!("no error, wanted {parts:?}") };
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{text:?} does not say {part:?}");
    }
    assert!(text.contains("mistakes.rs:"), "{text:?} does not say where");
}

fn read(t: Tensor) -> Result<Vec<f32>, Error> {
    t.to_vec()
}

#[test]
fn shapes_that_do_not_fit() {
    let (a, b) = (Tensor::ones([2, 3]), Tensor::ones([4, 5]));
    says(read(&a + &b), &["add", "[2, 3]", "[4, 5]"]);
    says(read(a.matmul(&b)), &["matmul", "[2, 3]", "[4, 5]"]);
    says(read(a.reshape([7])), &["reshape", "[2, 3]", "[7]"]);
    says(read(a.expand([3, 3])), &["expand", "[2, 3]", "[3, 3]"]);
    says(read(a.permute([0, 0])), &["permute", "axis 0"]);
    says(read(a.sum(5)), &["sum", "axis 5", "2 axes"]);
    says(read(Tensor::cat([&a, &b], 0)), &["cat", "[2, 3]", "[4, 5]"]);
    says(read(a.conv2d(&b, None, 1, 1, 1, 0)), &["conv2d", "[2, 3]", "[4, 5]"]);
    says(read(Tensor::from_vec(vec![1.0f32], [2])), &["from_vec", "[2]", "1 elements"]);
    says(a.try_assign(&b), &["assign", "[2, 3]", "[4, 5]"]);
    says(a.backward(), &["backward"]);
}

#[test]
fn the_first_mistake_is_kept() {
    let bad = Tensor::ones([2, 3]).reshape([7]);
    says(read((bad.exp() * 2.0 + Tensor::ones([9])).matmul(&bad).sum(..)), &["reshape", "[7]"]);
    says(kiln::realize([&Tensor::ones([1]), &bad]), &["reshape", "[7]"]);
}

#[test]
fn dtypes_that_do_not_fit() {
    let t = Tensor::from([1, 2]);
    says(t.to_vec::<f32>(), &["to_vec", "i32", "f32"]);
    says(t.item::<i32>(), &["item", "[2]"]);
    says(t.try_assign(&Tensor::from([1.5f32, 2.0])), &["assign", "f32", "i32"]);
    says(read(Tensor::rand_with([2], DType::I32)), &["rand", "i32"]);
    says(read(Tensor::ones([2]) & 1), &["bitwise_and", "f32"]);
}

#[test]
fn indices_out_of_range() {
    let t = Tensor::ones([2, 3]);
    says(read(t.get(s![2])), &["get", "index 2", "axis 0", "length 2"]);
    says(read(t.get(s![0, -4])), &["get", "index -4", "axis 1", "length 3"]);
    says(read(t.get(s![0, 0, 0])), &["get", "3 indices", "2 axes"]);
    says(t.try_set(s![5], 0.0), &["set", "index 5"]);
    t.set(s![5], 0.0);
    says(read(t.clone()), &["set", "index 5"]);
}

#[test]
fn shapes_beyond_any_memory() {
    says(read(Tensor::zeros([usize::MAX, 2])), &["zeros"]);
    says(read(Tensor::ones([1i64 << 31, 1 << 31, 1 << 31])), &["ones"]);
    says(read(Tensor::ones([1]).expand([1i64 << 40, 1 << 40])), &["expand"]);
    says(read(Tensor::ones([1]).repeat([1i64 << 40, 1 << 40])), &["repeat"]);
    says(read(Tensor::ones([2]).pad([(usize::MAX, 1)])), &["pad"]);
    says(read(Tensor::arange(i64::MAX)), &["arange"]);
    says(read(Tensor::eye(1i64 << 40)), &["eye"]);
    let (column, row) = (Tensor::ones([1i64 << 31, 1]), Tensor::ones([1, 1i64 << 31]));
    says(read((column * row).reshape([1, -1]).expand([1i64 << 31, -1])), &["[2147483648"]);
    says(read(Tensor::ones([1i64 << 45]).contiguous()), &["bytes"]);
    assert_eq!(read(Tensor::ones([2])).expect("goes on"), [1.0, 1.0]);
}

#[test]
fn devices_that_do_not_exist() {
    let cuda = Tensor::zeros_with([2], (DType::F16, "cuda:1"));
    says(cuda.realize(), &["no device \"CUDA:1\"", "CPU"]);
    says(cuda.cast(DType::F32).to_vec::<f32>(), &["no device \"CUDA:1\""]);
    says(cuda.cast(DType::F32).sum(..).item::<f32>(), &["no device \"CUDA:1\""]);
    says(Device::parse("no such thing"), &["no such thing"]);
    says(read(Tensor::zeros_with([2], "?")), &["\"?\" does not name a device"]);
    let here = Device::default_device();
    says(read(Tensor::zeros([2]) + cuda), &["add", here.name(), "CUDA:1"]);
}

#[test]
fn files_that_do_not_exist() {
    says(state::load("/no/such/weights.safetensors"), &["/no/such/weights.safetensors"]);
}
