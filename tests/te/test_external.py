"""Functions of loops among tensor expressions: a part of the program at every level."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.errors import InputError
from minitvm.reference import check
from minitvm.reference import tir as loops
from minitvm.reference.te import evaluate
from minitvm.te.printer import script
from minitvm.tir.nodes import root_block
from minitvm.tir.transform.pipeline import lower

RUNNING = """
@T.prim_func
def running(x: T.Buffer((4, 6), "float32"), sums: T.Buffer((4, 6), "float32"), last: T.Buffer((4,), "float32")):
    for i in range(4):
        with T.block("running"):
            vi = T.axis.spatial(4, i)
            T.reads(x[vi, 0:6])
            T.writes(sums[vi, 0:6], last[vi])
            total = T.alloc_buffer((1,), "float32", scope="local")
            total[0] = T.float32(0)
            for j in range(6):
                total[0] = total[0] + x[vi, j]
                sums[vi, j] = total[0]
            last[vi] = total[0]
"""


# Loops that hand values on through storage of the whole function, of which there may be several pieces.
STAGED = """
@T.prim_func
def staged(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
{allocations}
{copies}
    for i in range(4):
        with T.block("last"):
            vi = T.axis.spatial(4, i)
            y[vi] = {last}[3 - vi] + T.float32(1)
"""
COPY = """
    for i in range(4):
        with T.block("stage"):
            vi = T.axis.spatial(4, i)
            {to}[vi] = {of}[vi] * T.float32(2)
"""


@pytest.mark.parametrize("count", range(4))
def test_each_call_has_all_storage_of_the_function(count: int) -> None:
    stages = ["x", *(f"s{k}" for k in range(count))]
    text = STAGED.format(
        allocations="\n".join(f'    {name} = T.alloc_buffer((4,), "float32")' for name in stages[1:]),
        copies="".join(COPY.format(of=a, to=b) for a, b in pairwise(stages)), last=stages[-1],
    )  # fmt: skip
    x = te.placeholder((4,), name="x")
    once = te.extern_primfunc([x], text)
    func = te.create_prim_func([x, te.extern_primfunc([once], text)])
    array, found = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    loops.run(func, array, found)
    of_one = lambda a: a[::-1] * 2**count + 1  # noqa: E731
    np.testing.assert_array_equal(found, of_one(of_one(array)))
    assert len(root_block(func).alloc_buffers) == 2 * count + 1


def program() -> list[te.Tensor]:
    """What loops compute between what formulas do; the same function twice."""
    x = te.placeholder((4, 6), name="x")
    doubled = te.compute((4, 6), lambda i, j: x[i, j] * 2.0, name="doubled")
    sums, last = te.extern_primfunc([doubled], RUNNING)
    again, _ = te.extern_primfunc([sums], RUNNING)
    return [x, te.compute((4, 6), lambda i, j: again[i, j] + last[i], name="y")]


def wanted(x: np.ndarray) -> np.ndarray:
    sums = np.cumsum(2 * x, 1, dtype="float32")
    return np.cumsum(sums, 1, dtype="float32") + sums[:, -1:]


@pytest.mark.parametrize("mode", ["slow", "fast"])
def test_interpreted(mode: str, rng: np.random.Generator) -> None:
    x, y = program()
    array = rng.integers(-4, 4, (4, 6)).astype("float32")
    np.testing.assert_array_equal(evaluate(y, {x: array}, mode=mode)[0], wanted(array))


def test_as_loops_kernels_and_code(rng: np.random.Generator) -> None:
    func = te.create_prim_func(program())
    array, found = rng.integers(-4, 4, (4, 6)).astype("float32"), np.zeros((4, 6), "float32")
    loops.run(func, array, found)
    np.testing.assert_array_equal(found, wanted(array))
    assert check(func, lower(func, "cpu"))
    found[:] = 0
    minitvm.build(func)(array, found)
    np.testing.assert_array_equal(found, wanted(array))
    assert check(program(), func, modes=("floats",))


def test_the_text_builds_the_same_tensors(rng: np.random.Generator) -> None:
    names: dict[str, Any] = {"te": te}
    exec(script(program()[1:]), names)
    array = rng.integers(-4, 4, (4, 6)).astype("float32")
    np.testing.assert_array_equal(evaluate(names["y"], {names["x"]: array})[0], wanted(array))


def test_parameters_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="input 0 is not what the function takes"):
        te.extern_primfunc([te.placeholder((4, 5), name="x")], RUNNING)
    x = te.placeholder((4, 6), name="x")
    with pytest.raises(InputError, match="the function's parameters are the inputs, and then the results"):
        te.extern_primfunc([x, x, x], RUNNING)
