"""What a schedule costs: making one for a function of ten blocks, and each primitive on it, checks included.

Targets: construction below 20 ms, one application of a primitive below 10 ms in the median.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from minitvm import te, tir
from minitvm.expr import SPATIAL
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.registry import transforms
from minitvm.tir.schedule.schedule import PrimitiveCall

MAKE_MS, APPLY_MS = 20.0, 10.0
CALLS = 6  # legal calls of a primitive that are timed


def ten_blocks(size: int = 64) -> PrimFunc:
    """Two matmuls with a stencil, padding, element-wise maps and a row sum between and behind them: ten blocks."""
    A, W, V = (te.placeholder((size, size), name=name) for name in "AWV")
    k, l, r = (te.reduce_axis((0, size), name=name) for name in "klr")
    B = te.compute((size, size), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((size, size), lambda i, j: te.sum(B[i, k] * W[k, j], axis=k), name="C")
    D = te.compute((size, size), lambda i, j: tir.max(C[i, j], 0.0), name="D")
    P = te.compute(
        (size + 2, size),
        lambda i, j: tir.if_then_else(tir.all(i >= 1, i < size + 1), D[i - 1, j], 0.0),
        name="P",
    )
    S = te.compute((size, size), lambda i, j: P[i, j] + P[i + 1, j] + P[i + 2, j], name="S")
    E = te.compute((size, size), lambda i, j: S[i, j] + D[i, j], name="E")
    F = te.compute((size, size), lambda i, j: te.sum(E[i, l] * V[l, j], axis=l), name="F")
    G = te.compute((size, size), lambda i, j: F[j, i] - 1.0, name="G")
    H = te.compute((size,), lambda i: te.sum(G[i, r], axis=r), name="H")
    R = te.compute((size, size), lambda i, j: G[i, j] * H[i], name="R")
    return te.create_prim_func([A, W, V, R])


def milliseconds(run: Callable[[], Any]) -> float:
    """How much processor time one run takes: it is one thread's, and other processes do not count."""
    start = time.process_time()
    run()
    return (time.process_time() - start) * 1e3


def legal_calls(sch: Schedule, name: str, count: int) -> list[PrimitiveCall]:
    """Some legal calls of a primitive, spread over all that are tried."""
    found: dict[str, PrimitiveCall] = {}
    for place in range(count):
        call = sch.draw(lambda n, place=place: place * n // count, name)  # type: ignore[misc]
        if call is not None:
            found[call.text] = call
    return list(found.values())


def prepared(name: str) -> Schedule:
    """The function with what a primitive needs to be legal at all."""
    sch = Schedule(ten_blocks())
    if name == "unannotate":
        sch.annotate(sch.get_loops("C")[0], "pragma_note", 1)
    if name == "tensorize":
        for loop in sch.get_loops("C"):
            sch.split(loop, [None, 8])
    return sch


def time_primitive(name: str, rounds: int = 5) -> tuple[float, int]:
    """(median milliseconds of one application, how many different calls were timed)."""
    sch = prepared(name)
    calls = legal_calls(sch, name, CALLS)
    times = []
    for _ in range(rounds):
        for call in calls:
            fresh = sch.copy()
            times.append(milliseconds(lambda s=fresh, c=call: s.apply(c)))  # type: ignore[misc]
    return (median(times) if times else float("nan")), len(calls)


def main() -> None:
    """Print the table; say which primitives miss the target."""
    os.environ.pop("MINITVM_VERIFY", None)
    func = ten_blocks()
    blocks = [b for b in Schedule(func).state.tree().blocks.values() if b.block.name != "root"]
    spatial = sum(all(it.kind == SPATIAL for it in b.block.iter_vars) for b in blocks)
    print(f"{len(blocks)} blocks, {spatial} of them element-wise or stencils; median of 5 rounds")
    made = median(milliseconds(lambda: Schedule(func)) for _ in range(15))
    print(f"{'Schedule(func)':<28} {made:7.2f} ms   target {MAKE_MS:.0f} ms")
    slow, untimed = [], []
    for primitive in transforms():
        took, calls = time_primitive(primitive.name)
        if not calls:
            untimed.append(primitive.name)
            continue
        print(f"{primitive.name:<28} {took:7.2f} ms   {calls} calls")
        if took > APPLY_MS:
            slow.append(primitive.name)
    print(f"no legal call on this function: {', '.join(untimed) or 'none'}")
    print(f"above {APPLY_MS:.0f} ms: {', '.join(slow) or 'none'}")


if __name__ == "__main__":
    main()
