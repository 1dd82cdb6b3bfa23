"""The report of the memory plan says what the executable does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm.executable import ArenaSlice, Executable, load, save
from minitvm.executable.memory_report import memory_plan
from minitvm.executable.verifier import accesses
from minitvm.expr import Expr, SizeVar
from minitvm.graph import Graph, GraphBuilder
from minitvm.runtime import GraphModule


def chain(rows: int | SizeVar = 3, length: int = 5) -> Graph:
    b = GraphBuilder("chain")
    v = b.input("x", (rows, 256))
    for _ in range(length):
        v = b.op("nn.softmax", v)
    return b.build(v)


def built(graph: Graph) -> Executable:
    return tvm.lower(graph, stop_at="executable")


def test_every_access_falls_into_a_resident_that_lives() -> None:
    executable = built(chain())
    residents = executable.arenas[0].residents
    touched: dict[int, list[int]] = {}
    for number, step in enumerate(executable.steps):
        for place, _ in accesses(executable, step):
            if not isinstance(place, ArenaSlice):
                continue
            homes = [
                k
                for k, r in enumerate(residents)
                if r.offset <= place.offset and place.offset + place.nbytes <= r.offset + r.nbytes
                and r.first <= number <= r.last
            ]  # fmt: skip
            assert len(homes) == 1
            touched.setdefault(homes[0], []).append(number)
    assert {k: (min(v), max(v)) for k, v in touched.items()} == {k: (r.first, r.last) for k, r in enumerate(residents)}


def test_residents_are_aligned_and_never_meet() -> None:
    residents = built(chain()).arenas[0].residents
    assert len(residents) > 3
    for k, a in enumerate(residents):
        assert a.offset % 64 == 0
        for b in residents[:k]:
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert apart or a.last < b.first or b.last < a.first


def test_the_peak_is_the_arena_and_less_than_all_together() -> None:
    executable = built(chain())
    plan = memory_plan(executable)
    assert plan.peak == executable.arenas[0].size
    assert plan.lower_bound <= plan.peak < plan.unshared
    module = GraphModule(executable, threads=1)
    assert module.memory.peak == plan.peak
    module(np.zeros((3, 256), np.float32))
    arena = module._program._arenas[0].memory
    assert arena.nbytes == plan.peak and arena.ctypes.data % 64 == 0


def test_the_text_names_the_operators() -> None:
    told = str(memory_plan(built(chain())))
    assert told.splitlines()[0].split() == ["value", "offset", "bytes", "steps", "from", "to"]
    assert "softmax_1" in told and "peak " in told and "weights 0 bytes" in told


def test_open_dimensions_stay_open_until_they_are_given() -> None:
    n = SizeVar("n")
    executable = built(chain(n))
    assert isinstance(memory_plan(executable).peak, Expr) and " n" in str(memory_plan(executable)).replace("(n", " n")
    (size,) = {d for d in executable.inputs[0].shape if isinstance(d, SizeVar)}  # type: ignore[union-attr]
    given = [memory_plan(executable, {size: rows}).peak for rows in (1, 10)]
    assert isinstance(given[0], int) and isinstance(given[1], int) and given[0] < given[1]


def test_a_saved_program_remembers_its_plan(tmp_path: Path) -> None:
    executable = built(chain())
    save(executable, tmp_path / "net")
    assert str(memory_plan(load(tmp_path / "net"))) == str(memory_plan(executable))


@pytest.mark.parametrize("length", [0, 1])
def test_a_program_without_intermediates_has_an_empty_plan(length: int) -> None:
    b = GraphBuilder("tiny")
    x = b.input("x", (4, 8))
    plan = memory_plan(built(b.build(b.op("nn.relu", x) if length else x)))
    assert plan.peak == 0 and plan.residents == () and "peak 0 bytes" in str(plan)
