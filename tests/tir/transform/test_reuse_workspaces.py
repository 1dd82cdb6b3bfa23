"""Workspaces of an open size shrink to what an iteration of a serial loop uses, where no other iteration reads it."""

from __future__ import annotations

import pytest

from minitvm.expr import walk
from minitvm.reference import check
from minitvm.script import from_source
from minitvm.tir.nodes import Allocate, PrimFunc
from minitvm.tir.transform import lower
from minitvm.tir.transform.reuse_workspaces import reuse_workspaces

OWN = "S[vh, vr, n - 1 - vk]"
# What an iteration before stored.
EARLIER = ("T.if_then_else(vr > 0, S[vh, vr - 1, vk], T.float32(0))", "S[vh, vr // 2, vk]")

TILED = """
@T.prim_func
def main(a: T.handle, c: T.handle):
    n = T.int32(is_size_var=True)
    A = T.match_buffer(a, (3, n, n))
    C = T.match_buffer(c, (3, n, n))
    S = T.alloc_buffer((3, n, n))
    for h in T.{kind}(3):
        for i in range((n + {rows} - 1) // {rows}):
            for r, k in T.grid({rows}, n):
                with T.block("fill"):
                    vh = T.axis.spatial(3, h)
                    vr = T.axis.spatial(n, i * {rows} + r)
                    vk = T.axis.spatial(n, k)
                    T.where(i * {rows} + r < n)
                    S[vh, vr, vk] = A[vh, vr, vk] * 2.0
            for r, k in T.grid({rows}, n):
                with T.block("use"):
                    vh = T.axis.spatial(3, h)
                    vr = T.axis.spatial(n, i * {rows} + r)
                    vk = T.axis.spatial(n, k)
                    T.where(i * {rows} + r < n)
                    C[vh, vr, vk] = {read} + 1.0
"""


def tiles(rows: int, kind: str, read: str = OWN) -> PrimFunc:
    """Rows that are stored and read again, a few at a time."""
    return from_source(TILED.format(rows=rows, kind=kind, read=read))  # type: ignore[return-value]


def keeps_its_meaning(rows: int, kind: str, read: str = OWN) -> PrimFunc:
    """The program, which means the same when it is lowered."""
    func = tiles(rows, kind, read)
    verdict = check(func, lower(func), modes=("exact", "shadow"))
    assert verdict, verdict
    return func


def rows_are_stored() -> None:
    """A check without arguments, by which faults are noticed."""
    for kind in ("parallel", "serial"):
        for read in (OWN, *EARLIER):
            keeps_its_meaning(2, kind, read)


def workspaces(func: PrimFunc) -> list[list[str]]:
    """The shapes of what the host allocates."""
    host = next(f for _, f in lower(func).items() if f.attrs.get("host"))
    return [[str(d) for d in node.buffer.shape] for node in walk(host.body) if isinstance(node, Allocate)]


@pytest.mark.parametrize("kind", ["parallel", "serial"])
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_what_an_iteration_fills_and_reads_is_all_that_is_kept(kind: str, rows: int) -> None:
    parts = 3 * rows if kind == "parallel" else rows
    assert workspaces(keeps_its_meaning(rows, kind)) == [["n" if parts == 1 else f"n * {parts}"]]


@pytest.mark.parametrize("kind", ["parallel", "serial"])
@pytest.mark.parametrize("read", EARLIER)
def test_what_a_later_iteration_reads_stays_apart(kind: str, read: str) -> None:
    assert workspaces(keeps_its_meaning(2, kind, read)) == [["n * n * 3"]]


def test_what_is_known_to_be_small_is_left_to_the_stack() -> None:
    func = from_source(
        """
@T.prim_func(lowered=True)
def main(n: T.int32, A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    S = T.decl_buffer((64,))
    for i in range(n):
        for k in range(4):
            S[i * 4 + k] = A[i * 4 + k]
        for k in range(4):
            C[i * 4 + k] = S[i * 4 + 3 - k]
"""
    )
    assert str(reuse_workspaces(func)) == str(func)  # type: ignore[arg-type]
