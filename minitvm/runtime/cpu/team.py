"""A team of threads that runs step tables: thread 0 is the caller of `run`, the others are workers.

A worker waits for work by spinning, then by yielding the core, then by parking on a Python lock. Spinning answers in
less than a microsecond; parking costs nothing while the program does other things. The handshake is in `executor`.

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
from collections.abc import Callable

import numpy as np

from ...errors import InputError
from ...executable.alignment import address
from ...workers.cores import available_cores
from .executor import (
    ASLEEP,
    AWAKE,
    EPOCH,
    MODE,
    PARKED,
    PROGRAM,
    SEEN,
    SPIN,
    STOP,
    WAKE,
    WORKER,
    WORKER_WORDS,
    YIELD,
    executor,
)

MAX_THREADS = 256
_SPIN_TURNS = 20_000  # some 400 us of `pause`: longer than the gap between two calls of a busy program
_YIELD_TURNS = 200

_teams: weakref.WeakSet[ThreadTeam] = weakref.WeakSet()


def _core_of_caller() -> int | None:
    """The core that the calling thread runs on, if the C library can report it."""
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
    """MINITVM_NUM_THREADS, or the number of cores this process may run on."""
    setting = os.environ.get("MINITVM_NUM_THREADS")
    if setting:
        if not setting.isdigit() or not 1 <= int(setting) <= MAX_THREADS:
            raise InputError(f"MINITVM_NUM_THREADS is {setting!r}; wanted a number from 1 to {MAX_THREADS}")
        return int(setting)
    return len(available_cores())


class ThreadTeam:
    """`threads` threads, the caller included. Workers start with the first run that needs them."""

    def __init__(self, threads: int, pin: bool | None = None) -> None:
        """`pin`: bind each worker to a core; by default if there is a core for each thread and MINITVM_PIN is not 0."""
        if not 1 <= threads <= MAX_THREADS:
            raise InputError(f"a team of {threads} threads; wanted 1 to {MAX_THREADS}")
        self.threads = threads
        self._cores = available_cores()
        cores = len(self._cores)
        self._pin = (threads <= cores and os.environ.get("MINITVM_PIN") != "0") if pin is None else pin
        self._crowded = threads > cores
        self._reset()
        _teams.add(self)

    def _reset(self) -> None:
        """Create everything that a forked child must not share with its parent's threads."""
        self._lock = threading.Lock()
        self._workers: list[threading.Thread] = []
        self._stopped = False
        words = np.zeros(WORKER + WORKER_WORDS * self.threads + 16, np.int64)
        skip = -(address(words) // 8) % 16  # begin at a multiple of 128 bytes
        self._memory = words
        self._state = words[skip:].data
        self._address = address(words) + 8 * skip
        # With more threads than cores, a spinning thread keeps the thread it waits for from running.
        self._state[SPIN] = 0 if self._crowded else _SPIN_TURNS
        self._state[YIELD] = _YIELD_TURNS
        self._gates = [threading.Semaphore(0) for _ in range(self.threads)]
        self._native, self._code = executor()

    def run(self, program: int, parallel: bool = True) -> None:
        """Run the step table at address `program`; returns when all threads are done.

        With `parallel=False` nothing in it is parallel: the caller runs it alone and wakes no worker.
        """
        with self._lock:
            state = self._state
            state[PROGRAM] = program
            if self.threads == 1 or not parallel:
                self._native(self._address, 0, 1)
                return
            if len(self._workers) < self.threads - 1:
                self._start()
            state[MODE] = 0
            state[ASLEEP] = 0
            try:
                self._native(self._address, 0, self.threads)
            finally:
                if state[ASLEEP]:
                    self._join()

    def _join(self) -> None:
        """Wake sleeping workers and join the run. The program is posted, so Ctrl-C must wait for the workers."""
        interrupt: KeyboardInterrupt | None = None
        while self._state[ASLEEP]:  # cleared by the executor once it has joined
            try:
                self._wake()
                self._state[MODE] = 1
                self._native(self._address, 0, self.threads)
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _place(self) -> None:
        """Bind each worker to a core other than the caller's, if workers are bound.

        A worker that wakes on the caller's core waits for its share of that core, a millisecond or more, until the
        system moves one of them.
        """
        if not self._pin:
            return
        here = _core_of_caller()
        first = self._cores.index(here) if here in self._cores else 0
        for t, worker in enumerate(self._workers, 1):
            assert worker.native_id is not None  # it was started
            with contextlib.suppress(AttributeError, OSError):
                os.sched_setaffinity(worker.native_id, {self._cores[(first + t) % len(self._cores)]})

    def _wake(self) -> None:
        self._place()
        for t in range(1, self.threads):
            flag = WORKER + WORKER_WORDS * t + PARKED
            if self._state[flag] == WAKE:
                self._gates[t].release()

    def _start(self) -> None:
        if self._stopped:
            raise InputError("this team was shut down")
        for t in range(1 + len(self._workers), self.threads):
            self._state[WORKER + WORKER_WORDS * t + SEEN] = self._state[EPOCH]
            # The thread must not keep the team alive, or a dropped team would never end; it holds the parts it uses.
            parts = (self._native, self._code, self._memory, self._state, self._address, self._gates[t])
            worker = threading.Thread(target=_serve, args=(*parts, t, self.threads), name=f"minitvm-{t}", daemon=True)
            worker.start()
            self._workers.append(worker)
        self._place()

    def shutdown(self) -> None:
        """End the workers and wait for them. Afterwards the team runs only programs that are not parallel."""
        with self._lock:
            self._stopped = True
            workers, self._workers = self._workers, []
            _dismiss(self._state, self._gates, self.threads if workers else 1)
        for worker in workers:
            worker.join()

    def __del__(self) -> None:
        # Nobody else refers to this team, so it is not running: no lock is needed.
        if getattr(self, "_workers", None):
            _dismiss(self._state, self._gates, self.threads)


def _dismiss(state: memoryview, gates: list[threading.Semaphore], threads: int) -> None:
    """Make every worker leave: those that spin see STOP after the new epoch, those that park are released."""
    state[STOP] = 1
    state[EPOCH] += 1
    for t in range(1, threads):
        gates[t].release()


def _serve(
    native: object,
    code: object,
    memory: object,
    state: memoryview,
    address: int,
    gate: threading.Semaphore,
    thread: int,
    threads: int,
) -> None:
    """The loop of a worker: run programs in native code until it parks, wait at the gate, repeat."""
    flag = WORKER + WORKER_WORDS * thread + PARKED
    while True:
        native(address, thread, threads)  # type: ignore[operator]
        if state[STOP]:
            return
        gate.acquire()
        state[flag] = AWAKE
        if state[STOP]:
            return


_shared: dict[int, ThreadTeam] = {}
_shared_lock = threading.Lock()


def shared_team(threads: int) -> ThreadTeam:
    """The process's team of that size: modules of one size share their threads."""
    with _shared_lock:
        if threads not in _shared:
            _shared[threads] = ThreadTeam(threads)
        return _shared[threads]


def shutdown() -> None:
    """End all workers of this process; shared teams start again when they are used next."""
    with _shared_lock:
        _shared.clear()
    for team in list(_teams):
        team.shutdown()


def _after_fork() -> None:
    global _shared_lock
    _shared_lock = threading.Lock()
    for team in list(_teams):
        stopped = team._stopped
        team._reset()
        team._stopped = stopped


atexit.register(shutdown)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
