"""Compiling many kernels at once, in worker processes that stay for the life of this one.

Numba's compiler lock serialises threads, so processes it is. Results do not depend on which worker did what. A worker
that dies is dropped, and its kernel is compiled here.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import InternalError
from .compile_worker import read_message, write_message
from .team import available_cores

Job = tuple[str, str]  # source, entry
Progress = Callable[[int, int, str], None]  # kernels done, kernels in all, the one just done

# A worker takes half a second to import Numba, in which time this process compiles a few kernels.
_WORTH_STARTING = 6
_WORTH_USING = 2


_ROOT = str(Path(__file__).resolve().parents[3])  # where the package `minitvm` lies


class _Worker:
    """One compiling process and the pipe to it."""

    def __init__(self) -> None:
        path = os.pathsep.join([_ROOT, *(p or os.getcwd() for p in sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "minitvm.runtime.cpu.compile_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def compile(self, job: Job) -> bytes | None:
        """Object code; None if the process died. Raises `InternalError` if the source does not compile."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            write_message(self.process.stdin, json.dumps({"source": job[0], "entry": job[1]}).encode())  # type: ignore[arg-type]
            reply = read_message(self.process.stdout)  # type: ignore[arg-type]
        except (OSError, ValueError):
            return None
        if not reply:
            return None
        if reply[0]:
            raise InternalError(reply[1:].decode())
        return reply[1:]

    def close(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


_workers: list[_Worker] = []
_lock = threading.Lock()


def compile_kernels(jobs: Sequence[Job], workers: int | None = None, progress: Progress | None = None) -> list[bytes]:
    """Object code of each `(source, entry)`, in order.

    `workers`: how many processes (default: one a core; 0 or 1: none, compile here). Few kernels are compiled here in
    any case. Raises `InternalError` for the first job, in order, whose source does not compile.
    """
    wanted = len(available_cores()) if workers is None else workers
    wanted = min(wanted, len(jobs))
    enough = _WORTH_USING if len(_workers) >= wanted else _WORTH_STARTING
    if wanted < 2 or len(jobs) < enough:
        return _compile_here(jobs, progress)
    with _lock:
        return _compile_in_workers(jobs, wanted, progress)


def _compile_here(jobs: Sequence[Job], progress: Progress | None) -> list[bytes]:
    from .compiler import compile_kernel

    results = []
    for done, (source, entry) in enumerate(jobs, 1):
        results.append(compile_kernel(source, entry))
        if progress is not None:
            progress(done, len(jobs), entry)
    return results


def _compile_in_workers(jobs: Sequence[Job], count: int, progress: Progress | None) -> list[bytes]:
    while len(_workers) < count:
        _workers.append(_Worker())
    # Long sources first: the last kernel to finish should be a short one.
    order = sorted(range(len(jobs)), key=lambda i: -len(jobs[i][0]))
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in order:
        waiting.put(i)
    finished: queue.SimpleQueue[tuple[int, bytes | Exception | None]] = queue.SimpleQueue()

    def drive(worker: _Worker) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                i = waiting.get_nowait()
                try:
                    result: bytes | Exception | None = worker.compile(jobs[i])
                except InternalError as error:
                    result = error
                finished.put((i, result))
                if result is None:
                    return

    drivers = [threading.Thread(target=drive, args=(w,), daemon=True) for w in _workers[:count]]
    for driver in drivers:
        driver.start()
    try:
        results = _collect(finished, jobs, drivers, progress)
    except BaseException:
        # A worker may owe a reply, which the next request must not take for its own.
        _abandon(drivers)
        raise
    for driver in drivers:
        driver.join()
    for worker in [w for w in _workers if w.process.poll() is not None]:
        worker.close()
        _workers.remove(worker)
    done: list[bytes] = []
    for i, job in enumerate(jobs):
        result = results.get(i)
        if isinstance(result, Exception):
            raise result
        done.append(_compile_here([job], None)[0] if result is None else result)
    return done


def _collect(
    finished: queue.SimpleQueue[tuple[int, bytes | Exception | None]],
    jobs: Sequence[Job],
    drivers: Sequence[threading.Thread],
    progress: Progress | None,
) -> dict[int, bytes | Exception | None]:
    """What came of each job, by number; those are missing that no worker lived to take."""
    results: dict[int, bytes | Exception | None] = {}
    while len(results) < len(jobs):
        try:
            i, result = finished.get(timeout=0.2)
        except queue.Empty:
            if any(d.is_alive() for d in drivers) or not finished.empty():
                continue
            break  # every worker died
        results[i] = result
        if progress is not None:
            progress(len(results), len(jobs), jobs[i][1])
    return results


def _abandon(drivers: Sequence[threading.Thread]) -> None:
    """End all workers in the middle of their work."""
    for worker in _workers:
        worker.process.kill()
    for driver in drivers:
        driver.join()
    while _workers:
        _workers.pop().close()


def shutdown() -> None:
    """End the worker processes; the next large request starts new ones."""
    with _lock:
        while _workers:
            _workers.pop().close()


def _after_fork() -> None:
    """The workers are the parent's children and answer to its pipes only."""
    global _lock
    _lock = threading.Lock()
    for worker in _workers:
        worker.process.returncode = 0  # not ours to wait for
        for pipe in (worker.process.stdin, worker.process.stdout):
            if pipe is not None:  # held open here, it would keep the worker alive when the parent is gone
                with contextlib.suppress(OSError):
                    pipe.close()
    _workers.clear()


atexit.register(shutdown)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
