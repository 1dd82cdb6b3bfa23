"""Graphs whose runs end with an error when an index is out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.errors import InputError
from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.graph.checked import checked_indices
from minitvm.reference import graph as interpreter
from tests.fewer import examples

ROWS, COLUMNS = 3, 4


def graph_of(op: str, is_open: bool, **attrs: Any) -> Graph:
    b = GraphBuilder()
    b.where = "operator X (node x)"
    data = b.input("data", (SizeVar("n"), COLUMNS) if is_open else (ROWS, COLUMNS))
    points = (2, 2) if op.endswith("_nd") else (2, 3) if op != "take" else (5,)
    inputs = [data, b.input("indices", points, "int64")]
    if op.startswith("scatter"):
        inputs.append(b.input("updates", (2,) if op.endswith("_nd") else points))
    return b.build(b.op(op, *inputs, **attrs))


CASES = {
    "take": ("take", {"axis": 0}, (ROWS,)),
    "take of all": ("take", {"axis": None}, (ROWS * COLUMNS,)),
    "gather": ("gather", {"axis": -2}, (ROWS,)),
    "scatter_elements": ("scatter_elements", {"axis": 1}, (COLUMNS,)),
    "gather_nd": ("gather_nd", {}, (ROWS, COLUMNS)),
    "scatter_nd": ("scatter_nd", {}, (ROWS, COLUMNS)),
}


@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@examples(8, 40)
def test_a_run_ends_exactly_where_an_index_is_out_of_range(case: str, is_open: bool, data: Any) -> None:
    op, attrs, extents = CASES[case]
    graph = graph_of(op, is_open, **attrs)
    arrays = [np.arange(12, dtype="float32").reshape(ROWS, COLUMNS)]
    shape = graph.inputs[1].shape
    count = int(np.prod(shape))
    extreme = st.sampled_from([-(2**63), 2**63 - 1, 2**31, 900])
    columns = [
        data.draw(st.lists(st.integers(-extent - 1, extent) | extreme, min_size=count, max_size=count))
        for extent in extents
    ]
    indices = np.stack([np.array(c, np.int64).reshape(shape) for c in columns], -1)
    indices = indices[..., 0] if len(extents) == 1 else np.stack([indices[:, k, k] for k in range(2)], -1)
    arrays.append(indices)
    if len(graph.inputs) == 3:
        arrays.append(np.ones([int(d) for d in graph.inputs[2].shape], "float32"))
    inside = bool(((indices >= -np.array(extents)) & (indices < np.array(extents))).all())
    if inside:
        expected, found = (interpreter.run(g, arrays)[0] for g in (graph, checked_indices(graph)))
        assert np.array_equal(expected, found)
        return
    with pytest.raises(InputError, match=r"operator X \(node x\): the index -?\d+ is out of range along axis \d of"):
        interpreter.run(checked_indices(graph), arrays)


def test_a_compiled_module_reports_the_index_and_works_after_that() -> None:
    module = minitvm.build(graph_of("take", True, axis=0), threads=1, checked=True)
    data = np.arange(12, dtype="float32").reshape(ROWS, COLUMNS)
    for wrong, limit in ((3, "at most 2"), (-4, "at least -3")):
        with pytest.raises(InputError, match=rf"the index {wrong} is out of range along axis 0 .* {limit}"):
            module(data, np.array([0, 1, wrong, 2, 0]))
    assert np.array_equal(module(data, np.array([0, 1, -3, 2, 0])), data[[0, 1, 0, 2, 0]])


def test_without_checks_an_index_stands_for_the_nearest_element() -> None:
    data = np.arange(12, dtype="float32").reshape(ROWS, COLUMNS)
    (result,) = interpreter.run(graph_of("take", False, axis=0), [data, np.array([0, 900, -900, 2, 1])])
    assert np.array_equal(result, data[[0, 2, 0, 2, 1]])


def test_a_function_has_no_operators_to_check() -> None:
    from minitvm.tir.script import builtins as T

    @T.prim_func
    def double(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")) -> None:
        for i in range(4):
            y[i] = x[i] + x[i]

    with pytest.raises(InputError, match="checked=True goes with a model"):
        minitvm.build(double, checked=True)
