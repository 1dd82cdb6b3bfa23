"""The choices of a back end for convolutions: its parts "algorithms" and "channel_block".

algorithms(conv, block, target, accuracy) -> [Option]               the best first
channel_block(use, lanes, target, accuracy) -> int | None           channels of one block, None: no blocks

A back end chooses by a formula. Measured decisions take precedence over it:

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
    """The properties of a convolution of any rank. `image` holds the spatial extents of its result.

    An extent that is unknown at compile time is None. The numbers of channels count all `groups` together. `exact`
    means that integers are summed, which rules out algorithms that use fractions. If the machine computes products of
    packed words in one step, `words` is the type of the words ("u8i8" or "bf16"); it is "" if elements are multiplied
    one by one. `alone` means that the operators around the convolution use the plain layout.
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
        """Return the key under which the algorithm of this convolution is recorded, for blocks of `block` channels.

        The key is a hash.
        """
        return hashlib.sha256(f"algorithm of {self!r} in blocks of {block}".encode()).hexdigest()

    def __str__(self) -> str:
        image, taps = ("x".join("?" if n is None else str(n) for n in sides) for sides in (self.image, self.kernel))
        batch = f"{self.batch} x " if self.batch != 1 else ""
        return f"conv {batch}{self.in_channels} -> {self.out_channels}, {taps} on {image}"


@dataclass(frozen=True, slots=True)
class ChannelUse:
    """How a network uses its values with `count` channels. All of these values get the same block.

    `made` lists the convolutions that compute such values, `read` the convolutions that sum over them, and `depthwise`
    the (pixels, taps) of depthwise convolutions. The last three fields are numbers of pixels. `passed` counts the
    pixels of a value once if it is stored in blocks, and once for each other operator that reads it in blocks. `turned`
    counts the pixels of values that switch between blocks and the plain layout. `parted` counts the pixels of values
    that would have to switch if the last block were incomplete, because channels of other values follow in it.
    """

    count: int
    made: tuple[Convolution, ...] = ()
    read: tuple[Convolution, ...] = ()
    depthwise: tuple[tuple[int, int], ...] = ()
    passed: int = 0
    turned: int = 0
    parted: int = 0


DIRECT, WINOGRAD = "direct", "winograd"


LEAST_BLOCK = 4  # channels


def whole_block(channels: int, lanes: int) -> int | None:
    """Return the block size for `channels`: `lanes`, halved until it divides the number of channels, but not below
    LEAST_BLOCK.

    Up to LEAST_BLOCK channels form one block. Returns None if no block size divides the number of channels, or if
    vectors have fewer lanes than the smallest block.
    """
    if lanes < LEAST_BLOCK:
        return None
    block = lanes
    while block >= LEAST_BLOCK:
        if channels % block == 0:
            return block
        block //= 2
    return channels if channels <= LEAST_BLOCK else None


def direct_alone(conv: Convolution, block: int, target: Target, accuracy: str = "fast") -> list[Option]:  # noqa: ARG001
    """Return the algorithms for a back end that does not define any.

    The list holds just the direct algorithm, or nothing for a grouped convolution.
    """
    return [Option(rule=DIRECT, knobs={}, price=lambda: Cost(0.0))] if conv.groups == 1 else []


def groups_together(groups: int, channels: tuple[int, ...], blocks: tuple[int, ...]) -> int | None:
    """Return the smallest number of groups that together fill whole blocks of both the data and the result, or None.

    `channels` are the channels of all groups. Weights between channels of different groups are zeros.
    """
    for count in range(1, groups + 1):
        parts = [(total // groups * count, block) for total, block in zip(channels, blocks, strict=True)]
        if groups % count == 0 and all(part % block == 0 for part, block in parts):
            return count
    return None


@dataclass(slots=True)
class Met:
    """A convolution in a graph, with the algorithms that can compute it. The cost formula's choice comes first.

    `values` holds the names of its results. There may be several, because equal convolutions are listed once.
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
    """Within this scope, use the algorithms in `decisions`, keyed by `Convolution.key`, for every graph that is
    optimised.

    Yields a dictionary that collects all convolutions in these graphs by key, including those without a decision.
    """
    inside = _Decided(decisions, {})
    token = _DECIDED.set(inside)
    try:
        yield inside.met
    finally:
        _DECIDED.reset(token)


def are_decided() -> bool:
    """Return whether this is inside of `decided_algorithms`."""
    return _DECIDED.get() is not None


def decided_first(conv: Convolution, block: int, options: list[Option], value: str) -> list[Option]:
    """Return the algorithms of a convolution, starting with the decided one. `value` is the name of its result.

    A decision for an algorithm that is not among the options (for example, because `accuracy` rules it out) is ignored.
    A decision whose knobs no longer exist for that algorithm causes a warning.
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
    """Return a readable name for an algorithm, such as `direct` or `winograd F(4x4,3x3)`."""
    tile = option.knobs.get("tile")
    return option.rule if tile is None else f"{option.rule} F({tile}x{tile},3x3)"
