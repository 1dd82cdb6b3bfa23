"""Threads of a block that run side by side in the simulator, as coroutines: each runs until it has to wait for others.

The kernel's text becomes a generator: at a barrier it yields None, at an operation of a warp what it waits for. Threads
take turns in the order of their numbers, so a run is the same each time. A barrier opens when every thread that has not
ended is there. If all threads wait and no barrier opens, one of them waits for a thread that never comes, an error.
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
    """What threads wait for together, other than a barrier."""

    def never(self) -> KernelFault:
        """The error of a thread that waits where others never come."""


@dataclass(eq=False)
class Thread:
    """A thread that runs: its number in its block of `size` threads, and what it has under way, by kind."""

    number: int = 0
    size: int = 1
    block: Block | None = None
    under_way: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Block:
    """A block that runs: the threads that may go on, and what its threads share besides storage, by kind."""

    ready: deque[Thread] = field(default_factory=deque)
    shared: dict[str, dict[Any, Any]] = field(default_factory=dict)


_running: list[Thread] = [Thread()]


def current() -> Thread:
    """The thread that runs now."""
    return _running[0]


def begin(thread: Thread) -> None:
    """From here on, `thread` runs."""
    _running[0] = thread


def coordinates(extents: Sequence[int]) -> list[tuple[int, int, int]]:
    """All (x, y, z) below some extents, x fastest."""
    return [(x, y, z) for z, y, x in itertools.product(*map(range, reversed(extents)))]


def xyz(values: Sequence[int]) -> Any:
    """Three numbers as kernel source reads them."""
    return SimpleNamespace(x=values[0], y=values[1], z=values[2])


def as_coroutine(source: str, name: str, operations: Mapping[str, Callable[..., Any]]) -> tuple[ast.Module, bool]:
    """The text of kernels as a module in which threads that wait yield; and whether there is anything to wait for.

    Those of the `operations` that are generators are waited for. `name` is the file of a syntax error.
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
    """Run one block: `kernel()` is a thread, which finds its place in `place.threadIdx`.

    A `KernelFault` of a thread ends the block, and says which thread it was.
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
