"""What a back end chooses for convolutions: its parts "algorithms" and "channel_block".

algorithms(conv, block, target, accuracy) -> [Option]               the best first
channel_block(use, lanes, target, accuracy) -> int | None           how many channels lie together, None: they do not

Its choice follows from a formula. What was measured goes before it:

    with decided_algorithms({conv.key(block): Decision("direct", {})}) as met:
        optimize(graph, target)                         # that convolution is computed directly
    met[conv.key(block)].options                        # what it could have been
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ..target import Target
from .candidate import Cost, Decision, Option, Weighed


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

    def key(self, block: int) -> str:
        """What records of its algorithms are found by, with so many channels of the result in a block: a hash."""
        return hashlib.sha256(f"algorithm of {self!r} in blocks of {block}".encode()).hexdigest()

    def __str__(self) -> str:
        image, taps = ("x".join("?" if n is None else str(n) for n in sides) for sides in (self.image, self.kernel))
        batch = f"{self.batch} x " if self.batch != 1 else ""
        return f"conv {batch}{self.in_channels} -> {self.out_channels}, {taps} on {image}"


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


def direct_alone(conv: Convolution, block: int, target: Target, accuracy: str = "fast") -> list[Option]:  # noqa: ARG001
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


@dataclass(slots=True)
class Met:
    """A convolution that a graph has, and what it may be computed by, the formula's choice first.

    `values` are the names of its results: equal convolutions are one.
    """

    conv: Convolution
    options: list[Option]
    values: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Decided:
    decisions: Mapping[str, Decision]
    met: dict[str, Met]


_DECIDED: ContextVar[_Decided | None] = ContextVar("decided_algorithms", default=None)


@contextmanager
def decided_algorithms(decisions: Mapping[str, Decision]) -> Iterator[dict[str, Met]]:
    """Let convolutions of graphs that are optimised inside have these algorithms, by `Convolution.key`.

    Yields the convolutions that were met, by their keys: those that have no decision, too.
    """
    inside = _Decided(decisions, {})
    token = _DECIDED.set(inside)
    try:
        yield inside.met
    finally:
        _DECIDED.reset(token)


def decided_first(conv: Convolution, block: int, options: list[Option], value: str) -> list[Option]:
    """The algorithms of a convolution with the one in front that was decided; the result is called `value`.

    A decision for an algorithm that is not among the options (one that `accuracy` leaves out) does not count, and one
    whose knobs are no longer those of that algorithm costs one warning.
    """
    inside = _DECIDED.get()
    if inside is None:
        return options
    key = conv.key(block)
    decision, first = inside.decisions.get(key), options[0]
    if decision is not None:
        of_rule = [option for option in options if option.rule == decision.rule]
        first = next((option for option in of_rule if Decision.of(option) == decision), first)
        if of_rule and Decision.of(first) != decision:
            warnings.warn(
                f"a record of {conv} is not used: there is no {decision} any more", RuntimeWarning, stacklevel=2
            )
    inside.met.setdefault(key, Met(conv, options)).values.append(value)
    return [first, *(option for option in options if option is not first)]


def algorithm_name(option: Option | Weighed) -> str:
    """`direct`, `winograd F(4x4,3x3)`."""
    tile = option.knobs.get("tile")
    return option.rule if tile is None else f"{option.rule} F({tile}x{tile},3x3)"
