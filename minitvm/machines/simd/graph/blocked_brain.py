"""Compute products of bfloat16 with float32 sums on words of two elements, for CPUs with an instruction for such pairs.

    sum over k of x[k] * w[k]  =  sum over pairs of dot2_bf16(0, (x[2 k], x[2 k + 1]), (w[2 k], w[2 k + 1]))

Both forms add the same exact products, in a different order. But the instruction treats subnormal operands and sums as
zero, an error of at most 2^-126 for each. So it is not used with `accuracy="strict"`, nor on a CPU without the
instruction, which reads bfloat16 and widens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ....graph.nodes import OpNode
from . import blocked_words as words

if TYPE_CHECKING:
    from .blocked_layout import Blocking

_ROWS = 16  # from so many rows on, a matrix may be turned for them


def is_product_of_pairs(blocking: Blocking, item: OpNode) -> bool:
    """Return whether an operator multiplies bfloat16 with float32 sums and should be computed on pairs."""
    if not blocking.target.multiplies_pairs or blocking.accuracy == "strict" or len(item.inputs) != 2:
        return False
    return [v.dtype for v in item.inputs] == ["bfloat16"] * 2 and item.output.dtype == "float32"


def on_words(blocking: Blocking, item: OpNode) -> bool:
    """Return whether an operator is a convolution without groups that should be computed on words of channels."""
    if item.op != "nn.conv2d" or not is_product_of_pairs(blocking, item) or not words.is_conv_of_words(blocking, item):
        return False
    return bool((item.attrs["data_layout"], item.attrs["kernel_layout"]) == ("NCHW", "OIHW"))  # the user's own choice


def conv2d(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite an `nn.conv2d` without groups to work on words of channels. Return False if it does not qualify."""
    if not on_words(blocking, item):
        return False
    data, weight = item.inputs
    in_block, out_block = words.blocks_of(blocking, item)
    filters = words.packed_filters(blocking.arrays[weight], in_block, out_block)
    at = words.blocked(blocking, data, in_block)
    attrs = {name: item.attrs[name] for name in ("strides", "padding", "dilation")}
    total = blocking.op(
        "nn.contrib_conv2d_NCHWc_words", blocking.op("layout.words", at), words.constant(blocking, filters, weight),
        name=item.output.name, **attrs,
    )  # fmt: skip
    words.keep(blocking, item, total)
    return True


def dense(blocking: Blocking, item: OpNode) -> bool:
    """Rewrite `nn.dense`, `nn.matmul` or `nn.batch_matmul`, packing constant weights. Return False if it does not
    qualify.
    """
    data, weight = item.inputs[:2]
    if not is_product_of_pairs(blocking, item) or min(data.ndim, weight.ndim) < 2 or item.attrs.get("transpose_a"):
        return False
    depth = data.shape[-1]
    if not isinstance(depth, int) or depth == 0 or depth % 2:
        return False
    turned = item.op == "nn.dense" or bool(item.attrs.get("transpose_b"))
    if weight in blocking.arrays and weight.ndim == 2:
        array = blocking.arrays[weight]
        columns = array if turned else array.T
        if columns.shape[0] >= blocking.lanes:
            _packed(blocking, item, columns)
            return True
    at, rows = blocking.as_plain(weight), data.shape[-2]
    if not turned and isinstance(rows, int) and rows < _ROWS:
        return False
    if not turned:
        at = blocking.op("transpose", at, axes=(*range(weight.ndim - 2), weight.ndim - 1, weight.ndim - 2))
    pairs = [blocking.op("layout.words", v) for v in (blocking.as_plain(data), at)]
    blocking.plain[item.output] = blocking.op("nn.contrib_matmul_words", *pairs, name=item.output.name)
    return True


def _packed(blocking: Blocking, item: OpNode, columns: np.ndarray) -> None:
    """Add a product with a constant matrix, which is given by its columns."""
    data, weight = item.inputs
    panels = words.packed_panels(columns, blocking.lanes)
    blocking.plain[item.output] = blocking.op(
        "nn.contrib_dense_packed_words", blocking.op("layout.words", blocking.as_plain(data)),
        words.constant(blocking, panels, weight), units=columns.shape[0], name=item.output.name,
    )  # fmt: skip
