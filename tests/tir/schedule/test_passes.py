"""Running reductions: a softmax whose sums are rows, in two steps (rfactor) and in passes (reduce_in_passes)."""

from __future__ import annotations

import numpy as np
import pytest

from minitvm import reference
from minitvm.errors import ScheduleError
from minitvm.reference.tir import run
from minitvm.script import tir as T
from minitvm.tir import PrimFunc
from minitvm.tir.schedule import Schedule


def attention(n: int, m: int, d: int) -> PrimFunc:
    """O = softmax(Q K) V, row by row, with the weights taken relative to a running maximum."""

    @T.prim_func
    def attention(
        Q: T.Buffer((n, d), "float32"), K: T.Buffer((m, d), "float32"), V: T.Buffer((m, d), "float32"),
        O: T.Buffer((n, d), "float32"),
    ):  # fmt: skip
        S = T.alloc_buffer((n, m))
        top = T.alloc_buffer((n,))
        total = T.alloc_buffer((n,))
        row = T.alloc_buffer((n, d))
        for i, j, k in T.grid(n, m, d):
            with T.block("S"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    S[vi, vj] = T.float32(0)
                S[vi, vj] = S[vi, vj] + Q[vi, vk] * K[vj, vk]
        for i, j in T.grid(n, m):
            with T.block("softmax"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    top[vi] = T.min_value("float32")
                    total[vi] = T.float32(0)
                    for c in range(d):
                        row[vi, c] = T.float32(0)
                now: T.float32 = T.max(top[vi], S[vi, vj])
                old: T.float32 = T.exp(top[vi] - now)
                new: T.float32 = T.exp(S[vi, vj] - now)
                for c in range(d):
                    row[vi, c] = row[vi, c] * old + V[vj, c] * new
                total[vi] = total[vi] * old + new
                top[vi] = now
        for i, c in T.grid(n, d):
            with T.block("O"):
                vi, vc = T.axis.remap("SS", [i, c])
                O[vi, vc] = row[vi, vc] / total[vi]

    return attention


def flash(func: PrimFunc, rows: int, columns: int) -> Schedule:
    """Tiles of `rows` queries; for each, the scores of `columns` keys at a time."""
    sch = Schedule(func)
    outer, _ = sch.split(sch.get_loops("softmax")[1], [None, columns])
    partial = sch.rfactor(outer, 0)
    weights, row, total = sch.reduce_in_passes(partial)
    i, j = sch.get_loops("softmax")
    tile, i = sch.split(i, [None, rows])
    sch.reorder(tile, j, i)
    for block in (total, row, weights, partial, "S"):
        sch.compute_at(block, j)
    sch.reverse_compute_at("O", tile)
    return sch


def test_flash_attention_is_a_schedule() -> None:
    func = attention(2, 4, 1)
    verdict = reference.check(func, flash(func, 1, 2).func)
    assert verdict, str(verdict)


@pytest.mark.parametrize(("rows", "columns"), [(2, 4), (3, 5), (8, 16)])
def test_tiles_that_do_not_fit_and_scores_that_are_masked(rows: int, columns: int) -> None:
    """A row of scores of which whole tiles are -inf, first ones and last ones, is that of the others."""
    func, rng = attention(5, 14, 3), np.random.default_rng(0)
    q, k, v = (rng.standard_normal(shape).astype("float32") for shape in ((5, 3), (14, 3), (14, 3)))
    q[:, 0], k[:, 0] = 1, 0
    k[:6, 0] = k[10:, 0] = -np.inf
    scores = q.astype("float64")[:, None] * k.astype("float64")
    weights = np.exp(scores.sum(-1) - scores.sum(-1).max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v
    for program in (func, flash(func, rows, columns).func):
        result = np.zeros((5, 3), "float32")
        run(program, q, k, v, result)
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_rows_cost_one_exponential_each_step() -> None:
    """In the combination the exponentials stand before the loops over the rows."""
    sch = flash(attention(4, 6, 2), 2, 3)
    text = str(sch.get("softmax").body)
    assert text.count("exp(") == 2


@T.prim_func
def two_rows(S: T.Buffer((4, 6), "float32"), M: T.Buffer((4,), "float32"), L: T.Buffer((4, 2), "float32")):
    for i, j in T.grid(4, 6):
        with T.block("R"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                M[vi] = T.min_value("float32")
                for c in range(2):
                    L[vi, c] = T.float32(0)
            top: T.float32 = T.max(M[vi], S[vi, vj])
            for c in range(2):
                L[vi, 1 - c] = L[vi, c] * T.exp(M[vi] - top) + T.exp(S[vi, vj] - top)
            M[vi] = top


def test_a_row_that_is_turned_round_is_no_sum() -> None:
    sch = Schedule(two_rows)
    with pytest.raises(ScheduleError, match="L is not stored"):
        sch.reduce_in_passes("R")
