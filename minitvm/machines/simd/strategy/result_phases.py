"""Compute sums over data with zeros between their elements phase by phase, so that no zero is multiplied.

    S[o] += A[o + k] * W[k], where A is 0 except at every s-th element
        ->  S[s*q + p] += A[s*(q + j + ..)] * W[s*j + ..]           phases p, taps j

A transposed convolution is such a sum. The axis o of the result becomes the axes p and q. The sums are stored phase
after phase, and so is A, so that neighbours along q read and write neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....expr import REDUCE, Var, walk
from ....strategy.blocks import block_of, extents
from ....tir import Schedule
from ....tir.analysis.accesses import update_operand
from ....tir.analysis.block_regions import buffers_read, buffers_written
from ....tir.analysis.zero_patterns import ZeroPattern, zero_pattern
from ....tir.nodes import Block, Buffer, BufferStore, PrimFunc


@dataclass(frozen=True, slots=True)
class ResultPhases:
    """The axes of a sum that has zero terms, as positions in its block.

    `summed` are the summed axes with zero terms. `steps` are the result's axes that decide which terms are zero, each
    with its step. `places` are the dimensions of `data` that have zeros between elements, each with its step.
    """

    summed: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]
    data: Buffer
    places: tuple[tuple[int, int], ...]


def result_phases(func: PrimFunc, block: Block) -> ResultPhases | None:
    """Return the phases of a sum, or None if it has none or their extents differ."""
    store, axes = block.body, block.iter_vars
    term = update_operand(store) if isinstance(store, BufferStore) else None
    sizes = extents(axis.dom.extent for axis in axes)
    summed: list[int] = []
    steps: dict[int, int] = {}
    places: dict[int, int] = {}
    data: Buffer | None = None
    for position, axis in enumerate(axes):
        pattern = zero_pattern(func, term, axis.var) if axis.kind == REDUCE else None
        if pattern is None or data not in (None, pattern.load.buffer):
            continue
        split, step = _split_by(pattern, block), pattern.step
        if split is None or any((sizes[p] or 1) % step or steps.get(p, step) != step for p in split):
            continue
        data = pattern.load.buffer
        summed.append(position)
        steps |= dict.fromkeys(split, step)
        for place, index in enumerate(pattern.load.indices):
            if any(node is axis.var for node in walk(index)):
                places[place] = step
    if data is None or not _are_indices(store, [axes[p].var for p in steps]):
        return None
    return ResultPhases(tuple(summed), tuple(sorted(steps.items())), data, tuple(sorted(places.items())))


def _split_by(pattern: ZeroPattern, block: Block) -> list[int] | None:
    """Return the result's axes that decide which terms are zero, or None if something else decides it."""
    moving = [term for term, times in pattern.rest.terms.items() if times % pattern.step]
    spatial = {axis.var: p for p, axis in enumerate(block.iter_vars) if axis.kind != REDUCE}
    return [spatial[term] for term in moving] if all(term in spatial for term in moving) else None


def _are_indices(store: Any, variables: Sequence[Var]) -> bool:
    return all(any(index is var for index in store.indices) for var in variables)


def in_phases(sch: Schedule, name: str, phases: ResultPhases) -> None:
    """Compute the sums of a block phase by phase. Its readers get a copy in the original order, which can be inlined.

    Terms with a zero factor are left out. This assumes that the other factor is finite, as the pass `skip_zeros` and
    the graph pass that splits transposed convolutions do.
    """
    block = sch.get_block(name)
    axes, indices = block_of(sch, block).iter_vars, block_of(sch, block).body.indices  # type: ignore[attr-defined]
    written = {next(d for d, i in enumerate(indices) if i is axes[p].var): step for p, step in phases.steps}
    sch.cache_write(block, 0, "global")
    if written:
        sch.transform_layout(block, ("write", 0), _phased(written))
        sch.transform_block_layout(block, _phased(dict(phases.steps)))
    loops = sch.get_loops(block)
    for position in phases.summed:
        sch.skip_zero_terms(loops[position + len(written)], assume_finite=True)
    _store_data(sch, block, phases)


def _store_data(sch: Schedule, block: Any, phases: ResultPhases) -> None:
    """Store the data that the sums read phase by phase."""
    reads = list(buffers_read(block_of(sch, block)))
    steps, shape = dict(phases.places), extents(phases.data.shape)
    maker = next(p for p in sch.get_producers(block) if buffers_written(block_of(sch, p))[0] is phases.data)
    padded = any((shape[place] or 1) % step for place, step in steps.items())
    where = _phased(steps)
    sch.transform_layout(block, ("read", reads.index(phases.data)), where, pad_value=0 if padded else None)
    if not padded:
        sch.transform_block_layout(maker, where)


def _phased(steps: Mapping[int, int]) -> Callable[..., tuple[Any, ...]]:
    """Return an index map that puts the phases before the first axis that has them, and replaces the axes by
    quotients.
    """
    first = min(steps)

    def place(*at: Any) -> tuple[Any, ...]:
        phases = [at[p] % step for p, step in sorted(steps.items())]
        quotients = [at[p] // steps[p] if p in steps else at[p] for p in range(first, len(at))]
        return (*at[:first], *phases, *quotients)

    return place
