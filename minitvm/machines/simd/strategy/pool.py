"""Schedule pooling over windows, which sums few terms per result, so that memory limits the speed.

    for <images, channels, rows> in parallel:
        for <window>:
            for x in vectors: out[x] = max(out[x], data[x * stride + tap])

Blocks are scheduled like any others. The only decision here is whether to unroll the loops over a window.
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
    """Yield schedules with vectors along the last axis, for windows of any rank on blocks, and for those that
    `window_rows` rejects.
    """
    yield from block_by_block(func, target)
