"""Swizzle tiles with the scope "shared.dyn.swizzled": pieces of 16 bytes change places within their line of 128 bytes.

    S[r, c]  of float16  ->  S[r, ((c // 8) ^ (r % 8)) * 8 + c % 8]

Threads that access one column of 8 neighbouring lines, 16 bytes each, then use different banks. A line is the last
dimension, of 128 bytes, and the number of lines is a multiple of 8. If storage begins at a multiple of 1024 bytes,
three bits of an address, which count lines, are combined with the three bits that select a piece in a line. This is the
128-byte swizzle of PTX's matrix descriptors ("Swizzling Modes"). It permutes the pieces of each line and is its own
inverse, so an access reads the element that another one wrote at the same indices. The pass changes only accesses, not
the place of storage.
"""

from __future__ import annotations

from typing import Any

from ...errors import Unsupported
from ...expr import IntImm, const, find, map_children, replace
from ...tir.annotations import SWIZZLED
from ...tir.nodes import Allocate, Buffer, BufferLoad, BufferStore, PrimFunc

LINE, PIECE, LINES = 128, 16, 8  # bytes of a line and of a piece, and the lines after which places repeat
_SCOPE = SWIZZLED.rpartition(".")[0]


def swizzle_shared(func: PrimFunc) -> PrimFunc:
    """Rewrite accesses of swizzled storage as accesses of plain storage, at the swizzled places.

    before:
        A: T.Buffer((8, 64), "float16")
        B: T.Buffer((64, 8), "float16")
        S = T.decl_buffer((8, 64), "float16", scope="shared.dyn.swizzled")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for j in range(64):
                S[t, j] = A[t, j]
            for j in range(64):
                B[j, t] = S[t, j]
    after:
        S = T.decl_buffer((8, 64), "float16", scope="shared.dyn")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            for j in range(64):
                S[t, T.bitwise_xor(j // 8, t % 8) * 8 + j % 8] = A[t, j]
            for j in range(64):
                B[j, t] = S[t, T.bitwise_xor(j // 8, t % 8) * 8 + j % 8]

    Runs after the shapes of storage are final, and before storage is flattened. Raises `Unsupported` for lines of
    another length, for another number of lines, and for strides.
    """
    buffers = {n.buffer for n in find(func.body, Allocate) if n.buffer.scope == SWIZZLED}
    if not buffers:
        return func
    # Legal: within a line, the map is a permutation of the elements, and it is the same for each access of the buffer.
    plain = {buffer: _plain(buffer) for buffer in buffers}

    def go(node: Any) -> Any:
        new = map_children(node, go)
        if isinstance(new, Allocate) and new.buffer in plain:
            return replace(new, buffer=plain[new.buffer])
        if isinstance(new, BufferLoad | BufferStore) and new.buffer in plain:
            *outer, line, element = new.indices
            pieces = const(PIECE // new.buffer.dtype.bytes, element.dtype)
            there = (element // pieces) ^ (line % LINES).astype(element.dtype)
            return replace(new, buffer=plain[new.buffer], indices=(*outer, line, there * pieces + element % pieces))
        return new

    return func.with_body(go(func.body))


def _plain(buffer: Buffer) -> Buffer:
    sizes = [d.value if isinstance(d, IntImm) else 0 for d in buffer.shape]
    fits = len(sizes) >= 2 and sizes[-1] * buffer.dtype.bytes == LINE and sizes[-2] % LINES == 0 and all(sizes)
    if not fits or buffer.strides:
        raise Unsupported(
            f"{buffer.name} cannot be swizzled\n"
            f"  wanted: lines of {LINE} bytes in its last dimension, a multiple of {LINES} of them, no strides\n"
            f"  found:  {buffer}{' with strides' if buffer.strides else ''}"
        )
    return replace(buffer, scope=_SCOPE)
