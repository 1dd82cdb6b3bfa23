"""What a back end chooses for convolutions: its parts "algorithms" and "channel_block".

algorithms(conv, block, target, accuracy) -> [Option]               the best first
channel_block(use, lanes, target, accuracy) -> int | None           how many channels lie together, None: they do not
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..topi.winograd import winograd_error_growth
from .candidate import Cost, Option
from .choice import Weighed


@dataclass(frozen=True, slots=True)
class Convolution:
    """What a convolution computes, in any rank; `image` are the spatial extents of its result.

    One that is open is None. Channels are those of all `groups` together. A sum that has to be `exact` is one of
    integers: no algorithm with fractions will do. `words` says of what the words are whose products are one step,
    "u8i8" or "bf16"; "" where elements are multiplied one by one. What is around one that is `alone` is on the plain
    layout.
    """

    batch: int
    in_channels: int
    out_channels: int
    image: tuple[int | None, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    exact: bool = False
    groups: int = 1
    words: str = ""
    alone: bool = False


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """What a network does with its values of `count` channels: they all get the same block.

    `made` are the convolutions whose results they are, `read` those that sum over them, and `depthwise` the (pixels,
    taps) of depthwise ones. Numbers of pixels: `passed` of each pass over such a value, in whatever blocks;
    `turned` of the values that change between blocks and the plain layout; `parted` of those that would, if the blocks
    were incomplete, as channels of other values follow within them.
    """

    count: int
    made: tuple[Convolution, ...] = ()
    read: tuple[Convolution, ...] = ()
    depthwise: tuple[tuple[int, int], ...] = ()
    passed: int = 0
    turned: int = 0
    parted: int = 0


DIRECT, WINOGRAD = "direct", "winograd"


def whole_block(channels: int, lanes: int) -> int | None:
    """The block of a dimension: `lanes` halved until they divide it, at least 4; a few channels are one block."""
    block = lanes
    while block >= 4:
        if channels % block == 0:
            return block
        block //= 2
    return channels if channels <= 4 else None


def direct_alone(conv: Convolution, block: int, target: Any, accuracy: str = "fast") -> list[Option]:  # noqa: ARG001
    """What a back end without a part "algorithms" has: a convolution as it is written, and no groups of blocks."""
    return [Option(rule=DIRECT, knobs={}, price=lambda: Cost(0.0))] if conv.groups == 1 else []


def groups_together(groups: int, channels: tuple[int, ...], blocks: tuple[int, ...]) -> int | None:
    """The least number of groups that have whole blocks together, of the data and of the result; None if there is none.

    `channels` are those of all groups. Weights between channels of two such groups are zeros.
    """
    for count in range(1, groups + 1):
        parts = [(total // groups * count, block) for total, block in zip(channels, blocks, strict=True)]
        if groups % count == 0 and all(part % block == 0 for part, block in parts):
            return count
    return None


def algorithm_name(option: Option | Weighed) -> str:
    """`direct`, `winograd F(4x4,3x3)`."""
    tile = option.knobs.get("tile")
    return option.rule if tile is None else f"{option.rule} F({tile}x{tile},3x3)"


def algorithm_text(option: Option | Weighed) -> str:
    """The name, and by how much rounding errors may exceed those of direct convolution, in the worst case."""
    if option.rule != WINOGRAD:
        return algorithm_name(option)
    return f"{algorithm_name(option)}, error at most {winograd_error_growth(int(option.knobs['tile'])):.0f}x"
