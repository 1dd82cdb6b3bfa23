"""Scaled dot-product attention, written out as products and a softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....graph.nodes import Dim
from ...operand import Operand
from ..context import NodeContext
from ..registry import converter


@converter("scaled_dot_product_attention.default")
def attention(n: NodeContext) -> Any:
    """softmax(query key' scale + mask) value; a query that may see nothing is 0."""
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


def _repeated(n: NodeContext, x: Operand, heads: Dim) -> Operand:
    """Each head of keys or values as often as query heads share it."""
    own = x.shape[-3]
    if not isinstance(own, int) or not isinstance(heads, int):
        n.refuse(f"{heads} heads share {own}, which are symbolic")
    repeated: Operand = x if own == heads else n.op("repeat", x, repeats=heads // own, axis=x.ndim - 3)
    return repeated


def _mask(n: NodeContext, queries: Dim, keys: Dim) -> Operand | None:
    """What may be seen, as truth values, or what is added to the scores."""
    if not n.attr("is_causal"):
        return n.optional("attn_mask")
    n.ignore("attn_mask")
    if isinstance(queries, int) and isinstance(keys, int):
        return Operand.known(np.tri(queries, keys, dtype=bool))
    rows, columns = (n.op("arange", start=0, stop=size, step=1, dtype="int64") for size in (queries, keys))
    visible: Operand = n.op("less_equal", n.op("expand_dims", columns, axis=0), n.op("expand_dims", rows, axis=1))
    return visible


def _masked(n: NodeContext, scores: Operand, mask: Operand) -> Operand:
    """The scores, minus infinity where nothing may be seen."""
    masked: Operand
    if not mask.dtype.is_bool:
        masked = n.op("add", scores, n.cast(mask, scores.dtype))
    elif mask.is_known:
        added = np.where(n.array(mask, "the mask"), 0, -np.inf).astype(scores.dtype.numpy)
        masked = n.op("add", scores, added)
    else:
        masked = n.op("where", mask, scores, n.of_dtype(-math.inf, scores.dtype))
    return masked


def _seeing(n: NodeContext, mask: Operand) -> Operand | None:
    """Whether a query sees anything; None where all do."""
    if n.attr("is_causal"):
        return None
    visible = mask if mask.dtype.is_bool else n.op("greater", mask, n.of_dtype(-math.inf, mask.dtype))
    if visible.is_known and n.array(visible, "the mask").any(-1).all():
        return None
    seeing: Operand = n.op("any", visible, axis=(-1,), keepdims=True)
    return seeing
