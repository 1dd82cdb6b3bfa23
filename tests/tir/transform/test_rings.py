"""Barriers of loops over rings of buffers: as many as the threads need, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from minitvm.expr import Call, IntImm, find, map_children
from minitvm.reference import check
from minitvm.tir.nodes import Evaluate, IRModule, PrimFunc, Seq, Stmt
from minitvm.tir.transform import lower
from tests.tir.transform.rings import ring, rings


def is_barrier(node: object) -> bool:
    return isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op == "tvm_storage_sync"


def kernel_of(module: IRModule) -> tuple[str, PrimFunc]:
    return next((name, func) for name, func in module.items() if not func.attrs.get("host"))


def barriers(module: IRModule) -> list[Stmt]:
    return [s for s in find(kernel_of(module)[1].body, Stmt) if is_barrier(s)]


def without(module: IRModule, barrier: Stmt) -> IRModule:
    """The module without one of its barriers."""
    name, func = kernel_of(module)

    def visit(node: Stmt) -> Stmt:
        if node is barrier:
            return Evaluate(IntImm(0))
        if isinstance(node, Seq):
            return Seq.of(*map(visit, node.stmts))
        return map_children(node, lambda child: visit(child) if isinstance(child, Stmt) else child)

    return module.with_function(name, func.with_body(visit(func.body)))


@settings(max_examples=12)
@given(rings())
def test_rings_have_the_barriers_that_they_need(func: PrimFunc) -> None:
    verdict = check(func, lower(func, None, "main"), modes=("exact", "shadow"), shrink=False)
    assert verdict, f"{verdict}\n{func}"


@pytest.mark.parametrize(
    ("parts", "written", "read", "swapped", "also", "count"),
    [
        (1, 0, 0, False, None, 2),  # one part: what was read must not be written before all have read it
        (2, 0, 0, False, None, 1),
        (3, 1, 1, False, None, 1),
        (2, 0, 1, False, None, 2),  # the next iteration writes the part that this one reads
        (4, 0, 2, False, None, 1),
        (3, 2, 0, True, None, 1),
        (2, 0, 0, False, 1, 2),  # the next iteration writes the part that this one reads last
        (3, 0, 0, False, 2, 1),
    ],
)
def test_an_iteration_has_as_few_barriers_as_the_oracle_proves(
    parts: int, written: int, read: int, swapped: bool, also: int | None, count: int
) -> None:
    func = ring(parts, written, read, swapped=swapped, also=also)
    module = lower(func, None, "main")
    assert check(func, module, modes=("exact", "shadow"))
    found = barriers(module)
    inner = found[-count:]
    assert len(found) <= count + 1  # one may come between filling the ring and the loop
    for barrier in inner:
        assert not check(func, without(module, barrier), modes=("exact", "shadow"), shrink=False)
