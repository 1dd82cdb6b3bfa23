"""Conditions that neighbours share: what moves under them, what does not, and that the program means the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference import check
from minitvm.reference import kernel as kernel_reference
from minitvm.reference import tir as reference
from minitvm.script import from_source
from minitvm.tir.nodes import For, If, Seq
from minitvm.tir.transform import lower
from minitvm.tir.transform.hoist_conditions import hoist_conditions

from .guarded_neighbours import guarded_neighbours, program

SET = "B[i] = T.float32(1)"


def branches(body: str) -> list[str]:
    """The conditions of a program's branches after the pass, outermost first."""
    func = program("\n".join(f"        {line}" for line in body.splitlines()))
    made = hoist_conditions(func)
    verdict = check(func, made)
    assert verdict, verdict
    return [str(node.condition) for node in walk(made.body) if isinstance(node, If)]


@pytest.mark.parametrize(
    ("body", "conditions"),
    [
        (f"if i * 4 < n:\n    {SET}\nif i * 4 < n:\n    B[i + 4] = B[i]", ["i * 4 < n"]),
        (
            f"if i * 4 < n:\n    {SET}\nfor j in range(4):\n    if i * 4 + j < n:\n        B[i + 4] = B[i] + B[j]",
            ["i * 4 < n", "i * 4 + j < n"],
        ),
        (
            f"if i * 4 < n and i < 3:\n    {SET}\nif i < 3:\n    B[i + 4] = B[i]",
            ["i < 3", "i * 4 < n"],
        ),
        (f"if i * 4 + 2 < n:\n    {SET}\nif i * 4 < n:\n    B[i + 4] = B[i]", ["i * 4 + 2 < n", "i * 4 < n"]),
        (f"if i * 4 < n:\n    {SET}\nB[i + 4] = B[i]", ["i * 4 < n"]),
        ("if B[i] < T.float32(3):\n    B[i] = T.float32(5)\nif B[i] < T.float32(3):\n    B[i] = T.float32(6)",
         ["B[i] < float32(3.0)"] * 2),
    ],
    ids=["equal", "implied", "one of two", "not implied", "none", "reads memory"],
)  # fmt: skip
def test_neighbours_share_what_all_of_them_need(body: str, conditions: list[str]) -> None:
    assert branches(body) == conditions


def divisions_stay_guarded() -> None:
    """Of two conditions the first keeps the second from dividing by zero; so both stay where they are."""
    body = f"if i > 0 and 8 // i > 3:\n    {SET}\nif i != 0 and 8 // i > 3:\n    B[i + 4] = B[i]"
    assert branches(body) == ["i > 0 and 8 // i > 3", "i != 0 and 8 // i > 3"]


def test_divisions_stay_guarded() -> None:
    divisions_stay_guarded()


def test_what_is_shared_goes_around_loops_that_do_not_change_it() -> None:
    func = program(f"        for j in range(4):\n            if i < 3:\n                {SET}\n"
                   "            if i < 3 and j < 2:\n                B[i + 4] = B[i]")  # fmt: skip
    (outer,) = (node for node in walk(hoist_conditions(func).body) if isinstance(node, For) and node.var.name == "i")
    assert isinstance(outer.body, If) and str(outer.body.condition) == "i < 3"
    assert isinstance(outer.body.then_case, For) and isinstance(outer.body.then_case.body, Seq)


def test_loops_that_threads_share_stay_apart() -> None:
    """Each is a kernel: a branch around two of them would be one kernel with two parallel loops."""
    text = "".join(
        f"        for j in T.parallel(4):\n            if n > 6:\n                B[{at} + j] = T.float32(1)\n"
        for at in (0, 4)
    )
    func = program(text)
    (outer,) = (node for node in walk(func.body) if isinstance(node, For) and node.var.name == "i")
    func = func.with_body(outer.body)  # two nests, one after the other
    made = hoist_conditions(func)
    assert isinstance(made.body, Seq) and all(isinstance(part, If) for part in made.body.stmts)


@given(data=st.data())
@settings(max_examples=12, derandomize=True, deadline=None)
def test_the_meaning_stays(data: st.DataObject) -> None:
    func = guarded_neighbours(data.draw)
    verdict = check(func, hoist_conditions(func))
    assert verdict, verdict


def ends_that_an_init_changes() -> None:
    """A loop runs as often as its extent said before it, whatever its first iteration stores there."""
    body = {
        "condition": """
        if k == 0:
            N[0] = 5
        C[k] = T.float32(1)""",
        "init": """
        with T.block("C"):
            vk = T.axis.reduce(16, k)
            with T.init():
                C[0] = T.float32(0)
                N[0] = 5
            C[0] = C[0] + T.float32(1)""",
    }
    for name, lines in body.items():
        extent = "N[0]" if name == "condition" else "T.max(N[0], 1)"
        func = from_source(f"""
@T.prim_func
def main(N: T.Buffer((1,), "int32"), C: T.Buffer((8,), "float32")):
    for k in range({extent}):{lines}
""")
        results = [np.zeros(8, "float32") for _ in range(2)]
        reference.run(func, np.array([2], "int32"), results[0], inout=["N", "C"])
        kernel_reference.run(lower(func), np.array([2], "int32"), results[1], inout=["N", "C"])
        np.testing.assert_array_equal(*results)


def test_ends_that_an_init_changes() -> None:
    ends_that_an_init_changes()
