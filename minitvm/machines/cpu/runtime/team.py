"""A team of threads that runs step tables: thread 0 is the caller of `run`, and the others are workers.

A worker waits for work by spinning, then by yielding the core, then by sleeping on a lock of Python's C library. All of
this is native code, so it does not need the GIL to wake up. A spinning worker reacts in less than a microsecond; a
sleeping one costs nothing while the program does other things. The protocol between caller and workers is in
`executor`. The caller never waits for a worker that has not begun.

One run at a time: a team has one lock, so two Python threads may use it (two modules, or one) and take turns. After
`os.fork` the child has no workers; they are created again on its first run. Workers are daemons and also leave at exit.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Sequence

import numpy as np

from ....errors import InputError
from ....executable.alignment import address
from ....forks import lock
from ....workers.cores import available_cores
from . import executor as row_words
from .step_table import StepTable

MAX_THREADS = 256
_SPIN_TURNS = 20_000  # some 400 us of `pause`: longer than the gap between two calls of a busy program
_YIELD_TURNS = 200

_teams: weakref.WeakSet[ThreadTeam] = weakref.WeakSet()


def _core_of_caller() -> int | None:
    """Return the core that the calling thread runs on, or None if the C library cannot report it."""
    sched_getcpu = _sched_getcpu()
    return None if sched_getcpu is None else int(sched_getcpu())


@functools.cache
def _sched_getcpu() -> Callable[[], int] | None:
    try:
        function: Callable[[], int] = ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError):
        return None
    return function


def default_threads() -> int:
    """Return MINITVM_NUM_THREADS, or the number of cores that this process may run on."""
    setting = os.environ.get("MINITVM_NUM_THREADS")
    if setting:
        if not setting.isdigit() or not 1 <= int(setting) <= MAX_THREADS:
            raise InputError(f"MINITVM_NUM_THREADS is {setting!r}; wanted a number from 1 to {MAX_THREADS}")
        return int(setting)
    return len(available_cores())


class ThreadTeam:
    """A team of `threads` threads, including the caller. Workers start with the first run that needs them."""

    def __init__(self, threads: int, pin: bool | None = None) -> None:
        """Create a team. `pin` says whether to bind each worker to a core.

        By default, workers are bound if there is a core for each thread and MINITVM_PIN is not 0.
        """
        if not 1 <= threads <= MAX_THREADS:
            raise InputError(f"a team of {threads} threads; wanted 1 to {MAX_THREADS}")
        self.threads = threads
        self._cores = available_cores()
        cores = len(self._cores)
        self._pin = (threads <= cores and os.environ.get("MINITVM_PIN") != "0") if pin is None else pin
        self._crowded = threads > cores
        self._lock = lock()
        self._reset(1)
        _teams.add(self)

    def _reset(self, phase: int) -> None:
        """Create all objects that a forked child must not share with its parent's threads. `phase` is the next phase
        number.
        """
        self._workers: list[threading.Thread] = []
        self._stopped = False
        words = np.zeros(row_words.WORKER + row_words.WORKER_WORDS * self.threads + 16, np.int64)
        skip = -(address(words) // 8) % 16  # begin at a multiple of 128 bytes
        self._memory = words
        self._state = words[skip:].data
        self._address = address(words) + 8 * skip
        self._state[row_words.GATE] = phase << row_words.PHASE_SHIFT
        # With more threads than cores, a spinning thread keeps the thread it waits for from running.
        self._state[row_words.SPIN] = 0 if self._crowded else _SPIN_TURNS
        self._state[row_words.YIELD] = _YIELD_TURNS
        self._beds = [_Bed() for _ in range(self.threads)]
        for thread, bed in enumerate(self._beds):
            self._state[row_words.WORKER + row_words.WORKER_WORDS * thread + row_words.LOCK] = bed.address
        self._native, self._code = row_words.executor()
        self._lead = row_words.prepared_call(self._address, 0, self.threads)

    def command(self, table: StepTable) -> Callable[[], None]:
        """Return a function that runs a step table, which the caller must keep alive.

        A table without parallel steps runs on the calling thread alone: it wakes no worker, and waits for no other run.
        """
        if table.parallel and self.threads > 1:
            return functools.partial(self.run, table.address)
        return row_words.prepared_call(address(table.state), 0, 1)

    def run(self, program: int) -> None:
        """Run the step table at address `program` on all threads, and return when all its steps are done."""
        with self._lock:
            state = self._state
            if len(self._workers) < self.threads - 1:
                self._start()
            if state[row_words.ASLEEP] and not state[row_words.REST]:
                self._place()
            state[row_words.PROGRAM] = program
            self._lead()

    def _place(self) -> None:
        """Bind each worker to a core other than the caller's, if workers are bound.

        A worker that wakes on the caller's core would wait a millisecond or more, until the system moves one of the
        two.
        """
        if not self._pin:
            return
        here = _core_of_caller()
        first = self._cores.index(here) if here in self._cores else 0
        for t, worker in enumerate(self._workers, 1):
            assert worker.native_id is not None  # it was started
            with contextlib.suppress(AttributeError, OSError):
                os.sched_setaffinity(worker.native_id, {self._cores[(first + t) % len(self._cores)]})

    def _start(self) -> None:
        if self._stopped:
            raise InputError("this team was shut down")
        for t in range(1 + len(self._workers), self.threads):
            # The thread must not keep the team alive, or a dropped team would never end; it holds the parts it uses.
            parts = (self._native, self._code, self._memory, self._beds[t])
            worker = threading.Thread(
                target=_serve, args=(*parts, self._address, t, self.threads), name=f"minitvm-{t}", daemon=True
            )
            worker.start()
            self._workers.append(worker)
        self._place()

    def shutdown(self) -> None:
        """End the workers and wait for them. Afterwards the team runs only programs that are not parallel."""
        with self._lock:
            self._stopped = True
            workers, self._workers = self._workers, []
            _dismiss(self._state, self._beds[1:] if workers else [])
        for worker in workers:
            worker.join()

    def __del__(self) -> None:
        # Nobody else refers to this team, so it is not running: no lock is needed.
        if getattr(self, "_workers", None):
            _dismiss(self._state, self._beds[1:])


class _Bed:
    """A lock of Python's C library on which a worker sleeps. It is always locked, except while the worker is being
    woken.
    """

    def __init__(self) -> None:
        library = _library()
        self.address: int = library.PyThread_allocate_lock()
        library.PyThread_acquire_lock(self.address, 1)
        self._release, self._free = library.PyThread_release_lock, library.PyThread_free_lock

    def wake(self) -> None:
        self._release(self.address)

    def __del__(self) -> None:
        self._free(self.address)


@functools.cache
def _library() -> ctypes.PyDLL:
    library = ctypes.pythonapi
    library.PyThread_allocate_lock.restype = ctypes.c_void_p
    library.PyThread_acquire_lock.argtypes = (ctypes.c_void_p, ctypes.c_int)
    for name in ("PyThread_release_lock", "PyThread_free_lock"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)
        getattr(library, name).restype = None
    return library


def _dismiss(state: memoryview, beds: Sequence[_Bed]) -> None:
    """End all workers. Workers that are awake see the gate's value, and sleeping workers wake up and then see it."""
    state[row_words.GATE] = row_words.ENDED
    for bed in beds:
        bed.wake()


def _serve(
    native: row_words.NativeCall, code: object, memory: object, bed: _Bed, address: int, thread: int, threads: int
) -> None:
    """Run a worker's thread. The arguments keep the objects alive that the native code uses."""
    native(address, thread, threads)


_shared: dict[int, ThreadTeam] = {}
_shared_lock = lock()


def shared_team(threads: int) -> ThreadTeam:
    """Return the process's team of this size. Modules that use the same number of threads share it."""
    with _shared_lock:
        if threads not in _shared:
            _shared[threads] = ThreadTeam(threads)
        return _shared[threads]


def shutdown() -> None:
    """End all workers of this process. Shared teams start again at their next use."""
    with _shared_lock:
        _shared.clear()
    for team in list(_teams):
        team.shutdown()


def _after_fork() -> None:
    for team in list(_teams):
        # Step tables count pieces by phases, and the parent may have been in the middle of one.
        stopped, phase = team._stopped, team._state[row_words.GATE] >> row_words.PHASE_SHIFT
        team._reset(phase + 2)
        team._stopped = stopped


atexit.register(shutdown)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
