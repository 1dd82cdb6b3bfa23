"""Shrink shared storage to the part that one iteration of a serial loop uses.

This requires that an iteration reads only elements that it wrote itself. `compact_buffers` cannot do this, because
shared storage is allocated outside of all thread loops, and so outside of each thread's serial loops. Buffers of
software pipelines are shrunk by the pipeline pass.
"""

from __future__ import annotations

from ....expr import Node, find, walk
from ....tir.analysis.effects import exposes
from ....tir.analysis.threads import is_hardware_thread, is_shared
from ....tir.analysis.tree import Tree
from ....tir.nodes import Block, Buffer, BufferLoad, BufferRegion, BufferStore, For, ForKind, PrimFunc
from ....tir.transform.inject_software_pipeline import for_one_iteration


def shrink_shared(func: PrimFunc) -> PrimFunc:
    """Shrink each shared buffer to the part that one iteration of a serial loop uses, for the innermost such loop. Runs
    on functions with blocks.

    before:
        A: T.Buffer((32,), "float32")
        C: T.Buffer((8,), "float32")
        S = T.alloc_buffer((32,), scope="shared")
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                for ko in range(4):
                    for t in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("S"):
                            v = T.axis.spatial(32, ko * 8 + t)
                            S[v] = A[v]
                    for ki in range(8):
                        with T.block("C"):
                            v = T.axis.spatial(8, tx)
                            k = T.axis.reduce(32, ko * 8 + ki)
                            with T.init():
                                C[v] = 0.0
                            C[v] = C[v] + S[k]
    after:
        S = T.alloc_buffer((8,), scope="shared")
        for bx in T.thread_binding(1, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                for ko in range(4):
                    for t in T.thread_binding(8, thread="threadIdx.x"):
                        with T.block("S"):
                            v = T.axis.spatial(32, ko * 8 + t)
                            S[v - ko * 8] = A[v]
                    for ki in range(8):
                        with T.block("C"):
                            v = T.axis.remap("S", [tx])
                            k = T.axis.reduce(32, ko * 8 + ki)
                            with T.init():
                                C[v] = 0.0
                            C[v] = C[v] + S[k - ko * 8]
    """
    # Legal: no iteration reads elements that another one wrote, so all iterations may use the same elements.
    for block in list(find(func.body, Block)):
        for buffer in (b for b in block.alloc_buffers if is_shared(b.scope)):
            loop = _loop_of(func, buffer)
            if loop is not None:
                func = for_one_iteration(func, loop, [buffer])
    return func


def _loop_of(func: PrimFunc, buffer: Buffer) -> For | None:
    """Return the innermost serial loop of threads that contains all uses of a buffer and passes no values on in it, or
    None.
    """
    tree, every = Tree(func), _uses(func.body, buffer)
    holding = [loop for loop in tree.loops.values() if _uses(loop, buffer) == every]
    if not any(is_hardware_thread(loop) for loop in holding):
        return None
    serial = [loop for loop in holding if loop.kind is ForKind.SERIAL]
    innermost = max(serial, key=lambda loop: len(tree.all_loops_above(loop)), default=None)
    if innermost is None or exposes(innermost.body, buffer, tree.all_loops_above(innermost)):
        return None
    return innermost


def _uses(node: Node, buffer: Buffer) -> int:
    return sum(isinstance(n, BufferLoad | BufferStore | BufferRegion) and n.buffer is buffer for n in walk(node))
