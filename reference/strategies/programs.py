"""Hypothesis strategies: random tir functions, and arrays to call them with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from minitvm.expr import SizeVar, const
from minitvm.tir.nodes import PrimFunc

from .blocks import PLAIN, Program, extents, sources
from .expressions import Draw
from .nests import NESTS
from .statement_blocks import STATEMENTS
from .value_blocks import VALUES

BUILD = {**PLAIN, **STATEMENTS, **VALUES, **NESTS}
# Left out by default: intrinsics are hashes to the field mode, and if they round, modes refuse.
KINDS = tuple(k for k in (*PLAIN, *STATEMENTS, *VALUES) if k not in ("intrinsic", "rounding"))
NEST_KINDS = tuple(NESTS)  # drawn where they are asked for: not all that takes programs takes loops over threads


@st.composite
def prim_funcs(
    draw: Draw,
    max_blocks: int = 4,
    min_blocks: int = 1,
    dtypes: Sequence[str] = ("float32", "int32"),
    kinds: Sequence[str] = KINDS,
    symbolic: bool = False,
) -> PrimFunc:
    """Draw a loop program of one to `max_blocks` blocks, each in a separate nest under the root block.

    Each block is one of `kinds` and reads inputs or results of earlier blocks. Results that no later block reads are
    outputs, which are the last parameters. `symbolic` makes the first dimension of the first input a `SizeVar` n (bind
    any n >= 1).
    """
    program = Program(draw(st.sampled_from(list(dtypes))))
    rank = draw(st.integers(1, 2))
    shape = [const(draw(extents)) for _ in range(rank)]
    if symbolic:
        shape[0] = SizeVar("n")
    program.input(shape)
    # Draw the number first and then each block as one draw: Hypothesis lowers the number and leaves out a block.
    for _ in range(draw(st.integers(min_blocks, max_blocks))):
        draw(_blocks(program, tuple(kinds)))
    return program.func()


@st.composite
def _blocks(draw: Draw, program: Program, kinds: Sequence[str]) -> None:
    """Add one more block to a program."""
    legal = [kind for kind in kinds if sources(program, kind)]
    kind = draw(st.sampled_from(legal or ["elementwise"]))
    BUILD[kind](draw, program, draw(st.sampled_from(sources(program, kind))))


@st.composite
def arguments(draw: Draw, func: PrimFunc, size: int | None = None, low: int = -4, high: int = 4) -> list[np.ndarray]:
    """Draw an array of small integers for each buffer of a function, in its dtype; every symbolic dimension is `size`.

    Without `size`, it is drawn from 1 to 6. The arrays come from a drawn seed, so they shrink as a whole, not element
    by element.
    """
    extent = draw(st.integers(1, 6)) if size is None else size
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays = []
    for buffer in func.buffers:
        shape = [getattr(d, "value", extent) for d in buffer.shape]
        least = 0 if buffer.dtype.kind in ("uint", "bool") else low
        most = 1 if buffer.dtype.is_bool else high
        arrays.append(generator.integers(least, most + 1, size=shape).astype(buffer.dtype.numpy))
    return arrays
