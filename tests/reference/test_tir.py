"""Loop programs: blocks, views, layouts, arguments, orders, and the ledger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minitvm import expr as x
from minitvm.errors import InputError, Unsupported
from minitvm.events import Access, Listener
from minitvm.reference import tir
from minitvm.reference.listeners import Ledger
from minitvm.script import tir as T
from minitvm.tir import nodes as t

MODES = ["slow", "fast"]


@T.prim_func
def matmul(A: T.Buffer((5, 6), "float32"), B: T.Buffer((6, 7), "float32"), C: T.Buffer((5, 7), "float32")):
    for i0, i1, j, k in T.grid(2, 3, 7, 6):
        with T.block("C"):
            T.where(i0 * 3 + i1 < 5)
            vi = T.axis.spatial(5, i0 * 3 + i1)
            vj, vk = T.axis.remap("SR", [j, k])
            with T.init():
                C[vi, vj] = 0.0
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        rng.standard_normal((5, 6)).astype("f"),
        rng.standard_normal((6, 7)).astype("f"),
        np.full((5, 7), np.nan, "f"),
    )


@pytest.mark.parametrize("mode", MODES)
def test_blocks_with_predicate_and_init(mode: str) -> None:
    a, b, c = operands()
    tir.run(matmul, a, b, c, mode=mode)
    wanted = np.zeros((5, 7), "f")
    for k in range(6):
        wanted = wanted + a[:, k : k + 1] * b[k : k + 1]
    assert c.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_are_not_contiguous_are_updated_in_place(mode: str) -> None:
    a, b, _ = operands()
    whole = np.full((7, 5), np.nan, "f")
    tir.run(matmul, np.asfortranarray(a), b, whole.T, mode=mode)
    np.testing.assert_allclose(whole.T, a @ b, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_match_buffer_views_a_region(mode: str) -> None:
    @T.prim_func
    def func(A: T.Buffer((8, 8), "float32"), C: T.Buffer((8, 8), "float32")):
        for i, j in T.grid(2, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                s0 = T.int32()
                s1 = T.int32()
                X = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 2 : vj * 2 + 2], (4, 2), "float32", strides=[s0, s1], offset_factor=1
                )
                Y = T.match_buffer(C[vi * 4 : vi * 4 + 4, vj * 2 : vj * 2 + 2], (4, 2), "float32", offset_factor=1)
                for p, q in T.grid(4, 2):
                    Y[3 - p, q] = X[p, q] + T.Cast("float32", s0)

    data, found = np.arange(64, dtype="f").reshape(8, 8), np.empty((8, 8), "f")
    tir.run(func, data, found, mode=mode)
    assert (found == data.reshape(2, 4, 8)[:, ::-1].reshape(8, 8) + 8).all()


@pytest.mark.parametrize("mode", MODES)
def test_strides_and_offset(mode: str) -> None:
    """A padded, column-major view of local storage."""
    source, target = t.Buffer("A", (3, 4)), t.Buffer("C", (3, 4))
    local = t.Buffer("L", (3, 4), strides=(1, 5), elem_offset=x.const(2))
    i, j, p, q = (x.Var(n) for n in "ijpq")

    def nest(a: x.Var, b: x.Var, body: t.Stmt) -> t.Stmt:
        inner = t.For(b, x.const(0), x.const(4), t.ForKind.SERIAL, body)
        return t.For(a, x.const(0), x.const(3), t.ForKind.SERIAL, inner)

    body = t.Seq.of(
        nest(i, j, t.BufferStore(local, source[i, j], (i, j))),
        nest(p, q, t.BufferStore(target, local[p, q] * 2.0, (p, q))),
    )
    func = t.with_root((source, target), body, {}, alloc_buffers=(local,))
    data, found = np.arange(12, dtype="f").reshape(3, 4), np.empty((3, 4), "f")
    tir.run(func, data, found, mode=mode)
    assert (found == data * 2).all()


@pytest.mark.parametrize("mode", MODES)
def test_symbolic_dimensions_and_scalars(mode: str) -> None:
    n, factor, i = x.SizeVar("n"), x.Var("factor", "float32"), x.Var("i")
    a, c = t.Buffer("A", (n,)), t.Buffer("C", (n * 2,))
    pair = t.Seq.of(t.BufferStore(c, a[i] * factor, (i * 2,)), t.BufferStore(c, a[i], (i * 2 + 1,)))
    func = t.with_root((a, factor, c), t.For(i, x.const(0), n, t.ForKind.SERIAL, pair), {"global_symbol": "pairs"})
    found = np.empty(6, "f")
    tir.run(func, np.arange(3, dtype="f"), 10, found, mode=mode)
    assert found.tolist() == [0, 0, 10, 1, 20, 2]
    with pytest.raises(InputError) as caught:
        tir.run(func, np.arange(3, dtype="f"), 10, np.empty(5, "f"), mode=mode)
    assert str(caught.value) == (
        "pairs: dimension 0 of C does not fit\n  wanted: 6 (n * 2 where n = 3)\n  found:  5, in an array of shape (5,)"
    )


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ((1, 2), "mm takes 3 arguments (A, B, C), found 2"),
        ((1.0, 2, 3), "mm: A takes a NumPy array, found float"),
        ((np.zeros((5, 6)), np.zeros(1), np.zeros(1)), "mm: A has dtype float32, found an array of float64"),
        ((np.zeros(5, "f"), 0, 0), "mm: A has shape (5, 6), found an array of shape (5,)"),
    ],
)
def test_arguments_that_do_not_fit(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises(InputError) as caught:
        tir.run(matmul.with_attr("global_symbol", "mm"), *args)
    assert str(caught.value) == text


def test_unknown_options() -> None:
    for options in ({"mode": "magic"}, {"order": "magic"}, {"inout": ["Z"]}, {"entry": "magic"}):
        with pytest.raises(InputError, match="magic|Z"):
            tir.run(t.IRModule({"main": matmul}), *operands(), **options)


@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_order_of_independent_iterations(order: str) -> None:
    @T.prim_func
    def func(A: T.Buffer((9,), "float32"), C: T.Buffer((9,), "float32")):
        for i in T.parallel(9):
            C[i] = A[i]

    class Order(Listener):
        def __init__(self) -> None:
            self.offsets: list[int] = []

        def store(self, access: Access) -> None:
            self.offsets.append(access.offset)

    heard = Order()
    tir.run(func, np.zeros(9, "f"), np.zeros(9, "f"), order=order, seed=4, listeners=(heard,))
    assert sorted(heard.offsets) == list(range(9))
    expected = {"forward": list(range(9)), "backward": list(range(8, -1, -1))}
    assert heard.offsets == expected[order] if order in expected else heard.offsets not in expected.values()


def test_ledger() -> None:
    ledger = Ledger()
    tir.run(matmul, *operands(), listeners=(ledger,))
    steps = 5 * 7 * 6
    assert ledger.loads == {"A": steps, "B": steps, "C": steps}
    assert ledger.stores == {"C": steps + 35}
    assert ledger.operations == {"add": steps, "mul": steps}
    assert ledger.flops == 2 * steps
    assert ledger.bytes_read["A"] == 4 * steps
    assert ledger.blocks == {"root": 1, "C": steps}
    assert ledger.iterations["k"] == 2 * 3 * 7 * 6
    assert "loads of A" in str(ledger)


def test_ledger_of_storage() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("b"):
                vi = T.axis.spatial(4, i)
                L = T.alloc_buffer((8,), "float32")
                L[0] = A[vi]
                C[vi] = L[0]

    ledger = Ledger()
    tir.run(func, np.zeros(4, "f"), np.zeros(4, "f"), listeners=(ledger,))
    assert (ledger.peak_bytes, ledger.allocated) == (32, 0)


def test_barriers_belong_to_the_kernel_level() -> None:
    barrier = t.Evaluate(x.Call(x.DType("int32"), "tvm_storage_sync", (x.StringImm("shared"),)))
    for mode in MODES:
        with pytest.raises(Unsupported, match="tvm_storage_sync"):
            tir.run(t.with_root((), barrier, {}), mode=mode)


def test_while_loops() -> None:
    @T.prim_func
    def collatz(A: T.Buffer((5,), "int32"), C: T.Buffer((5,), "int32")):
        for i in range(5):
            L = T.decl_buffer((1,), "int32", scope="local")
            L[0] = A[i]
            C[i] = 0
            while L[0] > 1:
                L[0] = T.if_then_else(L[0] % 2 == 0, L[0] // 2, L[0] * 3 + 1)
                C[i] = C[i] + 1

    for mode in MODES:
        found = np.empty(5, "int32")
        tir.run(collatz, np.array([1, 2, 3, 6, 7], "int32"), found, mode=mode)
        assert found.tolist() == [0, 1, 7, 8, 16]
