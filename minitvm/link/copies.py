"""Programs on two machines, each with its own memory: insert copies where a value moves from one memory to the other.

    A(x, a)                                    A(x, a)
    B(a, b)        # a kernel of the host      copy(a of the host, a)
    C(b, y)                                    B(a of the host, b of the host)
                                               copy(b, b of the host)
                                               C(b, y)

A value that only kernels of the other machine use is placed in that machine's memory. Any other value is placed in the
program's own memory, and the other machine's kernels work on a *twin* of it: a copy in their memory. Each machine has
the constants that its kernels read.

**Why each step reads the right values.** A twin in the table is up to date. It is fetched when it enters the table,
even for a kernel that only writes, because that kernel may write only some of its elements. It leaves the table when
bytes of its value are written elsewhere. If the twin is newer than its value, it is copied back before another step
touches the value. The table is empty where iterations of loops meet: before a loop and at the end of its body, all
twins are copied back and dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..executable import nodes as x
from ..expr import Expr
from .steps import CallStep, CopyStep, LoopStep, Slot, Step, touched, used


@dataclass(slots=True)
class _Twin:
    """A copy of `value` in another memory, stored in `slot`. `is_ahead` means that it is newer than the value
    itself.
    """

    slot: Slot
    value: Slot
    operator: str
    is_ahead: bool = False


def with_copies(steps: Sequence[Step], kernels: Sequence[x.Kernel], memories: Sequence[str]) -> list[Step]:
    """Return the steps with the copies between memories inserted.

    `memories[k]` is the memory of kernel k, or "" for the program's own memory.
    """
    if not any(memories):
        return list(steps)
    _place(steps, memories)
    return _Copies(kernels, memories).of(steps)


def _place(steps: Sequence[Step], memories: Sequence[str]) -> None:
    """Place each value that only the kernels of one other memory use in that memory."""
    users: dict[Slot, set[str]] = {}
    for step in steps:
        if isinstance(step, CopyStep):
            continue  # a copy can use either memory
        memory = memories[step.kernel] if isinstance(step, CallStep) else ""
        for item in used(step):
            if isinstance(item, Slot):
                users.setdefault(item.storage()[0], set()).add(memory)
    for slot, its in users.items():
        if slot.location is None and len(its) == 1:
            (slot.memory,) = its


class _Copies:
    def __init__(self, kernels: Sequence[x.Kernel], memories: Sequence[str]) -> None:
        self.kernels, self.memories = kernels, memories
        self.twins: dict[tuple[str, Slot | x.Location], _Twin] = {}
        self.made: list[Step] = []

    def of(self, steps: Sequence[Step]) -> list[Step]:
        ends = {step.end for step in steps if isinstance(step, LoopStep)}
        begins: list[int] = []  # the place of each step, and of the end
        for number in range(len(steps) + 1):
            step = steps[number] if number < len(steps) else None
            if number in ends or isinstance(step, LoopStep):
                self.drop_all()
            begins.append(len(self.made))
            if step is not None:
                self.step(step)
        for twin in self.twins.values():
            if twin.value.storage()[0].location is not None:  # an output or a state; others are not needed any more
                self.bring_back(twin)
        return [replace(step, end=begins[step.end]) if isinstance(step, LoopStep) else step for step in self.made]

    def step(self, step: Step) -> None:
        memory = self.memories[step.kernel] if isinstance(step, CallStep) else ""
        if isinstance(step, CallStep) and memory:
            self.call(step, memory)
            return
        accesses = list(touched(step, self.kernels))
        for slot, _, _ in accesses:
            self.before(slot)
        self.made.append(step)
        for slot, access, _ in accesses:
            if "w" in access:
                self.written(slot)

    def call(self, call: CallStep, memory: str) -> None:
        """Append a call of a kernel in another memory, using twins for the values that are not in that memory."""
        args = [self.twin(call, number, memory) for number in range(len(call.args))]
        self.made.append(replace(call, args=args))
        for item, param in zip(call.args, self.kernels[call.kernel].params, strict=True):
            if isinstance(item, Slot) and "w" in param.access:
                twin = self.twins.get((memory, _key(item)))
                self.written(item, twin)
                if twin is not None:
                    twin.is_ahead = True

    def twin(self, call: CallStep, number: int, memory: str) -> Slot | Expr:
        """Return the value that the kernel gets as argument `number`: the original, or its twin in `memory`."""
        item = call.args[number]
        if not isinstance(item, Slot) or isinstance(item.location, x.ConstantRef):
            return item
        if item.storage()[0].memory == memory:
            return item
        twin = self.twins.get((memory, _key(item)))
        if twin is None:
            self.before(item)
            twin = _Twin(Slot(f"{item.name}_twin", item.nbytes, memory=memory), item, call.operator)
            self.twins[memory, _key(item)] = twin
            if not call.first[number]:
                self.made.append(CopyStep(twin.slot, item, call.operator))
        twin.operator = call.operator
        return twin.slot

    def before(self, slot: Slot) -> None:
        """Copy back every twin that is newer than its value. Call this before a step that touches the value itself."""
        for twin in self.twins.values():
            if _overlap(twin.value, slot):
                self.bring_back(twin)

    def written(self, slot: Slot, by: _Twin | None = None) -> None:
        """Drop the outdated twins of a value. Call this after a step that wrote the value, or its twin `by`."""
        self.twins = {k: t for k, t in self.twins.items() if t is by or not _overlap(t.value, slot)}

    def bring_back(self, twin: _Twin) -> None:
        if twin.is_ahead:
            self.made.append(CopyStep(twin.value, twin.slot, twin.operator))
            twin.is_ahead = False

    def drop_all(self) -> None:
        for twin in self.twins.values():
            self.bring_back(twin)
        self.twins.clear()


def _key(slot: Slot) -> Slot | x.Location:
    """Return a key that is equal for all slots of the same value."""
    return slot if slot.location is None else slot.location


def _overlap(a: Slot, b: Slot) -> bool:
    """Return whether two slots may share bytes."""
    (one, begin), (other, start) = a.storage(), b.storage()
    if one is not other and (one.location is None or one.location != other.location):
        return False
    end = begin + a.nbytes if isinstance(a.nbytes, int) else None
    stop = start + b.nbytes if isinstance(b.nbytes, int) else None
    return (end is None or end > start) and (stop is None or stop > begin)
