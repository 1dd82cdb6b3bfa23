"""Requests for memory ahead of time: what is asked for, and that they mean nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm import te
from minitvm.expr import walk
from minitvm.machines.simd.topi.blocked import conv2d_nchwc
from minitvm.reference import check
from minitvm.target import Target
from minitvm.tir import Schedule
from minitvm.tir.nodes import IRModule, Prefetch, PrimFunc
from minitvm.tir.transform.pipeline import lower

AHEAD = 5


def streamed(note: bool = True, loop: str = "k") -> PrimFunc:
    """C[j] = sum over k of A[k] * B[k, j], a vector of B a step."""
    a, b = te.placeholder((12,), name="A"), te.placeholder((12, 8), name="B")
    k = te.reduce_axis((0, 12), name="k")
    c = te.compute((8,), lambda j: te.sum(a[k] * b[k, j], axis=k), name="C")
    sch = Schedule(te.create_prim_func([a, b, c]))
    lane, step = sch.get_loops("C")
    sch.reorder(step, lane)
    sch.vectorize(lane)
    if note:
        sch.annotate({"k": step, "lane": lane}[loop], "prefetch", AHEAD)
    return sch.func


def requests(module: IRModule) -> list[Prefetch]:
    return [node for _, func in module.items() for node in walk(func.body) if isinstance(node, Prefetch)]


def test_a_stream_is_asked_for_ahead() -> None:
    module = lower(streamed(), Target("cpu"))
    (request,) = requests(module)
    assert request.buffer.name == "B" and str(request.index) == f"k * 8 + {8 * AHEAD}"
    assert f"T.prefetch(B[k * 8 + {8 * AHEAD}])" in module.script()


@pytest.mark.parametrize("func", [streamed(note=False), streamed(loop="lane")], ids=["no note", "not a stream"])
def test_nothing_else_is(func: PrimFunc) -> None:
    assert not requests(lower(func, Target("cpu")))


def test_requests_mean_nothing() -> None:
    """Most of them lie behind the buffer's end."""
    func = streamed()
    module = lower(func, Target("cpu"))
    assert check(func, module, modes=("exact", "field", "bound", "shadow", "order"))
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(12, "float32"), rng.standard_normal((12, 8), "float32")
    c = np.zeros(8, "float32")
    minitvm.build(func, target="cpu")(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def test_convolutions_ask_for_their_weights() -> None:
    from minitvm.strategy.registry import schedule

    x, w = te.placeholder((1, 2, 5, 5, 16), name="x"), te.placeholder((2, 2, 3, 3, 16, 16), name="w")
    y: Any = conv2d_nchwc(x, w, padding=1)
    module = lower(schedule(te.create_prim_func([x, w, y]), Target("cpu")).func, Target("cpu"))
    assert {request.buffer.name for request in requests(module)} == {"w"}
