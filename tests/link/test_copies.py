"""Copies between two memories: every kernel finds what it would find in one memory, and works in its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from minitvm.executable import Kernel, KernelParam, Output
from minitvm.expr import DType
from minitvm.link.copies import with_copies
from minitvm.link.steps import Bind, CallStep, CopyStep, LoopStep, Slot, Step

BYTES, HOST = 4, "cpu"
ACCESSES = ("r", "w", "rw")


def kernel(accesses: Sequence[str], memory: str) -> tuple[Kernel, str]:
    params = tuple(KernelParam(f"p{k}", DType("uint8"), access=access) for k, access in enumerate(accesses))
    return Kernel("k", "numba", "", "k", params), memory


class Program:
    """Steps over slots, of which some are results and some parts of another one, and the kernels that they call."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.table: list[tuple[Kernel, str]] = []
        whole = Slot("whole", 2 * BYTES)
        self.slots = [Slot("y", BYTES, Output(0)), Slot("a", BYTES), Slot("b", BYTES), whole]
        self.slots += [Slot(f"part{k}", BYTES, home=whole, offset=k * BYTES) for k in range(2)]
        self.steps: list[Step] = []
        for slot in self.slots[:4]:  # each has a value before it is read
            self.call([(slot, "w", True)])
        self.more(depth=0)

    def call(self, args: Sequence[tuple[Slot, str, bool]]) -> None:
        self.table.append(kernel([access for _, access, _ in args], self.random.choice(["", HOST])))
        first = [is_first for _, _, is_first in args]
        self.steps.append(CallStep(len(self.table) - 1, [slot for slot, _, _ in args], True, "op", [], first))

    def more(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.choice(["call", "call", "call", "copy", "bind", *["loop", "loop"][depth:]])
            if kind == "call":
                chosen = self.random.sample(self.slots, self.random.randint(1, 3))
                apart = [s for s in chosen if not any(s is t.home or s.home is t for t in chosen)]
                accesses = [self.random.choice(ACCESSES) for _ in apart]
                undefined = [access == "w" and self.random.random() < 0.5 for access in accesses]
                self.call(list(zip(apart, accesses, undefined, strict=True)))
            elif kind == "copy":
                dst, src = self.random.sample([s for s in self.slots if s.nbytes == BYTES], 2)
                self.steps.append(CopyStep(dst, src, "op"))
            elif kind == "bind":
                self.steps.append(Bind(None, self.random.choice(self.slots), 0, "", "op", ""))  # type: ignore[arg-type]
            else:
                loop = LoopStep(Slot("number", 8), self.slots[1], None, None, "", "loop")
                self.steps.append(loop)
                self.more(depth + 1)
                loop.end = len(self.steps)

    def copied(self) -> list[Step]:
        kernels, memories = zip(*self.table, strict=True)
        return with_copies(self.steps, kernels, memories)


class Machine:
    """Runs steps on bytes. `seen` is what each step read; what it writes is a mix of that."""

    def __init__(self, program: Program, iterations: Sequence[int]) -> None:
        self.program, self.iterations = program, iterations
        self.bytes: dict[Any, bytearray] = {}
        self.seen: list[Any] = []

    def view(self, slot: Slot) -> memoryview:
        root, offset = slot.storage()
        place = root if root.location is None else root.location
        room = self.bytes.setdefault(place, bytearray(root.nbytes))  # type: ignore[arg-type]
        return memoryview(room)[offset : offset + slot.nbytes]  # type: ignore[operator]

    def run(self, steps: Sequence[Step], begin: int, end: int, depth: int = 0) -> None:
        at = begin
        while at < end:
            step = steps[at]
            at += 1
            if isinstance(step, CopyStep):
                self.view(step.dst)[:] = bytes(self.view(step.src))
            elif isinstance(step, CallStep):
                self.call(step)
            elif isinstance(step, LoopStep):
                for _ in range(self.iterations[depth]):
                    self.run(steps, at, step.end, depth + 1)
                at = step.end
            else:
                self.seen.append(bytes(self.view(step.count)))

    def call(self, step: CallStep) -> None:
        about = self.program.table[step.kernel][0]
        views = [(self.view(slot), p.access) for slot, p in zip(step.args, about.params, strict=True)]  # type: ignore[arg-type]
        found = [bytes(view) for view, access in views if "r" in access]
        self.seen.append((step.kernel, found))
        mixed = hash((step.kernel, *found, len(self.seen))) % 251 + 1
        for (view, access), is_first in zip(views, step.first, strict=True):
            if "w" in access:
                some = len(view) if is_first else 1  # elements that it does not write stay
                view[:some] = bytes([mixed] * some)


def result(program: Program, steps: Sequence[Step], iterations: Sequence[int]) -> Any:
    machine = Machine(program, iterations)
    machine.run(steps, 0, len(steps))
    return machine.seen, bytes(machine.bytes[Output(0)])


def each_kernel_finds_what_it_would_in_one_memory(random: Random) -> None:
    program = Program(random)
    iterations = [random.randint(0, 2) for _ in range(2)]
    expected = result(program, program.steps, iterations)
    steps = program.copied()
    assert result(program, steps, iterations) == expected
    for step in steps:
        memory = program.table[step.kernel][1] if isinstance(step, CallStep) else ""
        slots = () if isinstance(step, CopyStep) else step.args if isinstance(step, CallStep) else ()
        assert all(slot.storage()[0].memory == memory for slot in slots if isinstance(slot, Slot))


def test_each_kernel_finds_what_it_would_in_one_memory() -> None:
    """A program takes a millisecond, and what it takes to tell some orders of copies apart is rare."""
    for seed in range(2000):
        each_kernel_finds_what_it_would_in_one_memory(Random(seed))


def chain(*memories: str) -> tuple[list[Step], list[Slot], list[Kernel]]:
    """Kernels one after another, each with the result of the one before."""
    slots = [Slot(f"v{k}", BYTES) for k in range(len(memories))] + [Slot("y", BYTES, Output(0))]
    kernels = [kernel(["r", "w"], memory)[0] for memory in memories]
    steps: list[Step] = [
        CallStep(k, [slots[k], slots[k + 1]], True, "op", [], [False, True]) for k in range(len(memories))
    ]
    return steps, slots, kernels


def a_value_is_copied_once_and_one_that_stays_is_not_copied() -> None:
    steps, slots, kernels = chain("", HOST, HOST, "")
    made = with_copies(steps, kernels, ["", HOST, HOST, ""])
    copies = [(step.dst.name, step.src.name) for step in made if isinstance(step, CopyStep)]
    assert copies == [("v1_twin", "v1"), ("v3", "v3_twin")]
    assert [slot.memory for slot in slots] == ["", "", HOST, "", ""]
    again = CallStep(1, [slots[1], slots[2]], True, "op", [], [False, True])  # it reads the copy that is there
    more = with_copies([*steps[:2], replace(again)], kernels, ["", HOST, HOST, ""])
    assert sum(isinstance(step, CopyStep) for step in more) == 1


def test_a_value_is_copied_once_and_one_that_stays_is_not_copied() -> None:
    a_value_is_copied_once_and_one_that_stays_is_not_copied()


def test_without_kernels_of_another_memory_nothing_is_copied() -> None:
    steps, _, kernels = chain("", "")
    assert with_copies(steps, kernels, ["", ""]) == steps


def drawn(seed: int) -> None:
    """One of the checks of this file."""
    if seed:
        each_kernel_finds_what_it_would_in_one_memory(Random(seed))
    else:
        a_value_is_copied_once_and_one_that_stays_is_not_copied()
