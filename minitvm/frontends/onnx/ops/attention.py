"""Convert attention as ONNX Runtime's optimizer writes it, and rotary positions, to products and a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....expr import EQ, GE, as_expr
from ....graph.nodes import Dim
from ....topi.shapes import differ, same, simple
from ...common.byte_products import integer_product
from ...common.heads import heads_of, joined_heads, turned
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .qlinear import DOMAIN
from .quantization import flat

# The number that ONNX Runtime adds to the scores of hidden keys.
_MASKED = -10000.0


@converter("Attention", domain=DOMAIN)
def attention(n: NodeContext) -> Any:
    """Return self-attention of `input`, with one product that projects to queries, keys and values."""
    x, weights, bias, mask = n[0], n[1], n.optional(2), n.optional(3)
    past, added = n.optional(4), n.optional(5)
    for name in ("do_rotary", "past_present_share_buffer"):
        if n.attr(name, 0):
            n.refuse_attribute(name)
    n.ignore("rotary_embedding_dim")
    projected = n.op("nn.matmul", x, weights)
    if x.ndim != 3 or weights.ndim != 2:
        n.refuse(f"wanted data of three dimensions and weights of two, found {x} and {weights}")
    if bias is not None:
        projected = n.op("add", projected, n.fit(bias, weights.shape[1:], "the bias"))
    sizes = n.attr("qkv_hidden_sizes", None) or (simple(weights.shape[1] // 3),) * 3
    if len(sizes) != 3 or any(isinstance(size, int) and size < 1 for size in sizes):
        n.refuse_attribute("qkv_hidden_sizes")
    projected = n.fit(projected, (*x.shape[:2], simple(sizes[0] + sizes[1] + sizes[2])), "queries, keys and values")
    return _self_attention(n, projected, sizes, mask, past, added)


@converter("QAttention", domain=DOMAIN)
def quantized_attention(n: NodeContext) -> Any:
    """Return self-attention whose projection is a product of bytes, scaled to floats; the rest is the same as for
    Attention.
    """
    x, weights, bias, mask, past = n[0], n[1], n[2], n.optional(5), n.optional(8)
    for name in ("do_rotary", "past_present_share_buffer"):
        if n.attr(name, 0):
            n.refuse_attribute(name)
    x_zero, w_zero = (None if n.optional(k) is None else flat(n, n[k]) for k in (6, 7))
    total = n.cast(integer_product(n, x, x_zero, weights, w_zero), "float32")
    scale = n.op("multiply", flat(n, n[3]), flat(n, n[4]))
    projected = n.onto("add", n.onto("multiply", total, scale), n.fit(bias, weights.shape[1:], "the bias"))
    projected = n.fit(projected, (*x.shape[:2], simple(weights.shape[1] // 3 * 3)), "queries, keys and values")
    return _self_attention(n, projected, (simple(weights.shape[1] // 3),) * 3, mask, past, None)


def _self_attention(
    n: NodeContext,
    projected: Operand,
    sizes: Sequence[Dim],
    mask: Operand | None,
    past: Operand | None,
    added: Operand | None,
) -> Any:
    """Return the attention of queries, keys and values [batch, length, width], which are parts of `projected` of widths
    `sizes`.
    """
    parts: list[Operand] = []
    begin: Dim = 0
    for size in sizes:
        parts.append(heads_of(n, n.part(projected, 2, begin, begin + size), n.attr("num_heads")))
        begin += size
    query, key, value = parts
    present = None
    if past is not None:
        past = n.fit(past, (2, *key.shape[:2], None, key.shape[3]), "the past")
        key, value = (_behind(n, n.entry(past, k), new) for k, new in enumerate((key, value)))
    if n.wants(1):
        present = n.op("stack", key, value, axis=0)
    result = _attended(n, query, key, value, _masks(n, mask, key), added)
    return [result, present] if present is not None else result


@converter("MultiHeadAttention", domain=DOMAIN)
def multi_head_attention(n: NodeContext) -> Any:
    """Return attention between projected queries, keys and values. Keys and values may already be divided into
    heads.
    """
    query, bias, mask, added = n[0], n.optional(3), n.optional(4), n.optional(5)
    if n.optional(1) is None or n.optional(2) is None or query.ndim != 3:
        n.refuse("packed queries, keys and values are not supported")
    if n.optional(8) is not None or n.optional(9) is not None or n.wants(3):
        n.refuse("buffers of the past, and the scores as an output, are not supported")
    operands: list[Operand] = [query, n[1], n[2]]
    begin: Dim = 0
    if bias is not None:
        bias = n.fit(bias, (simple(query.shape[-1] + n[1].shape[-1] + n[2].shape[-1]),), "the bias")
        for k, x in enumerate(operands):
            size = x.shape[-1]
            part = n.part(bias, 0, begin, begin + size)
            operands[k] = n.op("add", x, part)
            begin += size
    query, key, value = (x if x.ndim == 4 else heads_of(n, x, n.attr("num_heads")) for x in operands)
    if n.optional(6) is not None:
        key, value = _behind(n, n[6], key), _behind(n, n[7], value)
    result = _attended(n, query, key, value, _masks(n, mask, key), added)
    return [result, key, value]


def _behind(n: NodeContext, past: Operand, new: Operand) -> Operand:
    whole: Operand = n.op("concatenate", past, new, axis=2)
    return whole


def _arange(n: NodeContext, start: Dim, stop: Dim, axis: int) -> Operand:
    """Return the numbers from `start` to `stop` as a column (axis 0) or a row (axis 1)."""
    numbers = n.op("arange", start=start, stop=stop, step=1, dtype="int32")
    wide: Operand = n.op("expand_dims", numbers, axis=1 - axis)
    return wide


def _masks(n: NodeContext, mask: Operand | None, key: Operand) -> list[Operand]:
    return [] if mask is None else [_mask(n, mask, key.shape[0], key.shape[2])]


def _mask(n: NodeContext, mask: Operand, batch: Dim, keys: Dim) -> Operand:
    """Return which keys are visible, as truth values that broadcast to [batch, heads, queries, keys].

    A vector with one number per batch entry gives the numbers of visible keys. With two numbers per entry, all ends
    come first, then all starts.
    """
    visible: Operand
    if mask.ndim == 1:
        two = not same(batch, 0) and same(mask.shape[0], 2 * batch)
        if not two and differ(mask.shape[0], batch):
            n.refuse(f"a mask of {mask.shape[0]} numbers is not supported: wanted one or two for each of {batch}")
        if mask.data is not None and mask.data.min(initial=0) < 0:
            n.refuse(f"a mask with a negative number of keys: {mask.data.tolist()}")
        ends = n.op("expand_dims", n.cast(mask, "int32"), axis=(1, 2, 3))
        places = n.op("expand_dims", _arange(n, 0, keys, 1), axis=(0, 1))
        if not two:
            visible = n.op("less", places, ends)
        else:
            ends, begins = n.op("split", ends, indices_or_sections=2, axis=0)
            visible = n.op("logical_and", n.op("less", places, ends), n.op("greater_equal", places, begins))
    elif mask.ndim in (2, 3):
        seen = n.op("not_equal", n.fit(mask, (batch, *[None] * (mask.ndim - 2), keys), "the mask"), 0)
        visible = n.op("expand_dims", seen, axis=(1, 2) if mask.ndim == 2 else (1,))
    else:
        n.refuse(f"a mask of {mask.ndim} dimensions is not supported")
    return visible


def _attended(
    n: NodeContext, query: Operand, key: Operand, value: Operand, masks: list[Operand], added: Operand | None
) -> Operand:
    """Return softmax(query key' scale + masks) value with joined heads: [batch, length, width]."""
    width = query.shape[-1]
    # A product would repeat a batch of 1.
    key = n.fit(key, (*query.shape[:2], None, width), "the keys")
    value = n.fit(value, (*key.shape[:3], None), "the values")
    scale = n.attr("scale", 0.0)
    if not scale and isinstance(width, int):
        scale = 1 / math.sqrt(width) if width else 1.0
    by = float(scale) if scale else n.op("rsqrt", n.cast(n.number(width), query.dtype))
    filler = n.attr("mask_filter_value", _MASKED)
    scores = n.op("multiply", n.op("nn.matmul", query, key, transpose_b=True), by)
    for mask in masks:
        hidden = n.op("multiply", n.cast(n.op("logical_not", mask), scores.dtype), float(filler))
        scores = n.onto("add", scores, hidden)
    if added is not None:
        scores = n.onto("add", scores, n.fit(added, (None, None, *scores.shape[2:]), "what is added to the scores"))
    if n.attr("unidirectional", 0):
        queries, keys = query.shape[2], key.shape[2]
        order = n.op("less_equal", _arange(n, 0, keys, 1), _arange(n, simple(keys - queries), keys, 0))
        scores = n.op("where", order, scores, Operand.known(np.array(filler, scores.dtype.numpy)))
    return joined_heads(n, n.op("nn.matmul", n.op("nn.softmax", scores, axis=-1), value))


@converter("RotaryEmbedding", since=23)
def rotary_embedding_by_definition(n: NodeContext) -> Any:
    """Return the result of the standard's function body, for tables of one shape and positions [batch, length]."""
    x, positions, size = n[0], n.optional(3), n.attr("rotary_embedding_dim", 0)
    heads = n.attr("num_heads", 0) if x.ndim == 3 else 1
    if x.ndim not in (3, 4) or heads < 1 or size < 0:
        n.refuse(f"{heads} heads of {x} are not supported: wanted 4 dimensions, or 3 and at least one head")
    half = size // 2 if size else simple(x.shape[-1] // (2 * heads))
    places = (x.shape[0], x.shape[-2])
    cosine = n.fit(n[1], (*(places if positions is None else (None,)), half), "the table of cosines")
    sine = n.fit(n[2], cosine.shape, "the table of sines")
    if positions is not None:
        positions = n.fit(positions, places, "the positions")
        cosine = n.reachable(cosine, positions, 0)
    return n.by_definition(x, cosine, sine, *(() if positions is None else (positions,)))


@converter("RotaryEmbedding", domain=DOMAIN)
def rotary_embedding(n: NodeContext) -> Any:
    """Rotate pairs of features by angles that grow with the position. The tables of cosine and sine are inputs."""
    x, positions, cosine, sine = n[0], n[1], n[2], n[3]
    for name in ("is_packed_batching",):
        if n.attr(name, 0):
            n.refuse_attribute(name)
    n.ignore("scale", "num_heads")
    half, count = cosine.shape[1], n.attr("num_heads", 0)
    size = n.attr("rotary_embedding_dim", 0)
    if not isinstance(half, int):
        n.refuse(f"the width {half} of the table is symbolic")
    if half < 1 or size < 0 or count < 0 or (size and size != 2 * half):
        n.refuse(f"tables of width {half} with rotary_embedding_dim={size} and num_heads={count} are not supported")
    sine = n.fit(sine, cosine.shape, "the table of sines")
    joined = x.ndim == 3
    if joined:
        x = heads_of(n, x, count or simple(x.shape[2] // (2 * half)))
    elif x.ndim != 4:
        n.refuse(f"data of {x.ndim} dimensions are not supported: wanted 3 or 4")
    width = x.shape[3]
    needed = (
        f"heads of width {width} must be {'at least' if size else ''} twice as wide as the tables, which are {half}"
    )
    x = n.require(x, GE(as_expr(width), as_expr(2 * half)) if size else EQ(as_expr(width), as_expr(2 * half)), needed)
    batch, length = x.shape[0], x.shape[2]
    rows = cosine.shape[0]
    cosine = n.enough(cosine, rows, length, f"tables of {rows} positions are too short for {length}")
    cosine = n.reachable(cosine, positions, 0)
    if positions.data is not None and positions.data.min(initial=0) < 0:
        n.refuse(f"the position {positions.data.min()} is negative")
    if positions.shape in ((1,), ()):
        steps = n.op("arange", start=0, stop=length, step=1, dtype="int64")
        positions = n.op("expand_dims", n.op("add", steps, n.cast(positions, "int64")), axis=0)
    else:
        positions = n.fit(positions, (batch, length), "the positions")
    tables = [n.op("expand_dims", n.op("take", table, positions, axis=0), axis=1) for table in (cosine, sine)]
    result = turned(n, x, 2 * half, *tables, interleaved=bool(n.attr("interleaved", 0)))
    return joined_heads(n, result) if joined else result
