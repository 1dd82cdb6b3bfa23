"""Hypothesis strategy: random small networks, legal by construction, for tests of everything below the graph.

Inputs are integers in their dtype. Facts are kept for every value: the largest magnitude that it, or an intermediate
sum, can have, and whether it is exact. If a result would leave the range in which a float dtype holds every integer,
the operand is clipped first, so that exact values are equal bit by bit at every level, in any order of summation.
Rounding operators (softmax, means, ...) are only followed by operators that neither jump nor magnify, and their results
may differ by `tolerance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from minitvm.graph import Graph, Value

from .graph_drawing import LARGEST, Drawing
from .graph_loops import LOOPS
from .graph_moves import MOVES as PLAIN
from .graph_moves import WEIGHTED
from .graph_operators import OPERATORS
from .graph_patterns import PATTERNS

MOVES = {**PLAIN, **PATTERNS, **OPERATORS, **LOOPS}
# Half of the moves are single operators of every kind; the others are parts of networks and patterns of passes.
USUAL = (*WEIGHTED, *PATTERNS, *PATTERNS, *OPERATORS, *LOOPS)
ROUNDING = {
    "bfloat16": 2.0**-5,
    "float16": 2.0**-8,
    "float32": 1e-5,
    "float64": 1e-12,
}  # of the peak, where values are not exact
DTYPES = ("float32", "float32", "float32", "float32", "int32", "int64", "float16", "bfloat16", "int8", "uint8", "bool")


@dataclass(frozen=True)
class RandomGraph:
    """A graph, arrays for its inputs, and the allowed error of each output (0: none)."""

    graph: Graph
    inputs: dict[str, np.ndarray]
    tolerances: tuple[float, ...]

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}: {a.dtype}{list(a.shape)}" for name, a in self.inputs.items())
        return f"{self.graph}\n# inputs {shapes}; tolerances {self.tolerances}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # Hypothesis would print every element


@st.composite
def graphs(
    draw: st.DrawFn,
    largest: int = 6,
    moves: Sequence[str] = USUAL,
    symbolic: bool | None = None,
    empty: bool | None = None,
) -> RandomGraph:
    """Draw a graph of up to `largest` moves out of `MOVES`, with arrays for its inputs.

    `symbolic` gives it a symbolic batch dimension n, and `empty` allows dimensions of zero; with None, this happens
    sometimes. The outputs are any values, including inputs and constants, and always the last one; one of them may
    occur twice.
    """
    has_batch = draw(st.integers(0, 5)) == 5 if symbolic is None else symbolic
    may_be_empty = draw(st.integers(0, 9)) == 9 if empty is None else empty
    d = Drawing(draw, has_batch, may_be_empty)
    rank = draw(st.integers(0, 4))
    shape: list[Any] = [d.extent() for _ in range(rank)]
    while d.elements(shape) > LARGEST:
        shape.pop()
    if d.n is not None and shape:
        shape[0] = d.n
    dtype = d.one_of(DTYPES)
    # One graph in four begins with a constant: values that depend only on it can be folded.
    folds = d.n is None and draw(st.integers(0, 3)) == 3
    d.fresh(shape, dtype, -3 if dtype != "int8" else -100, 3 if not dtype.endswith("int8") else 100, folds)
    for _ in range(largest):
        # The last move ends the list early: so a failing graph shrinks by dropping moves.
        name = draw(st.sampled_from([*(["stop"] if len(d.facts) > 1 else []), *moves]))
        if name == "stop":
            break
        MOVES[name](d)
    values = list(d.facts)
    few: st.SearchStrategy[list[Value]] = st.lists(st.sampled_from(values), max_size=2)
    outputs = [*draw(few), *d.returned[:3], values[-1]]
    tolerances = [
        0.0 if d.facts[v].exact or not v.dtype.is_float else ROUNDING[str(v.dtype)] * max(1.0, d.facts[v].peak)
        for v in outputs
    ]
    graph = d.b.build(outputs)
    return RandomGraph(graph, {v.name: d.arrays[v.name] for v in graph.inputs}, tuple(tolerances))
