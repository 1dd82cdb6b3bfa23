"""Random index expressions over small boxes, and their evaluation by brute force with Python's own arithmetic."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from minitvm.arith import Analyzer
from minitvm.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    SizeVar,
    Sub,
    Var,
    call,
    const,
)

Box = dict[Var, tuple[int, int]]
_COMPARE = (LT, LE, GT, GE, EQ, NE)


def evaluate(e: Expr, env: dict[Var, int]) -> int:
    """The value of an int32 or bool expression; integers are exact."""
    run = _COMPILED.get(e)
    if run is None:
        if len(_COMPILED) > 500:
            _COMPILED.clear()
        names: dict[str, Any] = {"truncated": truncated}
        run = _COMPILED[e] = eval(f"lambda env: {_source(e, names)}", names)
    return run(env)


_COMPILED: dict[Expr, Any] = {}
_INFIX = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", LT: "<", LE: "<=", GT: ">", GE: ">=", EQ: "==",
    NE: "!=", And: "and", Or: "or",
}  # fmt: skip
_BITS = {"shift_left": "<<", "shift_right": ">>", "bitwise_and": "&"}


def _source(e: Expr, names: dict[str, Any]) -> str:
    """Python text, in which a variable is looked up in `env`."""

    def s(part: Expr) -> str:
        return _source(part, names)

    if isinstance(e, Var):
        names[f"v{id(e)}"] = e
        return f"env[v{id(e)}]"
    if isinstance(e, IntImm):
        return f"({e.value})"
    if isinstance(e, Not):
        return f"(not {s(e.a)})"
    if isinstance(e, Select):
        return f"({s(e.true_value)} if {s(e.condition)} else {s(e.false_value)})"
    if isinstance(e, Call) and e.op == "if_then_else":
        return f"({s(e.args[1])} if {s(e.args[0])} else {s(e.args[2])})"
    if isinstance(e, Call):
        return f"({s(e.args[0])} {_BITS[e.op]} {s(e.args[1])})"
    if isinstance(e, Cast):
        return s(e.value)
    a, b = s(e.a), s(e.b)  # type: ignore[attr-defined]
    if isinstance(e, Min | Max):
        return f"{'min' if isinstance(e, Min) else 'max'}({a}, {b})"
    if isinstance(e, Div):
        return f"truncated({a}, {b})"
    if isinstance(e, Mod):
        return f"({a} - {b} * truncated({a}, {b}))"
    return f"({a} {_INFIX[type(e)]} {b})"


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def points(box: Box) -> list[dict[Var, int]]:
    """All assignments of the box."""
    names = list(box)
    return [dict(zip(names, values)) for values in itertools.product(*(range(a, b + 1) for a, b in box.values()))]


@st.composite
def boxes(draw: st.DrawFn, count: int = 3, size: int = 5, lowest: int = -6) -> Box:
    """Up to `count` variables with small ranges, zero and negative numbers included."""
    box: Box = {}
    for i in range(draw(st.integers(1, count))):
        low = draw(st.integers(lowest, 4))
        box[Var("xyzw"[i])] = (low, low + draw(st.integers(0, size)))
    return box


def integers(variables: list[Var], depth: int = 3) -> st.SearchStrategy[Expr]:
    """Integer expressions whose divisors are non-zero constants."""
    leaf = st.one_of(st.sampled_from(variables), st.integers(-9, 9).map(const))
    if depth == 0:
        return leaf
    sub = st.deferred(lambda: integers(variables, depth - 1))
    divisor = st.integers(-8, 16).filter(bool).map(const)
    factor = st.sampled_from([-4, -1, 2, 3, 4, 6, 8, 12, 16]).map(const)
    return st.one_of(
        leaf,
        st.builds(Add, sub, sub),
        st.builds(Sub, sub, sub),
        st.builds(Mul, sub, factor),
        st.builds(Mul, sub, leaf),
        st.builds(FloorDiv, sub, divisor),
        st.builds(FloorMod, sub, divisor),
        st.builds(Div, sub, divisor),
        st.builds(Mod, sub, divisor),
        st.builds(Min, sub, sub),
        st.builds(Max, sub, sub),
        st.builds(Select, conditions(variables, depth - 1), sub, sub),
        st.builds(lambda c, a, b: call("if_then_else", c, a, b), conditions(variables, depth - 1), sub, sub),
        st.builds(lambda a, n: call("shift_left", a, const(n)), sub, st.integers(0, 3)),
        st.builds(lambda a, n: call("shift_right", a, const(n)), sub, st.integers(0, 3)),
        st.builds(lambda a, n: call("bitwise_and", a, const(2**n - 1)), sub, st.integers(0, 3)),
    )


def conditions(variables: list[Var], depth: int = 3) -> st.SearchStrategy[Expr]:
    """Bool expressions."""
    sub = integers(variables, max(depth - 1, 0))
    plain = st.builds(lambda kind, a, b: kind(a, b), st.sampled_from(_COMPARE), sub, sub)
    if depth <= 0:
        return plain
    again = st.deferred(lambda: conditions(variables, depth - 1))
    return st.one_of(plain, plain, st.builds(And, again, again), st.builds(Or, again, again), st.builds(Not, again))


def symbolic(variables: list[Var], sizes: list[Var], depth: int) -> st.SearchStrategy[Expr]:
    """Integer expressions over loop variables and sizes: products of sizes, divisions by them and by sums of them."""
    leaf = st.one_of(st.sampled_from(variables), st.sampled_from(sizes), st.integers(-3, 4).map(const))
    if depth == 0:
        return leaf
    sub = st.deferred(lambda: symbolic(variables, sizes, depth - 1))
    size = st.sampled_from(sizes)
    # Divisors are at least 1 wherever sizes are.
    divisor = st.one_of(
        size,
        st.builds(Mul, size, size),
        st.builds(lambda n, c: Mul(n, const(c)), size, st.integers(1, 4)),
        st.builds(lambda n, c: Add(n, const(c)), size, st.integers(0, 3)),
        st.builds(lambda n, m, c: Mul(Add(n, const(c)), m), size, size, st.integers(1, 2)),
        st.integers(1, 4).map(const),
    )
    return st.one_of(
        leaf,
        st.builds(Add, sub, sub),
        st.builds(Mul, sub, leaf),
        st.builds(lambda v, n, r: Add(Mul(v, n), r), sub, size, sub),
        st.builds(lambda v, n, m, w, r: Add(Add(Mul(Mul(v, n), m), Mul(w, m)), r), sub, size, size, sub, leaf),
        st.builds(FloorDiv, sub, divisor),
        st.builds(FloorMod, sub, divisor),
        st.builds(lambda x, d, e: FloorDiv(Mul(x, e), Mul(d, e)), sub, divisor, size),
        st.builds(lambda x, d, e: FloorMod(Mul(x, e), Mul(d, e)), sub, divisor, size),
        st.builds(lambda x, d, e: FloorDiv(FloorDiv(x, d), e), sub, divisor, size),
        st.builds(lambda x, d: Add(Mul(FloorDiv(x, d), d), FloorMod(x, d)), sub, divisor),
        st.builds(lambda a, b: a - b, sub, sub),
        st.builds(lambda a, b, c, d: Mul(a - b, c - d), leaf, leaf, leaf, leaf),
    )


class SymbolicShape:
    """Expressions e and f over loops of symbolic extents n, m and n*m; every size from 1 to 3 is tried."""

    def __init__(self, draw: Any) -> None:
        n, m, i, j, fused = SizeVar("n"), SizeVar("m"), Var("i"), Var("j"), Var("fused")
        self.variables = n, m, i, j, fused
        self.e = draw(symbolic([i, j, fused], [n, m], 3))
        self.f = draw(symbolic([i, j, fused], [n, m], 2))
        self.analyzer = Analyzer({n: (1, None), m: (1, None), i: n, j: m, fused: n * m})

    def points(self) -> Iterator[dict[Var, int]]:
        n, m, i, j, fused = self.variables
        for sizes in points({n: (1, 3), m: (1, 3)}):
            ends = {i: (0, sizes[n] - 1), j: (0, sizes[m] - 1), fused: (0, sizes[n] * sizes[m] - 1)}
            for env in points(ends):
                yield {**sizes, **env}

    def mistake(self) -> str:
        """What the analyzer says that is wrong somewhere; empty if nothing is."""
        e, f, analyzer = self.e, self.f, self.analyzer
        simple, refuted, (low, high) = analyzer.simplify(e), analyzer.simplify(e < f), analyzer.bounds(e)
        proved, equal = analyzer.can_prove(e >= f), analyzer.can_prove_equal(e, f)
        for env in self.points():
            value, other = evaluate(e, env), evaluate(f, env)
            if evaluate(simple, env) != value:
                return f"{e} -> {simple} at {env}"
            if bool(evaluate(refuted, env)) != (value < other):
                return f"{e} < {f} -> {refuted} at {env}"
            if (proved and value < other) or (equal and value != other):
                return f"proved {e} >= or == {f}, false at {env}"
            if (low is not None and low > value) or (high is not None and high < value):
                return f"bounds of {e}: {low}, {high}, but {value} at {env}"
        return ""
