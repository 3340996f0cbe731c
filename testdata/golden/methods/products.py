"""Products of vectors, matrices and more."""

from case import *

# of up to 60 products of numbers below 2 each
NEAR = dict(tol=("abs", 240), slope=("abs", 480))
EQUATIONS = [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ij->ji", [(2, 3)]), ("ba", [(2, 3)]),
    ("ij->", [(2, 3)]), ("ij->i", [(2, 3)]), ("i,i->", [(4,), (4,)]), ("i,j->ij", [(2,), (3,)]), ("i,i->i", [(4,), (4,)]), (",->", [(), ()]),
    (",i->i", [(), (3,)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 2)]), ("...ij,jk", [(2, 2, 3, 4), (4, 2)]),
    ("i...->...", [(2, 3)]), ("...,...->...", [(2, 3), (3,)]), ("...a,...b->...ab", [(2, 3), (1, 4)]), ("ij,kj->ik", [(2, 3), (4, 3)]),
    ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("ij,jk,kl,lm->im", [(2, 9), (9, 2), (2, 9), (9, 3)]),
    ("i,ij,j->", [(2,), (2, 3), (3,)]), ("iij->j", [(3, 3, 2)]), ("iijj->ij", [(2, 2, 3, 3)]), ("ijk,ijk->k", [(2, 3, 4), (2, 3, 4)]), ("ij,ij->ij", [(2, 3), (2, 1)]),
    ("ab,cd->abcd", [(2, 2), (1, 3)]), ("ij, jk -> ki", [(2, 3), (3, 4)]), ("ijk->kij", [(2, 3, 4)]), ("i,j,k->", [(2,), (3,), (2,)]), ("ij,j->i", [(0, 3), (3,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]), ("Ab,bC->AC", [(2, 3), (3, 2)]), ("...->...", [(2, 3)]), ("...ii->...i", [(2, 3, 3)]), ("ij,ik,il->jkl", [(3, 2), (3, 2), (3, 2)]),
]
for equation, shapes in EQUATIONS:
    for dtype in FLOATS:
        xs = [data(*s, dtype=dtype) for s in shapes]
        # narrow ones round between two products
        near = dict(tol=("abs", 16), slope=("abs", 60)) if dtype in (F16, BF16) else NEAR
        case("einsum", xs, lambda *x: torch.einsum(equation, *x), [equation], **near)
    xs = [data(*s, dtype=I64) for s in shapes]
    case("einsum", xs, lambda *x: torch.einsum(equation, *x), [equation])
for equation, shapes, why in [("ij,jk->ik", [(2, 3)], "names 2 operands, not 1"), ("ij->ik", [(2, 3)], "'k' is in the result"), ("ijk->i", [(2, 3)], "does not name 2 axes"),
                              ("ij,jk->ik", [(2, 3), (4, 2)], "an axis is 3 long here and 4 there"), ("ij->ii", [(2, 2)], "'i' stands twice in the result"), ("i1->i", [(2, 2)], "does not name 2 axes"),
                              ("i+j->i", [(2, 2)], "is no letter")]:
    refused("einsum", [data(*s) for s in shapes], [equation], why)
for method, f, shapes in [("mm", torch.mm, [((2, 3), (3, 4)), ((1, 1), (1, 1)), ((0, 2), (2, 3)), ((2, 0), (0, 3))]),
                          ("bmm", torch.bmm, [((2, 3, 4), (2, 4, 5)), ((1, 2, 2), (1, 2, 2)), ((0, 2, 3), (0, 3, 2))]),
                          ("mv", torch.mv, [((2, 3), (3,)), ((1, 4), (4,)), ((2, 0), (0,))]),
                          ("outer", torch.outer, [((2,), (3,)), ((1,), (4,)), ((0,), (2,))]),
                          ("inner", torch.inner, [((3,), (3,)), ((2, 3), (4, 3)), ((2, 2, 3), (3,)), ((), (3,))]),
                          ("kron", torch.kron, [((2,), (3,)), ((2, 3), (2, 2)), ((2, 2), (3,)), ((), (2,)), ((1, 2, 2), (2, 1))])]:
    for a, b in shapes:
        for dtype in FLOATS + [I32, I64]:
            case(method, [data(*a, dtype=dtype), data(*b, dtype=dtype)], f, **(NEAR if dtype.is_floating_point else {}))
refused("mm", [data(2, 3, 1), data(3, 4)], [], "wants 2 and 2 axes, lhs [2, 3, 1], rhs [3, 4]")
refused("mm", [data(2, 3), data(4, 4)], [], "mm: inner dimensions differ")
refused("bmm", [data(2, 3, 4), data(1, 4, 5)], [], "stacks differ")
refused("mv", [data(2, 3), data(3, 1)], [], "wants 2 and 1 axes")
refused("outer", [data(2, 3), data(3)], [], "wants one axis each")
for dtype in FLOATS:
    for beta, alpha in [(1.0, 1.0), (0.5, -2.0), (0.0, 1.0)]:
        case("addmm", [data(2, 4, dtype=dtype), data(2, 3, dtype=dtype), data(3, 4, dtype=dtype)],
             lambda c, a, b: torch.addmm(c, a, b, beta=beta, alpha=alpha), [beta, alpha], **NEAR)
    for shape, axis in [((3,), 0), ((2, 3), 1), ((3, 4), 0), ((2, 3, 2), -2)]:
        case("cross", [data(*shape, dtype=dtype), data(*shape, dtype=dtype)], lambda a, b: torch.linalg.cross(a, b, dim=axis), [axis], **NEAR)
    case("trace", [data(3, 4, dtype=dtype)], torch.trace, **NEAR)
    for a, b, i, j in [((2, 3, 4), (4, 3, 5), [1, 2], [1, 0]), ((2, 3), (3, 2), [0], [1]), ((2,), (3,), [], []), ((2, 3), (2, 3), [0, 1], [0, 1]), ((2, 3), (4, 3), [-1], [-1])]:
        case("tensordot", [data(*a, dtype=dtype), data(*b, dtype=dtype)], lambda x, y: torch.tensordot(x, y, (i, j)), [i, j], **NEAR)
    for p in [1.0, 2.0, 3.0, math.inf]:
        for a, b in [((2, 3), (4, 3)), ((2, 2, 2), (2, 3, 2)), ((1, 1), (3, 1))]:
            case("cdist", [data(*a, dtype=dtype), data(*b, dtype=dtype)], lambda x, y: torch.cdist(x, y, p), [str(p)], **NEAR)
for n in [0, 1, 2, 3, 5]:
    for dtype in [F32, F64]:
        case("matrix_power", [data(3, 3, dtype=dtype, low=-1, high=1)], lambda x: torch.linalg.matrix_power(x, n), [n], grad=n > 0, **NEAR)
        case("matrix_power", [data(2, 2, 2, dtype=dtype, low=-1, high=1)], lambda x: torch.linalg.matrix_power(x, n), [n], grad=n > 0, **NEAR)
refused("matrix_power", [data(2, 3)], [2], "wants square matrices, not [2, 3]")
# products that do not fit f16
x = t([[1.0, 300.0, -400.0]], F16)
case("cross", [x, x], lambda a, b: torch.linalg.cross(a, b, dim=1), [1], **NEAR)
refused("cross", [data(2), data(2)], [0], "axis 0 has 2 elements, not 3")
refused("trace", [data(2)], [], "wants two axes")
refused("tensordot", [data(2, 3), data(2, 4)], [[1], [1]], "axes [1] of [2, 3] and [1] of [2, 4] differ")
refused("cdist", [data(2, 3), data(2, 4)], ["2.0"], "wants rows of one size")
for dtype in [F16, BF16]:
    case("matmul_with", [data(3, 40, dtype=dtype), data(40, 2, dtype=dtype)], torch.matmul, ["f32"], out=F32, tol=("abs", 240), slope=("abs", 16))
