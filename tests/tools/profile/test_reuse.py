"""Distances of reuse on programs whose answer is seen by looking."""

from __future__ import annotations

from typing import Any

import numpy as np

from minitvm.executable import Arena, ArenaSlice, Constant, ConstantRef, Executable, Input, Output, TensorSpec
from minitvm.expr import DType
from minitvm.tools.profile.reuse import PAGE, distances

F32 = DType("float32")
WORDS = PAGE // 4


def executable(constants: int = 0, constant_pages: int = 1, arena_pages: int = 4) -> Executable:
    weight = np.zeros(constant_pages * WORDS, np.float32)
    return Executable(
        "x", "cpu", (TensorSpec("x", F32, (WORDS,)),), (TensorSpec("y", F32, (WORDS,)),),
        tuple(Constant(f"w{k}", F32, weight.shape, weight) for k in range(constants)),
        (Arena("arena", arena_pages * PAGE),), (), (),
    )  # fmt: skip


def pages(first: int, count: int) -> ArenaSlice:
    return ArenaSlice(0, first * PAGE, count * PAGE)


def test_what_was_just_written_is_near() -> None:
    steps: list[list[Any]] = [[Input(0), pages(0, 2)], [pages(0, 2), Output(0)]]
    found = distances(executable(), steps, {})
    # The step that wrote it touched three pages, and nothing came between.
    assert found[1][0] == [(3.0 * PAGE, 1.0)]


def test_a_weight_comes_back_after_all_others() -> None:
    steps: list[list[Any]] = [[ConstantRef(k)] for k in range(5)]
    found = distances(executable(constants=5, constant_pages=10), steps, {})
    assert found == [[[(50.0 * PAGE, 1.0)]]] * 5


def test_a_place_of_mixed_age_is_split() -> None:
    steps: list[list[Any]] = [[pages(0, 1)], [pages(1, 3)], [pages(0, 4)]]
    found = distances(executable(), steps, {})
    assert sorted(found[2][0]) == [(3.0 * PAGE, 0.75), (4.0 * PAGE, 0.25)]


def test_an_empty_place_comes_from_nowhere() -> None:
    assert distances(executable(), [[pages(1, 0)]], {}) == [[[]]]
