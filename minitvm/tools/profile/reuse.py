"""Reuse distances: how many bytes were touched between two touches of the same byte.

A cache of C bytes that drops what was used least recently still holds a byte if fewer than C bytes were touched since
(Mattson et al., "Evaluation techniques for storage hierarchies", 1970). The executable lists what each step touches, so
the distances follow from it, in pages of 4 KiB, for a program that runs repeatedly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...executable import ArenaSlice, ConstantRef, Executable, Input, Location, Output, State, evaluate
from ...expr import Var

PAGE = 4096

Span = tuple[int, int]  # first page, number of pages


def distances(
    executable: Executable, touched: Sequence[Sequence[Location]], sizes: Mapping[Var, Any]
) -> list[list[list[tuple[float, float]]]]:
    """For each step, for each place that it touches: `(distance in bytes, share of the place)`, shares adding up to 1.

    A distance counts the bytes touched since the last touch, the touched bytes included.
    """
    pages = _Pages(executable, sizes)
    spans = [[pages.span(place) for place in places] for places in touched]
    last = np.full(pages.count, -1, np.int64)
    histograms: list[list[list[tuple[float, float]]]] = []
    for turn in range(2):  # the first run warms up
        histograms = []
        for step, row in enumerate(spans):
            now = turn * len(spans) + step
            histograms.append([_histogram(last, span) for span in row])
            for first, count in row:
                last[first : first + count] = now
    return histograms


def _histogram(last: np.ndarray[Any, Any], span: Span) -> list[tuple[float, float]]:
    first, count = span
    if count == 0:
        return []
    times, pages = np.unique(last[first : first + count], return_counts=True)
    return [
        (float(np.count_nonzero(last >= time)) * PAGE if time >= 0 else float("inf"), share / count)
        for time, share in zip(times.tolist(), pages.tolist(), strict=True)
    ]


class _Pages:
    """Assigns pages of its own to every input, output, state, constant and arena."""

    def __init__(self, executable: Executable, sizes: Mapping[Var, Any]) -> None:
        self.sizes = sizes
        self.count = 0
        self.starts: dict[Any, Span] = {}
        for number, tensor in enumerate(executable.inputs):
            shape = getattr(tensor, "shape", ())
            self._add(Input(number), tensor.dtype.bytes * self._product(shape))
        for number, result in enumerate(executable.outputs):
            self._add(Output(number), result.dtype.bytes * self._product(result.shape))
        for number, state in enumerate(executable.states):
            self._add(State(number), state.dtype.bytes * self._product(state.shape))
        for number, constant in enumerate(executable.constants):
            self._add(ConstantRef(number), constant.data.nbytes)
        for number, arena in enumerate(executable.arenas):
            self._add(("arena", number), int(evaluate(arena.size, sizes)))

    def _product(self, shape: Sequence[Any]) -> int:
        total = 1
        for dim in shape:
            total *= int(evaluate(dim, self.sizes))
        return total

    def _add(self, key: Any, nbytes: int) -> None:
        pages = -(-nbytes // PAGE)
        self.starts[key] = (self.count, pages)
        self.count += pages

    def span(self, place: Location) -> Span:
        if not isinstance(place, ArenaSlice):
            return self.starts[place]
        start, _ = self.starts["arena", place.arena]
        offset, nbytes = int(evaluate(place.offset, self.sizes)), int(evaluate(place.nbytes, self.sizes))
        first = offset // PAGE
        return start + first, -(-(offset + nbytes) // PAGE) - first if nbytes else 0
