"""Assemble a picture from blocks: the inverse of cutting it into windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .conversion import Conversion
from .operand import Operand


def blocks_to_picture(
    n: Conversion,
    x: Operand,
    picture: Sequence[int],
    block: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> Any:
    """Convert blocks [n, c * block size, count] to pictures [n, c, *picture], adding elements that overlap (col2im).

    `pads` has the padding before each axis, and then the padding after each axis. This is a transposed convolution of
    the blocks, with filters that put each element in its place.
    """
    rank = len(picture)
    if rank > 3:
        n.refuse(f"pictures of {rank} dimensions are not supported: wanted at most 3")
    padded = [picture[a] + pads[a] + pads[rank + a] for a in range(rank)]
    extents = [dilations[a] * (block[a] - 1) + 1 for a in range(rank)]
    if any(extent > size for extent, size in zip(extents, padded, strict=True)):
        n.refuse(f"a block of {extents} does not fit into a padded picture of {padded}")
    counts = [(padded[a] - extents[a]) // strides[a] + 1 for a in range(rank)]
    size = math.prod(block)
    channels = n.size(x, 1) // size
    # Filter [c * size + k, 1, ...] has its 1 at the place of element k of the block.
    filters = np.tile(np.eye(size, dtype=x.dtype.numpy).reshape(size, 1, *block), (channels, 1, *(1,) * rank))
    reached = [(c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(counts, strides, dilations, block, strict=False)]
    missing = tuple(p + a + b - r for p, a, b, r in zip(picture, pads[:rank], pads[rank:], reached, strict=False))
    blocks = n.reshape(x, (x.shape[0], channels * size, *counts))
    return n.op(
        f"nn.conv{rank}d_transpose", blocks, filters, strides=tuple(strides), dilation=tuple(dilations),
        padding=tuple(pads), output_padding=missing, groups=channels,
    )  # fmt: skip
