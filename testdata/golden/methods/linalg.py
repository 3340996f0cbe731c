"""Factorizations of matrices, and what follows from them. What has free signs is compared where it has none."""

import torch.linalg as L

from case import *

NEAR = dict(tol=("abs", 64), slope=("abs", 600))


def regular(*shape, dtype=F32):
    """Far from singular."""
    n = min(shape[-2:])
    return (data(*shape, dtype=F64) + 4 * torch.eye(n, dtype=F64) @ torch.eye(n, shape[-1], dtype=F64) if shape[-2] == n else
            data(*shape, dtype=F64) + 4 * torch.eye(shape[-2], n, dtype=F64)).to(dtype)


def positive(*shape, dtype=F32):
    x = data(*shape, dtype=F64)
    return (((x @ x.mT) + torch.eye(shape[-1], dtype=F64)) * 64).round().div(64).to(dtype)


SQUARE = [(1, 1), (2, 2), (5, 5), (2, 3, 3), (2, 1, 4, 4), (0, 2, 2)]
for shape in SQUARE:
    for dtype in [F32, F64] if len(shape) == 3 else [F32]:
        case("inv", [regular(*shape, dtype=dtype)], L.inv, **NEAR)
        case("det", [regular(*shape, dtype=dtype)], L.det, tol=("abs", 64), slope=("abs", 600))
        case("slogdet", [data(*shape, dtype=dtype) + 0.01], lambda x: list(L.slogdet(x)), **NEAR)
        case("cholesky", [positive(*shape, dtype=dtype)], lambda x: L.cholesky(x), [False], **NEAR)
        case("cholesky", [positive(*shape, dtype=dtype)], lambda x: L.cholesky(x, upper=True), [True], **NEAR)
        case("eigvalsh", [positive(*shape, dtype=dtype)], lambda x: L.eigvalsh((x + x.mT) / 2), **NEAR)
        case("matrix_exp", [data(*shape, dtype=dtype)], torch.matrix_exp, tol=("abs", 600), slope=("abs", 4000))
    spread = torch.diag_embed(torch.arange(shape[-1]) * 8.0).to(F64)
    apart = (((lambda x: x + x.mT)(data(*shape, dtype=F64))) + spread).to(F32)
    case("eigh", [apart], lambda x: [y if i == 0 else y.square() for i, y in enumerate(L.eigh(x))], **NEAR)
case("inv", [regular(3, 3, dtype=F16)], L.inv, tol=("abs", 16), slope=("abs", 60))
case("matrix_exp", [data(3, 3) * 20], torch.matrix_exp, tol=("abs", 20000), grad=False)
case("matrix_exp", [torch.zeros(3, 3)], torch.matrix_exp, **NEAR)
case("det", [t([[1.0, 2.0], [2.0, 4.0]])], L.det, tol=("abs", 64), grad=False)
case("slogdet", [torch.zeros(2, 2)], lambda x: list(L.slogdet(x)), grad=False)
for a, b in [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3, 2)), ((2, 2), (3, 2, 1)), ((1, 1), (1,)), ((2, 1, 3, 3), (2, 3, 2))]:
    for dtype in [F32, F64] if len(a) == 3 else [F32]:
        case("solve", [regular(*a, dtype=dtype), data(*b, dtype=dtype)], L.solve, **NEAR)
for upper in [False, True]:
    for unit in [False, True]:
        for shape in [(3, 3), (2, 4, 4)]:
            case("solve_triangular", [regular(*shape), data(*shape[:-1], 2)], lambda a, b: L.solve_triangular(a, b, upper=upper, unitriangular=unit), [upper, unit], **NEAR)
for shape in [(3, 3), (5, 3), (3, 5), (2, 4, 2), (1, 1), (4, 1), (0, 3, 2), (2, 2, 3)]:
    for dtype in [F32, F64] if len(shape) == 3 else [F32]:
        x = regular(*shape, dtype=dtype)
        case("qr", [x], lambda x: list(L.qr(x)), **NEAR)
        case("svdvals", [x], L.svdvals, **NEAR)
        case("pinv", [x], L.pinv, **NEAR)
        case("lstsq", [x, data(*shape[:-1], 2, dtype=dtype)], lambda a, b: L.pinv(a) @ b, **NEAR)
    if 0 not in shape:
        case("svd", [x.to(F32)], lambda x: [y if i == 1 else y.square() for i, y in enumerate(L.svd(x, full_matrices=False))], [False], **NEAR)
        case("svd_made", [x.to(F32)], lambda x: x, [False], **NEAR)
        case("svd_made", [x.to(F32)], lambda x: x, [True], **NEAR)
        case("cond", [x.to(F32)], L.cond, **NEAR)
        for name, order in [("Frobenius", "fro"), ("Nuclear", "nuc"), ("Spectral", 2), ("LeastSingular", -2), ("Columns", 1), ("Rows", math.inf)]:
            case("matrix_norm", [x.to(F32) + t(distinct := torch.arange(x.numel()).reshape(x.shape) / 64)], lambda x: L.matrix_norm(x, order), [name], **NEAR)
for x in [t([[1.0, 2.0], [2.0, 4.0]]), t(torch.ones(3, 4)), torch.zeros(2, 2), t(torch.eye(4)), t([[[1.0, 0.0], [0.0, 1e-9]], [[1.0, 0.0], [0.0, 1e-3]]])]:
    case("matrix_rank", [x], lambda y: L.matrix_rank(y.float()).to(I32), grad=False)
    case("pinv", [x], L.pinv, grad=False, **{"tol": ("abs", 64)}) if x.ndim == 2 else None
    case("svdvals", [x], L.svdvals, grad=False, tol=("abs", 64))
for shapes in [[(2, 3), (3, 4)], [(3,), (3, 4), (4, 2)], [(2, 9), (9, 2), (2, 9), (9,)], [(5,), (5,)], [(10, 2), (2, 10), (10, 3)], [(2, 3)]]:
    xs = [data(*s) for s in shapes]
    case("multi_dot", xs, lambda *x: L.multi_dot(x) if len(x) > 1 else x[0], **dict(tol=("abs", 600), slope=("abs", 2000)))
refused("inv", [data(2, 3)], [], "inv: wants square matrices, not [2, 3]")
refused("inv", [data(3)], [], "inv: wants matrices, not [3]")
refused("inv", [t([[1.0, 2.0], [2.0, 4.0]])], [], "inv: the matrix is singular")
refused("solve", [torch.zeros(2, 2), data(2)], [], "solve: the matrix is singular")
refused("solve", [regular(2, 2), data(3)], [], "do not fit")
refused("cholesky", [t([[1.0, 2.0], [2.0, 1.0]])], [False], "cholesky: the matrix is not positive definite")
refused("eigh", [data(2, 3)], [], "eigh: wants square matrices")
refused("svd", [data(3)], [False], "svd: wants matrices")
refused("multi_dot", [data(2, 2), data(2, 2, 2)], [], "wants matrices, and vectors at the ends")
refused("multi_dot", [data(2, 2), data(3, 2)], [], "inner dimensions differ")
