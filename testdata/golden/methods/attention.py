"""Attention with masks of every shape, scales and heads in groups."""

import torch.nn.functional as F

from case import *

NEAR = dict(tol=("abs", 64), slope=("abs", 200))


def attention(q, k, v, mask=None, **o):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=o.get("causal", False), scale=o.get("scale"), enable_gqa=o.get("grouped", False))


for o in [{}, {"scale": 0.3}, {"causal": True}, {"causal": True, "scale": 2.0}]:
    for dtype in FLOATS:
        case("attention", [data(2, 2, 3, 4, dtype=dtype), data(2, 2, 5, 4, dtype=dtype), data(2, 2, 5, 3, dtype=dtype)], lambda *x: attention(*x, **o), [o], **NEAR)
for queries, keys in [(4, 2), (6, 1), (3, 3), (8, 4)]:
    for o in [{"grouped": True}, {"grouped": True, "causal": True}]:
        case("attention", [data(2, queries, 3, 4), data(2, keys, 3, 4), data(2, keys, 3, 2)], lambda *x: attention(*x, **o), [o], **NEAR)
for shape in [(3, 5), (1, 5), (3, 1), (2, 1, 3, 5), (1, 4, 3, 5), (2, 1, 1, 5), (4, 1, 5)]:
    for o in [{}, {"grouped": True}]:
        keys = 2 if o else 4
        case("attention", [data(2, 4, 3, 4), data(2, keys, 5, 4), data(2, keys, 5, 3), data(*shape)], lambda *x: attention(*x, **o), [o], **NEAR)
        hidden = data(*shape, dtype=BOOL)
        hidden[..., 0] = True
        case("attention", [data(2, 4, 3, 4), data(2, keys, 5, 4), data(2, keys, 5, 3), hidden], lambda *x: attention(*x, **o), [o], **NEAR)
refused("attention", [data(4), data(4), data(4)], [{}], "wants two axes")
refused("attention", [data(3, 2, 4), data(2, 2, 4), data(2, 2, 4)], [{"grouped": True}], "3 heads of queries are no groups of 2")
refused("attention", [data(2, 4), data(2, 4), data(2, 4)], [{"grouped": True}], "wants heads")
