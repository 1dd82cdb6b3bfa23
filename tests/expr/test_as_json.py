"""Trees as JSON: what comes back is the same program, with as many nodes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from minitvm.errors import MinitvmError, Unsupported
from minitvm.expr import FloatImm, Var, structural_equal, walk
from minitvm.expr.as_json import from_json, to_json
from minitvm.expr.structural import structural_digest
from minitvm.graph.lower import own_graph
from minitvm.reference.strategies import RandomGraph, prim_funcs
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.tir.nodes import Buffer, PrimFunc
from minitvm.tir.transform import lower
from tests.fewer import examples


def again(tree: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(tree))))


@given(prim_funcs(symbolic=True))
@examples(15, 50)
def test_functions_come_back_the_same(func: PrimFunc) -> None:
    for tree in (func, *(f for _, f in lower(func).items())):
        copy = again(tree)
        assert structural_equal(copy, tree, map_free_vars=True)
        for kind in (Var, Buffer):
            assert len({n for n in walk(copy) if isinstance(n, kind)}) == len(
                {n for n in walk(tree) if isinstance(n, kind)}
            )


@given(random_graphs())
@settings(max_examples=50)
def test_operators_come_back_the_same(drawn: RandomGraph) -> None:
    for node in drawn.graph.nodes:
        graph = own_graph(node)
        assert structural_digest(again(graph), True) == structural_digest(graph, True)


@pytest.mark.parametrize("value", [float("nan"), -0.0, float("inf"), 1e-320])
def test_floats_keep_their_bits(value: float) -> None:
    copy = again(FloatImm(value, "float64"))
    assert np.float64(copy.value).tobytes() == np.float64(value).tobytes()


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(Unsupported, match="object in a program has no JSON form"):
        to_json((1, object()))


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"nodes": [], "root": {"node": 0}},
        {"nodes": [["Popen", "ls"]], "root": {"node": 0}},
        {"nodes": [["Var", "i"]], "root": {"node": 0}},
        {"nodes": [["IntImm", 300, {"dtype": "int8"}]], "root": {"node": 0}},
        {"nodes": [], "root": {"enum": "ForKind", "name": "sideways"}},
    ],
)
def test_other_values_are_errors_not_programs(data: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, MinitvmError)):
        from_json(data)
