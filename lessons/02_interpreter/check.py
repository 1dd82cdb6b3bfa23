"""Runs random programs in the learner's interpreter and in the reference interpreter, and compares the memory after."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.errors import MinitvmError, Unsupported
from minitvm.expr import Add, Expr, FloorMod, Max, Mul, Sub, Var, const
from minitvm.tir.nodes import Buffer, BufferStore, Evaluate, For, ForKind, If, Seq, Stmt, root_block, with_root

A = Buffer("A", (4,), "int32")
START = np.array([3, 1, 4, 2], "int32")


@st.composite
def programs(draw: Any, scope: tuple[Var, ...] = (), depth: int = 3) -> Stmt:
    """A statement over A and the loop variables in scope; every index is in bounds by construction."""
    kinds = ["store", "for", "seq"] if depth else ["store"]
    kind = draw(st.sampled_from(kinds))
    if kind == "store":
        return BufferStore(A, draw(values(scope)), (draw(indices(scope)),))
    if kind == "seq":
        inner = programs(scope, depth - 1)
        return Seq((draw(inner), draw(inner)))
    var = Var("ijk"[len(scope)])
    # Both may depend on an outer loop: a triangle, say.
    bounds = st.integers(0, 3).map(const) | st.sampled_from(scope) if scope else st.integers(0, 3).map(const)
    start, extent = draw(bounds), draw(bounds)
    return For(var, start, extent, ForKind.SERIAL, draw(programs((*scope, var), depth - 1)))


def indices(scope: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    """An index of A: a number, or a loop variable brought into bounds."""
    numbers = st.integers(0, 3).map(const)
    return numbers | st.sampled_from(scope).map(lambda v: FloorMod(v, const(4))) if scope else numbers


def values(scope: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    """What is stored: numbers, loop variables, elements of A, and one operation on two of these."""
    leaf = st.integers(0, 9).map(const) | indices(scope).map(lambda i: A[i])
    leaf = leaf | st.sampled_from(scope) if scope else leaf
    return leaf | st.builds(lambda kind, a, b: kind(a, b), st.sampled_from([Add, Sub, Mul, Max]), leaf, leaf)


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program on which the interpreters disagree."""

    @cases(120, stmt=programs())
    def agrees_with_the_reference(stmt: Stmt) -> None:
        expected, actual = START.copy(), START.copy()
        reference.tir.run(with_root((A,), stmt, {"global_symbol": "main"}), expected, inout=["A"], mode="slow")
        case = f"the program\n{indented(stmt)}\nwith A = {START.tolist()} at the start"
        try:
            attempt(case, module.run, stmt, {}, {A: actual})
        except MinitvmError as error:
            raise AssertionError(f"{error}") from None
        message = f"{case}\nleaves A = {expected.tolist()}; in your interpreter A = {actual.tolist()}"
        require(bool((expected == actual).all()), message)

    for stranger in (If(A[0] > const(0), BufferStore(A, const(7), (const(0),))), Evaluate(const(0))):
        kind = type(stranger).__name__
        try:
            module.run(stranger, {}, {A: START.copy()})
        except Unsupported as error:
            require(kind in str(error), f"{kind} is refused, but the text does not name it: {error}")
        else:
            raise AssertionError(
                f"the statement\n{indented(stranger)}\nis {kind}; wanted Unsupported, nothing was raised"
            )

    func = example.in_a_register(2, 3, 4)
    arrays = example.inputs(2, 3, 4)
    memory = {**dict(zip(func.buffers, arrays)), root_block(func).alloc_buffers[0]: np.zeros(1, "float32")}
    module.run(root_block(func).body, {}, memory)
    by_numpy = example.expected(*arrays[:3])
    require(bool((arrays[3] == by_numpy).all()), f"the example gives\n{arrays[3]}\nand NumPy gives\n{by_numpy}")


def indented(stmt: Stmt) -> str:
    """The text of a statement, set in by four."""
    return "\n".join("    " + line for line in str(stmt).splitlines())
