"""Run the threads of a simulated block as coroutines: each runs until it must wait for others.

The kernel's text becomes a generator. At a barrier it yields None, and at an operation of a warp it yields the object
that it waits for. Threads run in the order of their numbers, so every run is the same. A barrier opens when every
unfinished thread has reached it. If all threads wait and no barrier opens, one of them waits for a thread that never
comes, which is an error.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Protocol

from .faults import KernelFault

Waits = Generator[Any, None, Any]


class Waiting(Protocol):
    """An event, other than a barrier, that several threads wait for."""

    def never(self) -> KernelFault:
        """Return the error for a thread that waits for others that never come."""


@dataclass(eq=False)
class Thread:
    """A running thread: its number in its block of `size` threads, and its unfinished operations by kind."""

    number: int = 0
    size: int = 1
    block: Block | None = None
    under_way: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Block:
    """A running block: the threads that are ready to continue, and the data that its threads share besides storage, by
    kind.
    """

    ready: deque[Thread] = field(default_factory=deque)
    shared: dict[str, dict[Any, Any]] = field(default_factory=dict)


_running: list[Thread] = [Thread()]


def current() -> Thread:
    """Return the thread that is running now."""
    return _running[0]


def begin(thread: Thread) -> None:
    """Make `thread` the running thread."""
    _running[0] = thread


def coordinates(extents: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return all (x, y, z) below some extents, with x changing fastest."""
    return [(x, y, z) for z, y, x in itertools.product(*map(range, reversed(extents)))]


def xyz(values: Sequence[int]) -> Any:
    """Return three numbers as an object with the attributes x, y and z, which kernel source reads."""
    return SimpleNamespace(x=values[0], y=values[1], z=values[2])


def as_coroutine(source: str, name: str, operations: Mapping[str, Callable[..., Any]]) -> tuple[ast.Module, bool]:
    """Parse the text of kernels into a module whose waiting threads yield. Also return whether there is anything to
    wait for.

    A thread waits for those `operations` that are generators. `name` is the file name for syntax errors.
    """
    changes = _Yields({key for key, operation in operations.items() if inspect.isgeneratorfunction(operation)})
    tree = ast.fix_missing_locations(changes.visit(ast.parse(source, name)))
    return tree, changes.any


class _Yields(ast.NodeTransformer):
    def __init__(self, waited_for: set[str]) -> None:
        self.waited_for, self.any = waited_for, False

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.waited_for:
            self.any = True
            return ast.copy_location(ast.YieldFrom(node), node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "syncthreads":
            self.any = True
            return ast.copy_location(ast.Yield(None), node)
        return node


def run_block(kernel: Callable[[], Waits], threads: Sequence[int], place: Any) -> None:
    """Run one block. `kernel()` starts a thread, which reads its position from `place.threadIdx`.

    A `KernelFault` of a thread ends the block, and its message names the thread.
    """
    points = coordinates(threads)
    block = Block()
    at = {Thread(k, len(points), block): (kernel(), xyz(point)) for k, point in enumerate(points)}
    block.ready.extend(at)
    left, at_barrier = len(at), list[Thread]()
    waiting: dict[Thread, Waiting] = {}
    while left:
        if block.ready:
            thread, fault = block.ready.popleft(), None
        elif len(at_barrier) == left:
            block.ready.extend(sorted(at_barrier, key=lambda one: one.number))
            at_barrier.clear()
            continue
        else:
            thread, its = next(iter(waiting.items()))
            fault = its.never()
        waiting.pop(thread, None)
        begin(thread)
        coroutine, place.threadIdx = at[thread]
        try:
            waits_for = next(coroutine) if fault is None else coroutine.throw(fault)
        except StopIteration:
            left -= 1
        except KernelFault as error:
            point, its_block = points[thread.number], place.blockIdx
            where = f"tid={list(point)} ctaid={[its_block.x, its_block.y, its_block.z]}"
            raise KernelFault(f"{where}: {error}") from None
        else:
            if waits_for is None:
                at_barrier.append(thread)
            else:
                waiting[thread] = waits_for
