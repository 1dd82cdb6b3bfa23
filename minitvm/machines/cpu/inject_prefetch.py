"""Add prefetches to loops that stream through memory.

A loop annotated with `prefetch: d` reads consecutive vectors in consecutive iterations, such as the weights of a
convolution. Each iteration then also prefetches the data that will be read `d` iterations later.

Processors detect such streams themselves, but they start again at the end of each page, and do not prefetch far enough
ahead if weights come from memory. This follows Mowry, Lam and Gupta, "Design and evaluation of a compiler algorithm for
prefetching" (ASPLOS 1992); here the schedule chooses the distance.
"""

from __future__ import annotations

from typing import Any

from ...expr import IntImm, Node, Ramp, const, contains, replace, rewrite_statements, walk
from ...tir.annotations import PREFETCH
from ...tir.nodes import BufferLoad, BufferStore, For, Prefetch, PrimFunc, Seq
from ...tir.transform.affine import coefficient, expr, linear


def inject_prefetch(func: PrimFunc) -> PrimFunc:
    """Insert prefetches into innermost loops annotated `prefetch`; other loops lose the annotation. Buffers must be
    flat.

    before:
        A: T.Buffer((64,), "float32")
        W: T.Buffer((1024,), "float32")
        S: T.Buffer((16,), "float32")
        for k in T.serial(64, annotations={"prefetch": 8}):
            S[T.Ramp(0, 1, 16)] = S[T.Ramp(0, 1, 16)] + T.Broadcast(A[k], 16) * W[T.Ramp(k * 16, 1, 16)]
    after:
        for k in range(64):
            T.prefetch(W[k * 16 + 128])
            S[T.Ramp(0, 1, 16)] = S[T.Ramp(0, 1, 16)] + T.Broadcast(A[k], 16) * W[T.Ramp(k * 16, 1, 16)]
    """
    # Legal: a request for a line of memory changes no value; the machine ignores one for an address that is not there.
    return func.with_body(rewrite_statements(func.body, _prefetching))


def _prefetching(loop: Node) -> Any:
    if not isinstance(loop, For) or PREFETCH not in loop.annotations:
        return None
    distance = int(loop.annotations[PREFETCH])
    plain = replace(loop, annotations={k: v for k, v in loop.annotations.items() if k != PREFETCH})
    return replace(plain, body=Seq.of(*_requests(loop, distance), loop.body))


def _requests(loop: For, distance: int) -> list[Prefetch]:
    """Return a prefetch for each stream of the loop: each vector load whose place moves from one iteration to the
    next.
    """
    nodes: list[Node] = list(walk(loop.body))
    if any(isinstance(node, For) for node in nodes):
        return []
    written = {node.buffer for node in nodes if isinstance(node, BufferStore)}
    requests: dict[Any, Prefetch] = {}
    for node in nodes:
        if not isinstance(node, BufferLoad) or node.buffer in written or node.buffer.scope == "local":
            continue
        index = node.indices[0]
        if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or index.stride.value != 1:
            continue
        form = linear(index.base)
        step = coefficient(form, loop.var)
        if step > 0 and not contains(index.base, BufferLoad):
            ahead = expr(linear(index.base + const(step * distance, index.base.dtype)), index.base.dtype)
            requests.setdefault((node.buffer, str(ahead)), Prefetch(node.buffer, ahead))
    return list(requests.values())
