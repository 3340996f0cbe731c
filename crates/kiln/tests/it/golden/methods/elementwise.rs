//! Functions of one, two and three numbers.

use super::calls::calls;
use kiln::{Device, Tensor};

calls! { a;
    unary asin acos atan sinh cosh asinh acosh atanh erf erfc gelu_erf sinc deg2rad rad2deg logit frac isfinite isposinf
        isneginf signbit nan_to_num;
    binary atan2 hypot logaddexp xlogy copysign fmod div_trunc heaviside logical_and logical_or logical_xor;
    "nan_to_num_with" [x] => x.nan_to_num_with(a.float(0), a.float(1), a.float(2));
    "clip" [x] => x.clip(a.float(0), a.float(1));
    "clip_int" [x] => x.clip(a.int(0), a.int(1));
    "clamp_min" [x] => x.clamp_min(a.float(0));
    "clamp_max" [x] => x.clamp_max(a.float(0));
    "clamp_min_int" [x] => x.clamp_min(a.int(0));
    "clamp_max_int" [x] => x.clamp_max(a.int(0));
    "isclose" [x, y] => x.isclose(y, a.float(0), a.float(1));
    "allclose" [x, y] => told(x.allclose(y, a.float(0), a.float(1)), x.device());
    "lerp" [x, y] => x.lerp(y, a.float(0));
    "lerp_tensor" [x, y, w] => x.lerp(y, w);
    "addcmul" [x, y, z] => x.addcmul(y, z, a.float(0));
    "addcmul_int" [x, y, z] => x.addcmul(y, z, a.int(0));
    "addcdiv" [x, y, z] => x.addcdiv(y, z, a.float(0));
}

/// A computed answer as a tensor, as the cases have it.
fn told(answer: Result<bool, kiln::Error>, device: &Device) -> Tensor {
    Tensor::from_vec_on(vec![answer.expect("an answer")], (), device)
}
