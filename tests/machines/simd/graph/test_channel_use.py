"""What networks do with their values of so many channels, by which blocks of channels are chosen."""

from __future__ import annotations

import numpy as np

from minitvm.graph.builder import GraphBuilder
from minitvm.machines.simd.graph.channel_use import channel_uses


def uses_are_counted() -> None:
    """Convolutions count where they write and where they read, pixels where they pass, and what joins channels."""
    b = GraphBuilder("uses")
    x = b.input("x", (1, 3, 10, 10))
    first = b.op("nn.conv2d", x, np.ones((6, 3, 3, 3), np.float32), padding=1)
    second = b.op("nn.conv2d", b.op("nn.relu", first), np.ones((4, 6, 1, 1), np.float32))
    deep = b.op("nn.conv2d", second, np.ones((4, 1, 3, 3), np.float32), padding=1, groups=4)
    uses = channel_uses(b.build(b.op("concatenate", second, deep, axis=1)), lambda _: True)
    assert [(len(uses[n].made), len(uses[n].read), len(uses[n].depthwise)) for n in (3, 6, 4)] == [
        (0, 1, 0), (1, 1, 0), (1, 0, 1),
    ]  # fmt: skip
    assert uses[4].depthwise == ((100, 9),)
    assert uses[3].turned == 100 and uses[6].turned == 0  # the input is plain
    assert uses[4].parted == 200 and uses[8].parted == 100  # both parts of the join, and the join
    assert uses[6].passed == 400  # two values, each written and read once


def test_uses_are_counted() -> None:
    uses_are_counted()
