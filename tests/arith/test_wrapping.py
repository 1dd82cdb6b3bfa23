"""Integers of every width near the ends of their range: what is simplified keeps its number, proofs and bounds hold.

Indices (`Var`) are exact by definition: points at which a sum of them leaves its dtype are left out, as the interpreter
refuses them. Data (`DataVar`) wraps.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from minitvm.arith import Analyzer
from minitvm.errors import ExecutionError
from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    Cast,
    DataVar,
    Div,
    DType,
    Expr,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    Select,
    Sub,
    Var,
    call,
    const,
    free_vars,
)
from minitvm.reference.meaning.scalar import evaluate

_DTYPES = ["int32"] * 5 + ["int64"] * 3 + ["int8", "uint8", "int16", "uint16", "uint32", "uint64"]
_COMPARE = (LT, LE, GT, GE, EQ, NE)
_KINDS: list[Any] = [
    "leaf", Add, Sub, "scale", Mul, FloorDiv, FloorMod, "cast", "cast", Div, Mod, Min, Max, Select, "shift", Add, Sub,
    "digits",
]  # fmt: skip
_BIG = (1, 2, 3, 4, 7, 8, -1, -4, 2**8, 2**15 + 1, 2**16, 1_000_000_007, 2**30, 2**31 - 1, -(2**31), 2**33, 2**40)
Tried = dict[Var, list[int]]


def _near_ends(dtype: str) -> list[int]:
    low, high = int(DType(dtype).min), int(DType(dtype).max)
    return [v for v in (low, low + 1, -5, -1, 0, 1, 5, high // 2 + 6, high // 4 + 2, high - 1, high) if v >= low]


def _variables(rng: Random) -> Tried:
    """Variables with the values that are tried: data near the ends of its dtype, indices of short loops far out."""
    found: Tried = {}
    for name in "xyz"[: rng.randint(1, 3)]:
        dtype = rng.choice(["int32", "int32", "int64", "int8", "uint8", "int16", "uint32"])
        if rng.random() < 0.5:
            found[DataVar(name, DType(dtype))] = _near_ends(dtype)
        else:
            start = rng.choice([0, 0, -3, 2**20, 2**30, 2**31 - 6, -(2**31)])
            found[Var(name, DType("int64" if dtype == "int64" else "int32"))] = list(range(start, start + 4))
    return found


def _constant(rng: Random, dtype: str) -> Expr:
    low, high = int(DType(dtype).min), int(DType(dtype).max)
    return const(rng.choice([v for v in (*_BIG, 0, low, high) if low <= v <= high]), dtype)


def _integer(rng: Random, variables: list[Var], dtype: str, depth: int, top: str = "") -> Expr:
    """An expression of one dtype over variables of all."""
    kind = top or (rng.choice(_KINDS) if depth else "leaf")
    if kind == "leaf":
        var = rng.choice(variables)
        return _constant(rng, dtype) if rng.random() < 0.2 else var if var.dtype == dtype else Cast(DType(dtype), var)
    first = _integer(rng, variables, rng.choice(_DTYPES) if kind == "cast" else dtype, depth - 1)
    if kind == "cast":
        return Cast(DType(dtype), first)
    if kind == "digits":  # divisions inside of divisions by what divides theirs: rules take the inner ones away
        inner = rng.choice((FloorDiv, FloorMod))(first, const(d := rng.choice((2, 3, 7, 8, 64)), dtype))
        more = _integer(rng, variables, dtype, depth - 1) if rng.random() < 0.5 else const(rng.randint(0, 9), dtype)
        factor = rng.choice((1, 1, 2, 5, 8, -1) if dtype[0] != "u" else (1, 1, 2, 5, 8))
        by = const(rng.choice((d, d, 2 * d if 2 * d < 128 else d, 2, 8)), dtype)
        return rng.choice((FloorDiv, FloorMod))(Add(Mul(inner, const(factor, dtype)), more), by)
    if kind == "shift":
        return call("shift_left", first, const(rng.randint(0, 3), dtype))
    if kind in (FloorDiv, FloorMod, Div, Mod):
        by = [v for v in (1, 2, 3, 4, 8, 16, 100, 2**20) if v <= DType(dtype).max]
        return kind(first, const(rng.choice(by), dtype))
    second = _constant(rng, dtype) if kind == "scale" else _integer(rng, variables, dtype, depth - 1)
    if kind is Select:
        return Select(rng.choice(_COMPARE)(first, second), first, _integer(rng, variables, dtype, depth - 1))
    return (Mul if kind == "scale" else kind)(first, second)


def _value(e: Expr, env: dict[Var, int]) -> Any:
    """The number, or None where an index overflows."""
    try:
        return evaluate(e, {v: env[v] for v in free_vars(e)})
    except ExecutionError as error:
        assert "index overflow" in str(error)
        return None


@pytest.mark.parametrize("part", ["any", pytest.param("any more", marks=pytest.mark.full), "digits"])
def test_simplify_bounds_and_proofs_near_the_ends(part: str) -> None:
    start = {"any": 0, "any more": 600, "digits": 1200}[part]
    for seed in range(start, start + 600):
        rng = Random(seed)
        variables, dtype = _variables(rng), rng.choice(_DTYPES)
        top = "digits" if part == "digits" else ""
        e = _integer(rng, list(variables), dtype, rng.choice([2, 2, 3]) - bool(top), top)
        other = _integer(rng, list(variables), dtype, 1)
        analyzer = Analyzer({v: (tried[0], tried[-1]) for v, tried in variables.items() if not isinstance(v, DataVar)})
        condition = rng.choice(_COMPARE)(e, other)
        simple, truth, (low, high) = analyzer.simplify(e), analyzer.simplify(condition), analyzer.bounds(e)
        equal = analyzer.can_prove_equal(e, other)
        for _ in range(6):
            env = {v: rng.choice(tried) for v, tried in variables.items()}
            value = _value(e, env)
            if value is None:
                continue
            assert _value(simple, env) == value, f"{seed}: {e} -> {simple} at {env}"
            assert low is None or low <= value, f"{seed}: {e} is {value}, below {low}, at {env}"
            assert high is None or high >= value, f"{seed}: {e} is {value}, above {high}, at {env}"
            second = _value(other, env)
            if second is not None:
                assert _value(truth, env) == _value(condition, env), f"{seed}: {condition} -> {truth} at {env}"
                assert not equal or value == second, f"{seed}: {e} == {other} proved, not at {env}"
