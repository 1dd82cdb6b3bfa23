"""Loops are as long as something is done, masks that leave no lane go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import minitvm
from minitvm.expr import IntImm, walk
from minitvm.graph import GraphBuilder
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import For, PrimFunc
from minitvm.tir.transform.simplify import simplify

TAIL = """
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for r in {rows}:
        for j in {kind}({extent}):
            for v in range(2):
                if j * {step} + v + {base} < {limit}:
                    B[j * {step} + v] = A[j * {step} + v + r]
"""


ELSE = """
                else:
                    B[j] = A[r]
"""


def tail(kind: str = "range", rows: str = "range(3)", more: tuple[str, str] = ("", ""), **numbers: int) -> PrimFunc:
    values = {"extent": 5, "step": 4, "base": 40, "limit": 48} | numbers
    text = TAIL.format(kind=kind, rows=rows, **values)
    func = from_source(text.replace(more[0], more[1] + more[0]) if more[0] else text)
    assert isinstance(func, PrimFunc)
    return func


def extents(func: PrimFunc) -> dict[str, int]:
    loops = [node for node in walk(func.body) if isinstance(node, For)]
    return {loop.var.name: loop.extent.value for loop in loops if isinstance(loop.extent, IntImm)}


def test_a_loop_ends_where_its_conditions_fail() -> None:
    for kind in ("range", "T.unroll", "T.parallel"):
        assert extents(simplify(tail(kind)))["j"] == 2
    assert "j" not in extents(simplify(tail(limit=44))), "one iteration is no loop"


def test_lanes_stay_as_many_as_they_are() -> None:
    assert extents(simplify(tail("T.vectorized")))["j"] == 5


def test_a_loop_that_does_more_stays() -> None:
    more = ("            for v in", "            B[j] = A[j]\n")
    assert extents(simplify(tail(more=more)))["j"] == 5
    otherwise = from_source(TAIL.format(kind="range", rows="range(3)", extent=5, step=4, base=40, limit=48) + ELSE)
    assert isinstance(otherwise, PrimFunc) and extents(simplify(otherwise))["j"] == 5


@given(
    kind=st.sampled_from(["range", "T.unroll", "T.parallel"]),
    extent=st.integers(1, 9),
    step=st.integers(2, 6),
    base=st.integers(-3, 50),
    limit=st.integers(-3, 60),
)
def test_the_meaning_stays(kind: str, **numbers: int) -> None:
    whole = tail(kind, more=("    for r in", "    for z in range(64):\n        B[z] = A[z]\n"), **numbers)
    verdict = check(whole, simplify(whole))
    assert verdict, verdict


MASKED = """
@T.prim_func(lowered=True)
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(3):
        B.vstore(
            [T.Ramp(i * 16, 1, 16)], A[T.Ramp(i * 16, 1, 16)],
            predicate=T.Ramp({base}, 1, 16) < T.Broadcast({limit}, 16),
        )
"""


def test_a_store_without_lanes_goes() -> None:
    for base, limit, stays in ((208, 197, False), (197, 197, False), (196, 197, True)):
        func = from_source(MASKED.format(base=base, limit=limit))
        assert isinstance(func, PrimFunc)
        assert ("vstore" in str(simplify(func))) is stays


def test_columns_beside_whole_tiles_are_as_few_vectors_as_needed() -> None:
    """Five columns more than four panels of three vectors: one vector in registers, no storage for tiles."""
    b = GraphBuilder("product")
    x, y = b.input("x", (32, 24)), b.input("y", (24, 197))
    (source,) = minitvm.lower(
        b.build(b.op("nn.matmul", x, y)), target="cpu -vector_bits=512 -vector_registers=32", stop_at="source"
    ).values()
    assert "stack_f32(" not in source or "store_masked(T_matmul" not in source
    masks = {line.split("first(")[1].split(")")[0] for line in source.splitlines() if "first(" in line}
    assert masks == {"197 - 192, 16"}
