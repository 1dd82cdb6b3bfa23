"""The interpreters' checks for undefined behaviour: uninitialised elements, bounds, conflicting accesses.

Two accesses to the same element conflict if one of them writes and nothing orders them: they belong to different
iterations of the same execution of a parallel, vectorised or thread loop. An access is identified by its path, with an
(execution, phase, iteration) for each such loop around it, outermost first. Look at the first place where two paths
differ. If the execution or the phase differs (there is a barrier between them), one access came before the other; if
only the iteration differs, they are concurrent. For each element, only the last writer and at most two concurrent
readers are kept: earlier accesses are ordered before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitvm.tir import nodes as t

from .findings import Access, Finding, UndefinedBehaviour
from .storage import Memory
from .text import access_text


class Iteration:
    """One iteration of a loop whose iterations claim to be independent, inside such iterations of outer loops."""

    __slots__ = ("path", "where")

    def __init__(self, path: tuple[tuple[int, int, int], ...], where: tuple[tuple[str, bool], ...]) -> None:
        self.path = path
        self.where = where  # of each loop on the path: the variable's name, and whether a barrier orders its iterations

    @staticmethod
    def inside(outer: Iteration | None, execution: int, index: int, var: str, is_thread: bool) -> Iteration:
        if outer is None:
            return Iteration(((execution, 0, index),), ((var, is_thread),))
        return Iteration((*outer.path, (execution, 0, index)), (*outer.where, (var, is_thread)))

    def after_barrier(self) -> Iteration:
        """Return the same threads in their next phase."""
        path = tuple((e, p + thread, i) for (e, p, i), (_, thread) in zip(self.path, self.where, strict=True))
        return Iteration(path, self.where)

    def concurrent(self, other: Iteration) -> bool:
        """Return whether nothing orders this iteration and another."""
        for mine, theirs in zip(self.path, other.path, strict=False):
            if mine != theirs:
                return mine[0] == theirs[0] and mine[1] == theirs[1]
        return False


def note_read(memory: Memory, offset: int, now: Iteration, load: Callable[[], Access]) -> None:
    """Record a read inside a parallel loop; raise an error if a concurrent iteration wrote the element."""
    writer = memory.writers.get(offset)
    if writer is not None and writer[0] is not now and writer[0].concurrent(now):
        raise Concurrent(writer[1], load)
    readers = memory.readers.get(offset)
    if readers is None:
        memory.readers[offset] = ((now, load),)
    elif readers[0][0] is not now and readers[-1][0] is not now:
        kept = next((r for r in readers if r[0].concurrent(now)), None)
        memory.readers[offset] = ((now, load),) if kept is None else (kept, (now, load))


def note_write(memory: Memory, offset: int, now: Iteration, store: Callable[[], Access]) -> None:
    """Record a write inside a parallel loop; raise an error if a concurrent iteration accessed the element."""
    writer = memory.writers.get(offset)
    if writer is not None and writer[0] is not now and writer[0].concurrent(now):
        raise Concurrent(writer[1], store)
    for reader in memory.readers.pop(offset, ()):
        if reader[0] is not now and reader[0].concurrent(now):
            raise Concurrent(reader[1], store)
    memory.writers[offset] = (now, store)


class Concurrent(Exception):
    """Two unordered accesses; code that knows the element's index turns it into a `conflict`."""

    def __init__(self, first: Callable[[], Access], second: Callable[[], Access]) -> None:
        super().__init__()
        self.accesses = (first(), second())


def conflict(memory: Memory, index: tuple[int, ...], accesses: tuple[Access, Access]) -> UndefinedBehaviour:
    """Return the error for an element that two iterations access although they claim to be independent."""
    element = f"element [{', '.join(map(str, index))}] of {memory.name}"
    lines = [f"conflicting accesses to {element}: nothing orders them", *(f"  {one}" for one in accesses)]
    return UndefinedBehaviour("\n".join(lines), Finding("conflict", memory.name, index, accesses))


def out_of_bounds(
    buffer: t.Buffer, indices: tuple[Any, ...], point: tuple[int, ...], shape: tuple[int, ...], access: Access
) -> UndefinedBehaviour:
    """Return the error for an index outside its dimension, such as a negative one."""
    axis = next((k for k, (i, n) in enumerate(zip(point, shape, strict=False)) if not 0 <= i < n), 0)
    bad = point[axis] if point else 0
    limit = shape[axis] if shape else 1
    return UndefinedBehaviour(
        f"out of bounds: {access_text(buffer, indices)} at index ({', '.join(map(str, point))})\n"
        f"  wanted: 0 <= {indices[axis] if indices else ''} < {limit} in dimension {axis} of {buffer.name}\n"
        f"  found:  {bad}\n  in:     {access.place}",
        Finding("out of bounds", buffer.name, point, (access,)),
    )


def uninitialised(memory: Memory, point: tuple[int, ...], access: Access, is_output: bool) -> UndefinedBehaviour:
    """Return the error for an element that is read before it was written."""
    text = (
        f"uninitialised read: element [{', '.join(map(str, point))}] of {memory.name} has not been written yet\n"
        f"  in:     {access.place}"
    )
    if is_output:
        text += f"\n  try:    inout=[{memory.name!r}] if the function is meant to update what the caller passes in"
    return UndefinedBehaviour(text, Finding("uninitialised read", memory.name, point, (access,)))


def lanes_meet(name: str, index: tuple[int, ...], access: Access) -> UndefinedBehaviour:
    """Return the error for two lanes of one vector store that write the same element."""
    return UndefinedBehaviour(
        f"two lanes of one store write the same element of {name}\n  in:     {access.place}",
        Finding("conflict", name, index, (access, access)),
    )


def never_written(buffer: t.Buffer, point: tuple[int, ...], missing: int, total: int) -> UndefinedBehaviour:
    """Return the error for an output that still has elements without a value when the function ends."""
    return UndefinedBehaviour(
        f"output {buffer.name} is incomplete: {missing} of {total} elements were never written,"
        f" the first at [{', '.join(map(str, point))}]",
        Finding("output not written", buffer.name, point),
    )


def divergent_barrier(var: str, waits: int, gone: int, barrier: Any) -> UndefinedBehaviour:
    """Return the error for a barrier at which some threads of a block wait and which others never reach."""
    return UndefinedBehaviour(
        f"divergent barrier: thread {var} = {waits} waits at a barrier that thread {var} = {gone} never reaches",
        Finding(
            "divergent barrier",
            "",
            (),
            (Access("waited for", barrier, ((var, waits),)), Access("never reached", barrier, ((var, gone),))),
        ),
    )
