"""Scalar arguments with extreme values: programs mean the same interpreted, lowered, and compiled.

One meaning of overflow (docs/semantics.md, "Integers"): scalars, lets of loads and casts are data, which wraps.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm.errors import ExecutionError
from minitvm.reference import kernel, tir
from minitvm.script import from_source
from minitvm.tir.transform.pipeline import lower

ENDS = [2**31 - 1, -(2**31), 2**30 + 5, -(2**30) - 3, 2**29 + 1, -1, 0, 3, 5]


def _expression(rng: Random, names: list[str], depth: int) -> str:
    """An int32 expression, mostly sums of products that are divided or compared."""
    if depth == 0:
        return rng.choice([*names, *names, f"T.int32({rng.choice([1, 2, 3, 7, 16, 65536, 2**30])})"])
    a, b = _expression(rng, names, depth - 1), _expression(rng, names, depth - 1)
    constant = rng.choice([2, 3, 4, 8, 1024])
    return rng.choice([
        f"({a} + {b})", f"({a} - {b})", f"({a} * {constant})", f"({a} * {constant} // {constant})",
        f"({a} * {constant} % {constant})", f"T.min({a}, {b})", f"T.max({a} * {constant}, {b})",
        f"T.Select({a} < {b}, {a}, {b})", f"T.Select({a} * {constant} > {b} * {constant}, {a}, {b})",
        f'T.Cast("int32", T.Cast("int64", {a}) * T.int64(1000000007))', f"T.Select({a} + 1 > {a}, {a}, {b})",
        f'T.Cast("int32", T.Cast("int8", {a} + {b}))', f"({a} + {constant} - {b} - {constant}) // {constant}",
    ])  # fmt: skip


def _program(seed: int) -> Any:
    rng = Random(seed)
    names = ["s", "t", "x", "i"]
    return from_source(f"""
@T.prim_func
def f(s: T.int32, t: T.int32, A: T.Buffer((6,), "int32"), B: T.Buffer((6,), "int32")):
    for i in range(6):
        x: T.int32 = A[i] + s
        B[i] = {_expression(rng, names, 2)}
        if {_expression(rng, names, 1)} < {_expression(rng, names, 1)}:
            B[i] = B[i] + {_expression(rng, names, 1)}
""")


def _results(seed: int, program: Any, run: Any) -> list[list[int]]:
    rng = Random(seed)
    found: list[list[int]] = []
    for _ in range(5):
        s, t = rng.choice(ENDS), rng.choice(ENDS)
        a, b = np.array([rng.choice(ENDS) for _ in range(6)], np.int32), np.zeros(6, np.int32)
        try:
            run(program, s, t, a, b)
        except ExecutionError as error:
            assert "index overflow" in str(error)
            found.append([])
        else:
            found.append(b.tolist())
    return found


def _agree(wanted: list[list[int]], found: list[list[int]]) -> None:
    """What is undefined may do anything."""
    assert [w for w in wanted if w] == [f for w, f in zip(wanted, found, strict=True) if w]


@pytest.mark.alike()
@pytest.mark.parametrize("part", range(2))
def test_levels_agree_on_scalars_at_their_ends(part: int) -> None:
    defined = 0
    for seed in range(part * 20, part * 20 + 20):
        func = _program(seed)
        wanted = _results(seed, func, lambda f, *args: tir.run(f, *args, mode="slow"))
        assert wanted == _results(seed, func, lambda f, *args: tir.run(f, *args, mode="fast")), func
        _agree(wanted, _results(seed, lower(func, None, "f"), kernel.run))
        defined += sum(map(bool, wanted))
    assert defined > 60


def test_compiled_code_agrees() -> None:
    for seed in range(1):
        func = _program(seed)
        wanted = _results(seed, func, tir.run)
        _agree(wanted, _results(seed, tvm.build(func), lambda module, *args: module(*args)))


def test_a_product_of_loop_variables_beyond_its_dtype_is_undefined() -> None:
    func = from_source("""
@T.prim_func
def f(B: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        B[i, j] = i * 1000000000 * j // 1000
""")
    for mode in ("slow", "fast"):
        with pytest.raises(ExecutionError, match=r"index overflow: i \* 1000000000 \* j is 3000000000"):
            tir.run(func, np.zeros((4, 4), np.int32), mode=mode)
