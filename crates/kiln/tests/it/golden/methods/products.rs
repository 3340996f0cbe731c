//! Products of vectors, matrices and more.

use super::calls::calls;
use kiln::Tensor;

calls! { a;
    unary trace;
    binary mm bmm mv outer inner kron;
    "einsum" xs => Tensor::einsum(a.text(0), xs);
    "addmm" [x, y, z] => x.addmm(y, z, a.float(0), a.float(1));
    "cross" [x, y] => x.cross(y, a.int(0));
    "tensordot" [x, y] => x.tensordot(y, a.ints(0), a.ints(1));
    "cdist" [x, y] => x.cdist(y, a.float(0));
    "matrix_power" [x] => x.matrix_power(a.count(0));
    "matmul_with" [x, y] => x.matmul_with(y, a.dtype(0));
}
