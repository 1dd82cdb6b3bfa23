"""Parallel loops that touch different elements become one: when, and that they mean the same."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from minitvm.expr import walk
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.target import Target
from minitvm.tir.nodes import For, ForKind, PrimFunc
from minitvm.tir.transform.pipeline import lower

from .loops_beside import Loop, loops, program


def meet(a: Loop, b: Loop, n: int) -> bool:
    """Whether one writes what the other touches. A loop reads where it writes, of its source and of its target."""
    shared = a.elements(n) & b.elements(n)
    return bool(shared) and (a.target in (b.target, b.source) or b.target == a.source)


def compared(a: Loop, b: Loop) -> bool:
    """Whether the elements are asked for: both write one buffer. Else they must share none that one of them writes."""
    return a.target == b.target


def joined(func: PrimFunc) -> tuple[int, int]:
    """The number of parallel loops before the pass and after it."""
    counts: dict[str, tuple[int, int]] = {}

    def count(name: str, before: PrimFunc, after: Any) -> None:
        if name == "join_parallel_loops":
            counts[name] = parallel_loops(before), parallel_loops(after)

    lower(func, Target("cpu"), callback=count)
    return counts["join_parallel_loops"]


def parallel_loops(func: PrimFunc) -> int:
    return sum(isinstance(node, For) and node.kind is ForKind.PARALLEL for node in walk(func.body))


@given(loops(open_sizes=False))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_what_does_not_meet_is_joined(found: list[Loop]) -> None:
    groups: list[list[Loop]] = []
    for loop in found:
        apart = groups and all(
            not meet(other, loop, 0) if compared(other, loop)
            else other.target != loop.source and loop.target != other.source
            for other in groups[-1]
        )  # fmt: skip
        groups = [*groups[:-1], [*groups[-1], loop]] if apart else [*groups, [loop]]
    func = program(found)
    assert joined(func) == (len(found), len(groups))
    assert check(func, lower(func, Target("cpu")), modes=("exact", "shadow", "order"))


@given(loops(open_sizes=True), st.integers(1, 9))
@settings(max_examples=40)
def test_what_meets_at_some_size_is_not_joined(found: list[Loop], size: int) -> None:
    func = program(found)
    if joined(func)[1] == 1:
        assert not any(meet(a, b, n) for a, b in combinations(found, 2) for n in range(1, 10))
    assert check(func, lower(func, Target("cpu")), sizes={"n": size}, modes=("exact", "shadow", "order"))


def test_by_hand() -> None:
    first = Loop(4, "Y", 1, 0, "", "X")
    for second, count in (
        (Loop(4, "Y", 1, 4, "", "X"), 1),  # behind the first one's elements
        (Loop(4, "Y", 1, 3, "", "X"), 2),  # over the last of them
        (Loop(4, "Z", 1, 0, "", "X"), 1),  # elsewhere
        (Loop(4, "Z", 1, 0, "", "Y"), 2),  # of what the first one wrote
    ):
        assert joined(program([first, second])) == (2, count)
        func = program([first, second])
        assert check(func, lower(func, Target("cpu")), modes=("exact", "order"))
    assert joined(program([Loop(4, "Z", 1, 0, "", "Y"), first])) == (2, 2)  # what the first one reads


def test_groups_of_rows_and_the_rows_that_are_left_are_one_loop() -> None:
    rows = [Loop("n // 4", "Y", 4, 0, "", "Y"), Loop("n % 4", "Y", 1, 0, " + n // 4 * 4", "Y")]
    assert joined(program(rows)) == (2, 1)
    overlapping = [rows[0], Loop("n % 4", "Y", 1, 0, "", "Y")]
    assert joined(program(overlapping)) == (2, 2)


@pytest.mark.parametrize("notes", ['{"pragma": 1}', "{}"])
def test_loops_with_notes_stay_apart(notes: str) -> None:
    text = 'def f(Y: T.Buffer((8,), "float32")):\n'
    for name, first in (("i", 0), ("j", 4)):
        text += f"    for {name} in T.parallel(4, annotations={notes}):\n        Y[{name} + {first}] = T.float32(1)\n"
    made: Any = from_source("@T.prim_func\n" + text)
    assert joined(made) == (2, 1 if notes == "{}" else 2)
