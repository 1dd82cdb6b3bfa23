"""The fast mode gives the bits of the slow one, on whatever program; also on those whose loops are not independent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minitvm import expr as x
from minitvm.errors import ExecutionError
from minitvm.reference import tir
from minitvm.reference.fast import grid_run
from minitvm.script import tir as T
from minitvm.tir import nodes as t

SIZE = 6


@st.composite
def programs(draw: st.DrawFn) -> tuple[t.PrimFunc, list[str]]:
    """Two or three loops around a few statements that read and write small buffers at arbitrary affine places.

    Recurrences, overwritten and skipped elements, masks and private storage all come up; most programs conflict
    somewhere, so the fast mode has to notice.
    """
    inputs = t.Buffer("X", (SIZE, SIZE)), t.Buffer("N", (SIZE,), "int32")
    outputs = t.Buffer("Y", (SIZE, SIZE)), t.Buffer("Z", (3 * SIZE,))
    scope: list[x.Var] = []

    def index(limit: int) -> x.Expr:
        total: x.Expr = x.const(draw(st.integers(0, 2)))
        for var in scope:
            total = total + var * draw(st.sampled_from([0, 0, 1, 1, 2]))
        return total % limit

    def access(buffer: t.Buffer) -> tuple[x.Expr, ...]:
        return tuple(index(d.value) for d in buffer.shape)

    def value(depth: int, readable: tuple[t.Buffer, ...]) -> x.Expr:
        kind = draw(st.integers(0, 6)) if depth else draw(st.integers(0, 1))
        if kind == 0:
            return x.const(float(draw(st.integers(-2, 2))))
        if kind == 1:
            chosen = draw(st.sampled_from(readable))
            return chosen[access(chosen)]
        if kind == 2:
            return inputs[1][index(SIZE)].astype("float32")
        if kind == 3:
            return x.call("if_then_else", index(4) < 2, value(depth - 1, readable), value(depth - 1, readable))
        if kind == 4:
            return x.call("exp", x.Min(value(depth - 1, readable), x.const(1.0)))
        operator = draw(st.sampled_from([x.Add, x.Sub, x.Mul, x.Max]))
        return operator(value(depth - 1, readable), value(depth - 1, readable))

    def statement(local: tuple[t.Buffer, ...]) -> t.Stmt:
        target = draw(st.sampled_from((*outputs, *local)))
        store = t.BufferStore(target, value(2, (inputs[0], *outputs, *local)), access(target))
        return t.If(index(3) < draw(st.integers(0, 3)), store) if draw(st.booleans()) else store

    def nest(depth: int, local: tuple[t.Buffer, ...]) -> t.Stmt:
        if depth and draw(st.integers(0, 3)) == 0:
            own = t.Buffer(f"L{depth}", (SIZE,), scope="local")
            fill = x.Var("f")
            first = t.For(fill, x.const(0), x.const(SIZE), t.ForKind.SERIAL, t.BufferStore(own, x.const(0.5), (fill,)))
            return t.Allocate(own, t.Seq.of(first, nest(depth - 1, (*local, own))))
        parts: list[t.Stmt] = [statement(local)] if not depth or draw(st.integers(0, 2)) == 0 else []
        if depth:
            extent: x.Expr = x.const(draw(st.integers(1, SIZE)))
            if scope and draw(st.integers(0, 4)) == 0:
                extent = scope[-1] + draw(st.integers(0, 1))
            var = x.Var("ijk"[len(scope)])
            kind = draw(st.sampled_from([t.ForKind.SERIAL, t.ForKind.SERIAL, t.ForKind.PARALLEL]))
            scope.append(var)
            body = nest(depth - 1, local)
            scope.pop()
            parts.insert(draw(st.integers(0, len(parts))), t.For(var, x.const(0), extent, kind, body))
        return t.Seq.of(*parts)

    body = t.Seq.of(*(nest(draw(st.integers(1, 3)), ()) for _ in range(draw(st.integers(1, 2)))))
    return t.with_root((*inputs, *outputs), body, {"global_symbol": "f"}), ["Y", "Z"]


def outcome(func: t.PrimFunc, inout: list[str], mode: str, shadow: bool) -> Any:
    rng = np.random.default_rng(1)
    x_array = rng.standard_normal((SIZE, SIZE)).astype("float32")
    n_array = rng.integers(-3, 4, SIZE).astype("int32")
    y, z = np.zeros((SIZE, SIZE), "float32"), np.ones(3 * SIZE, "float32")
    try:
        tir.run(func, x_array, n_array, y, z, mode=mode, shadow=shadow, inout=inout)
    except ExecutionError as error:
        return str(error)
    return y.tobytes() + z.tobytes()


@given(programs())
def test_fast_equals_slow(program: tuple[t.PrimFunc, list[str]]) -> None:
    func, inout = program
    assert outcome(func, inout, "fast", True) == outcome(func, inout, "slow", True)


@given(programs())
def test_fast_equals_slow_without_shadow(program: tuple[t.PrimFunc, list[str]]) -> None:
    func, inout = program
    assert outcome(func, inout, "fast", False) == outcome(func, inout, "slow", False)


@given(programs())
def test_fast_finds_the_same_uninitialised_reads(program: tuple[t.PrimFunc, list[str]]) -> None:
    func, _ = program
    assert outcome(func, [], "fast", True) == outcome(func, [], "slow", True)


@pytest.mark.parametrize("points", [1, 7, 64])
def test_small_grids_give_the_same_bits(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid is cut into boxes of `POINTS`; the cut must not show."""
    monkeypatch.setattr(grid_run, "POINTS", points)

    @T.prim_func
    def conv(
        X: T.Buffer((3, 9, 9), "float32"), W: T.Buffer((4, 3, 3, 3), "float32"), Y: T.Buffer((4, 7, 7), "float32")
    ):
        for o, y, c, i, r, s in T.grid(4, 7, 7, 3, 3, 3):
            with T.block("Y"):
                vo, vy, vx, vi, vr, vs = T.axis.remap("SSSRRR", [o, y, c, i, r, s])
                with T.init():
                    Y[vo, vy, vx] = 0.0
                Y[vo, vy, vx] = Y[vo, vy, vx] + X[vi, vy + vr, vx + vs] * W[vo, vi, vr, vs]

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype("float32") for s in ((3, 9, 9), (4, 3, 3, 3))]
    found, wanted = np.zeros((4, 7, 7), "float32"), np.zeros((4, 7, 7), "float32")
    tir.run(conv, *arrays, found, mode="fast")
    tir.run(conv, *arrays, wanted, mode="slow")
    assert found.tobytes() == wanted.tobytes()
    exact = sum(
        np.einsum("oi,iyx->oyx", arrays[1][:, :, p, q], arrays[0][:, p : p + 7, q : q + 7])
        for p in range(3)
        for q in range(3)
    )
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)


def test_a_recurrence_runs_in_order() -> None:
    @T.prim_func
    def scan(X: T.Buffer((100,), "float32"), Y: T.Buffer((100,), "float32")):
        Y[0] = X[0]
        for i in range(99):
            Y[i + 1] = Y[i] + X[i + 1]

    data = np.random.default_rng(0).standard_normal(100).astype("float32")
    found = np.empty_like(data)
    tir.run(scan, data, found)
    assert found.tobytes() == np.add.accumulate(data).tobytes()


@pytest.fixture
def _no_slow_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the slow mode was used")

    monkeypatch.setattr("minitvm.reference.meaning.runner.StatementCompiler", refuse)


@pytest.mark.usefixtures("_no_slow_mode")
def test_the_fast_mode_is_used_where_a_parallel_loop_branches() -> None:
    """A tail that is branched off writes at indices that do not mention the loop: one iteration alone goes there."""

    @T.prim_func
    def tail(X: T.Buffer((6,), "float32"), Y: T.Buffer((6,), "float32")):
        for i in T.parallel(2):
            if i < 1:
                for j in range(4):
                    Y[j] = X[j] * 2.0
            else:
                for j in range(2):
                    Y[j + 4] = X[j + 4] * 3.0

    found = np.empty(6, "float32")
    tir.run(tail, np.arange(6, dtype="float32"), found)
    assert found.tolist() == [0, 2, 4, 6, 12, 15]


@pytest.mark.usefixtures("_no_slow_mode")
def test_the_fast_mode_is_used() -> None:
    """A convolution of a real size must not fall back to the slow mode (it would take minutes)."""

    @T.prim_func
    def conv(
        X: T.Buffer((64, 30, 30), "float32"),
        W: T.Buffer((64, 64, 3, 3), "float32"),
        Y: T.Buffer((64, 28, 28), "float32"),
    ):
        P = T.alloc_buffer((64, 28, 28), "float32")
        for o in T.parallel(64):
            for y, c, i, r, s in T.grid(28, 28, 64, 3, 3):
                with T.block("P"):
                    vo, vy, vx, vi, vr, vs = T.axis.remap("SSSRRR", [o, y, c, i, r, s])
                    with T.init():
                        P[vo, vy, vx] = 0.0
                    P[vo, vy, vx] = P[vo, vy, vx] + X[vi, vy + vr, vx + vs] * W[vo, vi, vr, vs]
        for o, y, c in T.grid(64, 28, 28):
            with T.block("Y"):
                vo, vy, vx = T.axis.remap("SSS", [o, y, c])
                Y[vo, vy, vx] = T.max(P[vo, vy, vx], T.float32(0))

    rng = np.random.default_rng(0)
    data, weights = rng.integers(-3, 4, (64, 30, 30)).astype("f"), rng.integers(-3, 4, (64, 64, 3, 3)).astype("f")
    found = np.empty((64, 28, 28), "float32")
    tir.run(conv, data, weights, found)
    wanted = sum(
        np.einsum("oi,iyx->oyx", weights[:, :, p, q], data[:, p : p + 28, q : q + 28])
        for p in range(3)
        for q in range(3)
    )
    assert (found == np.maximum(wanted, 0)).all()


def test_a_range_that_moves_with_an_inner_loop() -> None:
    """Iterations of i meet only in different rounds of k: what held for the first round does not hold for the next."""

    @T.prim_func
    def func(X: T.Buffer((2,), "float32"), Y: T.Buffer((6,), "float32")):
        for n in range(6):
            Y[n] = 0.0
        for i, k in T.grid(2, 2):
            for j in range(k * 2, k * 2 + 2):
                Y[i * 2 + j] = Y[i * 2 + j] * 2.0 + X[i]

    for mode in ("slow", "fast"):
        found = np.empty(6, "float32")
        tir.run(func, np.array([1, 10], "float32"), found, mode=mode)
        assert found.tolist() == [1, 1, 12, 12, 10, 10]


def test_conditions_that_change_from_round_to_round() -> None:
    """In the second round two iterations of j meet, under conditions that never held in one round before."""

    @T.prim_func
    def func(X: T.Buffer((2, 4), "float32"), Y: T.Buffer((2, 3), "float32")):
        for i, n in T.grid(2, 3):
            Y[i, n] = 1.0
        for i in range(2):
            for k in range(3):
                for j in range(4):
                    if j < 2:
                        Y[i, j % 3] = Y[i, j % 3] * 2.0 + X[i, j]
                    if j >= 2 and k >= 1:
                        Y[i, j % 3] = Y[i, j % 3] * 3.0 + X[i, j]

    data = np.arange(8, dtype="float32").reshape(2, 4)
    results = [np.empty((2, 3), "float32") for _ in range(2)]
    for mode, found in zip(("slow", "fast"), results):
        tir.run(func, data, found, mode=mode)
    assert results[0].tobytes() == results[1].tobytes()
