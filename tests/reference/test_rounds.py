"""Symbolic sizes go round tiles, pipelines and rolling buffers three times; a verdict is about more than nothing."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from minitvm import te
from minitvm.errors import Unsupported
from minitvm.reference import check
from minitvm.reference.meaning import steps
from minitvm.tir.transform.pipeline import lower

from .test_sizes import function
from .written import function as fixed

COPY = function("for i in range(n):\n    B[i] = A[i]")
CUBE = function("for i, j, k in T.grid(n, m, l):\n    B[i, j, k] = A[i, j, k]", "n, m, l")
FILTER = function("for i in range(n):\n    B[i] = A[i] + T.if_then_else(i > 1, A[T.max(i - 2, 0)], T.float32(0))")


def tiled(tile: int, body: str, before: str = "") -> Any:
    """For each tile t of the copy, with an element e of it."""
    return function(f"{before}\nfor t in range((n + {tile - 1}) // {tile}):\n" + textwrap.indent(
        f"for e in range({tile}):\n    if t * {tile} + e < n:\n        {body}", "    "))  # fmt: skip


def staged(stages: int, refilled: str, read: str, tile: int = 8) -> Any:
    """A tile at a time goes through one of so many stages."""
    return function(
        f"""
        L = T.alloc_buffer(({stages}, {tile}), "float32")
        for s, e in T.grid({stages}, {tile}):
            L[s, e] = T.float32(0)
        for t in range((n + {tile - 1}) // {tile}):
            for e in range({tile}):
                if t * {tile} + e < n and {refilled}:
                    L[t % {stages}, e] = A[t * {tile} + e]
            for e in range({tile}):
                if t * {tile} + e < n:
                    B[t * {tile} + e] = L[{read}, e]
        """
    )


def rolled(rows: int, kept: int) -> Any:
    """The last rows in a buffer that is as long as it has to be, or not."""
    return function(
        f"""
        L = T.alloc_buffer(({rows},), "float32")
        for i in range(n):
            L[i % {kept}] = A[i]
            B[i] = A[i] + T.if_then_else(i > 1, L[T.max(i - 2, 0) % {kept}], T.float32(0))
        """
    )


def cube(tile: int, value: str) -> Any:
    return function(
        f"""
        for i, j, k in T.grid((n + {tile - 1}) // {tile}, (m + {tile - 1}) // {tile}, (l + {tile - 1}) // {tile}):
            for a, b, c in T.grid({tile}, {tile}, {tile}):
                if i * {tile} + a < n and j * {tile} + b < m and k * {tile} + c < l:
                    B[i * {tile} + a, j * {tile} + b, k * {tile} + c] = {value}
        """,
        "n, m, l",
    )


def all_of_cube(tile: int) -> str:
    return f"A[i * {tile} + a, j * {tile} + b, k * {tile} + c]"


PAIRS = {
    "a stage that is not refilled": (COPY, staged(2, "t < 2", "t % 2")),
    "the stage of two tiles ago": (COPY, staged(3, "t != 3", "t % 3")),
    "a large tile": (COPY, tiled(128, "B[t * 128 + e] = T.if_then_else(t < 2, A[t * 128 + e], T.float32(0))")),
    "the last element of the second tile's tail": (
        COPY, tiled(48, "B[t * 48 + e] = T.if_then_else(t == 1 and e == 46, T.float32(0), A[t * 48 + e])"),
    ),
    "a rolling buffer one row too short": (FILTER, rolled(4, 2)),
    "the third tile of one of three dimensions": (
        CUBE, cube(128, f"T.if_then_else(k == 2, T.float32(0), {all_of_cube(128)})"),
    ),
    "the third tile of the first": (CUBE, cube(128, f"T.if_then_else(i > 1, T.float32(0), {all_of_cube(128)})")),
}  # fmt: skip
EQUAL = {
    "two stages": (COPY, staged(2, "t >= 0", "t % 2")),
    "three stages": (COPY, staged(3, "t >= 0", "t % 3")),
    "a large tile": (COPY, tiled(128, "B[t * 128 + e] = A[t * 128 + e]")),
    "a rolling buffer": (FILTER, rolled(4, 3)),
    "three dimensions": (CUBE, cube(128, all_of_cube(128))),
    "three dimensions of 32": (CUBE, cube(32, all_of_cube(32))),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_goes_wrong_in_the_third_round_is_found(name: str) -> None:
    assert not check(*PAIRS[name], shrink=False)


@pytest.mark.parametrize("name", EQUAL)
def test_every_dimension_goes_round_three_times(name: str) -> None:
    begin = steps.taken()
    verdict = check(*EQUAL[name])
    assert verdict, str(verdict)
    assert verdict.short == {}
    assert steps.taken() - begin < 2_000_000
    for dimension in verdict.tried[0]:
        assert any(0 not in sizes.values() and sizes[dimension] >= 9 for sizes in verdict.tried)


def test_a_tile_that_would_take_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitvm.reference.judging.equivalence.ROUND_STEPS", 1)
    verdict = check(COPY, tiled(128, "B[t * 128 + e] = A[t * 128 + e]"))
    assert verdict
    assert verdict.short == {"n": 128}
    assert "  no size of n was judged that goes round its tile of 128 three times" in str(verdict)


def test_sizes_of_which_before_takes_multiples_only() -> None:
    by_four = function("for i, j in T.grid(n // 4, 4):\n    B[i * 4 + j] = A[i * 4 + j]")
    half = function(
        "for i, j in T.grid(n // 4, 4):\n    B[i * 4 + j] = T.if_then_else(i < 2, A[i * 4 + j], T.float32(0))"
    )
    verdict = check(by_four, by_four)
    assert verdict
    assert verdict.short == {}
    assert not check(by_four, half, shrink=False)


def test_nothing_is_not_equal() -> None:
    """It is defined where there are no elements; there, both do nothing."""
    beyond = function("for i in range(n):\n    B[i] = A[i + 1]")
    with pytest.raises(Unsupported, match="a dimension was 0 at each size"):
        check(beyond, function("for i in range(n):\n    B[i] = A[n - 1 - i] * T.float32(2)"))


SCALAR = 'A: T.Buffer((40,), "int32"), B: T.Buffer((40,), "int32"), s: T.int32'


def scaled(body: str) -> Any:
    return fixed(f"for i in range(40):\n    B[i] = 0\n{textwrap.dedent(body).strip()}", SCALAR)


@pytest.mark.parametrize("seed", range(3))
def test_an_argument_that_is_an_extent_takes_several_values(seed: int) -> None:
    first = scaled("for i in range(T.min(s, 40)):\n    B[i] = A[i]")
    wrong = scaled("for i in range(T.min(s, 40)):\n    B[i] = T.if_then_else(i < 9, A[i], 0)")
    same = scaled("for i in range(40):\n    if i < s:\n        B[i] = A[i]")
    assert not check(first, wrong, seed=seed, shrink=False)
    verdict = check(first, same, seed=seed)
    assert verdict, str(verdict)
    assert {0, 1, 41} <= {sizes["s"] for sizes in verdict.tried}


@pytest.mark.parametrize("level", ["te", "kernels"])
def test_at_other_levels(level: str) -> None:
    n = te.var("n")
    data = te.placeholder((n,), name="A")
    tensors = [data, te.compute((n,), lambda i: data[i] * 2.0, name="B")]
    func = te.create_prim_func(tensors)
    after = tensors if level == "te" else lower(func, None, "double")
    verdict = check(func, after)
    assert verdict, str(verdict)
    assert verdict.short == {}
