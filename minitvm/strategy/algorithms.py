"""The algorithms between which a back end chooses for a convolution: its part "algorithms".

algorithms(conv, block, target, accuracy) -> [Option]        the best first
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..topi.winograd import winograd_error_growth
from .candidate import Cost, Option
from .choice import Weighed


@dataclass(frozen=True, slots=True)
class Convolution:
    """What a convolution without groups computes, in any rank; `image` are the spatial extents of its result.

    One that is open is None.
    """

    batch: int
    in_channels: int
    out_channels: int
    image: tuple[int | None, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]


DIRECT, WINOGRAD = "direct", "winograd"


def direct_alone(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Option]:  # noqa: ARG001
    """What a back end without a part "algorithms" has: a convolution as it is written."""
    return [Option(rule=DIRECT, knobs={}, price=lambda: Cost(0.0))]


def algorithm_name(option: Option | Weighed) -> str:
    """`direct`, `winograd F(4x4,3x3)`."""
    tile = option.knobs.get("tile")
    return option.rule if tile is None else f"{option.rule} F({tile}x{tile},3x3)"


def algorithm_text(option: Option | Weighed) -> str:
    """The name, and by how much rounding errors may exceed those of direct convolution, in the worst case."""
    if option.rule != WINOGRAD:
        return algorithm_name(option)
    return f"{algorithm_name(option)}, error at most {winograd_error_growth(int(option.knobs['tile'])):.0f}x"
