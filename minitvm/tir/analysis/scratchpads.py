"""Analyse scratchpads: separate memories of an accelerator, which only its instructions access.

The elements of a scratchpad have a fixed size. Buffers of the scopes "inp", "wgt" and "acc" are in scratchpads. The
tiles of an instruction determine which elements it accesses: the first element, and the distance to the next one along
each loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ...errors import InputError, Unsupported, report
from ...expr import IntImm, find, walk
from ..nodes import Allocate, Buffer, BufferLoad, BufferStore, Instruction, Stmt, Tile

SCRATCHPADS = ("inp", "wgt", "acc")
Array = np.ndarray[Any, Any]


def is_scratchpad(scope: str) -> bool:
    """Return whether a storage scope is a scratchpad of an accelerator."""
    return scope in SCRATCHPADS


@dataclass(frozen=True, slots=True)
class Strided:
    """The elements of a flat buffer that an instruction accesses: the `first` one, and the `strides` along the
    instruction's loops.

    Both count whole elements, each of which has the shape `shape`.
    """

    buffer: Buffer
    first: int
    strides: tuple[int, ...]
    shape: tuple[int, ...]

    def indices(self, extents: Sequence[int]) -> Array:
        """Return the element index for each iteration of the loops."""
        total = np.full(tuple(extents), self.first, np.int64)
        for axis, (n, s) in enumerate(zip(extents, self.strides, strict=True)):
            total += (np.arange(n) * s).reshape([-1 if k == axis else 1 for k in range(len(extents))])
        return total


def extents_of(stmt: Instruction) -> tuple[int, ...]:
    """Return the extents of an instruction's loops, which are the numbers before its tiles."""
    extents: list[int] = []
    for operand in stmt.operands:
        if not isinstance(operand, IntImm):
            break
        extents.append(operand.value)
    return tuple(extents)


def scalars_of(stmt: Instruction) -> tuple[Any, ...]:
    """Return the scalar operands of an instruction, which follow its tiles."""
    last = max((i for i, o in enumerate(stmt.operands) if isinstance(o, Tile)), default=len(stmt.operands) - 1)
    return stmt.operands[last + 1 :]


def strided(stmt: Instruction, tile: Tile, element: Sequence[int]) -> Strided:
    """Return the elements that a tile with constant indices accesses in a flat buffer; `element` is the shape of one
    element.

    Raises `Unsupported` if an index is not constant, or if the tile does not consist of whole elements of the machine.
    """
    at = [place.indices[-1] for place in tile.places]
    if any(len(place.indices) != 1 for place in tile.places) or not all(isinstance(i, IntImm) for i in at):
        raise Unsupported(f"{stmt.name}: a place of {tile.buffer.name} is not constant: {tile.places[0]}")
    first, *others = [i.value for i in at]  # type: ignore[attr-defined]
    loops = len(extents_of(stmt))
    size, steps = prod(element), [other - first for other in others]
    dense = [prod(element[k + 1 :]) if n > 1 else 0 for k, n in enumerate(element)]
    if steps[loops:] != dense or any(n % size for n in (first, *steps[:loops])):
        raise Unsupported(
            report(
                f"{stmt.name}: {tile.buffer.name} does not hold whole elements",
                wanted=f"elements of {'x'.join(map(str, element))}, dense, one behind the other",
                found=f"the first at {first}, the next ones {', '.join(map(str, steps))} numbers apart",
            )
        )
    return Strided(tile.buffer, first // size, tuple(s // size for s in steps[:loops]), tuple(element))


def read_and_written(stmt: Instruction) -> tuple[set[Buffer], set[Buffer]]:
    """Return the buffers that an instruction reads, and those that it writes."""
    accessed = _accessed(stmt.name)
    if accessed is None:
        reads = {n.buffer for n in find(stmt.body, BufferLoad)}
        return reads, {n.buffer for n in find(stmt.body, BufferStore)}
    reads, writes = ({stmt.tiles[k].buffer for k in positions} for positions in accessed)
    return reads, writes


@cache
def _accessed(name: str) -> tuple[frozenset[int], frozenset[int]] | None:
    """Return the positions of the operands that the description of an intrinsic reads, and of those that it writes;
    None if it has no description.
    """
    from ..tensor_intrin import TensorIntrin

    intrin = TensorIntrin.get(name, allow_missing=True)
    if intrin is None:
        return None
    buffers = [param for param in intrin.desc.params if isinstance(param, Buffer)]
    nodes = list(walk(intrin.desc.body))
    reads = {buffers.index(n.buffer) for n in nodes if isinstance(n, BufferLoad)}
    return frozenset(reads), frozenset(buffers.index(n.buffer) for n in nodes if isinstance(n, BufferStore))


def allocations(stmt: Stmt) -> Iterator[Allocate]:
    """Yield the scratchpad allocations in a program, in program order."""
    return (n for n in find(stmt, Allocate) if is_scratchpad(n.buffer.scope))


def planned(body: Stmt, depths: Mapping[str, int], elements: Mapping[str, Sequence[int]]) -> dict[Buffer, int]:
    """Return the start of each flat buffer in its scratchpad, in elements. Buffers are placed one after the other.

    `depths` has the capacity of each scratchpad in elements, and `elements` the shape of an element. Raises
    `InputError` listing the size of each buffer if a scratchpad is too small.
    """
    ends: dict[str, int] = dict.fromkeys(SCRATCHPADS, 0)
    first: dict[Buffer, int] = {}
    for allocation in allocations(body):
        buffer = allocation.buffer
        (length,) = buffer.shape
        if not isinstance(length, IntImm):
            raise Unsupported(f"{buffer.name} in {buffer.scope} has {length} elements: wanted a constant number")
        first[buffer] = ends[buffer.scope]
        ends[buffer.scope] += -(-length.value // prod(elements[buffer.scope]))
    for scope, end in ends.items():
        if end > depths[scope]:
            sizes = [f"{b.name} from {at} on" for b, at in first.items() if b.scope == scope]
            raise InputError(
                report(
                    f"the scratchpad {scope} is too small", wanted=f"at most {depths[scope]} elements",
                    found=f"{end}: {', '.join(sizes)}", tries=("smaller tiles", "one context instead of two"),
                )
            )  # fmt: skip
    return first
