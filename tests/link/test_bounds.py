"""The bounds that an executable has for positions: no run that keeps them writes outside, and none is refused idly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm.graph import GraphBuilder
from minitvm.link.bounds import input_bounds
from tests.drawing import Seeded


class Positions:
    """A cache that is written at sums and differences of an input, constants and numbers of iterations."""

    def __init__(self, seed: int) -> None:
        d = Seeded(seed)
        self.batch, self.rows, written = d.int(1, 3), d.int(4, 9), d.int(1, 2)
        self.last = self.rows - written  # the last row that may be the first one written
        self.iterations = d.one(0, 0, 1, 2, 3)
        self.signs = [d.one(1, -1) for _ in range(d.int(0, 2) if self.iterations else d.int(1, 3))]
        shapes = [d.one((), (1,), (self.batch,)) for _ in self.signs]
        self.constants = [d.data(shape, "int64", -3, 3) for shape in shapes]
        self.counted = d.one(1, 1, -1)
        b = GraphBuilder("positions")
        cache, new = b.input("cache", (self.batch, self.rows, 2)), b.input("new", (self.batch, written, 2))
        at = b.input("at", (self.batch,), "int64")
        first_moves = d.int(0, len(self.signs))  # the others are in the loop, where there is one

        def moved(place: Any, first: int, last: int) -> Any:
            for sign, constant in list(zip(self.signs, self.constants))[first:last]:
                place = b.op("add" if sign == 1 else "subtract", place, constant)
            return place

        if not self.iterations:
            result = b.op("nn.cache_update", cache, new, moved(at, 0, len(self.signs)), axis=1)
        else:
            outside = moved(at, 0, first_moves)

            def body(number: Any, old: Any) -> Any:
                place = b.op("add" if self.counted == 1 else "subtract", outside, number)
                place = moved(place, first_moves, len(self.signs))
                return True, [b.op("nn.cache_update", old, new, place, axis=1)]

            result = b.loop(body, [cache], limit=np.array(self.iterations, np.int64))[1]
        self.graph = b.build(result)

    def positions(self, at: int) -> np.ndarray:
        """All rows at which a run writes whose input is `at` for all of the batch."""
        place = np.full(self.batch, at) + sum(s * c for s, c in zip(self.signs, self.constants))
        numbers = np.arange(max(self.iterations, 1)) * self.counted * bool(self.iterations)
        written: np.ndarray = np.broadcast_to(place, (self.batch,)) + numbers[:, None]
        return written

    def fits(self, at: int) -> bool:
        place = self.positions(at)
        return bool((place >= 0).all() and (place <= self.last).all())


def test_bounds_of_positions_are_what_the_cache_has_room_for() -> None:
    for seed in range(300):
        case = Positions(seed)
        (bound,) = input_bounds(case.graph)
        low, high = bound.low, bound.high
        assert isinstance(low, int) and isinstance(high, int)
        text = f"seed {seed}: {low} to {high}, {case.positions(0)}"
        assert all(case.fits(at) for at in range(low, high + 1)), text
        varying = [c for c in case.constants if c.size > 1]  # the least of a sum is not the sum of what is least
        if len(varying) < 2:
            assert [at for at in range(-40, 40) if case.fits(at)] == list(range(low, high + 1)), text


@pytest.mark.parametrize(("mode", "places"), [("linear", {"at": (0, 3)}), ("circular", {})])
def test_slots_are_entries_of_the_cache(mode: str, places: dict[str, tuple[int, int]]) -> None:
    b = GraphBuilder("slots")
    cache, new, at = b.input("cache", (5, 4, 2)), b.input("new", (3, 1, 2)), b.input("at", (3,), "int64")
    slots = b.op("add", b.input("slots", (3,), "int32"), np.array(2, "int32"))
    graph = b.build(b.op("nn.cache_update", cache, new, at, slots, axis=1, mode=mode))
    assert {i.name: (i.low, i.high) for i in input_bounds(graph)} == {**places, "slots": (-2, 2)}
