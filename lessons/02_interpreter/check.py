"""Runs random programs in the learner's interpreter and in the reference interpreter, and compares the memory after."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

from lessons import example
from lessons.grading import attempt, cases, require
from minitvm import reference
from minitvm.errors import MinitvmError, Unsupported
from minitvm.expr import Add, Expr, FloorMod, Max, Mul, Sub, Var, const, substitute
from minitvm.tir.nodes import Buffer, BufferStore, Evaluate, For, ForKind, If, Seq, Stmt, root_block, with_root

A = Buffer("A", (4,), "int32")
B = Buffer("B", (2,), "int64")
N = Var("n")  # is in scope when a program begins
START = np.array([3, 1, 4, 2], "int32")
STRANGERS = (If(A[0] > const(0), BufferStore(A, const(7), (const(0),))), Evaluate(const(0)))


@st.composite
def programs(draw: Any, scope: tuple[Var, ...] = (N,), depth: int = 3) -> Stmt:
    """A statement over A and the variables in scope; every index is in bounds by construction."""
    kinds = ["store", "for", "seq"] if depth else ["store"]
    kind = draw(st.sampled_from(kinds))
    if kind == "store":
        return BufferStore(A, draw(values(scope)), (draw(indices(scope)),))
    if kind == "seq":
        inner = programs(scope, depth - 1)
        return Seq((draw(inner), draw(inner)))
    var = draw(st.sampled_from([Var("ijk"[3 - depth]), *scope]))  # an inner loop may use the variable of an outer one
    # Both may depend on an outer loop (a triangle, say), and on what the body changes.
    bounds = st.integers(0, 3).map(const) | st.sampled_from(scope)
    bounds |= st.integers(0, 3).map(lambda i: FloorMod(A[i], const(4)))
    start, extent = draw(bounds), draw(bounds)
    kind = draw(st.sampled_from([ForKind.SERIAL, ForKind.UNROLLED, ForKind.PARALLEL, ForKind.VECTORIZED]))
    return For(var, start, extent, kind, draw(programs(tuple(dict.fromkeys((*scope, var))), depth - 1)))


def distinct(stmt: Stmt, names: Mapping[Var, Expr]) -> Stmt:
    """The statement with a variable of its own for each loop, as the reference interpreter wants it."""
    if isinstance(stmt, Seq):
        return Seq(tuple(distinct(each, names) for each in stmt.stmts))
    if not isinstance(stmt, For):
        return substitute(stmt, names)
    var = Var(stmt.var.name)
    start, extent = substitute(stmt.start, names), substitute(stmt.extent, names)
    return For(var, start, extent, stmt.kind, distinct(stmt.body, {**names, stmt.var: var}))


def indices(scope: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    """An index of A: a number, or a loop variable brought into bounds."""
    numbers = st.integers(0, 3).map(const)
    return numbers | st.sampled_from(scope).map(lambda v: FloorMod(v, const(4)))


def values(scope: tuple[Var, ...]) -> st.SearchStrategy[Expr]:
    """What is stored: numbers, loop variables, elements of A, and one operation on two of these."""
    leaf = st.integers(0, 9).map(const) | indices(scope).map(lambda i: A[i])
    leaf = leaf | st.sampled_from(scope)
    return leaf | st.builds(lambda kind, a, b: kind(a, b), st.sampled_from([Add, Sub, Mul, Max]), leaf, leaf)


@st.composite
def around(draw: Any, inner: Stmt, depth: int = 2) -> tuple[Stmt, bool]:
    """A statement inside loops and sequences, and whether it is reached."""
    stmt, reached = inner, True
    for var in "ij"[: draw(st.integers(0, depth))]:
        kind = draw(st.sampled_from(["first", "last", "for"]))
        if kind == "for":
            extent = draw(st.sampled_from([1, 2, 0]))
            stmt, reached = For(Var(var), const(0), const(extent), ForKind.SERIAL, stmt), reached and extent > 0
        else:
            store = BufferStore(A, const(5), (const(1),))
            stmt = Seq((stmt, store) if kind == "first" else (store, stmt))
    return stmt, reached


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest program on which the interpreters disagree."""

    @cases(150, stmt=programs())
    def agrees_with_the_reference(stmt: Stmt) -> None:
        expected, actual, variables = START.copy(), START.copy(), {N: 2}
        func = with_root((A,), distinct(stmt, {N: const(2)}), {"global_symbol": "main"})
        reference.tir.run(func, expected, inout=["A"], mode="slow", shadow=False)
        case = f"the program\n{indented(stmt)}\nwith A = {START.tolist()} and n = 2 at the start"
        try:
            answer = attempt(case, module.run, stmt, variables, {A: actual}, may_change=(1, 2))
        except MinitvmError as error:
            raise AssertionError(f"an error in a program that has none: {error}") from None
        message = f"{case}\nleaves A = {expected.tolist()}; in your interpreter A = {actual.tolist()}"
        require(bool((expected == actual).all()), message)
        after = ", ".join(f"{var.name} = {number}" for var, number in variables.items()) or "no variable"
        require(variables == {N: 2}, f"{case}\nwas run with `variables` n = 2; afterwards there is {after}")
        require(answer is None, f"{case}\nreturned {answer!r}; wanted nothing, it changes the arrays")

    @cases(60, case=st.sampled_from(STRANGERS).flatmap(lambda one: st.tuples(st.just(one), around(one))))
    def refuses_what_it_does_not_know(case: tuple[Stmt, tuple[Stmt, bool]]) -> None:
        stranger, (stmt, reached) = case
        kind, text = type(stranger).__name__, f"the statement\n{indented(stmt)}"
        try:
            module.run(stmt, {}, {A: START.copy()})
        except Unsupported as error:
            require(reached, f"{text}\nis refused, but a loop of 0 iterations does not run its body")
            require(kind in str(error), f"{kind} is refused, but the text does not name it: {error}")
        else:
            inside = "is" if stmt is stranger else "holds"
            require(not reached, f"{text}\n{inside} {kind}; wanted Unsupported, nothing was raised")

    @cases(
        60, stmt=st.sampled_from([-1, 4, -4, 7]).map(lambda at: BufferStore(A, const(9), (const(at),))).flatmap(around)
    )
    def refuses_what_is_out_of_bounds(stmt: tuple[Stmt, bool]) -> None:
        if not stmt[1]:
            return
        actual = START.copy()
        try:
            module.run(stmt[0], {}, {A: actual})
        except Exception:  # by `place`, or by NumPy
            return
        raise AssertionError(
            f"the program\n{indented(stmt[0])}\nstores out of bounds; wanted an error, as `place` raises it; "
            f"nothing was raised, and it leaves A = {actual.tolist()}"
        )

    large = np.array([2**53 + 1, 0])
    module.run(BufferStore(B, B[0], (const(1),)), {}, {B: large})
    message = f"B[1] = B[0] with B[0] = {2**53 + 1} (int64) stores {large[1]}: do not turn the value into another type"
    require(large[0] == large[1], message)

    func = example.in_a_register(2, 3, 4)
    arrays = example.inputs(2, 3, 4)
    memory = {**dict(zip(func.buffers, arrays)), root_block(func).alloc_buffers[0]: np.zeros(1, "float32")}
    module.run(root_block(func).body, {}, memory)
    by_numpy = example.expected(*arrays[:3])
    require(bool((arrays[3] == by_numpy).all()), f"the example gives\n{arrays[3]}\nand NumPy gives\n{by_numpy}")


def indented(stmt: Stmt) -> str:
    """The text of a statement, set in by four."""
    return "\n".join("    " + line for line in str(stmt).splitlines())
