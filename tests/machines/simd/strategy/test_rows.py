"""What is normalised, how it is recognised, and that nothing is summed twice."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import minitvm as tvm
from minitvm import reference, strategy, te, topi
from minitvm.script import tir as T
from minitvm.strategy.blocks import extents, is_reduction
from minitvm.strategy.registry import chosen
from minitvm.strategy.rows import Normalized, normalized
from minitvm.target import Target
from minitvm.tir.analysis.tree import Tree
from minitvm.tir.nodes import PrimFunc

CPU = Target("cpu -vector_bits=512 -cores=1")


def norm(shape: tuple[Any, ...], groups: int | None) -> PrimFunc:
    """Channels along axis 1, and along the last one where there are five."""
    axis = (1, -1) if len(shape) == 5 else (1,)
    x = te.placeholder(shape, name="x")
    gamma, beta = (te.placeholder(tuple(shape[a] for a in axis), name=name) for name in ("gamma", "beta"))
    if groups is None:
        return te.create_prim_func([x, gamma, beta, topi.relu(topi.instance_norm(x, gamma, beta, axis=axis))])
    return te.create_prim_func([x, gamma, beta, topi.group_norm(x, gamma, beta, num_groups=groups, axis=axis)])


CASES: dict[str, tuple[tuple[Any, ...], int | None, Normalized | None]] = {
    "channels": ((2, 6, 4, 5), None, Normalized(2)),
    "groups": ((2, 12, 4, 5), 3, Normalized(2, together=4)),
    "one group": ((2, 6, 4, 5), 1, Normalized(2, together=6)),
    "blocks": ((2, 3, 4, 5, 16), None, Normalized(2, lanes=True)),
    "groups within blocks": ((2, 3, 4, 5, 16), 12, Normalized(2, lanes=True)),
    "blocks of a group": ((2, 4, 4, 5, 16), 2, Normalized(2, together=2, lanes=True)),
    "groups across blocks": ((2, 6, 4, 5, 16), 4, Normalized(2, together=3, lanes=True)),
    "an open batch": ((te.size_var("n"), 12, 4, 5), 3, Normalized(2, together=4)),
    "an open image": ((2, 12, te.size_var("h"), 5), 3, None),
}


def all_cases_are_recognised() -> None:
    """How many axes are outside, how many neighbours share sums, and whether sums are vectors."""
    for name, (shape, groups, expected) in CASES.items():
        assert normalized(norm(shape, groups)) == expected, name


def test_all_cases_are_recognised() -> None:
    all_cases_are_recognised()


def test_other_functions_are_not() -> None:
    x = te.placeholder((2, 3, 4, 5), name="x")
    assert normalized(te.create_prim_func([x, topi.sum(x, axis=(2, 3))])) is None
    assert normalized(te.create_prim_func([x, topi.relu(x)])) is None
    first = topi.subtract(x, topi.mean(x, axis=0, keepdims=True))
    assert normalized(te.create_prim_func([x, first])) is None  # nothing is outside


@pytest.mark.parametrize("name", [name for name in CASES if "open" not in name])
def test_nothing_is_summed_twice(name: str) -> None:
    shape, groups, _ = CASES[name]
    made = strategy.registry.chosen(norm(shape, groups), CPU)
    assert made.rule == "rows" and not made.choice.refused
    tree = Tree(made.schedule.func)
    for realize in tree.blocks.values():
        if is_reduction(realize.block):
            runs = prod(int(loop.extent.value) for loop in tree.loops_above(realize))
            once = prod(n or 1 for n in extents(axis.dom.extent for axis in realize.block.iter_vars))
            assert runs == once, realize.block.name


def test_products_are_no_norms() -> None:
    """A product reads elements of the result's shape, but each element of the result has a sum of its own."""
    a, b = te.placeholder((8, 32), "int64", name="a"), te.placeholder((32, 32), "int64", name="b")
    assert normalized(te.create_prim_func([a, b, topi.relu(topi.matmul(a, b))])) is None


def test_loops_that_are_no_axes_are_refused() -> None:
    """Two loops are one axis of the result: the generic rule has to take it."""

    @T.prim_func
    def tiled(A: T.Buffer((4, 64), "float32"), C: T.Buffer((4, 64), "float32")):
        total = T.alloc_buffer((4,))
        for i, j in T.grid(4, 64):
            with T.block("total"):
                vi, vj = T.axis.remap("SR", [i, j])
                with T.init():
                    total[vi] = T.float32(0)
                total[vi] = total[vi] + A[vi, vj]
        for i, j, k in T.grid(2, 2, 64):
            with T.block("C"):
                vi = T.axis.spatial(4, i * 2 + j)
                vj = T.axis.spatial(64, k)
                C[vi, vj] = A[vi, vj] * total[vi]

    assert normalized(tiled) is not None
    assert chosen(tiled, CPU).rule == "generic"


@pytest.mark.alike("length", "op")
@pytest.mark.parametrize("length", [3, 4, 12, 16, 25, 32])
@pytest.mark.parametrize("op", [topi.softmax, topi.log_softmax])
def test_short_rows_are_summed_in_vectors(op: Any, length: int) -> None:
    """A row that fills four lanes has sums in lanes; rows of three would pay more to add them up."""
    x = te.placeholder((8, length), name="x")
    func = te.create_prim_func([x, op(x, axis=-1)])
    sch = strategy.schedule(func, CPU)
    source = "".join(tvm.lower(sch.func, CPU, stop_at="source").values())
    assert ("reduce_max" in source) == ("reduce_add" in source) == (length >= 4), source
    assert reference.check(func, sch.func)
