"""The steps of a program over slots, values that have no place in memory yet."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import mul
from typing import Any, TypeAlias, cast

import numpy as np

from ..executable import nodes as x
from ..executable.alignment import frozen
from ..expr import DType, Expr, IntImm, Var, substitute
from ..graph.nodes import BIND_SIZE, FUSED
from ..tir.nodes import Buffer
from ..topi import registry

# --- Values of a program before they have a place in memory, and how large they are.


@dataclass(eq=False, slots=True)
class Slot:
    """A value that a program uses: the number of bytes that it needs, and its `location` once the location is decided.

    If it has a `home`, it is the part of that slot that begins at byte `offset`. `memory` is only for slots without a
    home and a location: it is the target in whose memory the value will be, or "" for the program's own memory.
    """

    name: str
    nbytes: x.Dim
    location: x.Location | None = None
    home: Slot | None = None
    offset: int = 0
    memory: str = ""

    def storage(self) -> tuple[Slot, int]:
        """Return the slot that owns the memory of this slot, and the offset of this slot in it."""
        slot, offset = self, 0
        while slot.home is not None:
            slot, offset = slot.home, offset + slot.offset
        return slot, offset


def buffer_bytes(buffer: Buffer, dims: Mapping[Var, Expr]) -> x.Dim:
    """Return the number of bytes of a row-major buffer, as an expression if its shape is symbolic."""
    return tensor_bytes([substitute(d, dims) for d in buffer.shape], buffer.dtype)


def tensor_bytes(shape: Sequence[Any], dtype: DType) -> x.Dim:
    """Return the number of bytes of a dense tensor, as an expression if its shape is symbolic."""
    nbytes, symbolic = dtype.bytes, []
    for dim in shape:
        size = dim.value if isinstance(dim, IntImm) else dim
        if isinstance(size, int):
            nbytes *= size
        else:
            symbolic.append(size)
    product: Any = reduce(mul, symbolic) * nbytes if symbolic and nbytes else nbytes
    return cast("x.Dim", product)


def constant(name: str, data: np.ndarray) -> x.Constant:
    """Copy an array into a constant of an executable, so that the caller may change the array later.

    The copy is aligned, so that the runtime does not need to copy it again. An array that is frozen already is not
    copied, so executables can share weights.
    """
    array = frozen(np.asarray(data))
    return x.Constant(name, DType(array.dtype.name), array.shape, array)


# --- Operators of an optimized graph that are not functions: another shape of the same memory, and sizes.


def binding_of(node: Any) -> Any:
    """Return the `bind_size` node that this node is, or that it contains as its only operator, or None otherwise.

    A `bind_size` becomes a step of the executable and has no function.
    """
    inner = node.graph.nodes[0] if node.op == FUSED and len(node.graph.nodes) == 1 else node
    return inner if inner.op == BIND_SIZE else None


def is_view(node: Any) -> bool:
    """Return whether a node only reshapes its single input, so that no data moves. A region is never a view."""
    if node.engine:
        return False
    parts = node.graph.nodes if node.op == FUSED else (node,)
    return len(node.inputs) == 1 and len(node.outputs) == 1 and all(registry.get(part.op).view for part in parts)


def writes_its_output(node: Any) -> bool:
    """Return whether the node's own kernels write its outputs."""
    return not is_view(node) and binding_of(node) is None


@dataclass(slots=True)
class CallStep:
    """A call of a kernel, given by its index. `first[k]` says whether argument k is undefined before the call."""

    kernel: int
    args: list[Slot | Expr]
    parallel: bool
    operator: str
    grid: list[Expr]
    first: list[bool]


@dataclass(slots=True)
class CopyStep:
    dst: Slot
    src: Slot
    operator: str


@dataclass(slots=True)
class ExternalStep:
    """A call of an engine. `access` says "r" or "w" for each slot; `specs` gives their dtypes and shapes."""

    engine: str
    args: list[Slot]
    access: list[str]
    specs: list[x.TensorSpec]
    attrs: Mapping[str, Any]
    operator: str


@dataclass(slots=True)
class Bind:
    var: Var
    count: Slot
    most: x.Dim
    where: str
    operator: str
    reason: str


@dataclass(slots=True)
class LoopStep:
    """A loop. Its body consists of the following steps, up to but not including step number `end`."""

    number: Slot
    limit: Slot
    going: Slot | None
    most: x.Dim | None
    where: str
    operator: str
    end: int = 0


Step: TypeAlias = CallStep | CopyStep | ExternalStep | Bind | LoopStep


def used(step: Step) -> Sequence[Slot | Expr]:
    """Return the slots and numbers that a step uses."""
    if isinstance(step, Bind):
        return [step.count]
    if isinstance(step, LoopStep):
        return [step.number, step.limit] if step.going is None else [step.number, step.limit, step.going]
    return [step.dst, step.src] if isinstance(step, CopyStep) else step.args


def touched(step: Step, kernels: Sequence[x.Kernel]) -> Iterator[tuple[Slot, str, int]]:
    """Yield the slots of a step, each with its access ("r", "w" or "rw") and its position in `used(step)`.

    Copies and loops yield what they read before what they write: a loop reads its limit before it counts.
    """
    if isinstance(step, CallStep):
        for place, (item, param) in enumerate(zip(step.args, kernels[step.kernel].params, strict=True)):
            if isinstance(item, Slot):
                yield item, param.access, place
        return
    if isinstance(step, ExternalStep):
        yield from ((slot, mode, place) for place, (slot, mode) in enumerate(zip(step.args, step.access, strict=True)))
        return
    slots = [item for item in used(step) if isinstance(item, Slot)]
    written = [0] if isinstance(step, CopyStep | LoopStep) else []  # the copy's destination, the loop's counter
    for place in [*(place for place in range(len(slots)) if place not in written), *written]:
        yield slots[place], "w" if place in written else "r", place


# --- Barriers where steps depend on one another, and nowhere else.
#
# The steps between two barriers are a *phase*. A step that runs on all threads depends on no other step of its phase,
# so its threads need not wait for each other before they begin the next step. The steps that run only on thread 0 run
# there in order.


@dataclass(frozen=True, slots=True)
class StepTouch:
    """The bytes `[first, last)` of `memory` that a step accesses. If `last` is None, they extend to the end of the
    memory.

    `writes` says whether the step writes them.
    """

    memory: Hashable
    first: int
    last: int | None
    writes: bool

    def meets(self, other: StepTouch) -> bool:
        """Return whether the two accesses share at least one byte and at least one of them writes."""
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        return (other.last is None or self.first < other.last) and (self.last is None or other.first < self.last)


def team_waits(parallel: Sequence[bool], touches: Sequence[Sequence[StepTouch]]) -> list[bool]:
    """Return, for each step, whether all threads must wait before it.

    `parallel` steps run on all threads, the others on thread 0. `touches` lists the accesses of each step. Threads do
    not wait between steps that are independent of each other.
    """
    waits: list[bool] = []
    phase: list[tuple[bool, Sequence[StepTouch]]] = []
    for everyone, mine in zip(parallel, touches, strict=True):
        wait = any(a.meets(b) for other, theirs in phase if everyone or other for a in theirs for b in mine)
        if wait:
            phase = []
        phase.append((everyone, mine))
        waits.append(wait)
    return waits


def touches_of(step: Step, kernels: Sequence[x.Kernel]) -> list[StepTouch]:
    """Return the byte ranges that a step accesses."""
    return [_touch(slot, "w" in mode) for slot, mode, _ in touched(step, kernels)]


def _touch(slot: Slot, writes: bool) -> StepTouch:
    home, offset = slot.storage()
    last = offset + slot.nbytes if isinstance(slot.nbytes, int) else None
    return StepTouch(id(home) if home.location is None else home.location, offset, last, writes)


def edges_of(steps: Sequence[Step]) -> list[int]:
    """Return the positions at which stretches of steps begin: the start and end of a loop, of its body, of a `Bind`,
    and of a call of an engine.

    All threads always wait at these positions.
    """
    loops = {edge for k, step in enumerate(steps) if isinstance(step, LoopStep) for edge in (k, k + 1, step.end)}
    binds = {edge for k, step in enumerate(steps) if isinstance(step, Bind | ExternalStep) for edge in (k, k + 1)}
    return sorted({0, len(steps), *loops, *binds})


def phases(edges: Sequence[int], waits: Sequence[bool]) -> Iterator[range]:
    """Yield each phase as a range of step positions.

    A phase begins at an edge, or at a step that threads wait before.
    """
    begins = sorted({*edges, *(k for k, wait in enumerate(waits) if wait)})
    yield from (range(a, b) for a, b in pairwise(begins))


def is_parallel(step: Step) -> bool:
    """Return whether all threads run a step."""
    return isinstance(step, CallStep) and step.parallel
