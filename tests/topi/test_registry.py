"""The registry of operators: types of results are remembered."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.errors import InputError
from minitvm.expr import DType
from minitvm.reference import operators
from minitvm.reference.strategies import RandomGraph
from minitvm.reference.strategies import graphs as random_graphs
from minitvm.te import size_var
from minitvm.topi import registry


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 19)), min_size=1, max_size=30),
    st.sampled_from(["int64", "int32"]),
)
def test_a_power_of_integers_is_folded_to_what_a_run_computes(pairs: list[tuple[int, int]], dtype: str) -> None:
    """Also where float64 does not hold it: 7 ** 22 is rounded both times."""
    limit = 2.0 ** (62 if dtype == "int64" else 31)
    kept = [pair for pair in pairs if abs(float(pair[0]) ** pair[1]) < limit] or [(7, 22 if dtype == "int64" else 2)]
    a, b = (np.array(row, dtype) for row in zip(*kept, strict=True))
    fold: Any = registry.get("power").fold
    np.testing.assert_array_equal(fold(a, b), operators.OPERATORS["power"](a, b))


@given(random_graphs(symbolic=False))
@settings(max_examples=40)
def test_remembered_types_are_those_that_are_inferred(drawn: RandomGraph) -> None:
    """Whatever was asked before: attributes 1, 1.0 and True are three questions, and so are their results' types."""
    values = {v: (v.shape, v.dtype) for v in drawn.graph.values()}
    for node in drawn.graph.nodes:
        row = registry.get(node.op)
        inputs = [values[v] for v in node.inputs]
        again = [row.output_types(inputs, node.attrs) for _ in range(2)]
        own = texts([values[v] for v in node.outputs])
        assert texts(again[0]) == texts(again[1]) == texts(row._output_types(inputs, node.attrs)) == own
        again[0].clear()  # it is the caller's own
        assert texts(row.output_types(inputs, node.attrs)) == texts(again[1])


def texts(types: Any) -> list[tuple[str, ...]]:
    """Types as text: sizes that data decide are expressions, which `==` does not compare."""
    return [(*map(str, shape), str(dtype)) for shape, dtype in types]


def test_questions_that_look_alike() -> None:
    row = registry.get("clip")
    questions = {row._question([((2,), DType("float32"))], {"a": value}) for value in (1, 1.0, True, "1", (1,), None)}
    assert len(questions) == 6 and None not in questions
    assert row._question([((size_var("n"),), DType("float32"))], {}) is None
    assert row._question([((2,), DType("float32"))], {"a": np.zeros(2)}) is None


def test_a_shape_that_no_array_has_is_refused() -> None:
    row, rest = registry.get("full"), {"fill_value": 0.0, "dtype": "float32"}
    assert row.output_types([], {"shape": (2**30, 0), **rest})[0][0] == (2**30, 0)
    with pytest.raises(InputError, match=r"full: the result float32\[\d+, 0\] is larger than any array"):
        row.output_types([], {"shape": (2**62, 0), **rest})
