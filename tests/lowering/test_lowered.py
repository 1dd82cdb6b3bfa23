"""What linking asks of a lowered function is the same whether it was lowered now or read from the cache."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given

from minitvm.build import optimize_graph
from minitvm.errors import ExecutionError
from minitvm.executable.serialize import to_json
from minitvm.expr import structural_equal
from minitvm.link import link_function, link_graph
from minitvm.link.levels import level_of, units_of
from minitvm.lowering import lower_function, lower_functions, schedule_function
from minitvm.lowering.cache import decode, encode
from minitvm.reference import executable as executables
from minitvm.reference import graph as graphs
from minitvm.reference.strategies import RandomGraph, prim_funcs
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from tests.fewer import examples

CPU = Target("cpu -vector_bits=256 -vector_registers=16")


@given(random_graphs())
@examples(5, 15)
def test_graphs_link_alike(drawn: RandomGraph) -> None:
    """The executables say the same; the interpreter reads the kernels' text where there is no tree."""
    fused = optimize_graph(drawn.graph, CPU)
    level = level_of(fused)
    units = units_of(level)
    lowered = lower_functions(list(dict.fromkeys(u.function for u in units.values())), CPU)
    kept = {key: decode(encode(func)) for key, func in lowered.items()}
    assert None not in kept.values()
    fresh, read = (link_graph(level, units, which, "cpu") for which in (lowered, kept))  # type: ignore[arg-type]
    assert to_json(fresh) == to_json(read)
    try:
        expected = executables.run(fresh, drawn.inputs)
    except ExecutionError as undefined:  # the cast of an infinity, for instance
        with pytest.raises(ExecutionError, match=re.escape(str(undefined).split("\n")[0])):
            executables.run(read, drawn.inputs)
        return
    results = executables.run(read, drawn.inputs)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(results, graphs.run(drawn.graph, drawn.inputs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@given(prim_funcs(symbolic=True))
@examples(10, 30)
def test_functions_link_alike(func: PrimFunc) -> None:
    lowered = lower_function(schedule_function(func, CPU), CPU)
    read = decode(encode(lowered))
    assert read is not None
    assert to_json(link_function(lowered, "cpu")) == to_json(link_function(read, "cpu"))
    assert structural_equal(lowered.module, read.module, map_free_vars=True)
