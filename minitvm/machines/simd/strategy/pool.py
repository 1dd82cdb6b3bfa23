"""Pooling over windows: few terms a result, so that the memory counts.

    for <images, channels, rows> in parallel:
        for <window>:
            for x in vectors: out[x] = max(out[x], data[x * stride + tap])

Blocks are scheduled as any other. What is decided here is whether the loops over a window are written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....strategy.blocks import computes
from ....strategy.candidate import Candidate
from ....strategy.registry import rule
from ....target import Target
from ....tir.nodes import PrimFunc
from .generic import block_by_block

POOLS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg") for rank in (1, 2, 3))


@rule("cpu", computes(*POOLS))
def pool(func: PrimFunc, target: Target) -> Iterator[Candidate]:
    """Windows of any rank on blocks, and what `window_rows` does not take: vectors along the last axis."""
    yield from block_by_block(func, target)
