"""Loops run over what a condition leaves of them, and do what they did."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.tir.nodes import For, If, PrimFunc
from minitvm.tir.transform.shorten_loops import shorten_loops

LINES = [
    "i + {a} < n", "i * {b} < n + {a}", "i >= n - {a}", "n - {a} < i * {b}", "n - i * {b} < {a}", "{a} < n",
    "i * {b} <= n", "n + {a} > i", "B[0] + i < n",
]  # fmt: skip


def guarded(condition: str, start: int = 0) -> PrimFunc:
    """B[i] is increased in each iteration in which a condition holds."""
    text = f"""
@T.prim_func
def main(a: T.handle, B: T.Buffer((9,), "int32")):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (n,), "int32")
    for k in range(9):
        B[k] = k
    for i in range({start}, 9):
        if {condition}:
            for j in range(2):
                B[i] = B[i] + j + 1
"""
    return from_source(text)  # type: ignore[return-value]


def conditions(func: PrimFunc) -> list[str]:
    return [str(node.condition) for node in walk(func.body) if isinstance(node, If)]


def same_for_all_sizes(condition: str, start: int = 0) -> None:
    before = guarded(condition, start)
    after = shorten_loops(before)
    for size in (1, 2, 3, 5, 8, 13):
        expected, found = np.zeros(9, "int32"), np.zeros(9, "int32")
        reference.run(before, np.zeros(size, "int32"), expected)
        reference.run(after, np.zeros(size, "int32"), found)
        np.testing.assert_array_equal(found, expected, err_msg=f"{condition}, n = {size}")


@given(
    parts=st.lists(st.tuples(st.sampled_from(LINES), st.integers(0, 5), st.integers(1, 3)), min_size=1, max_size=3),
    start=st.integers(0, 2),
)
@settings(max_examples=30)
def test_the_same_iterations_run(parts: list[tuple[str, int, int]], start: int) -> None:
    same_for_all_sizes(" and ".join(line.format(a=a, b=b) for line, a, b in parts), start)


def each_form_runs_the_same_iterations() -> None:
    for line in LINES:
        same_for_all_sizes(line.format(a=2, b=2), 1)
    same_for_all_sizes("i + 1 < n and n % 2 < 1")


def test_each_form_runs_the_same_iterations() -> None:
    each_form_runs_the_same_iterations()


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("i + 3 < n", []),
        ("i * 2 < n + 1 and i >= 2", []),
        ("i < n and n > 4", ["n > 4"]),  # it does not say which iterations
        ("B[0] + i < n", ["B[0] + i < n"]),  # an iteration may change it
        ("n > 1 and i < 8 // (n - 1)", ["n > 1 and i < 8 // (n - 1)"]),  # there is no quotient where it is not asked
        ("i % 2 < n - 5", ["i % 2 < n - 5"]),
    ],
)
def test_what_stays_a_condition(condition: str, left: list[str]) -> None:
    after = shorten_loops(guarded(condition))
    assert conditions(after) == left
    assert sum(isinstance(node, For) for node in walk(after.body)) == 3
