"""Convert attention to products and a softmax: PyTorch's functions, and its layers in evaluation mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...common.operand import Operand
from ..context import TorchNodeContext
from ..registry import converter


@converter("scaled_dot_product_attention.default")
def attention(n: TorchNodeContext) -> Any:
    """Return softmax(query key' scale + mask) value. The result is 0 for a query that sees no key."""
    if n.attr("dropout_p"):
        n.refuse("dropout in training is random\n  try:    module.eval() before the export")
    query, key, value = n["query"], n["key"], n["value"]
    if n.attr("enable_gqa"):
        key, value = (_repeated(n, x, query.shape[-3]) for x in (key, value))
    scale = n.attr("scale")
    width = query.shape[-1]
    if scale is None:
        if not isinstance(width, int):
            n.refuse(f"the width {width} of the heads is symbolic")
        scale = 1 / math.sqrt(width)
    rank = key.ndim
    turned = n.op("transpose", key, axes=(*range(rank - 2), rank - 1, rank - 2))
    scores = n.op("multiply", n.op("nn.matmul", query, turned), float(scale))
    mask = _mask(n, query.shape[-2], key.shape[-2])
    if mask is None:
        return n.op("nn.matmul", n.op("nn.softmax", scores, axis=-1), value)
    masked = _masked(n, scores, mask)
    result = n.op("nn.matmul", n.op("nn.softmax", masked, axis=-1), value)
    seeing = _seeing(n, mask)
    return result if seeing is None else n.op("where", seeing, result, n.of_dtype(0.0, result.dtype))


def _repeated(n: TorchNodeContext, x: Operand, heads: Dim) -> Operand:
    """Return each head of keys or values, repeated for the query heads that share it."""
    own = x.shape[-3]
    if not isinstance(own, int) or not isinstance(heads, int):
        n.refuse(f"{heads} heads share {own}, which are symbolic")
    repeated: Operand = x if own == heads else n.op("repeat", x, repeats=heads // own, axis=x.ndim - 3)
    return repeated


def _mask(n: TorchNodeContext, queries: Dim, keys: Dim) -> Operand | None:
    """Return the mask: truth values of visible keys, or numbers to add to the scores."""
    if not n.attr("is_causal"):
        return n.optional("attn_mask")
    n.ignore("attn_mask")
    if isinstance(queries, int) and isinstance(keys, int):
        return Operand.known(np.tri(queries, keys, dtype=bool))
    rows, columns = (n.op("arange", start=0, stop=size, step=1, dtype="int64") for size in (queries, keys))
    visible: Operand = n.op("less_equal", n.op("expand_dims", columns, axis=0), n.op("expand_dims", rows, axis=1))
    return visible


def _masked(n: TorchNodeContext, scores: Operand, mask: Operand) -> Operand:
    """Return the scores, with minus infinity for hidden keys."""
    masked: Operand
    if not mask.dtype.is_bool:
        masked = n.op("add", scores, n.cast(mask, scores.dtype))
    elif mask.is_known:
        added = np.where(n.array(mask, "the mask"), 0, -np.inf).astype(scores.dtype.numpy)
        masked = n.op("add", scores, added)
    else:
        masked = n.op("where", mask, scores, n.of_dtype(-math.inf, scores.dtype))
    return masked


def _seeing(n: TorchNodeContext, mask: Operand) -> Operand | None:
    """Return whether each query sees any key, or None if all do."""
    if n.attr("is_causal"):
        return None
    visible = mask if mask.dtype.is_bool else n.op("greater", mask, n.of_dtype(-math.inf, mask.dtype))
    if visible.is_known and n.array(visible, "the mask").any(-1).all():
        return None
    seeing: Operand = n.op("any", visible, axis=(-1,), keepdims=True)
    return seeing


@converter("_native_multi_head_attention.default")
def multi_head_attention(n: TorchNodeContext) -> Any:
    """Convert the operator of `nn.MultiheadAttention` in evaluation mode. Weights as a second result are not
    supported.
    """
    if n.wants(1):
        n.refuse("the weights as results are not supported\n  try:    need_weights=False")
    n.ignore("need_weights", "average_attn_weights", "embed_dim")
    heads = (n["query"], n["key"], n["value"])
    return [_attended(n, heads, n.attr("num_head")), None]


def _attended(n: TorchNodeContext, inputs: tuple[Operand, Operand, Operand], heads: int) -> Operand:
    """Return the attention of inputs [batch, places, width]: projections, attention in each head, and the projection
    back.
    """
    width = inputs[0].shape[-1]
    if not isinstance(width, int):
        n.refuse(f"the width {width} is symbolic")
    weight, bias = n["qkv_weight"], n.optional("qkv_bias")
    parts = []
    for number, x in enumerate(inputs):
        part = n.op("nn.dense", x, n.part(weight, 0, number * width, (number + 1) * width))
        if bias is not None:
            part = n.op("add", part, n.part(bias, 0, number * width, (number + 1) * width))
        shaped = n.op("reshape", part, newshape=(*x.shape[:-1], heads, width // heads))
        parts.append(n.op("transpose", shaped, axes=(0, 2, 3, 1) if number == 1 else (0, 2, 1, 3)))
    query, key, value = parts
    scores = n.op("multiply", n.op("nn.matmul", query, key), 1 / math.sqrt(width // heads))
    scores = _without_masked(n, scores)
    joined = n.op("transpose", n.op("nn.matmul", n.op("nn.softmax", scores, axis=-1), value), axes=(0, 2, 1, 3))
    flat = n.op("reshape", joined, newshape=inputs[0].shape)
    projected: Operand = _linear(n, flat, "proj_weight", "proj_bias")
    return projected


def _without_masked(n: TorchNodeContext, scores: Operand) -> Operand:
    """Return the scores [batch, heads, queries, keys] without those that `mask` hides.

    `mask_type` gives the axes of the mask: 0 for queries and keys, 1 for batch and keys, 2 for all four.
    """
    mask, kind = n.optional("mask"), n.attr("mask_type")
    if mask is None:
        return scores
    if kind == 1:
        mask = n.op("expand_dims", n.op("expand_dims", mask, axis=1), axis=1)
    hidden: Operand
    if mask.dtype.is_bool:
        hidden = n.op("where", mask, n.of_dtype(-math.inf, scores.dtype), scores)
    else:
        hidden = n.op("add", scores, n.cast(mask, scores.dtype))
    return hidden


def _linear(n: TorchNodeContext, x: Operand, weight: str, bias: str) -> Operand:
    product, added = n.op("nn.dense", x, n[weight]), n.optional(bias)
    result: Operand = product if added is None else n.op("add", product, added)
    return result


@converter("_transformer_encoder_layer_fwd.default")
def encoder_layer(n: TorchNodeContext) -> Any:
    """Convert the operator of `nn.TransformerEncoderLayer` in evaluation mode.

    Attention and two products are each added to their input, which is normalised before (`norm_first`) or after the
    sum.
    """
    n.ignore("embed_dim")
    x, before, heads = n["src"], n.attr("norm_first"), n.attr("num_heads")

    def normal(y: Operand, number: int) -> Operand:
        weights = n[f"norm_weight_{number}"], n[f"norm_bias_{number}"]
        result: Operand = n.op("nn.layer_norm", y, *weights, axis=(y.ndim - 1,), epsilon=n.attr("eps"))
        return result

    def forward(y: Operand) -> Operand:
        inner = _linear(n, y, "ffn_weight_1", "ffn_bias_1")
        active = n.op("nn.gelu", inner, approximate="none") if n.attr("use_gelu") else n.op("nn.relu", inner)
        return _linear(n, active, "ffn_weight_2", "ffn_bias_2")

    if before:
        first = normal(x, 1)
        x = n.op("add", x, _attended(n, (first, first, first), heads))
        return n.op("add", x, forward(normal(x, 2)))
    x = normal(n.op("add", x, _attended(n, (x, x, x), heads)), 1)
    return normal(n.op("add", x, forward(x)), 2)
