"""Small functions to tune, and a runner with short limits."""

from __future__ import annotations

from typing import Any

from minitvm import te
from minitvm.graph import Graph, GraphBuilder
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tune.measure import Limits, Runner
from minitvm.tune.task import Task, function_task
from tests.patience import PATIENCE

SHORT = Limits(seconds=0.01, hang=PATIENCE)


def product(m: int = 32, n: int = 48, k: int = 16, name: str = "main") -> PrimFunc:
    """A product of matrices."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c], name=name)


def task(func: PrimFunc | None = None) -> Task:
    """A task on two cores."""
    return function_task(func or product(), Target("cpu -cores=2"))


def network(*, open_size: bool = False) -> Graph:
    """Three layers, two of them equal, the third of another size."""
    b = GraphBuilder("network")
    x: Any = b.input("x", (te.size_var("n") if open_size else 8, 32))
    for number, width in enumerate((32, 32, 16)):
        weights = b.input(f"w{number}", (32, width))
        x = b.op("nn.relu", b.op("nn.matmul", x, weights))
    return b.build(x)


def runner() -> Runner:
    """One that does not take long."""
    return Runner(SHORT)
