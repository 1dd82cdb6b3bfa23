"""Hypothesis strategies: random tir functions, and arrays to call these with."""

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
# Left out by default: intrinsics are no formulas to the field mode, and where they round, modes refuse.
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
    """A level-3 function of one to `max_blocks` blocks, each in a nest of its own under the root block.

    A block is one of `kinds` and reads what earlier blocks or the inputs hold; a result that no later block reads is an
    output; outputs are the last parameters. `symbolic` makes the first dimension of the first input a `SizeVar` n (bind
    any n >= 1).
    """
    program = Program(draw(st.sampled_from(list(dtypes))))
    rank = draw(st.integers(1, 2))
    shape = [const(draw(extents)) for _ in range(rank)]
    if symbolic:
        shape[0] = SizeVar("n")
    program.input(shape)
    # The number first and then each block as one draw: Hypothesis lowers the one and leaves out one of the others.
    for _ in range(draw(st.integers(min_blocks, max_blocks))):
        draw(_blocks(program, tuple(kinds)))
    return program.func()


@st.composite
def _blocks(draw: Draw, program: Program, kinds: Sequence[str]) -> None:
    """One more block for a program."""
    legal = [kind for kind in kinds if sources(program, kind)]
    kind = draw(st.sampled_from(legal or ["elementwise"]))
    BUILD[kind](draw, program, draw(st.sampled_from(sources(program, kind))))


@st.composite
def arguments(draw: Draw, func: PrimFunc, size: int | None = None, low: int = -4, high: int = 4) -> list[np.ndarray]:
    """An array of small integers for each buffer of a function, in its dtype; every symbolic dimension is `size`.

    Without `size` it is drawn from 1 to 6. Arrays come from a drawn seed: they shrink as a whole, not cell by cell.
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
