"""Programs with one fault each: what somebody may write wrong, at every place of a program where it can be.

`mutants` changes one node of what a function stores: a constant, an operator, a rounding, a cast, the order of two
operands; or leaves out a clip. `formulas` draws programs of one or two small integer inputs, on which every input can
be tried: `truly_equal` tells by that whether a mutant differs at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from minitvm import expr as x
from minitvm.errors import ExecutionError, MinitvmError
from minitvm.reference.judging.programs import execute
from minitvm.tir import nodes as t

from .written import function

Fault = tuple[str, x.Expr]
_OTHERS: dict[type, tuple[type, ...]] = {
    x.GT: (x.GE, x.LT), x.GE: (x.GT,), x.LT: (x.LE, x.GT), x.LE: (x.LT,), x.EQ: (x.NE,), x.NE: (x.EQ,),
    x.Add: (x.Sub,), x.Sub: (x.Add,), x.Mul: (x.Add,), x.Min: (x.Max,), x.Max: (x.Min,),
    x.FloorDiv: (x.Div,), x.Div: (x.FloorDiv,), x.FloorMod: (x.Mod,), x.Mod: (x.FloorMod,),
    x.And: (x.Or,), x.Or: (x.And,),
}  # fmt: skip
_ROUNDINGS = ("round", "nearbyint", "floor", "ceil", "trunc")


def mutants(func: t.PrimFunc) -> Iterator[tuple[str, t.PrimFunc]]:
    """Every function that differs from this one by one fault, with a text that says which."""
    for place, node in enumerate(_stored(func)):
        for text, changed in faults(node):
            yield text, _with(func, place, changed)


def faults(e: x.Expr) -> Iterator[Fault]:
    """What may be written in the place of one expression."""
    if isinstance(e, x.IntImm | x.FloatImm) and not e.dtype.is_bool:
        steps: tuple[Any, ...] = (1, -1) if isinstance(e, x.IntImm) else (1, Fraction(1, 2), Fraction(-1, 1024))
        for step in steps:
            value: Any = e.value + step if isinstance(e, x.IntImm) else float(e.value) + float(step)
            if isinstance(e, x.FloatImm) or int(e.dtype.min) <= value <= int(e.dtype.max):
                yield f"{e.value} is {value}", x.replace(e, value=value)
    elif isinstance(e, x.BinaryOp):
        for other in _OTHERS.get(type(e), ()):
            if not (e.a.dtype.is_float and other in (x.FloorDiv, x.FloorMod)):
                yield f"{type(e).__name__} is {other.__name__}", other(e.a, e.b)
        if isinstance(e, x.Sub | x.Div | x.FloorDiv):
            yield "operands exchanged", type(e)(e.b, e.a)
        if isinstance(e, x.Min | x.Max):
            yield "a clip left out", e.a
        if isinstance(e, x.Add | x.Sub) and isinstance(e.b, x.IntImm | x.FloatImm):
            yield "a term left out", e.a
    elif isinstance(e, x.Call):
        if e.op in _ROUNDINGS:
            yield from ((f"{e.op} is {op}", x.replace(e, op=op)) for op in _ROUNDINGS if op != e.op)
        if e.op == "abs":
            yield "abs left out", e.args[0]
    elif isinstance(e, x.Select):
        yield "the sides exchanged", x.Select(e.condition, e.false_value, e.true_value)
    elif isinstance(e, x.Cast) and e.value.dtype.is_int and e.dtype.is_int:
        for bits in (8, 16):
            if bits < e.dtype.bits:
                narrow = x.DType(f"{e.dtype.kind}{bits}")
                yield f"through {narrow}", x.Cast(e.dtype, x.Cast(narrow, e.value))
    if isinstance(e, t.BufferLoad) and e.dtype.is_int:
        one = x.const(1, e.dtype)
        yield "one more", x.Add(e, one)
        if e.dtype.kind == "int":
            yield "its magnitude", x.Max(e, x.Sub(x.const(0, e.dtype), e))


def _stored(func: t.PrimFunc) -> list[x.Expr]:
    """The expressions in what a function stores, those of indices left out."""
    found: list[x.Expr] = []
    stack: list[x.Node] = [s.value for s in x.walk(func.body) if isinstance(s, t.BufferStore)]
    while stack:
        n = stack.pop()
        if isinstance(n, x.Expr):
            found.append(n)
        if not isinstance(n, t.BufferLoad):
            stack.extend(x.children(n))
    return found


def _with(func: t.PrimFunc, place: int, changed: x.Expr) -> t.PrimFunc:
    target = _stored(func)[place]

    def put(node: x.Node) -> x.Node | None:
        return changed if node is target else None

    made: t.PrimFunc = x.rewrite(func, put)
    return made


# --- programs of which every input can be tried ----------------------------------------------------------------------


def formulas(seed: int, count: int) -> Iterator[tuple[str, Callable[[int], t.PrimFunc]]]:
    """Random formulas, each with the function that computes it on arrays of so many elements."""
    rng = random.Random(seed)
    while count:
        dtype = rng.choice(("int8", "uint8", "int8", "int16"))
        inputs = "A" if dtype == "int16" else rng.choice(("A", "AB"))
        draw = rng.choice((_integer, _integer, _quantised))
        text, out = draw(rng, dtype, inputs)

        def build(n: int, text: str = text, out: str = out, dtype: str = dtype, inputs: str = inputs) -> t.PrimFunc:
            arrays = [*((name, dtype) for name in inputs), ("C", out)]
            signature = ", ".join(f'{name}: T.Buffer(({n},), "{kind}")' for name, kind in arrays)
            return function(f"for i in range({n}):\n    C[i] = {text}", signature)

        try:
            build(2)
        except MinitvmError:
            continue
        yield f"{dtype}: {text}", build
        count -= 1


def _integer(rng: random.Random, dtype: str, inputs: str) -> tuple[str, str]:
    wide = rng.choice((dtype, "int32", "int16"))
    return _term(rng, dtype, wide, inputs, 3), wide


def _term(rng: random.Random, dtype: str, wide: str, inputs: str, depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        load = f"{rng.choice(inputs)}[i]"
        return load if dtype == wide else f'T.Cast("{wide}", {load})'
    a = _term(rng, dtype, wide, inputs, depth - 1)
    b = _term(rng, dtype, wide, inputs, depth - 1) if rng.random() < 0.4 else _number(rng, wide)
    kind = rng.randrange(9)
    positive = f"T.{wide}({rng.choice((2, 3, 4, 7, 16))})"
    if kind < 3:
        return f"({a} {'+-*'[kind]} {b})"
    if kind == 3:
        return rng.choice((f"({a} // {positive})", f"T.truncdiv({a}, {positive})", f"T.floormod({a}, {positive})"))
    if kind in (4, 5):
        return f"T.{rng.choice(('min', 'max'))}({a}, {b})"
    if kind == 6:
        compare = rng.choice(("<", "<=", ">", ">=", "=="))
        return f"T.Select({a} {compare} {b}, {_term(rng, dtype, wide, inputs, depth - 1)}, {_number(rng, wide)})"
    if kind == 7:
        return f"T.shift_right({a}, T.{wide}({rng.randrange(1, 5)}))"
    return f"T.max(T.min({a}, {_number(rng, wide, 100)}), {_number(rng, wide, 20)})"


def _number(rng: random.Random, dtype: str, largest: int = 60) -> str:
    low = 0 if dtype.startswith("u") else -largest
    return f"T.{dtype}({rng.randint(low, largest)})"


def _quantised(rng: random.Random, dtype: str, inputs: str) -> tuple[str, str]:
    loads = [f'T.Cast("float32", {name}[i])' for name in inputs]
    scales = [f"T.float32({rng.choice((0.05, 0.1, 0.5, 0.25, 0.003, 1.5, 0.75, 3.0))})" for _ in loads]
    total = " + ".join(f"{load} * {scale}" for load, scale in zip(loads, scales))
    rounded = f"T.{rng.choice(_ROUNDINGS)}({total})"
    if rng.random() < 0.4:
        rounded = f"T.floor({total} + T.float32(0.5))"
    shifted = f"{rounded} + T.float32({rng.choice((0, 3, -10))})"
    low, high = rng.choice(((-128, 127), (0, 6), (-100, 50)))
    return f'T.Cast("int8", T.max(T.min({shifted}, T.float32({high})), T.float32({low})))', "int8"


def results(func: t.PrimFunc, every: list[np.ndarray]) -> np.ndarray | None:
    """What a function of these inputs stores; None where it is not defined on all."""
    out = func.buffers[-1]
    array = np.zeros(every[0].size, out.dtype.numpy)
    try:
        execute(func, [*(a.copy() for a in every), array], False)
    except ExecutionError:
        return None
    return array


def every_input(func: t.PrimFunc) -> list[np.ndarray]:
    """All values of one input, all pairs of values of two."""
    given = func.buffers[:-1]
    ranges = [np.arange(int(p.dtype.min), int(p.dtype.max) + 1).astype(p.dtype.numpy) for p in given]
    return [grid.reshape(-1) for grid in np.meshgrid(*ranges, indexing="ij")]


def size_of(func: t.PrimFunc) -> int:
    """How many elements it takes to try every input."""
    return int(np.prod([1 << p.dtype.bits for p in func.buffers[:-1]]))
