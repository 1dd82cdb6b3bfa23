"""Arguments that are not what a primitive takes: one error that says what was wanted and found, never Python's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.errors import InputError, ScheduleError
from minitvm.tir import IndexMap
from minitvm.tir.schedule import Schedule
from minitvm.tir.schedule.registry import PRIMITIVES

from . import programs

LOOPS = "a list of 3 loops"
WRONG: list[tuple[Callable[[Schedule], Any], str]] = [
    (lambda s: s.parallel(s.get_loops("C")), f"parallel: loop must be a loop (a LoopRV), found {LOOPS}"),
    (lambda s: s.parallel(s.get_loops("C")), "try:    one of its items: parallel takes one loop"),
    (lambda s: s.split(s.get_loops("C"), [4, None]), f"split: loop must be a loop (a LoopRV), found {LOOPS}"),
    (lambda s: s.split(None, [4, None]), "split: loop must be a loop (a LoopRV), found None"),
    (lambda s: s.fuse(s.get_loops("C")), "try:    put a star before the list: sch.fuse(*loops)"),
    (lambda s: s.reorder(s.get_loops("C")), "try:    put a star before the list: sch.reorder(*ordered_loops)"),
    (lambda s: s.merge(s.get_loops("C")), f"found {LOOPS}"),
    (lambda s: s.fuse(None), "fuse: loops must be a loop (a LoopRV), found None"),
    (lambda s: s.compute_inline(None), "compute_inline: block must be a block (a BlockRV or its name), found None"),
    (lambda s: s.get_loops([s.get_block("C")]), "one of its items: get_loops takes one block"),
    (lambda s: s.get_loops(s.get_loops("C")[0]), "get_loops: block must be a block (a BlockRV or its name), found the"),
    (lambda s: s.cache_read("C", 0, "local", "C"), "consumer_blocks must be a list of blocks, or None, found a block"),
    (lambda s: s.cache_read("C", 0, "local", [None]), "must be a list of blocks, or None, found [None]"),
    (lambda s: s.blockize([[]]), "target must be a loop (a LoopRV), or a list of blocks, found [[]]"),
    (lambda s: s.annotate(None, "k", 1), "found None"),
    (lambda s: s.get_child_blocks([]), "found []"),
    (lambda s: s.split(s.get_loops("C")[0], [None, 4.0]), "wanted: integers as factors"),
    (lambda s: s.split(s.get_loops("C")[0], [4.5, None]), "found:  4.5"),
    (lambda s: s.split(s.get_loops("C")[0], [True, None]), "found:  True"),
    (lambda s: s.transform_block_layout("C", lambda i, j, k: None), "lists of them; found None"),
    (lambda s: s.reindex_cache_read("C", 0, "local", lambda i, j, k: (i, None)), "lists of them; found None"),
]


@pytest.mark.parametrize(("call", "said"), WRONG)
def test_the_error_says_what_was_wanted_and_found(call: Callable[[Schedule], Any], said: str) -> None:
    sch = Schedule(programs.matmul())
    before = sch.mod
    with pytest.raises(ScheduleError, match=re.escape(said)):
        call(sch)
    assert sch.mod is before


HANDLES = [(p.name, name) for p in PRIMITIVES.values() for name in p.signature.parameters if p.takes_nodes(name)]


@pytest.mark.parametrize(("primitive", "parameter"), HANDLES)
@pytest.mark.parametrize("wrong", [[[]], 3, {}, object()], ids=["nested", "number", "mapping", "object"])
def test_no_primitive_takes_anything_else_for_a_handle(primitive: str, parameter: str, wrong: object) -> None:
    sch = Schedule(programs.matmul())
    made = PRIMITIVES[primitive]
    arguments: dict[str, Any] = {}
    for name, known in made.signature.parameters.items():
        block, loop = made.takes_blocks(name), made.takes_nodes(name)
        value = "C" if block else sch.get_loops("C")[0] if loop else 0 if made.hints[name] is int else "local"
        value = wrong if name == parameter else value
        arguments[name] = (value,) if known.kind is known.VAR_POSITIONAL else value
    with pytest.raises(ScheduleError, match=f"^{primitive}: {parameter} must be a "):
        sch.call(made, arguments)


def test_numbers_of_numpy_are_numbers() -> None:
    sch = Schedule(programs.matmul())
    sch.split(sch.get_loops("C")[0], list(np.array([4, 4])))
    assert "factors=[4, 4]" in str(sch.trace)


def test_the_constructor_refuses_what_it_does_not_know() -> None:
    func = programs.matmul()
    with pytest.raises(InputError, match="a seed is a whole number, or -1 or None for any; found 'a'"):
        Schedule(func, seed="a")  # type: ignore[arg-type]
    with pytest.raises(InputError, match='debug_mask=\'some\': wanted "all", "none" or a whole number'):
        Schedule(func, debug_mask="some")
    Schedule(func, debug_mask="all")
    Schedule(func, debug_mask=3)


def test_a_map_that_gives_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="found None"):
        IndexMap.from_func(lambda i: None)


def test_a_trace_shows_itself_with_the_options_of_tvm(capsys: pytest.CaptureFixture[str]) -> None:
    sch = Schedule(programs.matmul())
    sch.trace.show(style="light", black_format=False)
    assert "def apply_trace" in capsys.readouterr().out
