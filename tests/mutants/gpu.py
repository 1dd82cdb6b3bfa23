"""Workloads of schedules for GPUs: tiles in shared storage, held against the interpreter and their own size."""

from __future__ import annotations

from collections.abc import Callable

from minitvm import reference, strategy, te, topi
from minitvm.errors import ScheduleError
from minitvm.strategy.gpu.costs import BlockTile, ThreadTile, residents
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from tests.tir.transform.test_shrink_shared import cut_off, handed_on, pieces, shape_of_shared, shrink_shared


def _product(m: int, n: int, k: int) -> PrimFunc:
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
    return te.create_prim_func([a, b, topi.matmul(a, b)])


def _tiles(m: int, n: int, k: int, double: bool) -> None:
    func = _product(m, n, k)
    every = [one for one in strategy.candidates(func, Target("cuda")) if one.rule == "contraction"]
    small = [
        one for one in every if one.knobs["shared"] and one.knobs["double"] is double and one.knobs["threads"] == 32
    ]
    assert small
    try:
        schedule = small[0].schedule(func)
    except ScheduleError as error:
        raise AssertionError(str(error)) from error
    verdict = reference.check(func, schedule.func, modes=["exact"])
    assert verdict.equal, str(verdict)
    assert '"shared"' in str(schedule.func)


def even() -> None:
    _tiles(8, 32, 16, double=False)


def uneven_and_double() -> None:
    _tiles(9, 17, 11, double=True)


def shrunk() -> None:
    assert shape_of_shared(shrink_shared(pieces)) == (8,)
    assert shape_of_shared(shrink_shared(cut_off)) == (16,)
    assert shape_of_shared(shrink_shared(handed_on)) == (40,)


def chosen_where_it_helps() -> None:
    func = _product(1024, 1024, 1024)
    for target, shares in (("cuda -arch=sm_80", True), ("opencl -device=amd", True), ("opencl -device=adreno", False)):
        first = next(one for one in strategy.candidates(func, Target(target)) if one.rule == "contraction")
        assert first.knobs["shared"] is shares, target
    assert residents(ThreadTile(8, 2, 4), BlockTile(16, 32, 16, 384, True), Target("cuda -arch=sm_80")) == 1
    assert residents(ThreadTile(1, 1, 4), BlockTile(8, 8, 16, 1024, False), Target("cuda -arch=sm_75")) == 1


CHECKS: tuple[Callable[[], None], ...] = (shrunk, chosen_where_it_helps, even, uneven_and_double)
