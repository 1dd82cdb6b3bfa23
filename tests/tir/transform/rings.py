"""Loops over shared storage of several parts, of which each iteration writes one and reads one: rings of buffers."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.script import from_source
from minitvm.tir.nodes import PrimFunc

TEXT = """
@T.prim_func
def main(A: T.Buffer(({turns}, 8), "int32"), B: T.Buffer(({turns}, 8), "int32")):
    S = T.alloc_buffer(({parts}, 8), "int32", scope="shared")
    for t in T.thread_binding(8, thread="threadIdx.x"):
        for p in range({parts}):
            S[p, t] = t + p * 100
        for {loop}:
            {first}
            {second}
            {third}
"""
WRITE = "S[({k} + {written}) % {parts}, t] = A[{k} - {start}, t]"
ALSO = "B[{k} - {start}, t] = B[{k} - {start}, t] + S[({k} + {also}) % {parts}, ({other}) % 8]"
READ = "B[{k} - {start}, t] = S[({k} + {read}) % {parts}, ({other}) % 8]"


def ring(parts: int, written: int, read: int, other: str = "7 - t", swapped: bool = False, start: int = 0,
         turns: int = 6, also: int | None = None) -> PrimFunc:  # fmt: skip
    """Each of some turns writes part (k + written), then reads another thread's element of part (k + read).

    Or it reads first; at the end it may read one of part (k + also).
    """
    names = {"parts": parts, "written": written, "read": read, "other": other, "start": start, "k": "k"}
    both = [WRITE.format(**names), READ.format(**names)]
    first, second = both[::-1] if swapped else both
    third = "" if also is None else ALSO.format(**names, also=also)
    loop = f"k in range({start}, {start + turns})"
    func = from_source(TEXT.format(parts=parts, turns=turns, loop=loop, first=first, second=second, third=third))
    assert isinstance(func, PrimFunc)
    return func


@st.composite
def rings(draw: Any) -> PrimFunc:
    """Rings of 1 to 4 parts; most read the part that was written, and some then the part that is written next."""
    parts = draw(st.integers(1, 4))
    any_part = st.integers(0, parts - 1)
    written = draw(any_part)
    return ring(
        parts,
        written,
        draw(st.just(written) | any_part),
        draw(st.sampled_from(["t", "t + 1", "7 - t", "t + 8 - 1"])),
        draw(st.booleans()),
        draw(st.integers(0, 3)),
        draw(st.integers(1, 6)),
        draw(st.none() | st.just((written + 1) % parts) | any_part),
    )
