"""Schedules a loop with the learner's function and looks for what it should not have: masks, waste, another result."""

from __future__ import annotations

import re
from types import ModuleType

import numpy as np
from hypothesis import strategies as st

from lessons.grading import attempt, cases, require
from minitvm import events, reference, tir
from minitvm.errors import ScheduleError
from minitvm.expr import IntImm, Node, children, walk
from minitvm.script import tir as T
from minitvm.tir.nodes import BlockRealize, For, ForKind, If, PrimFunc


def program_of(n: int, rows: int) -> PrimFunc:
    """A loop over n elements, whose results depend on where they stand; in a loop over rows if there are any."""
    if rows:

        @T.prim_func
        def scaled_rows(X: T.Buffer((rows, n), "int32"), Y: T.Buffer((rows, n), "int32")):
            for row, i in T.grid(rows, n):
                with T.block("Y"):
                    vr, vi = T.axis.remap("SS", [row, i])
                    Y[vr, vi] = X[vr, vi] * 3 + vi

        return scaled_rows

    @T.prim_func
    def scaled(X: T.Buffer((n,), "int32"), Y: T.Buffer((n,), "int32")):
        for i in T.serial(n):
            with T.block("Y"):
                vi = T.axis.spatial(n, i)
                Y[vi] = X[vi] * 3 + vi

    return scaled


def statements(func: PrimFunc) -> str:
    """The loops and stores of a function, without its header and the lines on what blocks read and write."""
    lines = func.script().splitlines()
    start = next(k for k, line in enumerate(lines) if line.lstrip().startswith("def "))
    return "\n".join(line for line in lines[start + 1 :] if "T.reads" not in line and "T.writes" not in line)


def asks(node: object) -> bool:
    """Whether a node is a condition: an `If`, or a predicate that is not simply true."""
    if isinstance(node, If):
        return True
    return isinstance(node, BlockRealize) and not (isinstance(node.predicate, IntImm) and bool(node.predicate.value))


class Stores(events.Listener):
    """The places of Y, in the order in which they are stored."""

    def __init__(self) -> None:
        self.order: list[int] = []

    def store(self, access: events.Access) -> None:
        self.order.append(access.offset)


def order_of(func: PrimFunc) -> list[int]:
    """The places of Y in the order in which a program stores them."""
    watched = Stores()
    arrays = [np.zeros([int(extent) for extent in buffer.shape], "int32") for buffer in func.buffers]
    reference.tir.run(func, *arrays, listeners=[watched], mode="slow")
    return watched.order


def vector_iterations(node: Node, factor: int, around: int = 1) -> int:
    """How many iterations of the loops below a node run in vectors of `factor` lanes."""
    if isinstance(node, For):
        around *= int(node.extent)
        if node.kind == ForKind.VECTORIZED:
            return around if int(node.extent) == factor else 0
    return sum(vector_iterations(child, factor, around) for child in children(node))


def check(module: ModuleType) -> None:
    """Raises AssertionError with the smallest extent and factor for which something is wrong."""

    @cases(80, extent=st.integers(1, 14), factor=st.integers(2, 5), rows=st.sampled_from([0, 0, 2]))
    def whole_vectors_and_nothing_asked(extent: int, factor: int, rows: int) -> None:
        before = program_of(extent, rows)
        sch = tir.Schedule(before, error_render_level="fast")
        case = f"for a loop of {extent} and factor {factor}{f', in a loop over {rows} rows' if rows else ''}"
        try:
            attempt(case, module.whole_vectors, sch, sch.get_loops("Y")[-1], factor)
        except ScheduleError as error:
            message = re.sub(r" +\[step .*\]", "", str(error))
            raise AssertionError(f"a call is refused: {message}") from None
        after = sch.func
        message = f"{case} the program is\n{statements(after)}\n"
        require(not any(asks(node) for node in walk(after)), f"{message}and has a condition; wanted none")
        in_vectors, expected = vector_iterations(after, factor), extent // factor * factor * (rows or 1)
        require(
            in_vectors == expected,
            f"{message}of its iterations {in_vectors} run in vectors of {factor} lanes; wanted {expected}",
        )
        if not expected:
            require(statements(after) == statements(before), f"{message}wanted the loop as it was: no vector fits")
        for loop in (node for node in walk(after) if isinstance(node, For)):
            lanes = loop.kind == ForKind.VECTORIZED and int(loop.extent) == factor
            kind = f"{loop.kind.value} with {loop.extent} iterations"
            wanted = f"lanes in whole vectors of {factor}, and all other loops serial"
            require(lanes or loop.kind == ForKind.SERIAL, f"{message}{loop.var.name} is {kind}; wanted {wanted}")
        order, expected_order = order_of(after), order_of(before)
        require(
            order == expected_order, f"{message}it stores Y in the order {order}; wanted the old order, lane by lane"
        )
        verdict = reference.check(before, after, modes=("exact", "shadow"), shrink=False)
        require(bool(verdict), f"{message}which is another program: {verdict}")
