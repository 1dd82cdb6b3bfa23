"""Barriers: where steps depend on one another, and nowhere else; what runs at the same time shares no memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import minitvm as tvm
from minitvm import te
from minitvm.errors import VerificationError
from minitvm.executable import Barrier, Executable, Input, Output, TensorSpec, verify
from minitvm.expr import DType
from minitvm.link import Linker, Slot
from minitvm.link.steps import StepTouch, team_waits
from minitvm.lowering import LoweredFunc, lower_function
from minitvm.reference import executable as interpreter
from minitvm.runtime import GraphModule
from minitvm.target import Target

N = 24
SIZE = 4 * N


def addition(parallel: bool) -> LoweredFunc:
    """C = A + B over N elements, by all threads or by one."""
    a, b = (te.placeholder((N,), name=name) for name in "AB")
    sch = tvm.tir.Schedule(te.create_prim_func([a, b, te.compute((N,), lambda i: a[i] + b[i], name="C")]))
    (loop,) = sch.get_loops(sch.get_block("C"))
    if parallel:
        sch.parallel(loop)
    return lower_function(sch.func, Target.of("cpu"))


ADDITIONS = {parallel: addition(parallel) for parallel in (False, True)}


@dataclasses.dataclass
class Program:
    executable: Executable
    wanted: Callable[[np.ndarray], np.ndarray]  # the outputs of an input


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Sums of values that came before, by all threads or by one, and copies.

    Some values are halves of others, and some are written over what was there.
    """
    linker = Linker("cpu")
    slots = [Slot("x", SIZE, Input(0))]
    outputs = draw(st.integers(1, 3))
    work: list[tuple[int, int, int]] = []
    count = draw(st.integers(outputs, 9))
    for k in range(count):
        a, b = (draw(st.integers(max(0, len(slots) - 5), len(slots) - 1)) for _ in range(2))
        kind = draw(st.sampled_from("ppsc"))
        again = [n for n in range(1, len(slots)) if n not in (a, b)]
        if count - k <= outputs:
            to = len(slots)
            slots.append(Slot(f"v{k}", SIZE, Output(outputs - (count - k))))
        elif again and draw(st.booleans()):
            to = draw(st.sampled_from(again))
        else:
            to = len(slots)
            half = draw(st.booleans())  # the upper half of memory of its own
            slots.append(Slot(f"v{k}", SIZE, home=Slot(f"home{k}", 2 * SIZE) if half else None, offset=SIZE * half))
        if kind == "c":
            linker.copy(slots[to], slots[a])
        else:
            linker.call(ADDITIONS[kind == "p"], [slots[a], slots[b], slots[to]], {}, results=[slots[to]])
        work.append((to, a, -1 if kind == "c" else b))

    def wanted(x: np.ndarray) -> np.ndarray:
        values = {0: x}
        for to, a, b in work:
            values[to] = values[a] + values[b] if b >= 0 else values[a]
        return np.array([values[k] for k in range(len(slots) - outputs, len(slots))])

    specs = [TensorSpec(f"y{k}", DType("float32"), (N,)) for k in range(outputs)]
    return Program(linker.finish("sums", [TensorSpec("x", DType("float32"), (N,))], specs), wanted)


X = np.arange(N, dtype="float32") - 5


@given(program=programs(), order=st.sampled_from(["forward", "shuffled"]))
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_a_barrier_stands_where_one_is_needed(program: Program, order: Any) -> None:
    """Without any one of them two steps meet; with all of them each value is what it should be."""
    executable = program.executable
    verify(executable)
    found = interpreter.run(executable, {"x": X}, threads=3, order=order)
    np.testing.assert_array_equal(found, program.wanted(X))
    for number, step in enumerate(executable.steps):
        if isinstance(step, Barrier):
            without = executable.steps[:number] + executable.steps[number + 1 :]
            with pytest.raises(VerificationError, match="no barrier stands between them"):
                verify(dataclasses.replace(executable, steps=without))


@given(program=programs())
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_threads_compute_what_the_interpreter_does(program: Program) -> None:
    module = GraphModule(program.executable, threads=3)
    for _ in range(5):
        results = module(X)
        np.testing.assert_array_equal(results if isinstance(results, tuple) else (results,), program.wanted(X))


touches = st.lists(
    st.builds(
        lambda memory, first, size, writes: StepTouch(memory, first, None if size == 0 else first + size, writes),
        st.integers(0, 1), st.integers(0, 5), st.integers(0, 3), st.booleans(),
    ),
    max_size=2,
)  # fmt: skip


@given(st.lists(st.tuples(st.booleans(), touches), max_size=7))
def test_phases_are_as_long_as_can_be(steps: list[tuple[bool, list[StepTouch]]]) -> None:
    """By definition: a set of bytes each; a phase ends where the next step shares some with a step of it."""

    def bytes_of(touch: StepTouch) -> set[tuple[Any, int]]:
        return {(touch.memory, k) for k in range(touch.first, 20 if touch.last is None else touch.last)}

    def depends(early: int, late: int) -> bool:
        if not (steps[early][0] or steps[late][0]):
            return False
        pairs = [(a, b) for a in steps[early][1] for b in steps[late][1]]
        return any(bytes_of(a) & bytes_of(b) and (a.writes or b.writes) for a, b in pairs)

    waits = team_waits([everyone for everyone, _ in steps], [mine for _, mine in steps])
    assert len(waits) == len(steps)
    begins = [0, *(k for k, wait in enumerate(waits) if wait), len(steps)]
    for begin, end in pairwise(begins):
        assert not any(depends(a, b) for b in range(begin, end) for a in range(begin, b))
        if end < len(steps):
            assert any(depends(a, end) for a in range(begin, end))


def test_independent_operators_do_not_wait_for_each_other() -> None:
    """And values that die among them keep their memory until all threads are done."""
    linker = Linker("cpu")
    x, (a, b, c) = Slot("x", SIZE, Input(0)), (Slot(name, SIZE) for name in "abc")
    y, z = (Slot(name, SIZE, Output(k)) for k, name in enumerate("yz"))
    for left, right, result in ((x, x, a), (x, x, b), (a, a, y), (b, x, c), (c, c, z)):
        linker.call(ADDITIONS[True], [left, right, result], {}, results=[result])
    specs = [TensorSpec(name, DType("float32"), (N,)) for name in "xyz"]
    executable = linker.finish("two chains", specs[:1], specs[1:])
    assert ["|" if isinstance(step, Barrier) else "k" for step in executable.steps] == list("kk|kk|k")
    assert executable.arenas[0].size == 3 * 128  # a dies in the phase in which c is made
    y_found, z_found = interpreter.run(executable, {"x": X}, threads=2)
    np.testing.assert_array_equal(y_found, 4 * X)
    np.testing.assert_array_equal(z_found, 6 * X)


def test_parts_of_one_value_wait_for_the_whole() -> None:
    """Parts that do not overlap are computed at the same time; who reads the whole waits for both."""
    linker = Linker("cpu")
    x, y = Slot("x", SIZE, Input(0)), Slot("y", 2 * SIZE, Output(0))
    whole = Slot("whole", 2 * SIZE)
    low, high = Slot("low", SIZE, home=whole), Slot("high", SIZE, home=whole, offset=SIZE)
    linker.call(ADDITIONS[True], [x, x, low], {}, results=[low])
    linker.call(ADDITIONS[True], [x, x, high], {}, results=[high])
    linker.copy(y, whole)
    specs = [TensorSpec("x", DType("float32"), (N,)), TensorSpec("y", DType("float32"), (2 * N,))]
    executable = linker.finish("halves", specs[:1], specs[1:])
    assert ["|" if isinstance(step, Barrier) else "k" for step in executable.steps] == list("kk|k")
    (found,) = interpreter.run(executable, {"x": X}, threads=2)
    np.testing.assert_array_equal(found, np.tile(2 * X, 2))
