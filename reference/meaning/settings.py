"""The settings of a run, and the buffers that a function writes: shared by the slow and the fast mode."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from minitvm import events
from minitvm import expr as x
from minitvm.errors import ExecutionError, InputError
from minitvm.tir import nodes as t

from ..domains.domain import Domain
from . import shadow as checks
from .findings import UndefinedBehaviour
from .flights import Flights
from .storage import Memory, View

# After this number of iterations a `while` counts as endless. MINITVM_WHILE_LIMIT sets another number.
WHILE_LIMIT = 500_000

ORDERS = ("forward", "backward", "shuffled")
# Loops that claim that the order of their iterations does not matter.
INDEPENDENT = (t.ForKind.PARALLEL, t.ForKind.VECTORIZED, t.ForKind.THREAD)


def while_limit() -> int:
    """Return the number of iterations after which a `while` counts as endless; raises `InputError` for an invalid
    setting.
    """
    text = os.environ.get("MINITVM_WHILE_LIMIT", "") or str(WHILE_LIMIT)
    if not text.isdecimal():
        raise InputError(f"MINITVM_WHILE_LIMIT: wanted a number of 0 or more, found {text!r}")
    return int(text)


def endless(loop: t.While, limit: int) -> ExecutionError:
    """Return the error for a `while` that exceeds the limit."""
    return ExecutionError(
        f"while {loop.condition}: no end after {limit} iterations\n"
        f"  try:    MINITVM_WHILE_LIMIT={limit * 100} in the environment, if it takes so many"
    )


@dataclass
class Settings:
    """The settings of a run: the checks, the order of independent iterations, the listeners, and the meaning of
    floats.
    """

    shadow: bool = True
    order: str = "forward"
    seed: int = 0
    listeners: Sequence[events.Listener] = ()
    threads: int = 1
    domain: Domain | None = None
    coverage: Any = None  # a `reference.judging.coverage.Coverage`, which hears the comparisons of the fast mode
    while_limit: int = field(default_factory=lambda: while_limit())
    random: random.Random = field(init=False)
    executions: Iterator[int] = field(default_factory=itertools.count)
    flights: Flights = field(default_factory=Flights, init=False)
    suspected: ExecutionError | None = field(default=None, init=False)  # a read that a later conflict may explain

    @contextmanager
    def suspecting(self, outermost: bool) -> Iterator[None]:
        """Run independent iterations inside a `with` block; report an uninitialised read at the end, unless there is a
        conflict.

        If a barrier is missing, for example, the read may come first, and the write that it should wait for comes
        later.
        """
        if not outermost:
            yield
            return
        try:
            yield
        except ExecutionError as error:
            first, self.suspected = self.suspected, None
            explains = isinstance(error, UndefinedBehaviour) and error.finding.kind == "conflict"
            raise (error if first is None or explains else first) from None
        first, self.suspected = self.suspected, None
        if first is not None:
            raise first

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise InputError(f"order {self.order!r} is unknown; known: {', '.join(ORDERS)}")
        self.random = random.Random(self.seed)

    def iterations(self, count: int) -> Sequence[int]:
        """Return the iterations of an independent loop in the order in which they run."""
        if self.order == "forward":
            return range(count)
        if self.order == "backward":
            return range(count - 1, -1, -1)
        return self.random.sample(range(count), count)

    @property
    def arrives_early(self) -> bool:
        """Return whether the asynchronous copy that begins now writes its destination at once."""
        return self.order == "forward" or (self.order == "shuffled" and self.random.random() < 0.5)

    def partitioned(self, count: int) -> list[int]:
        """Return the iterations of a PARALLEL loop: the share of each thread in order, and the threads in the chosen
        order.
        """
        n = self.threads
        shares = [range(count * k // n, count * (k + 1) // n) for k in range(n)]
        return [i for k in self.iterations(n) for i in shares[k]]


def stored_buffers(func: t.PrimFunc, module: t.IRModule | None = None) -> frozenset[t.Buffer]:
    """Return the buffers that a function may write, including writes through views and by the kernels that it calls."""
    by_module = _STORED.setdefault(func, WeakKeyDictionary())
    key = func if module is None else module
    if key not in by_module:
        by_module[key] = frozenset(_stored_buffers(func, module))
    return by_module[key]


_STORED: WeakKeyDictionary[t.PrimFunc, WeakKeyDictionary[Any, frozenset[t.Buffer]]] = WeakKeyDictionary()


def _stored_buffers(func: t.PrimFunc, module: t.IRModule | None) -> set[t.Buffer]:
    nodes = list(x.walk(func.body))
    stored = {s.buffer for s in nodes if isinstance(s, t.BufferStore)}
    views = [m for b in nodes if isinstance(b, t.Block) for m in b.match_buffers]
    grown = True
    while grown:
        sources = {m.source.buffer for m in views if m.buffer in stored}
        grown = not sources <= stored
        stored |= sources
    for call in nodes:
        if isinstance(call, t.KernelCall) and module is not None and call.kernel in module:
            kernel = module[call.kernel]
            inner = stored_buffers(kernel, module)
            stored |= {
                a for p, a in zip(kernel.params, call.args, strict=True) if p in inner and isinstance(a, t.Buffer)
            }
    # An output before lowering is still an output, even if no write is left.
    return stored | {p for k in func.attrs.get("tir.writes", ()) if isinstance(p := func.params[k], t.Buffer)}


def written_elements(buffer: t.Buffer, memory: Memory, view: View) -> None:
    """Raise `ExecutionError` unless every element of an output was written."""
    if memory.init is None or 0 in view.shape:
        return
    done = np.frombuffer(memory.init, np.uint8)[view.offsets()]
    if not done.all():
        first = tuple(int(i) for i in np.argwhere(done == 0)[0])
        raise checks.never_written(buffer, first, int((done == 0).sum()), done.size)
