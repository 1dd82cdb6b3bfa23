"""Combine stores with gaps that fill each other's gaps into one store of all their elements.

A store with gaps costs one access per element. Interleaved images, such as the phases of a transposed convolution, and
images that repeat each element are stored this way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ....expr import IntImm, Ramp, Shuffle, const, walk
from ....tir.nodes import Buffer, BufferLoad, BufferStore, PrimFunc
from ....tir.transform.affine import Affine, linear
from ....tir.transform.store_runs import with_runs
from ....tir.transform.vectorize import MAX_LANES


def strided_stores(func: PrimFunc) -> PrimFunc:
    """Combine stores to every s-th element if the s stores that fill each other's gaps follow each other. Buffers must
    be flat.

    before:
        A: T.Buffer((8,), "float32")
        B: T.Buffer((8,), "float32")
        B[T.Ramp(0, 2, 4)] = A[T.Ramp(0, 1, 4)]
        B[T.Ramp(1, 2, 4)] = A[T.Ramp(4, 1, 4)]
    after:
        B[T.Ramp(0, 1, 8)] = T.Shuffle([A[T.Ramp(0, 1, 4)], A[T.Ramp(4, 1, 4)]], [0, 4, 1, 5, 2, 6, 3, 7])

    Runs after `unroll`. Distinct buffers must not overlap ("tir.noalias").
    """
    if func.attrs.get("tir.noalias", True) is False:
        return func
    # Legal: the stores of a group write different elements, and nothing between them reads or writes one (`_may_wait`).
    return with_runs(func, _filled_run)


def _filled_run(run: Sequence[BufferStore]) -> list[BufferStore]:
    """Return the stores of a run after combining groups. A combined store is placed where the last store of its group
    was.
    """
    replaced: dict[int, BufferStore | None] = {}
    for group in _groups(run):
        if _may_wait(run, group):
            replaced |= dict.fromkeys(group)
            replaced[max(group)] = _together([run[position] for position in group])
    stores = (replaced.get(position, store) for position, store in enumerate(run))
    return [store for store in stores if store is not None]


def _groups(run: Sequence[BufferStore]) -> list[list[int]]:
    """Return the positions of stores that together write neighbours without gaps, in the order of their first
    elements.
    """
    alike: dict[Any, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for position, store in enumerate(run):
        ramp = _gaps(store)
        if ramp is not None:
            form = linear(ramp.base)
            alike[store.buffer, Affine(form.terms), _step(ramp), ramp.lanes][form.const].append(position)
    groups: list[list[int]] = []
    for (_, _, step, _), starts in alike.items():
        if any(len(positions) > 1 for positions in starts.values()):
            continue  # elements that are stored twice have to be stored in order
        for start in sorted(starts):
            if all(start + k in starts for k in range(step)):
                groups.append([starts.pop(start + k)[0] for k in range(step)])
    return groups


def _gaps(store: BufferStore) -> Ramp | None:
    """Return the index of a store with gaps that a vector could fill, or None for any other store."""
    index = store.indices[0] if len(store.indices) == 1 else None
    if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm) or store.predicate is not None:
        return None
    fits = index.stride.value >= 2 and index.stride.value * index.lanes <= MAX_LANES
    return index if fits and not store.buffer.dtype.is_bool else None


def _step(ramp: Ramp) -> int:
    assert isinstance(ramp.stride, IntImm)
    return int(ramp.stride.value)


def _may_wait(run: Sequence[BufferStore], group: Sequence[int]) -> bool:
    """Return whether all stores of a group may run at the position of the last one.

    Stores in between must not write what the group reads, nor read or write what the group writes.
    """
    members = [run[position] for position in group]
    buffer = members[0].buffer
    passed = run[min(group) : max(group) + 1]
    read = {load for member in members for load in _read(member)}
    if any(buffer in _read(store) or store.buffer in read for store in passed):
        return False
    others = (store for store in passed if store.buffer is buffer and all(store is not member for member in members))
    return all(_apart(store, member) for store in others for member in members)


def _read(store: BufferStore) -> set[Buffer]:
    """Return the buffers that a store reads."""
    nodes = (node for part in (store.value, *store.indices) for node in walk(part))
    return {node.buffer for node in nodes if isinstance(node, BufferLoad)}


def _apart(store: BufferStore, other: BufferStore) -> bool:
    """Return whether two stores to a buffer certainly write different elements."""
    one, two = _gaps(store), _gaps(other)
    if one is None or two is None or _step(one) != _step(two):
        return False
    distance = linear(one.base) - linear(two.base)
    # Elements p + s*i and q + s*j are equal only if s divides p - q and |p - q| is less than s times the lanes.
    away = distance.const // _step(one)
    return not distance.terms and (distance.const % _step(one) != 0 or abs(away) >= max(one.lanes, two.lanes))


def _together(members: Sequence[BufferStore]) -> BufferStore:
    """Return one store of the elements of all members, whose first elements follow each other."""
    first = _gaps(members[0])
    assert first is not None
    count, lanes = len(members), first.lanes
    picks = tuple(member * lanes + lane for lane in range(lanes) for member in range(count))
    whole = Ramp(first.base, const(1, first.base.dtype), count * lanes)
    return BufferStore(members[0].buffer, Shuffle(tuple(member.value for member in members), picks), (whole,))
