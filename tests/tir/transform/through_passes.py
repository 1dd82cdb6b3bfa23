"""Random programs through the passes of lowering: all of these, or those that must run and some of the others."""

from __future__ import annotations

from collections.abc import Set
from random import Random
from typing import Any

import numpy as np

from minitvm.errors import ExecutionError, ScheduleError, Unsupported
from minitvm.reference import kernel as reference
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import passes
from tests.tir.transform.block_programs import UPDATED, block_program, copies
from tests.tir.transform.grid_programs import grid_program, virtual_program
from tests.tir.transform.staged_programs import staged_program

CPU = Target("cpu -vector_bits=128 -cores=2")
# What later passes and kernels rely on: without these a function is not of the kernel level.
NEEDED = {
    "dense_parameters", "lower_match_buffers", "inject_double_buffer", "inject_software_pipeline", "lower_init",
    "drop_blocks", "bind_threads", "inject_virtual_thread", "separate_allocations", "insert_barriers",
    "flatten_buffers",
}  # fmt: skip
NEEDED_BY_THREADS = NEEDED | {"place_allocations"}
PASSES = passes()  # those of all machines
LAST = [p.name for p in PASSES].index("unroll") + 1


def left(func: PrimFunc, args: list[Any]) -> list[Any]:
    """What a function leaves in its parameters; every access is checked."""
    after = copies(args)
    reference.run(func, *after, inout=[p.name for p in func.buffers if p.name in UPDATED])
    return after


def same(found: list[Any], wanted: list[Any]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def keeps_the_meaning(seed: int, program: Any, needed: Set[str] = NEEDED) -> None:
    """The passes that must run and about half of the others, or all; after a difference every step is looked at."""
    made = program(seed)
    if made is None:
        return
    func, args, wanted = made
    random = Random(seed)
    share = random.choice((0.5, 0.8, 1.0))
    chosen = [p for p in PASSES[:LAST] if p.name in needed or random.random() < share]
    versions = [func]
    try:
        for p in chosen:
            versions.append(p.run(versions[-1], CPU))
    except (Unsupported, ScheduleError):
        return
    error = ""
    try:
        if same(left(versions[-1], args), wanted):
            return
    except ExecutionError as found:
        error = str(found)
    raise AssertionError(_what_changed(seed, [p.name for p in chosen], versions, args, wanted, needed, error))


def _what_changed(
    seed: int,
    names: list[str],
    versions: list[PrimFunc],
    args: list[Any],
    wanted: list[Any],
    needed: Set[str],
    error: str,
) -> str:
    """The text of a difference; with the pass that made it, where the functions between have a meaning of their own."""
    text = [f"seed {seed}: {', '.join(names)} changed what this computes:", str(versions[0])]
    for name, before, after in zip(names, versions, versions[1:]):
        if needed is not NEEDED and name != names[-1]:
            continue
        try:
            if same(left(after, args), wanted):
                continue
        except ExecutionError as found:
            error = str(found)
        shown = before if needed is NEEDED else versions[names.index("insert_barriers") + 1]
        return "\n".join([*text, error, f"{name} made of", str(shown), "this:", str(after)])
    return "\n".join([*text, error, str(versions[-1])])


def blocks_keep_the_meaning(seed: int) -> None:
    """The same, of blocks."""
    keeps_the_meaning(seed, block_program)


def stages_keep_the_meaning(seed: int) -> None:
    """The same, of loops in stages."""
    keeps_the_meaning(seed, staged_program)


def threads_keep_the_meaning(seed: int) -> None:
    """The same, of programs of threads."""
    keeps_the_meaning(seed, grid_program, NEEDED_BY_THREADS)


def virtual_threads_keep_the_meaning(seed: int) -> None:
    """The same, of programs of virtual threads."""
    keeps_the_meaning(seed, virtual_program, NEEDED_BY_THREADS)
