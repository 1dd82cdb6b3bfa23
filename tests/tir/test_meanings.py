"""Foreign code with a registered meaning runs like the loops that it stands for, in every interpreter and compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import tir
from minitvm.errors import InputError, TypeMismatch, Unsupported
from minitvm.reference import check
from minitvm.reference import tir as interpreter
from minitvm.script import from_source
from minitvm.script import tir as T
from minitvm.tir.meanings import MEANINGS
from minitvm.tir.transform.pipeline import lower


@T.prim_func
def gemv(c: T.handle, a: T.handle, b: T.handle, m: T.int32, k: T.int32, stride: T.int32):
    C = T.match_buffer(c, (m,))
    A = T.match_buffer(a, (k,))
    B = T.match_buffer(b, (m, k), strides=(stride, 1))
    for i in range(m):
        for j in range(k):
            C[i] = C[i] + A[j] * B[i, j]


@T.prim_func
def copy(target: T.handle, source: T.handle, n: T.int32):
    X = T.match_buffer(target, (n,), "int32")
    Y = T.match_buffer(source, (n,), "int32")
    for i in range(n):
        X[i] = Y[i]


@pytest.fixture(autouse=True)
def meanings() -> Iterator[None]:
    tir.register_meaning("gemv_update", gemv)
    tir.register_meaning("copy_int", copy)
    tir.register_meaning("relu", lambda x: tir.max(x, 0.0))
    yield
    for name in ("gemv_update", "copy_int", "relu"):
        MEANINGS.pop(name)


def matmul(update: str, epilogue: str) -> tir.PrimFunc:
    """C = relu(A * B^T), four columns at a time."""
    func = from_source(f"""
        @T.prim_func
        def main(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), C: T.Buffer((8, 8), "float32")):
            for i, j in T.grid(8, 2):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    T.reads(A[vi, 0:16], B[vj * 4:vj * 4 + 4, 0:16], C[vi, vj * 4:vj * 4 + 4])
                    T.writes(C[vi, vj * 4:vj * 4 + 4])
                    for k in range(4):
                        C[vi, vj * 4 + k] = 0.0
                    {update}
            for i, j in T.grid(8, 8):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    C[vi, vj] = {epilogue}
        """)
    assert isinstance(func, tir.PrimFunc)
    return func


FOREIGN = matmul(
    'T.call_extern("int32", "gemv_update", C.access_ptr("rw", offset=vi * 8 + vj * 4), T.address_of(A[vi, 0]), '
    'B.access_ptr("r", offset=vj * 64), 4, 16, 16)',
    'T.call_pure_extern("float32", "relu", C[vi, vj])',
)
PLAIN = matmul(
    "for k, l in T.grid(4, 16):\n                        "
    "C[vi, vj * 4 + k] = C[vi, vj * 4 + k] + A[vi, l] * B[vj * 4 + k, l]",
    "T.max(C[vi, vj], 0.0)",
)


def test_a_call_means_its_loops_at_every_level() -> None:
    assert check(PLAIN, FOREIGN)
    assert check(FOREIGN, lower(FOREIGN))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (8, 16)).astype("float32") for _ in range(2))
    c = np.empty((8, 8), "float32")
    tvm.build(FOREIGN)(a, b, c)
    np.testing.assert_array_equal(c, np.maximum(a @ b.T, 0))


def test_a_wrong_meaning_is_seen() -> None:
    tir.register_meaning("relu", lambda x: tir.abs(x), override=True)
    assert not check(PLAIN, FOREIGN)


def test_schedules_keep_the_call_and_its_meaning() -> None:
    sch = tir.Schedule(FOREIGN)
    sch.split(sch.get_loops("C")[0], [2, 4])
    sch.cache_read("C", 1, "local")
    assert "call_extern" in sch.mod.script()
    assert check(FOREIGN, sch.mod)


@settings(max_examples=15)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_an_address_is_the_place_in_the_storage(shape: list[int], data: st.DataObject) -> None:
    """A meaning over a flat buffer finds the elements in the order of the storage, padding of strides left out."""
    total = int(np.prod(shape))
    offset, target = data.draw(st.integers(0, total - 1)), data.draw(st.integers(0, total - 1))
    count = data.draw(st.integers(0, total - max(offset, target)))
    where = data.draw(st.sampled_from(["pointer", "address", "whole"]))
    if where == "whole":
        offset, count = 0, min(count, total)
    place = ", ".join(map(str, np.unravel_index(offset, shape)))
    source = {"pointer": f'A.access_ptr("r", offset={offset})', "address": f"T.address_of(A[{place}])",
              "whole": "A.data"}[where]  # fmt: skip
    func = from_source(f"""
        @T.prim_func
        def main(A: T.Buffer({tuple(shape)}, "int32"), B: T.Buffer({tuple(shape)}, "int32")):
            with T.block("copy"):
                T.call_extern("int32", "copy_int", B.access_ptr("w", offset={target}), {source}, {count})
        """)
    a = np.arange(1, total + 1, dtype="int32").reshape(shape)
    for run in (lambda *args: interpreter.run(func, *args, shadow=False), tvm.build(func, threads=1)):
        b = np.zeros(shape, "int32")
        run(a, b)
        expected = np.zeros(total, "int32")
        expected[target : target + count] = a.ravel()[offset : offset + count]
        np.testing.assert_array_equal(b.ravel(), expected)


@pytest.mark.parametrize(("call", "problem"), [
    ('T.call_extern("int32", "copy_int", B.data)', "copy_int: 1 arguments; its meaning takes 3"),
    ('T.call_extern("int32", "copy_int", B.data, 3, 4)', "copy_int: its meaning takes an address, found 3"),
    ('T.call_extern("int32", "copy_int", B.data, A.data, T.int64(4))', "copy_int: n is int32, the call hands over"),
    ('T.call_extern("int32", "gemv_update", B.data, A.data, A.data, 1, 1, 1)', "C of a meaning is float32, B is int32"),
    ('T.evaluate(T.call_pure_extern("int32", "relu", T.float32(1)))', "is a value of float32, the call one of int32"),
])  # fmt: skip
def test_call_that_does_not_fit_its_meaning_is_refused(call: str, problem: str) -> None:
    func = from_source(f"""
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
            with T.block("copy"):
                {call}
        """)
    with pytest.raises((InputError, TypeMismatch), match=problem):
        lower(func)


def test_meanings_that_are_none() -> None:
    @T.prim_func
    def blocks(A: T.Buffer((4,), "float32")):
        with T.block("b"):
            A[0] = 1.0

    @T.prim_func
    def loose(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,))
        A[0] = 1.0

    for name, meaning, problem in [
        ("copy_int", copy, "copy_int has a meaning already"),
        ("blocks", blocks, "wanted: loops and stores"),
        ("loose", loose, "no argument of a call tells n"),
        ("number", 3, "is a int; wanted a PrimFunc or a function"),
    ]:
        with pytest.raises(InputError, match=problem):
            tir.register_meaning(name, meaning)  # type: ignore[arg-type]


def test_without_a_meaning_it_does_not_run() -> None:
    MEANINGS.pop("relu")
    tir.register_meaning("relu_of_others", lambda x: x)
    MEANINGS.pop("relu_of_others")
    with pytest.raises(Unsupported, match=r'T.call_pure_extern\("relu"\) cannot run here'):
        lower(FOREIGN)
    tir.register_meaning("relu", lambda x: x)
