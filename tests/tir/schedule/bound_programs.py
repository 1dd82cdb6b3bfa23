"""Random programs whose blocks do not run through their domains, each once: what a step may not take for granted.

A: an input; B: made of it, by a map or a sum; C: made of B. The values of a block's iterators are drawn, the elements
that are written and read stay such that the program itself is sound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

Draw = Callable[[st.SearchStrategy[Any]], Any]


def _place(draw: Draw, n: int) -> str:
    """The value of an iterator over [0, n), in a loop i over [0, n)."""
    c = draw(st.integers(0, n - 1))
    steps = (f"{n - 1} - i", f"i // {c + 1} * {c + 1}", f"i % {c + 1}", f"{c}", f"T.max(i, {c})", f"i * i % {n}")
    return str(draw(st.sampled_from(("i", "i", *steps))))


def _iterators(draw: Draw, n: int, own: str, other: str) -> tuple[str, str]:
    """(definitions of iterators, the one that says which element is read): of all points once, or bound in other ways.

    The iterator `own` takes all values.
    """
    if draw(st.booleans()):
        return f"{own} = T.axis.spatial({n}, {draw(st.sampled_from(('i', f'{n - 1} - i')))})", own
    return f"{own} = T.axis.spatial({n}, i); {other} = T.axis.spatial({n}, {_place(draw, n)})", other


def partly_bound(draw: Draw) -> PrimFunc:
    """A map or a sum, and a map of that, whose iterators are bound in all sorts of ways."""
    n, depth = draw(st.integers(2, 6)), draw(st.integers(1, 4))
    steps = draw(st.sampled_from((depth, draw(st.integers(1, depth)))))
    first, read = _iterators(draw, n, "vi", "vj")
    second, read_again = _iterators(draw, n, "vi", "vj")
    if draw(st.booleans()):
        made = f"""
    for i, k in T.grid({n}, {steps}):
        with T.block("B"):
            {first}
            vk = T.axis.reduce({depth}, k)
            with T.init():
                B[vi] = 0
            B[vi] = B[vi] + A[{read}, vk]"""
    else:
        made = f"""
    for i in range({n}):
        with T.block("B"):
            {first}
            B[vi] = A[{read}, 0] * 2"""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n}, {depth}), "int32"), C: T.Buffer(({n},), "int32")):
    B = T.alloc_buffer(({n},), "int32"){made}
    for i in range({n}):
        with T.block("C"):
            {second}
            C[vi] = B[{read_again}] + 1
""")


@st.composite
def partly_bound_programs(draw: Any) -> PrimFunc:
    """`partly_bound` as a strategy."""
    return partly_bound(draw)


def partly_written(draw: Draw) -> PrimFunc:
    """A map under a condition, which leaves the rest of a buffer without values, and a map of what it wrote."""
    n = draw(st.integers(2, 6))
    written = draw(st.integers(1, n))
    read = draw(st.integers(1, written))
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n},), "int32"), C: T.Buffer(({read},), "int32")):
    B = T.alloc_buffer(({n},), "int32")
    for i in range({n}):
        if i < {written}:
            with T.block("B"):
                vi = T.axis.spatial({n}, i)
                B[vi] = A[vi] * 2
    for i in range({read}):
        with T.block("C"):
            vi = T.axis.spatial({read}, {draw(st.sampled_from(("i", f"{read - 1} - i")))})
            C[vi] = B[vi] + 1
""")


def shifted_at_times(draw: Draw) -> PrimFunc:
    """A buffer of which some elements take their neighbour's value: a block that writes what it has not read."""
    n, every = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer(({n + 1},), "int32"), C: T.Buffer(({n + 1},), "int32")):
    B = T.alloc_buffer(({n + 1},), "int32")
    for i in range({n + 1}):
        with T.block("B"):
            vi = T.axis.spatial({n + 1}, i)
            B[vi] = A[vi] + 1
    for i in range({n}):
        with T.block("shift"):
            vi = T.axis.spatial({n}, i)
            T.reads(B[vi + 1])
            T.writes(B[vi])
            value: T.int32 = B[vi + 1]
            if vi % {every} == {draw(st.integers(0, every - 1))}:
                B[vi] = value * 2
    for i in range({n + 1}):
        with T.block("C"):
            vi = T.axis.spatial({n + 1}, i)
            C[vi] = B[vi]
""")


@st.composite
def partly_written_programs(draw: Any) -> PrimFunc:
    """`partly_written` as a strategy."""
    return partly_written(draw)
