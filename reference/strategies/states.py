"""Hypothesis strategy: random programs with states, with inputs for several runs, and all kinds of conflicts of states.

A state may begin as any array, and become any value of its type: itself, another state, the same value as another
state, or an update of itself, once or several times, also through another shape. The value that an update overwrites
may be read before or after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, GraphBuilder, Value


@dataclass(frozen=True)
class Stateful:
    """A graph with states, and the inputs of some runs."""

    graph: Graph
    runs: tuple[dict[str, np.ndarray], ...]

    def __repr__(self) -> str:
        return f"{self.graph}\n# {len(self.runs)} runs"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def stateful(draw: st.DrawFn, moves: int = 5, runs: int = 3) -> Stateful:
    """Draw a graph of up to three states of the same shape, [batch, places, width], and inputs for some runs.

    Every value is a small integer in float32, so all levels agree to the bit.
    """
    # There are few shapes: functions are shared, and only the connections matter.
    batch, places, width = draw(st.integers(1, 2)), 3, 2
    rows = draw(st.integers(1, 2))
    b = GraphBuilder("stateful")
    states = [b.input(f"s{k}", (batch, places, width)) for k in range(draw(st.integers(1, 3)))]
    x = b.input("x", (batch, rows, width))
    position = b.input("position", (batch,), "int32")
    values = [*states]
    versions = {s: [s] for s in states}  # of each state, by updates: what it most often becomes
    for number in range(draw(st.integers(2, moves))):
        if draw(st.booleans()):
            state = draw(st.sampled_from(states))
            value = versions[state][-1]
            new = b.op("multiply", x, float(number + 1))  # no update repeats another
            versions[state].append(b.op("nn.cache_update", value, new, position, axis=1))
            values.append(versions[state][-1])
        else:
            # The last values are drawn more often, to get updates of updates.
            value = draw(st.sampled_from([*values, *values[-2:]]))
            values.append(_move(draw, b, value, values, x, position, places))
    pairs = {}
    for state in draw(st.permutations(states)):
        pairs[state] = draw(st.sampled_from([*values, *versions[state][-1:] * len(values)]))
    outputs = [*draw(st.lists(st.sampled_from(values), max_size=2)), values[-1]]
    shape = (batch, places, width)
    firsts = {state: draw(st.integers(1, 2**16)) for state in draw(st.lists(st.sampled_from(states), unique=True))}
    first = {
        state: np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32) for state, seed in firsts.items()
    }
    graph = b.build(outputs, states=pairs, first=first)
    seeds = np.random.default_rng(draw(st.integers(0, 2**16)))
    given = tuple(
        {
            "x": seeds.integers(-3, 4, (batch, rows, width)).astype(np.float32),
            "position": seeds.integers(0, places - rows + 1, (batch,)).astype(np.int32),
        }
        for _ in range(runs)
    )
    return Stateful(graph, given)


def _move(
    draw: st.DrawFn, b: GraphBuilder, value: Value, values: list[Value], x: Value, position: Value, places: int
) -> Value:
    """Add one more value of the states' type."""
    kind = draw(st.sampled_from(["update", "update", "update", "scatter", "view", "sum", "clip", "turn"]))
    result: Value
    if kind == "update":
        result = b.op("nn.cache_update", value, x, position, axis=1)
    elif kind == "scatter":
        batch, _, width = map(int, x.shape)  # type: ignore[arg-type]
        points = np.full((batch, 1, width), draw(st.integers(0, places - 1)))
        other = draw(st.sampled_from(values))
        first = b.op("strided_slice", other, begin=(0,), end=(1,), axes=(1,))
        result = b.op("scatter_elements", value, points, first, axis=1)
    elif kind == "view":
        turned = b.op("reshape", value, newshape=(value.shape[0], -1))
        if draw(st.booleans()):
            turned = b.op(
                "scatter_elements", turned, np.zeros((1, 1), np.int64), np.full((1, 1), 2, np.float32), axis=1
            )
        result = b.op("reshape", turned, newshape=value.shape)
    elif kind == "sum":
        result = b.op("clip", b.op("add", value, draw(st.sampled_from(values))), a_min=-9.0, a_max=9.0)
    elif kind == "clip":
        result = b.op("clip", value, a_min=-2.0)
    else:
        result = b.op("reverse", value, axis=1)
    return result
