"""Programs on two machines, each with a memory of its own: copies where a value goes from one to the other.

    A(x, a)                                    A(x, a)
    B(a, b)        # a kernel of the host      copy(a of the host, a)
    C(b, y)                                    B(a of the host, b of the host)
                                               copy(b, b of the host)
                                               C(b, y)

A value that kernels of the other machine alone use lies in its memory. Any other value lies in the program's own, and
the other machine's kernels work on a *twin* of it. Each machine has the constants that its kernels read.

**Why each step finds the values that it should.** A twin in the table is up to date: it is fetched when it enters the
table, also for a kernel that may write only some of its elements, and it leaves the table when bytes of its value are
written elsewhere. If it is ahead of its value, it is brought back before another step touches the value. The table is
empty where iterations of loops meet: twins are brought back and dropped in front of a loop and at the end of its body.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..executable import nodes as x
from ..expr import Expr
from .steps import CallStep, CopyStep, LoopStep, Slot, Step, touched, used


@dataclass(slots=True)
class _Twin:
    """A value's copy in another memory, which holds the value; `is_ahead`: the value itself is older."""

    slot: Slot
    value: Slot
    operator: str
    is_ahead: bool = False


def with_copies(steps: Sequence[Step], kernels: Sequence[x.Kernel], memories: Sequence[str]) -> list[Step]:
    """The steps with copies between memories; `memories[k]` is that of kernel k, "" for the program's own."""
    if not any(memories):
        return list(steps)
    _place(steps, memories)
    return _Copies(kernels, memories).of(steps)


def _place(steps: Sequence[Step], memories: Sequence[str]) -> None:
    """Give the values that kernels of one other memory alone use their place there."""
    users: dict[Slot, set[str]] = {}
    for step in steps:
        if isinstance(step, CopyStep):
            continue  # a copy takes either memory
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
            if twin.value.storage()[0].location is not None:  # an output or a state; others are needed no more
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
        """A kernel of another memory, on twins of the values that do not lie there."""
        args = [self.twin(call, number, memory) for number in range(len(call.args))]
        self.made.append(replace(call, args=args))
        for item, param in zip(call.args, self.kernels[call.kernel].params, strict=True):
            if isinstance(item, Slot) and "w" in param.access:
                twin = self.twins.get((memory, _key(item)))
                self.written(item, twin)
                if twin is not None:
                    twin.is_ahead = True

    def twin(self, call: CallStep, number: int, memory: str) -> Slot | Expr:
        """What a kernel gets for an argument."""
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
        """In front of a step that touches a value itself: bring back the twins that are ahead of it."""
        for twin in self.twins.values():
            if _overlap(twin.value, slot):
                self.bring_back(twin)

    def written(self, slot: Slot, by: _Twin | None = None) -> None:
        """Behind a step that wrote a value, or its twin `by`: the others are old."""
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
    """Equal for slots of one value."""
    return slot if slot.location is None else slot.location


def _overlap(a: Slot, b: Slot) -> bool:
    """Whether two slots may share bytes."""
    (one, begin), (other, start) = a.storage(), b.storage()
    if one is not other and (one.location is None or one.location != other.location):
        return False
    end = begin + a.nbytes if isinstance(a.nbytes, int) else None
    stop = start + b.nbytes if isinstance(b.nbytes, int) else None
    return (end is None or end > start) and (stop is None or stop > begin)
