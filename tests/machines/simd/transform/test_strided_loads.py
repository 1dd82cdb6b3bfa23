"""Loads of elements a short step apart as loads of vectors and a shuffle: the same elements, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.expr import find
from minitvm.reference import check
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import BufferLoad, PrimFunc
from minitvm.tir.transform.pipeline import lower


def every(step: int, start: int, lanes: int, length: int, dtype: str = "float32") -> PrimFunc:
    """B[i] = A[step * i + start], in vectors; A ends with the last element that is read."""
    a = te.placeholder((step * (length - 1) + start + 1,), dtype, name="A")
    b = te.compute((length,), lambda i: a[i * step + start], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    _, lane = sch.split(sch.get_loops("B")[0], [None, lanes])
    sch.vectorize(lane)
    return sch.func


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("start", [0, 1, 5])
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.alike("dtype", "lanes", "step")
def test_elements_a_short_step_apart(dtype: str, lanes: int, start: int, step: int) -> None:
    func = every(step, start, lanes, 3 * lanes, dtype)
    module = lower(func, Target("cpu"))
    assert "Shuffle" in str(module)
    assert check(func, module, modes=("exact", "shadow"))  # nothing outside A is touched
    a = np.arange(func.params[0].shape[0].value).astype(dtype)
    found = np.zeros(3 * lanes, dtype)
    minitvm.build(func, target="cpu")(a, found)
    np.testing.assert_array_equal(found, a[start::step])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_two_rows_in_turn(dtype: str, lanes: int) -> None:
    a = te.placeholder((2, 3 * lanes), dtype, name="A")
    b = te.compute((6 * lanes,), lambda i: a[i % 2, i // 2], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    _, lane = sch.split(sch.get_loops("B")[0], [None, lanes])
    sch.vectorize(lane)
    module = lower(sch.func, Target("cpu"))
    assert "Shuffle" in str(module)
    assert check(sch.func, module, modes=("exact", "shadow"))
    rows = np.arange(6 * lanes).reshape(2, -1).astype(dtype)
    found = np.zeros(6 * lanes, dtype)
    minitvm.build(sch.func, target="cpu")(rows, found)
    np.testing.assert_array_equal(found, rows.T.reshape(-1))


@pytest.mark.parametrize("times", [2, 4])
def test_each_element_several_times(times: int) -> None:
    a = te.placeholder((32,), "float32", name="A")
    b = te.compute((32 * times,), lambda i: a[i // times], name="B")
    sch = Schedule(te.create_prim_func([a, b]))
    _, lane = sch.split(sch.get_loops("B")[0], [None, 16])
    sch.vectorize(lane)
    module = lower(sch.func, Target("cpu"))
    assert "Shuffle" in str(module)
    assert check(sch.func, module, modes=("exact", "shadow"))
    row = np.arange(32, dtype="float32")
    found = np.zeros(32 * times, "float32")
    minitvm.build(sch.func, target="cpu")(row, found)
    np.testing.assert_array_equal(found, np.repeat(row, times))


@pytest.mark.parametrize("target", ["cpu", "opencl -device=pocl -vector_bits=512"])
@pytest.mark.parametrize(("times", "lanes"), [(2, 4), (2, 8), (2, 16), (4, 16)])
def test_rows_of_a_length_that_no_vector_has(times: int, lanes: int, target: str) -> None:
    """16 lanes that read elements 0, 1, 1, ..., 7, 7, 8 read nine of them: two vectors of eight overlap."""
    a = te.placeholder((2, 32), "float32", name="A")
    for rows in (1, 2):
        b = te.compute(
            (62,), lambda i, rows=rows: a[i % rows, (i // rows + times // 2) // times], name="B"
        )  # fmt: skip
        sch = Schedule(te.create_prim_func([a, b]))
        _, lane = sch.split(sch.get_loops("B")[0], [None, lanes])
        sch.vectorize(lane)
        module = lower(sch.func, Target(target))
        widths = {e.dtype.lanes for e in find(module, BufferLoad)}
        assert "Shuffle" in str(module) and widths <= {1, 2, 4, 8, 16}
        assert check(sch.func, module, modes=("exact", "shadow"))


@pytest.mark.parametrize(("step", "lanes"), [(5, 8), (1, 8), (2, 2)])
def test_others_are_left_alone(step: int, lanes: int) -> None:
    assert "Shuffle" not in str(lower(every(step, 0, lanes, 4 * lanes), Target("cpu")))
