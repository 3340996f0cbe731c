//! The operations of the cases by name.

use kiln::{DType, Tensor, s};
use serde_json::Value;

fn ints(v: &Value) -> Vec<i64> {
    v.as_array().expect("a list").iter().map(int).collect()
}

fn int(v: &Value) -> i64 {
    v.as_i64().expect("an integer")
}

fn float(v: &Value) -> f64 {
    v.as_f64().expect("a number")
}

/// `op` of the inputs.
pub(super) fn apply(op: &str, args: &[Value], inputs: &[Tensor]) -> Tensor {
    let known = match inputs {
        [x] if args.is_empty() => unary(op, x),
        [a, b] if args.is_empty() => binary(op, a, b),
        [x] => with_arguments(op, x, args).or_else(|| reduction(op, x, &args[0])),
        _ => None,
    };
    known.or_else(|| structured(op, args, inputs)).unwrap_or_else(|| panic!("no op {op}"))
}

fn unary(op: &str, x: &Tensor) -> Option<Tensor> {
    Some(match op {
        "sqrt" => x.sqrt(),
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "exp10" => x.exp10(),
        "log" => x.log(),
        "log2" => x.log2(),
        "log10" => x.log10(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "tanh" => x.tanh(),
        "rsqrt" => x.rsqrt(),
        "reciprocal" => x.reciprocal(),
        "neg" => x.neg(),
        "abs" => x.abs(),
        "sign" => x.sign(),
        "square" => x.square(),
        "trunc" => x.trunc(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round(),
        "relu" => x.relu(),
        "sigmoid" => x.sigmoid(),
        "silu" => x.silu(),
        "gelu" => x.gelu(),
        "softplus" => x.softplus(),
        "isnan" => x.isnan(),
        "isinf" => x.isinf(),
        "logical_not" => x.logical_not(),
        "bitwise_not" => x.bitwise_not(),
        "cast_bf16" => x.cast(DType::BF16).cast(DType::F32),
        _ => return None,
    })
}

fn binary(op: &str, a: &Tensor, b: &Tensor) -> Option<Tensor> {
    Some(match op {
        "add" => a + b,
        "sub" => a - b,
        "mul" => a * b,
        "div" => a / b,
        "floor_div" => a.floor_div(b),
        "modulo" => a.modulo(b),
        "maximum" => a.maximum(b),
        "minimum" => a.minimum(b),
        "pow" => a.pow(b),
        "lt" => a.lt(b),
        "gt" => a.gt(b),
        "le" => a.le(b),
        "ge" => a.ge(b),
        "eq" => a.eq(b),
        "ne" => a.ne(b),
        "bitwise_and" => a & b,
        "bitwise_or" => a | b,
        "bitwise_xor" => a ^ b,
        "lshift" => a << b,
        "rshift" => a >> b,
        "matmul" => a.matmul(b),
        "cross_entropy" => a.cross_entropy(b),
        _ => return None,
    })
}

fn reduction(op: &str, x: &Tensor, axes: &Value) -> Option<Tensor> {
    let axes = if axes.is_array() { ints(axes) } else { vec![axes.as_i64()?] };
    Some(match op {
        "sum" => x.sum(&axes),
        "prod" => x.prod(&axes),
        "mean" => x.mean(&axes),
        "max" => x.max(&axes),
        "min" => x.min(&axes),
        "var" => x.var(&axes),
        "std" => x.std(&axes),
        "any" => x.any(&axes),
        "all" => x.all(&axes),
        "argmax" => x.argmax(&axes),
        "argmin" => x.argmin(&axes),
        "softmax" => x.softmax(&axes),
        "log_softmax" => x.log_softmax(&axes),
        "logsumexp" => x.logsumexp(&axes),
        "cumsum" => x.cumsum(axes[0]),
        "layernorm" => x.layernorm(&axes),
        "rmsnorm" => x.rmsnorm(&axes),
        "flip" => x.flip(&axes),
        "permute" => x.permute(&axes),
        "reshape" => x.reshape(&axes),
        "expand" => x.expand(&axes),
        "repeat" => x.repeat(&axes),
        "tril" => x.tril(axes[0]),
        "triu" => x.triu(axes[0]),
        _ => return None,
    })
}

fn with_arguments(op: &str, x: &Tensor, args: &[Value]) -> Option<Tensor> {
    Some(match op {
        "cast" => x.cast(args[0].as_str().and_then(DType::parse).expect("a dtype")),
        "leaky_relu" => x.leaky_relu(float(&args[0])),
        "elu" => x.elu(float(&args[0])),
        "pow_const" => args[0].as_i64().map_or_else(|| x.pow(float(&args[0])), |n| x.pow(n)),
        "clamp" => x.clamp(float(&args[0]), float(&args[1])),
        "slice" => x.get(s![int(&args[0])..int(&args[1]); int(&args[2])]),
        "max_pool2d" => {
            x.max_pool2d_with(int(&args[0]), int(&args[1]), int(&args[2]), int(&args[3]))
        }
        "avg_pool2d" => x.avg_pool2d_with(int(&args[0]), int(&args[1]), int(&args[2])),
        "pad" => {
            let pair = |v: &Value| (int(&v[0]) as usize, int(&v[1]) as usize);
            let pads: Vec<_> = args[0].as_array().expect("pairs").iter().map(pair).collect();
            x.pad_with(pads, float(&args[1]))
        }
        _ => return None,
    })
}

fn structured(op: &str, args: &[Value], inputs: &[Tensor]) -> Option<Tensor> {
    Some(match (op, inputs) {
        ("cat", _) => Tensor::cat(inputs, int(&args[0])),
        ("stack", _) => Tensor::stack(inputs, int(&args[0])),
        ("where", [mask, a, b]) => mask.where_(a, b),
        ("masked_fill", [x, mask]) => x.masked_fill(mask, float(&args[0])),
        ("conv2d", [x, w, bias]) => {
            let n = |i: usize| int(&args[i]);
            x.conv2d(w, Some(bias), n(0) as usize, n(1), n(2), n(3))
        }
        ("batchnorm", [x, w, b, mean, invstd]) => x.batchnorm(Some(w), Some(b), mean, invstd),
        ("attention", [q, k, v]) => q.scaled_dot_product_attention(k, v, None, int(&args[0]) == 1),
        _ => return None,
    })
}
