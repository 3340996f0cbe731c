//! The methods that have no file of cases of their own, for expressions.

use super::calls::calls;
use kiln::Tensor;

calls! { a;
    unary neg abs sign square sqrt rsqrt reciprocal exp exp2 exp10 expm1 log log2 log10 log1p sin cos tan tanh sigmoid silu
        gelu relu softplus floor ceil round trunc isnan isinf logical_not flatten copy contiguous;
    binary add sub mul div maximum minimum floor_div modulo pow eq ne lt le gt ge matmul bitwise_and bitwise_or
        bitwise_xor;
    "elu" [x] => x.elu(a.float(0));
    "leaky_relu" [x] => x.leaky_relu(a.float(0));
    "clamp" [x] => x.clamp(a.float(0), a.float(1));
    "sum" [x] => x.sum(a.ints(0));
    "sum_keepdim" [x] => x.sum_keepdim(a.ints(0));
    "prod" [x] => x.prod(a.ints(0));
    "mean" [x] => x.mean(a.ints(0));
    "max" [x] => x.max(a.ints(0));
    "min" [x] => x.min(a.ints(0));
    "var" [x] => x.var(a.ints(0));
    "std" [x] => x.std(a.ints(0));
    "any" [x] => x.any(a.ints(0));
    "all" [x] => x.all(a.ints(0));
    "argmax" [x] => x.argmax(a.int(0));
    "argmin" [x] => x.argmin(a.int(0));
    "cumsum" [x] => x.cumsum(a.int(0));
    "softmax" [x] => x.softmax(a.int(0));
    "log_softmax" [x] => x.log_softmax(a.int(0));
    "logsumexp" [x] => x.logsumexp(a.int(0));
    "layernorm" [x] => x.layernorm(a.int(0));
    "tril" [x] => x.tril(a.int(0));
    "triu" [x] => x.triu(a.int(0));
    "permute" [x] => x.permute(a.ints(0).iter().map(|&i| i as usize).collect::<Vec<_>>());
    "reshape" [x] => x.reshape(a.ints(0));
    "flip" [x] => x.flip(a.int(0));
    "transpose" [x] => x.transpose(a.int(0), a.int(1));
    "unsqueeze" [x] => x.unsqueeze(a.int(0));
    "where_" [c, x, y] => c.where_(x, y);
    "masked_fill" [x, m] => x.masked_fill(m, a.float(0));
    "cast" [x] => x.cast(a.dtype(0));
    "cat" xs => Tensor::cat(xs, a.int(0));
    "stack" xs => Tensor::stack(xs, a.int(0));
    "gather" [x, i] => x.gather(a.int(0), i);
    "conv2d" [x, w] => x.conv2d(w, None, 1, 1, 1, a.count(0));
    "avg_pool2d" [x] => x.avg_pool2d(a.count(0));
    "max_pool2d" [x] => x.max_pool2d(a.count(0));
}
