"""Loops of graphs, down to the executable: carried values in their places, sizes, bounds, and what is saved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import events, runtime
from minitvm.errors import InputError, VerificationError
from minitvm.executable import BindSize, CallKernel, Copy, Executable, Loop, script, verify
from minitvm.expr import SizeVar
from minitvm.graph import GraphBuilder, verify_graph
from minitvm.graph.nodes import FUSED, LOOP
from minitvm.reference import executable as executables
from minitvm.reference import graph as interpreter
from tests.executable.loop_graphs import (
    CASES,
    X,
    bounded,
    direct,
    invariant,
    listed,
    nested,
    number,
    rows,
    same,
    swapped,
)


def levels(name: str, threads: tuple[int, ...] = ()) -> None:
    """Every level on every set of inputs."""
    make, runs = CASES[name]
    graph = make()
    verify_graph(graph)
    fused = tvm.lower(graph, stop_at="fused")
    verify_graph(fused)
    executable = tvm.lower(graph, stop_at="executable")
    verify(executable)
    modules = [tvm.build(graph, threads=count) for count in threads]
    for inputs in runs:
        wanted = interpreter.run(graph, inputs)
        same(interpreter.run(fused, inputs), wanted)
        same(executables.run(executable, inputs), wanted)
        for module in modules:
            same(listed(module(**inputs)), wanted)


@pytest.mark.parametrize("name", CASES)
def test_all_levels_agree(name: str) -> None:
    levels(name, (1, 3))


def test_the_interpreter_means_what_a_loop_in_python_does() -> None:
    p, q, r = X, X * 10, X
    for count in range(4):
        same(interpreter.run(swapped(), [X, X * 10, number(count)]), [p, q, r])
        p, q, r = q, r, p + X
    total = np.float32(15)
    kept = []
    for outer in range(5):
        for inner in range(outer):
            total += np.arange(inner, dtype=np.float32).sum()
        kept.append(total)
        total = total / 2
    found = interpreter.run(nested(), [np.arange(6, dtype=np.float32), number(5)])
    same(found, [np.array(total, np.float32), np.array(kept, np.float32)])


def loops(executable: Executable) -> list[tuple[int, Loop]]:
    return [(k, step) for k, step in enumerate(executable.steps) if isinstance(step, Loop)]


def test_rows_are_written_where_they_lie_and_begin_without_a_copy() -> None:
    b = GraphBuilder("long")
    x, n = b.input("x", (256,)), b.input("n", (), "int64")
    _, _, kept = b.loop(lambda _, v: (True, [b.op("add", v, 1.0)], [v]), [x], limit=n, most=1000)
    executable = tvm.lower(b.build(kept), stop_at="executable")
    copied = [step.nbytes for step in executable.steps if isinstance(step, Copy)]
    assert copied == [1024, 1024], "only x, and the new sum"
    ((_, loop),) = loops(executable)
    assert loop.going is None, "its condition is known"


def test_a_new_value_is_computed_over_the_old_one_where_nothing_reads_that_any_more() -> None:
    executable = tvm.lower(direct(), stop_at="executable")
    ((begin, loop),) = loops(executable)
    assert not any(isinstance(s, Copy) for s in executable.steps[begin : begin + 1 + loop.steps])


def test_what_iterations_share_is_computed_before_them() -> None:
    fused = tvm.lower(invariant(), stop_at="fused")
    (loop,) = (item for item in fused.nodes if item.op == LOOP)
    inside = [n.op for item in loop.body.nodes for n in item.graph.nodes]
    before = [n.op for item in fused.nodes if item.op == FUSED for n in item.graph.nodes]
    assert "exp" not in inside and "exp" in before
    assert "transpose" not in inside, "weights are folded while compiling"


def test_values_that_a_loop_reads_live_until_its_end() -> None:
    executable = tvm.lower(nested(), stop_at="executable")
    for begin, loop in loops(executable):
        end = begin + loop.steps
        for resident in executable.arenas[0].residents:
            assert not resident.first <= begin <= resident.last < end, resident


def test_what_only_a_body_writes_is_not_there_behind_it() -> None:
    executable = tvm.lower(swapped(), stop_at="executable")
    begin = loops(executable)[0][0]
    first = [s for s in executable.steps[:begin] if not isinstance(s, Copy)]
    with pytest.raises(VerificationError, match="reads_after_writes|outputs_written"):
        shorter = begin - len(first)
        verify(replace(executable, steps=executable.steps[shorter:]))


def test_a_size_of_an_iteration_has_no_value_behind_the_loop() -> None:
    executable = tvm.lower(nested(), stop_at="executable")
    (size,) = (step.var for step in executable.steps if isinstance(step, BindSize))
    first = next(step for step in executable.steps if isinstance(step, Copy))
    late = Copy(first.dst, first.src, size)
    with pytest.raises(VerificationError, match="taken has no value behind its loop"):
        verify(replace(executable, steps=(*executable.steps, late)))


@pytest.mark.parametrize(("threads", "has_size"), [(1, False), (3, False), (1, True)])
def test_more_iterations_than_there_is_memory_for_stop_the_run(threads: int, has_size: bool) -> None:
    """Whoever repeats the loop, the threads themselves or Python."""
    graph = bounded(has_size)
    module = tvm.build(graph, threads=threads)
    inputs = {"x": X, "n": number(4)}
    runs = [
        lambda: module(**inputs), lambda: interpreter.run(graph, inputs),
        lambda: executables.run(module.executable, inputs), lambda: module.stamped(**inputs),
    ]  # fmt: skip
    for run in runs:
        with pytest.raises(InputError, match="the rows(.|\n)*more than 3"):
            run()
    same(listed(module(X, number(3))), interpreter.run(graph, [X, number(3)]))


def test_saved_programs_have_loops(tmp_path: Path) -> None:
    for name in ("nested", "rows"):
        make, runs = CASES[name]
        module = tvm.build(make(), threads=1)
        module.export(tmp_path / f"{name}.mtvm")
        loaded = runtime.load(tmp_path / f"{name}.mtvm")
        assert script(loaded.executable) == script(module.executable)
        for inputs in runs:
            same(listed(loaded(**inputs)), interpreter.run(make(), inputs))


def test_listeners_hear_each_iteration() -> None:
    class Steps(events.Listener):
        def __init__(self) -> None:
            self.kinds: list[str] = []

        def step_begin(self, step: events.Step, time: float) -> None:
            self.kinds.append(step.kind)

    for name, count in (("swapped", 3), ("nested", 3)):
        module, inputs, heard = tvm.build(CASES[name][0](), threads=2), CASES[name][1][count], Steps()
        module.listeners = [heard]
        same(listed(module(**inputs)), interpreter.run(CASES[name][0](), inputs))
        body = loops(module.executable)[0][1].steps
        assert heard.kinds.count("Loop") >= 1 and len(heard.kinds) > body


@pytest.mark.parametrize("name", ["rows", "nested"])
def test_a_profile_has_the_steps_of_a_loop(name: str) -> None:
    make, runs = CASES[name]
    module = tvm.build(make(), threads=2)
    for inputs in (runs[0], runs[2]):
        times = module.stamped(**inputs).times[0]
        assert (np.diff(times) >= 0).all() and times[0] > 0
    assert "loop" in str(module.profile(**runs[2], runs=2))


def test_the_text_of_a_loop() -> None:
    text = script(tvm.lower(rows(), stop_at="executable"))
    assert "in loop(n, while arena[" in text and "most=9):" in text
    inside = [line for line in text.split("\n") if line.startswith("        ")]
    assert any("add_kernel" in line for line in inside)
    assert "loop_0, loop_1, rows, rows_1 = loop(" in rows().script() or "= loop(n, " in rows().script()
    assert "def loop_body(number: int64[], " in rows().script()


MISFITS: dict[str, tuple[Callable[[GraphBuilder], Any], str]] = {
    "type": (
        lambda b: b.loop(lambda _, v: (True, [b.op("cast", v, dtype="int32")]), [b.input("x", (2,))]), "the body has",
    ),
    "limit": (lambda b: b.loop(lambda _: (True, []), [], limit=b.input("n", (1,), "int64")), "the limit is int64"),
    "condition": (lambda b: b.loop(lambda _, v: (v, [v]), [b.input("c", (2,), "bool")]), "the body has"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISFITS)
def test_the_verifier_of_graphs_names_what_does_not_fit(name: str) -> None:
    make, text = MISFITS[name]
    b = GraphBuilder()
    with pytest.raises(VerificationError, match=text):
        verify_graph(b.build(make(b)))


def test_rows_need_a_bound_and_one_shape() -> None:
    b = GraphBuilder()
    x = b.input("x", (2,))
    with pytest.raises(InputError, match="no bound of how many"):
        b.loop(lambda _, v: (True, [v], [v]), [x], limit=3)

    def body(number: Any, v: Any) -> Any:
        size = SizeVar("size")
        b.op("bind_size", number, size=size, most=2)
        return True, [v], [b.op("leading", v, size=size)]

    with pytest.raises(InputError, match="a size that each iteration decides"):
        b.loop(body, [x], limit=3, most=3)
    inner: list[Any] = []
    b.loop(lambda _, v: (True, [inner.append(b.op("exp", v)) or v]), [x], limit=3)  # type: ignore[func-returns-value]
    with pytest.raises(InputError, match="is no value of this builder"):
        b.op("negative", inner[0])


def test_calls_of_kernels_in_a_body_are_those_of_one_iteration() -> None:
    executable = tvm.lower(swapped(), stop_at="executable")
    begin, loop = loops(executable)[0]
    assert sum(isinstance(s, CallKernel) for s in executable.steps[begin : begin + 1 + loop.steps]) == 1
