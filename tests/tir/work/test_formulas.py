"""Closed formulas against counting: exactly equal at many sizes, or an upper bound where they say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from minitvm import strategy, te, topi
from minitvm.errors import InputError
from minitvm.expr import And, Expr, Or, SizeVar, Var, as_expr, const, walk
from minitvm.reference import kernel as interpreter
from minitvm.reference import strategies
from minitvm.reference.listeners import Ledger
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir.conditions import reads_memory
from minitvm.tir.nodes import Buffer, BufferLoad, BufferStore, For, ForKind, If, PrimFunc, Stmt
from minitvm.tir.transform.pipeline import lower
from minitvm.tir.values import values
from minitvm.tir.work import Rates, WorkFormulas, count, formulas

from .nests import SIZES, chosen, least, miscounted, nests

CPU = Target("cpu -model=znver3")


def kernels(func: PrimFunc, schedule: bool = True) -> list[PrimFunc]:
    scheduled = strategy.schedule(func, CPU).func if schedule else func
    return [k for _, k in lower(scheduled, CPU, "f").items() if not k.attrs.get("host")]


def assert_counted(kernel: PrimFunc, sizes: Any = SIZES) -> WorkFormulas:
    work = formulas(kernel)
    assert miscounted(kernel, work, sizes) == ""
    return work


# -- random nests: triangles, tiles with edges, guards, masks ---------------------------------------------------------


@given(nests())
@settings(max_examples=20)
def test_nests_of_loops_over_sizes(kernel: PrimFunc) -> None:
    assert_counted(kernel)


@pytest.mark.parametrize("kernel", chosen())
def test_chosen_nests(kernel: PrimFunc) -> None:
    assert_counted(kernel)


@given(strategies.prim_funcs(symbolic=True))
@settings(max_examples=15)
def test_any_kernel_over_a_size(func: PrimFunc) -> None:
    for kernel in kernels(func):
        work = assert_counted(kernel, [(1,), (2,), (5,), (9,)])
        for size in (1, 5):
            assert_as_run(kernel, work, size)


def assert_as_run(kernel: PrimFunc, work: WorkFormulas, size: int) -> None:
    """Loads and stores by buffer are those that the kernel interpreter hears."""
    at = dict.fromkeys(work.sizes, size)
    if not count(kernel, at).exact:
        return  # loads in indices from memory are not counted
    if any(isinstance(n, And | Or) and reads_memory(n.a) for n in walk(kernel.body)):
        return  # data decides whether the second condition is asked
    arrays = [np.ones([int(values(dim, at)) for dim in p.shape], p.dtype.numpy) for p in kernel.buffers]
    scalars = [size for p in kernel.params if isinstance(p, Var)]
    ledger = Ledger()
    with np.errstate(all="ignore"):
        interpreter.run(
            kernel, *arrays, *scalars, mode="slow", shadow=False, listeners=[ledger],
            inout=[p.name for p in kernel.buffers],
        )  # fmt: skip
    for formulas_of, heard in ((work.loads, ledger.loads), (work.stores, ledger.stores)):
        for name in heard:
            mine = [f for b, f in formulas_of.items() if b.name == name]
            total = sum(f.at(at) for f in mine)
            assert total == heard[name] if all(f.exact for f in mine) else total >= heard[name], (name, kernel.script())


def product() -> PrimFunc:
    """Three loops as te writes them."""
    n, m, k = te.var("n"), te.var("m"), te.var("k")
    a, b = te.placeholder((n, k), name="a"), te.placeholder((k, m), name="b")
    (kernel,) = kernels(create_prim_func([a, b, topi.matmul(a, b)]), schedule=False)
    return kernel


def test_a_matrix_product_has_the_formulas_that_everybody_writes() -> None:
    kernel = product()
    work = formulas(kernel)
    assert work.exact
    assert str(work.flops) == "2*k*m*n" and str(work.slots) == "k*m*n"
    reads = {b.name: str(f) for b, f in work.reads.items()}
    assert reads["a"] == "4*k*n" and reads["b"] == "4*k*m"
    assert str(work.touched) == "4*k*m + 4*k*n + 4*m*n"
    touched = [(level.name, str(level.extent), str(level.touched)) for level in work.levels]
    assert touched[-1] == ("k", "k", "8*k + 4")


def test_thousands_of_sizes_are_one_call() -> None:
    cost = formulas(product()).flops.compiled(("n", "m", "k"))
    rng = np.random.default_rng(0)
    n, m, k = rng.integers(1, 3000, (3, 5000))
    np.testing.assert_array_equal(cost(n, m, k), 2 * n * m * k)
    np.testing.assert_array_equal(cost(n, 3, 4), 24 * n)


def nest(*loops: tuple[Var, Any], guard: Expr | None = None, index: Any = 0) -> PrimFunc:
    """A kernel that adds 1 to an element in its innermost iteration, where the guard holds."""
    n = next(v for _, extent in [*loops, (None, index)] for v in walk(as_expr(extent)) if isinstance(v, SizeVar))
    b = Buffer("b", (n * n + 64,))
    body: Stmt = BufferStore(b, BufferLoad(b, (as_expr(index),)) + 1.0, (as_expr(index),))
    body = body if guard is None else If(guard, body)
    for v, extent in reversed(loops):
        body = For(v, const(0), as_expr(extent), ForKind.SERIAL, body)
    return PrimFunc((b, n), body)


n, i, j = SizeVar("n"), Var("i"), Var("j")
EXAMPLES = {
    "triangle": (nest((i, n), (j, i + 1), index=i * n + j), "n**2/2 + n/2", "2*n**2 + 2*n"),
    "remainder": (nest((i, (n + 15) // 16), (j, 16), guard=i * 16 + j < n, index=i * 16 + j), "n", "4*n"),
    "edge of a tile": (nest((i, (n + 15) // 16), (j, least(16, n - i * 16)), index=i * 16 + j), "n", "4*n"),
    "either": (nest((i, n), guard=Or(i < 1, i >= n - 1), index=i), "n - max(0, n - 2)", None),
    "window": (nest((i, n), (j, 3), index=i * 2 + j), "3*n", "8*n + 4"),
    "fused": (nest((i, n * 4), index=i // n * n + i % n), "4*n", "16*n"),
    "no size at all": (nest((i, 4), (j, 3), index=i * 4 + j + n * 0), "12", "48"),
}


@pytest.mark.parametrize("kernel, flops, touched", EXAMPLES.values(), ids=EXAMPLES)
def test_formulas_of_nests(kernel: PrimFunc, flops: str, touched: str | None) -> None:
    work = assert_counted(kernel, [(size,) for size in (1, 2, 3, 15, 16, 17, 31, 32, 33)])
    size = next(v for v in work.sizes)
    for number in (1, 2, 3, 15, 16, 17, 33):  # the same number everywhere, however it is written
        assert work.flops.at({size: number}) == eval(flops.replace("/2", "*0.5"), {"n": number, "max": max})
    assert work.flops.exact
    if touched is not None:
        assert work.touched.exact and str(work.touched) == touched


def test_a_product_of_two_loops_in_a_guard_is_an_upper_bound() -> None:
    work = assert_counted(nest((i, n), (j, n), guard=i * j < n, index=i), [(size,) for size in (1, 2, 5, 9)])
    assert not work.flops.exact and str(work.flops) == "at most n**2"


def test_cycles_are_of_the_arithmetic_or_of_the_memory() -> None:
    kernel = product()
    cycles = formulas(kernel).cycles(kernel, Rates(multiply_adds=16, cache_nbytes=1 << 20, cache=32, memory=8))
    assert cycles.at({"n": 64, "m": 64, "k": 64}) == 64**3 / 16
    assert " if " in str(cycles) and " else " in str(cycles)
    moved = formulas(kernel).moved(kernel)
    for sizes, rate in (({"n": 1, "m": 2, "k": 4}, 32), ({"n": 1, "m": 4096, "k": 4096}, 8)):
        assert cycles.at(sizes) == pytest.approx(moved.at(sizes) / rate)


def test_a_size_without_a_value_is_named() -> None:
    with pytest.raises(InputError, match="k: no value for a size of the formula 2[*]k[*]m[*]n"):
        formulas(product()).flops.at({"n": 1, "m": 2})


def test_fixed_sizes_give_constants() -> None:
    a, b = te.placeholder((64, 64), name="a"), te.placeholder((64, 128), name="b")
    (kernel,) = kernels(create_prim_func([a, b, topi.matmul(a, b)]))
    work = assert_counted(kernel, [()])
    assert work.exact and work.sizes == () and work.flops.at({}) == 2 * 64 * 64 * 128
