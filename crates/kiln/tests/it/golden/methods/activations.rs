//! Activation functions.

use super::calls::calls;

calls! { a;
    unary relu6 logsigmoid hardsigmoid hardswish selu quick_gelu swish mish softsign tanhshrink;
    binary prelu;
    "hardtanh" [x] => x.hardtanh(a.float(0), a.float(1));
    "celu" [x] => x.celu(a.float(0));
    "softplus_with" [x] => x.softplus_with(a.float(0));
    "softshrink" [x] => x.softshrink(a.float(0));
    "hardshrink" [x] => x.hardshrink(a.float(0));
    "threshold" [x] => x.threshold(a.float(0), a.float(1));
    "glu" [x] => x.glu(a.int(0));
    "softmin" [x] => x.softmin(a.int(0));
    "normalize" [x] => x.normalize(a.float(0), a.int(1));
}
