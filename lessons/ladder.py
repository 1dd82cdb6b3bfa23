"""The measurements and the picture of lesson 15: the peak of a core, and the elements that a schedule touches.

peak = max(chains_rate(chains, lanes=8) for chains in (4, 8, 12))
reference.tir.run(kernel, *args, listeners=[window := Window(1536)])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import minitvm
from minitvm.events import Access, Listener
from minitvm.tools.profile.microbenchmarks import multiply_add

from . import ledger
from .picture import Picture

_SHAPES = {"A": (12, 8), "B": (8, 32), "C": (12, 32), "P": (8, 16)}
_DOT = 5
_COLOURS = ((8, 48, 107), (158, 202, 225))  # from the first touch to the last
_chain_kernels: dict[tuple[int, int], Callable[..., object]] = {}


def rate(operations: float, call: Callable[[], object], times: int) -> float:
    """GFLOP/s in the best of several calls."""
    return operations / ledger.best_of(times, call) / 1e9


def chains_rate(chains: int, lanes: int) -> float:
    """GFLOP/s of `chains` independent chains of multiply-adds on vectors of `lanes` floats, on one core."""
    if (chains, lanes) not in _chain_kernels:
        _chain_kernels[chains, lanes] = minitvm.build(multiply_add(chains, lanes), threads=1)
    kernel = _chain_kernels[chains, lanes]
    factor, result, repeats = np.zeros(lanes, "float32"), np.zeros((1, chains, lanes), "float32"), 500_000 // chains
    return rate(2 * chains * lanes * repeats, lambda: kernel(factor, repeats, 1, result), 100)


class Window(Listener):
    """When each element was first touched in the second window of `size` multiplications: 0 is early, 1 is late.

    The copy of B that rung 5 makes is called P here. Accumulators are registers, and are not counted.
    """

    def __init__(self, size: int) -> None:
        self.size, self.done = size, 0
        self.touched: dict[str, dict[int, float]] = {name: {} for name in "ABCP"}

    def operation(self, name: str, dtype: str) -> None:
        if name in ("mul", "fma"):
            self.done += int(dtype.rpartition("x")[2]) if "x" in dtype else 1

    def load(self, access: Access) -> None:
        name = access.buffer if access.scope == "global" else "P" if access.buffer.startswith("B") else "register"
        if self.size <= self.done < 2 * self.size and name in self.touched:
            self.touched[name].setdefault(access.offset, self.done / self.size - 1)

    store = load


def _shade(when: float) -> str:
    """The colour of an element that was first touched then."""
    return "#" + "".join(f"{round(a + (b - a) * when):02x}" for a, b in zip(*_COLOURS))


def ladder_picture(windows: dict[str, Window], rates: dict[str, float], peak: float) -> Picture:
    """A row for each rung: the bar of its rate, and the elements of A, B, C and the copy of B that it touches."""
    picture = Picture(900, 60 + 110 * len(rates))
    picture.words(20, 28, "GFLOP/s; the grey bar is the peak of the cores used", 14)
    for row, (name, value) in enumerate(rates.items()):
        top = 50 + 110 * row
        cores = 2 if "threads" in name else 1
        picture.words(20, top + 20, name, 15)
        picture.box(20, top + 30, 140 * cores, 18, "#e8e8e8")
        picture.box(20, top + 30, 140 * value / peak, 18, "#d95f02")
        picture.words(20, top + 66, f"{value:.1f} GFLOP/s: {value / peak / cores:.1%}", 12)
        left = 340.0
        for buffer, (height, width) in _SHAPES.items():
            picture.box(left, top, _DOT * width, _DOT * height, "white", "#999999")
            picture.words(left, top + _DOT * height + 14, buffer, 11)
            for offset, when in windows[name].touched[buffer].items():
                y, x = divmod(offset, width)
                picture.box(left + _DOT * x, top + _DOT * y, _DOT, _DOT, _shade(when))
            left += _DOT * width + 20
    return picture
