"""Convert attention with caches of keys and values: GroupQueryAttention of ONNX Runtime, TensorScatter and
Attention.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....expr import Expr
from ....graph.nodes import Dim
from ....te import maximum
from ....topi.shapes import product, same, simple
from ...common.heads import heads_of, joined_heads, turned
from ...common.operand import Operand
from ..context import NodeContext
from ..registry import converter
from .qlinear import DOMAIN

# Attributes that are not supported, with the value that has no effect.
_DEFAULTS = {
    "qk_output": 0, "kv_cache_bit_width": 0, "k_quant_type": "NONE",
    "v_quant_type": "NONE",
}  # fmt: skip


@converter("GroupQueryAttention", domain=DOMAIN)
def group_query_attention(n: NodeContext) -> Any:
    """Return causal attention in which heads share keys. The keys and values of new tokens are appended to those of the
    past.

    Caches have room for all tokens, past and new. `seqlens_k` [batch] is the index of the last new token.
    """
    for name, default in _DEFAULTS.items():
        if n.attr(name, default) != default:
            n.refuse_attribute(name)
    n.ignore("qk_norm_epsilon")
    for number, name in ((10, "attention_bias"), (12, "k_scale"), (13, "v_scale")):
        if n.optional(number) is not None:
            n.refuse(f"the input {name} is not supported")
    if n.wants(3):
        n.refuse("the scores as an output are not supported")
    groups = n.attr("kv_num_heads")
    query, key, value = _parts(n, n.attr("num_heads"), groups)
    batch, _, length, width = query.shape
    if n.optional(6) is not None:
        n.one(n[6], "the number of tokens")
    position = _position(n, batch, length)
    if n.attr("do_rotary", 0):
        query, key = _rotated(n, query, key, position)
    n.ignore("rotary_interleaved")
    past = [cache for cache in (n.optional(3), n.optional(4)) if cache is not None]
    new = [key, value]
    grows = any(isinstance(cache.shape[2], Expr) for cache in past)
    if past:
        room = _room_for_all(n, past, length) if grows else past
        last, places = n[5].data, past[0].shape[2]
        if not grows and last is not None and last.max(initial=-1) >= places:
            n.refuse(f"the place {last.max()} of a new key is beyond the {places} places of the past")
        new = [n.op("nn.cache_update", c, x, position, axis=2) for c, x in zip(room, new, strict=True)]
    elif isinstance(length, Expr):
        n.refuse(f"without a past, the length {length} is open")
    else:
        position = n.op("multiply", position, 0)
    scale = n.attr("scale", 0.0)
    if not scale and (isinstance(width, Expr) or not width):
        n.refuse(f"heads of width {width} need the attribute scale")
    scale = scale or 1 / math.sqrt(width)  # type: ignore[arg-type]
    window, cap = n.attr("local_window_size", -1), n.attr("softcap", 0.0)
    sink = n.optional(11)
    if sink is None and n.attr("smooth_softmax", 0) == 1:
        sink = Operand.known(np.zeros(1, query.dtype.numpy))
    if window < 0 and not cap and sink is None and not grows:
        mixed = n.op("nn.cached_attention", query, *new, position, scale=float(scale))
    else:
        keys, values = new
        mixed = _written_out(n, query, keys, values, position, float(scale), window, cap, sink)
    return [joined_heads(n, mixed), *new]


def _room_for_all(n: NodeContext, caches: list[Operand], length: Dim) -> list[Operand]:
    """Return caches of symbolic length, extended for `total_sequence_length` tokens if that is longer."""
    past, total = caches[0].shape[2], n[6]
    count = n.dim(total, "the number of tokens") if total.is_known else n.bound(total, past + length, "tokens")
    more = simple(maximum(count, past) - past)
    alike = [c if same(c.shape[2], past) else n.assume(c, (c.shape[2], past)) for c in caches]
    return [n.op("nn.pad", cache, pad_width=((0, 0), (0, 0), (0, more), (0, 0))) for cache in alike]


def _written_out(
    n: NodeContext,
    query: Operand,
    key: Operand,
    value: Operand,
    position: Operand,
    scale: float,
    window: int,
    cap: float,
    sink: Operand | None,
) -> Operand:
    """Return `nn.cached_attention` over the last `window` places, with scores bounded by `cap`.

    `sink` [1 or heads] is the score of an extra place without a value, so the weights of a row sum to less than 1.
    Windows are from Mistral, caps from Gemma 2, and sinks from Xiao et al. 2023.
    """
    batch, heads, length, _ = query.shape
    places = key.shape[2]
    scores = n.op("multiply", _grouped(n, query, key, transposed=True), scale)
    if cap:
        scores = n.op("multiply", n.op("tanh", n.op("divide", scores, cap)), cap)
    own = n.op("add", n.reshape(n.cast(position, "int64"), (batch, 1, 1, 1)), n.numbers(length, 2, 4))
    place = n.numbers(places, 3, 4)
    seen = n.op("less_equal", place, own)
    if window >= 0:
        seen = n.op("logical_and", seen, n.op("greater", place, n.op("subtract", own, window)))
    scores = n.op("where", seen, scores, np.full((1, 1, 1, 1), -np.inf, scores.dtype.numpy))
    if sink is None:
        return _grouped(n, n.op("nn.softmax", scores, axis=3), value)
    column = n.op("broadcast_to", n.reshape(sink, (1, sink.shape[0], 1, 1)), shape=(batch, heads, length, 1))
    weights = n.op("nn.softmax", n.op("concatenate", scores, column, axis=3), axis=3)
    return _grouped(n, n.part(weights, 3, 0, places), value)


def _grouped(n: NodeContext, rows: Operand, matrix: Operand, *, transposed: bool = False) -> Operand:
    """Return the product of rows [batch, heads, length, depth] with a matrix [batch, groups, depth, ..] per group of
    heads.

    With `transposed`, the matrix is [batch, groups, .., depth]. The rows of all heads in a group are rows of one
    product, so the matrix is neither repeated nor read once per head.
    """
    batch, heads, length, depth = rows.shape
    groups = matrix.shape[1]
    if same(heads, groups):
        plain: Operand = n.op("nn.matmul", rows, matrix, transpose_b=transposed)
        return plain
    each = simple(heads // groups)
    joined = n.op(
        "nn.matmul", n.reshape(rows, (batch, groups, product((each, length)), depth)), matrix, transpose_b=transposed
    )
    return n.reshape(joined, (batch, heads, length, matrix.shape[2 if transposed else 3]))


def _parts(n: NodeContext, heads: int, groups: int) -> list[Operand]:
    """Return queries, keys and values [batch, heads, length, width], also if they are given as one tensor."""
    if n.optional(1) is not None and n.optional(2) is not None:
        return [heads_of(n, x, count) for x, count in ((n[0], heads), (n[1], groups), (n[2], groups))]
    width = simple(n[0].shape[2] // (heads + 2 * groups))
    parts = []
    begin: Dim = 0
    for count in (heads, groups, groups):
        end = simple(begin + width * count)
        parts.append(heads_of(n, n.part(n[0], 2, begin, end), count))
        begin = end
    return parts


def _position(n: NodeContext, batch: Dim, length: Dim) -> Operand:
    """Return the index of the first new token in each row of the batch."""
    last = n.reshape(n[5], (batch,))
    if not isinstance(length, Expr) and length == 1:
        return last
    first: Operand = n.op("subtract", last, length - 1) if isinstance(length, int) else _less(n, last, length)
    if isinstance(batch, int) and batch == 1:
        return first
    # Several rows with several tokens are prompts, of different lengths: each begins at 0.
    prompt: Operand = n.op("maximum", first, 0)
    return prompt


def _less(n: NodeContext, last: Operand, length: Dim) -> Operand:
    size = Operand.known(np.array([length], object), last.dtype)
    first: Operand = n.op("subtract", n.op("add", last, 1), size)
    return first


def _rotated(n: NodeContext, query: Operand, key: Operand, position: Operand) -> list[Operand]:
    """Return queries and keys, rotated by the angles of their places, with tables [places, width / 2] of cosines and
    sines.
    """
    cosine, sine, places = n[7], n[8], n.optional(9)
    _, _, length, width = query.shape
    if places is None:
        places = n.op("expand_dims", position, axis=1)
        if not isinstance(length, int) or length != 1:
            steps = n.op("arange", start=0, stop=length, step=1, dtype=position.dtype)
            places = n.op("add", places, n.op("expand_dims", steps, axis=0))
    half = cosine.shape[1]
    if not isinstance(half, int) or not isinstance(width, int) or 2 * half > width:
        n.refuse(f"tables of width {half} for heads of width {width}")
    tables = [n.op("expand_dims", n.op("take", table, places, axis=0), axis=1) for table in (cosine, sine)]
    interleaved = bool(n.attr("rotary_interleaved", 0))
    return [turned(n, x, 2 * half, *tables, interleaved=interleaved) for x in (query, key)]


@converter("TensorScatter", since=24)
def tensor_scatter(n: NodeContext) -> Any:
    cache, update, at = n[0], n[1], n.optional(2)
    if at is None:
        at = Operand.known(np.zeros(1, np.int64))
        at = n.op("broadcast_to", at, shape=(cache.shape[0],))
    return n.op("nn.cache_update", cache, update, at, axis=n.attr("axis", -2), mode=n.attr("mode", "linear"))


@converter("LinearAttention", since=27)
def linear_attention_by_definition(n: NodeContext) -> Any:
    """Return the result of the standard's function body, after checking that it would not broadcast a state with one
    head.
    """
    inputs = list(n.inputs)
    if n.optional(3) is not None:
        inputs[3] = n.fit(n[3], (n[0].shape[0], n.attr("kv_num_heads"), None, None), "the past state")
    return n.by_definition(*inputs)


@converter("Attention", since=23)
def attention_by_definition(n: NodeContext) -> Any:
    """Return the result of the standard's function body, after checking that no batch of 1 is broadcast and that there
    are keys for the softmax.
    """
    inputs = list(n.inputs)
    key = n.fit(n[1], (n[0].shape[0], *[None] * (n[1].ndim - 1)), "the keys")
    inputs[2] = n.fit(n[2], (*(key.shape[:3] if key.ndim == 4 else key.shape[:2]), None), "the values")
    if n.optional(4) is None:
        key = n.enough(key, key.shape[-2], 1, "there are no keys")
    inputs[1] = key
    return n.by_definition(*inputs)


@converter("Attention", since=24)
def attention(n: NodeContext) -> Any:
    """Return attention of one query per row over a cache in which `nonpad_kv_seqlen` places are filled, or else the
    function body.
    """
    lengths = n.optional(6)
    others = any(n.optional(k) is not None for k in (3, 4, 5)) or any(n.wants(k) for k in (1, 2, 3))
    special = n.attr("softcap", 0.0) or n.attr("is_causal", 0)
    four = all(n[k].ndim == 4 for k in range(3))
    if lengths is None or others or special or not four or n[0].shape[2] != 1 or isinstance(n[1].shape[2], Expr):
        return attention_by_definition(n)
    n.ignore("softmax_precision", "q_num_heads", "kv_num_heads", "qk_matmul_output_mode")
    scale = n.attr("scale", 0.0) or 1 / math.sqrt(n[0].shape[3])  # type: ignore[arg-type]
    position = n.op("subtract", lengths, 1)
    return n.op("nn.cached_attention", n[0], n[1], n[2], position, scale=float(scale))
