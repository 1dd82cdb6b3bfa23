"""Create a version of a nest for each result of a size comparison that its indices depend on.

An operand whose size is unknown at compile time is either as long as the result, or has a single entry that is repeated
(`topi.shapes.broadcast_point`). The first version reads vectors, and the second reads element by element.
"""

from __future__ import annotations

from typing import Any

from ...expr import EQ, Expr, IntImm, Min, Node, Select, Var, find, free_vars, map_children, rewrite, structural_equal
from ..conditions import all_of
from ..nodes import BufferLoad, For, ForKind, If, LetStmt, PrimFunc, Stmt
from .unroll import bind, unrolled_size

CODE_GROWTH = 200  # the most unrolled statements of a nest that is copied


def unswitch_repeats(func: PrimFunc) -> PrimFunc:
    """Create a version for each result of a size comparison, for the outermost nests that are not parallel.

    before:
        m: T.int32
        n: T.int32
        x: T.Buffer((8, m), "float32")
        y: T.Buffer((8, n), "float32")
        for i in range(8):
            for j in range(n):
                y[i, j] = x[i, T.Select(m == n, j, T.min(j, m - 1))]
    after:
        if m == n:
            for i, j in T.grid(8, n):
                y[i, j] = x[i, j]
        else:
            for i, j in T.grid(8, n):
                y[i, j] = x[i, T.min(j, m - 1)]
    """
    if any(loop.thread is not None for loop in find(func.body, For)):
        return func  # threads of a block must meet at the same barriers
    return func.with_body(_visit(func.body))


def _visit(stmt: Any) -> Any:
    if not isinstance(stmt, Stmt):
        return stmt
    if isinstance(stmt, For) and stmt.kind != ForKind.PARALLEL:
        return _versions(stmt)
    return map_children(stmt, _visit)


def _versions(loop: For) -> Stmt:
    # Legal: sizes do not change, so each comparison has the same result in all iterations.
    inside = {node.var for node in find(loop, For | LetStmt)}
    tests: list[Expr] = []
    for load in find(loop, BufferLoad):
        for choice in (s for index in load.indices for s in find(index, Select)):
            test = choice.condition
            known = any(structural_equal(test, other) for other in tests)
            if not known and _is_repeat(choice) and not inside.intersection(free_vars(test)):
                tests.append(test)
    if not tests or unrolled_size(loop) > CODE_GROWTH:
        return loop

    def with_answer(answer: bool) -> Stmt:
        def change(node: Node) -> Node | None:
            if not isinstance(node, Select) or not any(structural_equal(node.condition, test) for test in tests):
                return None
            return node.true_value if answer else node.false_value

        changed: Stmt = rewrite(bind(loop, {}), change)
        return changed

    # If there are several comparisons and not all of them hold, each stays in its place.
    return If(all_of(tests), with_answer(True), with_answer(False) if len(tests) == 1 else bind(loop, {}))


def _is_repeat(choice: Select) -> bool:
    """Return whether a select chooses between an index and the only entry, based on a comparison of sizes."""
    test = choice.condition
    sizes = isinstance(test, EQ) and all(isinstance(x, Var | IntImm) for x in (test.a, test.b))
    return sizes and isinstance(choice.false_value, Min)
