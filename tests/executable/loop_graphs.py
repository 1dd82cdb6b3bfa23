"""Graphs with loops, and inputs for them: what is carried, what is left of each iteration, sizes of iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minitvm.expr import SizeVar
from minitvm.graph import Graph, GraphBuilder

Inputs = dict[str, np.ndarray]
X = np.array([1, 2, 3, 4], np.float32)


def swapped() -> Graph:
    """Carried values change places, one is left, and one of them is computed."""
    b = GraphBuilder("swapped")
    x, y, n = b.input("x", (4,)), b.input("y", (4,)), b.input("n", (), "int64")
    _, p, q, r = b.loop(lambda _, p, q, r: (True, [q, r, b.op("add", p, x)]), [x, y, x], limit=n)
    return b.build([p, q, r])


def rows(size: Any = 4) -> Graph:
    """The rows of all iterations, of a sum that a condition ends."""
    b = GraphBuilder("rows")
    x, n = b.input("x", (size,)), b.input("n", (), "int64")

    def body(number: Any, total: Any) -> Any:
        more = b.op("add", total, x)
        return b.op("less", b.op("sum", more), 60.0), [more], [more, number]

    count, total, kept, numbers = b.loop(body, [x], limit=n, most=9, where="the rows")
    size = SizeVar("count")
    b.op("bind_size", count, size=size, most=9)
    return b.build([total, b.op("leading", kept, size=size), b.op("leading", numbers, size=size)])


def nested() -> Graph:
    """A triangle: iteration i of the outer loop has i of the inner one, each takes as many entries as it says."""
    b = GraphBuilder("nested")
    x, n = b.input("x", (6,)), b.input("n", (), "int64")

    def inner(number: Any, total: Any) -> Any:
        size = SizeVar("taken")
        b.op("bind_size", number, size=size, most=6)
        part = b.op("sum", b.op("leading", x, size=size), axis=0)
        return True, [b.op("add", total, part)]

    def outer(number: Any, total: Any) -> Any:
        _, more = b.loop(inner, [total], limit=number)
        return True, [b.op("multiply", more, 0.5)], [more]

    _, total, kept = b.loop(outer, [b.op("sum", x, axis=0)], limit=n, most=5)
    return b.build([total, kept])


def natively_nested() -> Graph:
    """Loops in loops whose bodies need no size, so that they are one table of steps, with steps behind inner loops."""
    b = GraphBuilder("natively_nested")
    x, n = b.input("x", (4,)), b.input("n", (), "int64")

    def inner(number: Any, total: Any) -> Any:
        _, more = b.loop(lambda _, v: (True, [b.op("add", v, x)]), [b.op("cumsum", total, axis=0)], limit=number)
        return True, [b.op("nn.softmax", more)]

    def outer(number: Any, total: Any) -> Any:
        _, more = b.loop(inner, [b.op("add", total, x)], limit=number)
        return True, [b.op("multiply", b.op("cumsum", more, axis=0), 0.5)], [more]

    _, total, kept = b.loop(outer, [x], limit=n, most=5)
    return b.build([total, kept])


def bounded(has_size: bool) -> Graph:
    """A loop with memory for the rows of 3 iterations; `has_size`: its body needs a size, so that Python repeats it."""
    b = GraphBuilder("bounded")
    x, n = b.input("x", (4,)), b.input("n", (), "int64")

    def body(number: Any, total: Any) -> Any:
        added = total
        if has_size:
            size = SizeVar("taken")
            b.op("bind_size", number, size=size, most=4)
            added = b.op("sum", b.op("leading", x, size=size), axis=0, keepdims=True)
        more = b.op("add", total, added)
        return b.op("less", b.op("sum", more), 1e9), [more], [more]

    count, total, kept = b.loop(body, [x], limit=n, most=3, where="the rows")
    size = SizeVar("count")
    b.op("bind_size", count, size=size, most=3)
    return b.build([total, b.op("leading", kept, size=size)])


def invariant() -> Graph:
    """What each iteration would compute alike, of a constant and of an input."""
    b = GraphBuilder("invariant")
    x, n = b.input("x", (3, 4)), b.input("n", (), "int64")
    w = b.constant(np.arange(16, dtype=np.float32).reshape(4, 4) / 16)

    def body(number: Any, v: Any) -> Any:
        same = b.op("exp", b.op("multiply", x, -1.0))
        weights = b.op("transpose", w, axes=(1, 0))
        return True, [b.op("nn.matmul", b.op("add", v, same), weights)]

    return b.build(b.loop(body, [x], limit=n)[1])


def direct() -> Graph:
    """The new value is written over the old one: all that read the old one come before."""
    b = GraphBuilder("direct")
    x, n = b.input("x", (4,)), b.input("n", (), "int64")

    def body(number: Any, v: Any) -> Any:
        return True, [b.op("cumsum", b.op("nn.softmax", v), axis=0)]

    return b.build(b.loop(body, [x], limit=n)[1])


def exchanged() -> Graph:
    """Two values change places, a third one stays; a flag that is carried ends the loop one iteration later."""
    b = GraphBuilder("exchanged")
    x, y, n = b.input("x", (4,)), b.input("y", (4,)), b.input("n", (), "int64")

    def body(number: Any, p: Any, q: Any, kept: Any, flag: Any) -> Any:
        return flag, [q, p, kept, b.op("less", number, 2)]

    _, p, q, kept, _ = b.loop(body, [x, y, b.op("exp", x), np.array(True)], limit=n)
    return b.build([p, q, b.op("add", kept, y)])


def shared() -> Graph:
    """A computed value with which a loop begins, and that is read behind the loop as well."""
    b = GraphBuilder("shared")
    x, n = b.input("x", (4,)), b.input("n", (), "int64")
    begin = b.op("cumsum", x, axis=0)
    _, last = b.loop(lambda _, v: (True, [b.op("nn.softmax", v)]), [begin], limit=n)
    return b.build(b.op("add", last, begin))


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


CASES: dict[str, tuple[Callable[[], Graph], list[Inputs]]] = {
    "swapped": (swapped, [{"x": X, "y": X * 10, "n": number(n)} for n in (0, 1, 2, 3, 7)]),
    "exchanged": (exchanged, [{"x": X, "y": X * 10, "n": number(n)} for n in (0, 1, 2, 3, 4, 9)]),
    "shared": (shared, [{"x": X, "n": number(n)} for n in (0, 1, 2)]),
    "rows": (rows, [{"x": X, "n": number(n)} for n in (0, 1, 4, 9, 30)]),
    "open rows": (
        lambda: rows(SizeVar("w")), [{"x": X[:w], "n": number(n)} for w, n in ((4, 9), (1, 3), (2, 0), (3, 30))],
    ),
    "nested": (nested, [{"x": np.arange(6, dtype=np.float32), "n": number(n)} for n in (0, 1, 2, 5)]),
    "natively nested": (natively_nested, [{"x": X / 4, "n": number(n)} for n in (0, 1, 2, 5)]),
    "invariant": (invariant, [{"x": np.ones((3, 4), np.float32), "n": number(n)} for n in (0, 1, 3)]),
    "direct": (direct, [{"x": X, "n": number(n)} for n in (0, 1, 4)]),
}  # fmt: skip


def listed(results: Any) -> list[np.ndarray]:
    return list(results) if isinstance(results, tuple) else [results]


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-5)
