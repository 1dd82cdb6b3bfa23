"""The thread team: barriers under stress, more threads than cores, parking, fork, shutdown, several users at once."""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from minitvm.errors import InputError
from minitvm.machines.cpu.runtime import team as teams
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import (
    BARRIER,
    COPY,
    MOST_PIECES,
    PARALLEL,
    PARKED,
    REST,
    SEQUENTIAL,
    WORKER,
    WORKER_WORDS,
)
from minitvm.machines.cpu.runtime.loader import load_kernel
from minitvm.machines.cpu.runtime.step_table import step_table
from minitvm.machines.cpu.runtime.team import ThreadTeam
from tests.patience import PATIENCE

# Rotation: slot i of the next row is made from slot i + 1 of this one, so a missing barrier is a wrong number.
ROTATE = """\
def rotate(args, thread, threads):
    row, n = args[1], args[2]
    words = pointer_i64(args[0])
    for i in range(n * thread // threads, n * (thread + 1) // threads):
        words[(row + 1) * n + i] = words[row * n + (i + 1) % n] + 1
"""
COUNT = """\
def count(args, thread, threads):
    n = args[0]
    for i in range(n * thread // threads, n * (thread + 1) // threads):
        args[1 + i] += 1
"""
# The first iteration does not end before `args[1]` others have, or it gives up and says so.
STUCK = """\
def stuck(args, thread, threads):
    n = args[0]
    for i in range(n * thread // threads, n * (thread + 1) // threads):
        if i == 0:
            turns = 0
            while atomic_load(args, 2) < args[1]:
                pause()
                turns += 1
                if turns > 200000000:
                    args[3] = 1
                    return
        else:
            atomic_add(args, 2, 1)
"""


@functools.cache
def compiled() -> dict[str, Any]:
    imports = "from minitvm.machines.simd.vectors.simd import pointer_i64\n"
    imports += "from minitvm.machines.cpu.runtime.concurrency import atomic_add, atomic_load, pause\n"
    return {
        name: load_kernel(compile_kernel(imports + source, name), name)
        for name, source in (("rotate", ROTATE), ("count", COUNT), ("stuck", STUCK))
    }


@pytest.fixture
def kernels() -> dict[str, Any]:
    return compiled()


@pytest.fixture
def make_team() -> Iterator[Callable[..., ThreadTeam]]:
    made: list[ThreadTeam] = []

    def make(threads: int, **options: Any) -> ThreadTeam:
        made.append(ThreadTeam(threads, **options))
        return made[-1]

    yield make
    for team in made:
        team.shutdown()


class Rotation:
    """A program of `rows` parallel steps with a barrier after each."""

    def __init__(self, kernels: dict[str, Any], threads: int, rows: int, columns: int = 19) -> None:
        self.rows, self.columns = rows, columns
        self.words = np.zeros((rows + 1, columns), np.int64)
        self.args = np.array([(self.words.ctypes.data, r, columns) for r in range(rows)], np.int64)
        steps: list[Any] = []
        for r in range(rows):
            steps += [(PARALLEL, kernels["rotate"].address, self.args[r].ctypes.data, 0), (BARRIER, 0, 0, 0)]
        self.table = step_table(steps, threads)

    def run(self, team: ThreadTeam) -> None:
        start = np.random.default_rng().integers(0, 1000, self.columns)
        self.words[...] = -1
        self.words[0] = start
        team.run(self.table.address)
        np.testing.assert_array_equal(self.words[-1], np.roll(start, -self.rows) + self.rows)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_barriers_hold(kernels: dict[str, Any], make_team: Any, threads: int) -> None:
    """Also with more threads than cores."""
    team = make_team(threads)
    program = Rotation(kernels, threads, 200)
    for _ in range(60 if threads <= 2 else 8):
        program.run(team)


def test_workers_park_and_wake(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(2)
    program = Rotation(kernels, 2, 3)
    for pause in (0.0, 0.05, 0.0, 0.05, 0.002, 0.002, 0.0):
        time.sleep(pause)
        program.run(team)
    # At the edge of parking: gaps around the time at which a worker gives up spinning.
    for gap in np.linspace(1e-4, 3e-3, 150):
        time.sleep(gap)
        program.run(team)


def _wait_until_parked(team: ThreadTeam, workers: int) -> None:
    """Where the machine is busy, workers park late."""
    flags = [WORKER + WORKER_WORDS * (1 + k) + PARKED for k in range(workers)]
    for _ in range(3000):
        if all(team._state[flag] for flag in flags):
            return
        time.sleep(0.01)


def test_idle_workers_cost_nothing(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(4)
    Rotation(kernels, 4, 2).run(team)
    _wait_until_parked(team, 3)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 0.1


def test_a_sequential_program_wakes_nobody(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(4)
    words = np.array([3, 0, 0, 0, 0], np.int64)
    source, copy = np.arange(5, dtype=np.int64), np.zeros(5, np.int64)
    args = np.array([copy.ctypes.data, source.ctypes.data, source.nbytes], np.int64)
    table = step_table(
        [(SEQUENTIAL, kernels["count"].address, words.ctypes.data, 0), (COPY, 0, args.ctypes.data, 0)], 4
    )
    assert not table.parallel
    team.command(table)()
    assert words.tolist() == [3, 1, 1, 1, 0]  # once, told that it is alone
    assert copy.tolist() == source.tolist()
    assert team._workers == []


def test_sequential_steps_of_a_parallel_program_run_once(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(3)
    words = np.array([3, 0, 0, 0, 0], np.int64)
    call = kernels["count"].address, words.ctypes.data, 0
    team.run(step_table([(SEQUENTIAL, *call), (BARRIER, 0, 0, 0), (PARALLEL, *call)], 3).address)
    assert words.tolist() == [3, 2, 2, 2, 0]


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_each_iteration_runs_once_in_each_run(make_team: Any, threads: int) -> None:
    each_iteration_runs_once(make_team(threads))


def each_iteration_runs_once(team: ThreadTeam) -> None:
    """Of steps with fewer iterations than pieces and with more, with barriers between them and without."""
    threads, kernels = team.threads, compiled()
    extents = (0, 1, 2, 7, 64, 1000)
    counted = [np.array([n, *[0] * (n + 1)], np.int64) for n in extents]
    steps: list[Any] = []
    for number, words in enumerate(counted):
        known = int(words[0]) if number % 2 else 0
        steps.append((PARALLEL, kernels["count"].address, words.ctypes.data, known))
        steps += [(BARRIER, 0, 0, 0)] if number % 3 == 2 else []
    table = step_table(steps, threads)
    runs = 50
    for _ in range(runs):
        team.run(table.address)
    for n, words in zip(extents, counted, strict=True):
        assert words.tolist() == [n, *[runs] * n, 0]


@pytest.mark.parametrize("threads", [2, 3])
def test_others_do_what_a_stopped_thread_has_not_begun(kernels: dict[str, Any], make_team: Any, threads: int) -> None:
    """Its part of the step, and its part of the next one, which depends on nothing."""
    team = make_team(threads)
    part = 1 << (MOST_PIECES - 1)  # the last pieces have one iteration, the first one half of them
    counted = np.zeros(4, np.int64)
    behind = np.array([part * threads, *[0] * part * threads], np.int64)
    counted[:2] = part * threads, part * threads - part // 2
    call = kernels["stuck"].address, counted.ctypes.data, 0
    table = step_table([(PARALLEL, *call), (PARALLEL, kernels["count"].address, behind.ctypes.data, 0)], threads)
    for _ in range(5):
        counted[2:] = behind[1:] = 0
        team._state[REST] = 0  # where a worker began with the first iteration, the caller waited for it
        team.run(table.address)
        assert counted[3] == 0, "the first iteration waited in vain"
        assert counted[2] == part * threads - 1 and set(behind[1:]) == {1}


def test_two_python_threads_take_turns(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(2)
    failures: list[BaseException] = []

    def use() -> None:
        try:
            program = Rotation(kernels, 2, 20)
            for _ in range(100):
                program.run(team)
        except BaseException as error:
            failures.append(error)

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert not failures and not any(u.is_alive() for u in users)


def test_shutdown_and_after(kernels: dict[str, Any]) -> None:
    team = ThreadTeam(3)
    program = Rotation(kernels, 3, 5)
    program.run(team)
    workers = list(team._workers)
    team.shutdown()
    team.shutdown()
    assert not any(w.is_alive() for w in workers)
    with pytest.raises(InputError, match="shut down"):
        program.run(team)


@pytest.mark.parametrize("parked", [False, True])
def test_a_dropped_team_ends_its_workers(kernels: dict[str, Any], parked: bool, collect: Callable[[], int]) -> None:
    team = ThreadTeam(2)
    Rotation(kernels, 2, 5).run(team)
    workers = list(team._workers)
    if parked:
        time.sleep(0.1)
    del team
    collect()
    for w in workers:
        w.join(PATIENCE)
        assert not w.is_alive()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_makes_its_own_workers(kernels: dict[str, Any], make_team: Any) -> None:
    team = make_team(2)
    program = Rotation(kernels, 2, 10)
    program.run(team)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            for _ in range(20):
                program.run(team)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    program.run(team)  # the parent's team is as it was


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_run_runs_the_same_program(kernels: dict[str, Any], make_team: Any) -> None:
    """The parent's run has taken some pieces of the program; the child's team takes all of them."""
    team = make_team(2)
    words = np.array([64, *[0] * 65], np.int64)
    stuck = np.array([64, 1000, 0, 0], np.int64)  # waits until there have been 1000 iterations
    table = step_table(
        [
            (PARALLEL, kernels["count"].address, words.ctypes.data, 0),
            (PARALLEL, kernels["stuck"].address, stuck.ctypes.data, 0),
        ],
        2,
    )
    caller = threading.Thread(target=team.run, args=(table.address,))
    caller.start()
    while sum(words[1:65]) < 64 or stuck[2] < 48:  # what is left is the first piece
        time.sleep(0.001)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(30)
            stuck[1] = 0
            for _ in range(20):
                team.run(table.address)
            status = 0 if words.tolist() == [64, *[21] * 64, 0] else 2
        finally:
            os._exit(status)
    stuck[2] = 1000
    caller.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    for threads in (0, -1, 1000):
        with pytest.raises(InputError):
            ThreadTeam(threads)
    monkeypatch.setenv("MINITVM_NUM_THREADS", "3")
    assert teams.default_threads() == 3
    monkeypatch.setenv("MINITVM_NUM_THREADS", "many")
    with pytest.raises(InputError, match="many"):
        teams.default_threads()
    assert teams.shared_team(2) is teams.shared_team(2)


def test_pinned_workers_do_not_move_the_caller(kernels: dict[str, Any], make_team: Any) -> None:
    before = os.sched_getaffinity(0)
    team = make_team(2, pin=True)
    Rotation(kernels, 2, 5).run(team)
    assert os.sched_getaffinity(0) == before
    native = team._workers[0].native_id
    if len(before) > 1 and native is not None:
        assert len(os.sched_getaffinity(native)) == 1


@pytest.mark.skipif(len(teams.available_cores()) < 2, reason="one core")
def test_a_worker_wakes_on_another_core_than_the_callers(kernels: dict[str, Any], make_team: Any) -> None:
    before = os.sched_getaffinity(0)
    team = make_team(2, pin=True)
    Rotation(kernels, 2, 5).run(team)
    native = team._workers[0].native_id
    try:
        for core in [*sorted(before)[:2]] * 2:
            os.sched_setaffinity(0, {core})
            _wait_until_parked(team, 1)
            Rotation(kernels, 2, 5).run(team)
            (placed,) = os.sched_getaffinity(native)
            assert placed != core and placed in before
    finally:
        os.sched_setaffinity(0, before)
