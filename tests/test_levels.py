"""Random networks through every level: what the graph says is what each interpreter and the machine code compute.

Exact values (integers in any dtype, sums within a float's exact range) must be equal to the bit at every level; what
rounds (softmax, means, tanh, ...) within the tolerance that comes with the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given

from minitvm.build import link_graph, optimize_graph
from minitvm.executable import verify as verify_executable
from minitvm.expr import Var
from minitvm.graph import verify_graph
from minitvm.graph.nodes import LOOP
from minitvm.link.levels import level_of, units_of
from minitvm.reference import executable as executables
from minitvm.reference import graph as graphs
from minitvm.reference.meaning.scalar import evaluate
from minitvm.reference.strategies import RandomGraph
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.runtime import GraphModule
from minitvm.target import Target
from minitvm.tools.cli.levels import LEVELS as RUN
from minitvm.tools.cli.levels import Descent
from tests.fewer import examples

TARGETS = {bits: Target(f"cpu -vector_bits={bits} -vector_registers=16") for bits in (128, 256, 512)}


class Compilation:
    """One random graph on its way down."""

    def __init__(self, case: RandomGraph, target: Target) -> None:
        self.case, self.target = case, target
        self.fused = optimize_graph(case.graph, target)
        verify_graph(self.fused)
        level = level_of(self.fused)
        by_node = units_of(level)
        self.units = list(by_node.values())
        self.descents = {unit.function.key: Descent(unit.func, target, unit.node) for unit in self.units}
        lowered = {key: descent.lowered for key, descent in self.descents.items()}
        self.executable = link_graph(level, by_node, lowered, target.kind)
        verify_executable(self.executable)

    def by_operator(self, level: str, **options: Any) -> list[np.ndarray] | None:
        """The outputs, each fused operator run at a level on what came before; None for a network that has loops.

        How often the operators of a loop's body run is the executable's to say.
        """
        if any(node.op == LOOP for node in self.fused.nodes):
            return None
        arrays: dict[Any, np.ndarray] = {v: self.case.inputs[v.name] for v in self.fused.inputs}
        arrays.update(self.fused.arrays())
        for unit in self.units:
            inputs = [arrays[v] for v in unit.node.inputs]
            shapes = [tuple(self.dim(d) for d in v.shape) for v in unit.node.outputs]
            outputs = [np.full(s, 77, v.dtype.numpy) for s, v in zip(shapes, unit.node.outputs, strict=True)]
            RUN[level](self.descents[unit.function.key], [*inputs, *outputs], **options)
            arrays.update(zip(unit.node.outputs, outputs, strict=True))
        return [arrays[v] for v in self.fused.outputs]

    def dim(self, dim: Any) -> int:
        if isinstance(dim, int):
            return dim
        arrays = self.case.inputs
        pairs = [(d, n) for x in self.case.graph.inputs for d, n in zip(x.shape, arrays[x.name].shape, strict=True)]
        return int(evaluate(dim, {d: n for d, n in pairs if isinstance(d, Var)}))


def _compiled(c: Compilation, threads: int) -> list[np.ndarray]:
    module = GraphModule(c.executable, threads=threads, workers=1)
    first, second = module(**c.case.inputs), module(**c.case.inputs)
    results = first if isinstance(first, tuple) else (first,)
    again = second if isinstance(second, tuple) else (second,)
    for a, b in zip(results, again, strict=True):
        np.testing.assert_array_equal(a, b, err_msg="a second run gives another answer")
    return list(results)


LEVELS: dict[str, Callable[[Compilation], list[np.ndarray] | None]] = {
    "optimized graph": lambda c: graphs.run(c.fused, c.case.inputs),
    "te": lambda c: c.by_operator("te"),
    "tir": lambda c: c.by_operator("tir"),
    "schedule": lambda c: c.by_operator("schedule"),
    "schedule backward": lambda c: c.by_operator("schedule", order="backward"),
    "kernel": lambda c: c.by_operator("kernel", threads=1),
    "kernel, 3 threads": lambda c: c.by_operator("kernel", threads=3, order="shuffled"),
    "executable": lambda c: executables.run(c.executable, c.case.inputs),
    "executable, 3 threads": lambda c: executables.run(c.executable, c.case.inputs, threads=3),
    "compiled": lambda c: _compiled(c, 1),
    "compiled, 2 threads": lambda c: _compiled(c, 2),
}


def check(case: RandomGraph, bits: int, levels: tuple[str, ...] = tuple(LEVELS)) -> None:
    """Every level of the graph gives what the graph's interpreter gives."""
    wanted = graphs.run(case.graph, case.inputs)
    compilation = Compilation(case, TARGETS[bits])
    for level in levels:
        found = LEVELS[level](compilation)
        if found is None:
            continue
        for value, a, b, tolerance in zip(case.graph.outputs, found, wanted, case.tolerances, strict=True):
            note = f"{level}, {value.name}\n{case}"
            assert (a.shape, a.dtype) == (b.shape, b.dtype), note
            if tolerance:
                np.testing.assert_allclose(a, b, rtol=0, atol=tolerance, err_msg=note)
            else:
                np.testing.assert_array_equal(a, b, err_msg=note)


@pytest.mark.parametrize("bits", TARGETS)
@examples(4, 6, suppress_health_check=list(HealthCheck))
@given(random_graphs())
def test_levels_agree(bits: int, case: RandomGraph) -> None:
    check(case, bits)
