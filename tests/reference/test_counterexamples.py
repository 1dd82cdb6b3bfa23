"""A difference prints as a Python file; run, it shows the same difference."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm import te
from minitvm.errors import InputError
from minitvm.expr import Add, Mul, Sub, replace, rewrite
from minitvm.reference import Verdict, check
from minitvm.reference.judging.verdict import described
from minitvm.reference.strategies import prim_funcs
from minitvm.tir.nodes import BufferStore, PrimFunc
from minitvm.tir.transform.pipeline import lower

from .test_sizes import COPY, WRONG
from .test_sizes import function as symbolic
from .written import each, function


def printed(verdict: Verdict) -> str:
    """What the file prints, one process for all: it is a script."""
    text = verdict.script()
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "counterexample.py", "exec"), {})
    return out.getvalue()


def shows(verdict: Verdict) -> bool:
    """Whether the file prints the values of the verdict, or its message."""
    lines = printed(verdict).splitlines()
    if lines[0].startswith("before: ") and lines[1].startswith("after: "):
        return lines[0].removeprefix("before: ") != lines[1].removeprefix("after: ")
    return verdict.message.splitlines()[0] in lines[0]


def tensors(scale: float, reverse: bool = False) -> list[Any]:
    n, s = te.var("n"), te.var("s")
    data = te.placeholder((n, 2), name="A")
    return [data, s, te.compute((n, 2), lambda i, j: data[n - 1 - i if reverse else i, j] * scale + s, name="B")]


IN_PLACE = 'A: T.Buffer((4,), "float32")'
DIFFERENT: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "tensors": (tensors(1.0), tensors(1.0, reverse=True), {}),
    "formulas": (each("A[i] / T.float32(3)"), each("A[i] / T.float32(7)"), {}),
    "functions": (each("T.exp(A[i])"), each("T.exp(A[i]) + T.float32(1)"), {}),
    "kernels": (COPY, lower(symbolic("for i in range(n):\n    B[i] = A[i] + A[0]"), None, "main"), {}),
    "out of bounds": (COPY, symbolic(WRONG["a dropped predicate"]), {}),
    "special values": (each("A[i] * T.float32(0)"), each("T.float32(0)"), {"modes": "special"}),
    "in place": (
        function("for i in range(4):\n    A[i] = A[i] + T.float32(1)", IN_PLACE),
        function("for i in range(4):\n    A[i] = A[i] + T.float32(2)", IN_PLACE), {},
    ),
    "booleans": (each("A[i] > T.float32(0)", out="bool"), each("A[i] >= T.float32(0)", out="bool"), {}),
    "halves": (each("A[i] + T.float16(1)", "float16"), each("A[i]", "float16"), {}),
    "rounding": (each("A[i]"), each("A[i] + A[7 - i] * T.float32(0.0001)"), {"modes": "bound"}),
    "who writes": (
        function("for i in range(4):\n    B[i] = A[i]", 'A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8")'),
        function("for i in range(4):\n    A[i] = B[i]", 'A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "int8")'), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_file_shows_the_difference(name: str) -> None:
    before, after, options = DIFFERENT[name]
    for shrink in (False, True):
        verdict = check(before, after, shrink=shrink, **options)
        assert not verdict
        assert shows(verdict), verdict.script()


def test_it_runs_by_itself(tmp_path: Path) -> None:
    verdict = check(tensors(1.0), tensors(1.0, reverse=True))
    (tmp_path / "counterexample.py").write_text(verdict.script())
    done = subprocess.run([sys.executable, "counterexample.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == f"before: B[{', '.join(map(str, verdict.index))}] = {verdict.before!r}"


def test_a_verdict_that_is_equal_prints_as_none() -> None:
    with pytest.raises(InputError, match="only the verdict of a check that found a difference"):
        check(COPY, COPY).script()


@settings(max_examples=12)
@given(prim_funcs(min_blocks=1), st.integers(0, 30), st.sampled_from((Add, Sub, Mul)))
def test_of_random_programs(func: PrimFunc, place: int, operator: Any) -> None:
    """Another operator is planted in one of the stores."""
    count = iter(range(1000))

    def spoil(node: Any) -> Any:
        if isinstance(node, BufferStore) and next(count) == place % 2 and not node.value.dtype.is_bool:
            return replace(node, value=operator(node.value, node.value))
        return None

    verdict = check(func, func.with_body(rewrite(func.body, spoil)), shrink=False)
    if not verdict:
        assert shows(verdict), verdict.script()


def test_counterexamples_of_floats_are_one_row_of_two_numbers() -> None:
    """A sum of a row that leaves out its last element."""

    def rows(last: int, function: str) -> Any:
        n, m = te.var("n"), te.var("m")
        data, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m - last), name="k")
        return [data, te.compute((n,), lambda i: te.sum(getattr(te, function)(data[i, k]), axis=k), name="B")]

    for options in ({}, {"modes": "bound"}, {"modes": "floats"}):
        verdict = check(rows(0, "exp"), rows(1, "exp"), **options)
        assert not verdict
        assert np.shape(verdict.inputs[0]) in ((1, 1), (1, 2)), str(verdict)
        assert shows(verdict)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_of_every_float_dtype_are_shown_as_they_are(dtype: str) -> None:
    arrays = [np.array(values, dtype) for values in ([0.75, -0.25], [0.75, 0.75], [np.nan, 0.5], 1.5)]
    assert described("abcd", arrays, {}).splitlines() == [
        "  a = [0.75, -0.25]", "  b = 0.75 everywhere (2)", "  c = [nan, 0.5]", "  d = 1.5",
    ]  # fmt: skip
