"""Many requests at once, in worker processes that live as long as this process.

Results do not depend on which worker did what. A worker that dies is dropped, and this process handles its request,
unless the task says what is answered then.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import errors
from ..forks import lock
from .cores import available_cores
from .process import function, read_message, write_message

Progress = Callable[[int, int, int], None]  # requests done, their total, the number of the one just done

_ROOT = str(Path(__file__).resolve().parents[2])  # the folder of the package `minitvm`


@dataclass(frozen=True, slots=True)
class PoolTask:
    """The work on each request: `"module:function"` names a function from bytes to bytes.

    A worker takes about half a second to start, in which time this process does some requests itself: fewer than
    `worth_starting` are done here, or fewer than `worth_using` if workers are running already. With `died`, the result
    of a request whose worker dies, none is done here: what may end a process must not end this one. `late` is the
    result of a request for which there was no time.
    """

    function: str
    worth_starting: int
    worth_using: int = 2
    died: bytes | None = None
    late: bytes | None = None

    def here(self, request: bytes) -> bytes:
        """The result of one request, computed in this process."""
        return function(self.function)(request)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self) -> None:
        path = os.pathsep.join([_ROOT, *(p or os.getcwd() for p in sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "minitvm.workers.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def result(self, task: PoolTask, request: bytes) -> bytes | None:
        """The result of a request; None if the process died. Raises the `MinitvmError` that the function raised."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            write_message(self.process.stdin, task.function.encode())  # type: ignore[arg-type]
            write_message(self.process.stdin, request)  # type: ignore[arg-type]
            reply = read_message(self.process.stdout)  # type: ignore[arg-type]
        except (OSError, ValueError):
            return None
        if not reply:
            return None
        if reply[0]:
            kind, _, text = reply[1:].partition(b"\0")
            raise getattr(errors, kind.decode(), errors.InternalError)(text.decode())
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
_lock = lock()


def run(
    task: PoolTask,
    requests: Sequence[bytes],
    workers: int | None = None,
    progress: Progress | None = None,
    sizes: Sequence[int] | None = None,
    end: float = float("inf"),
) -> list[bytes]:
    """The result of each request, in order.

    `workers`: the number of processes (default: one per core; 0 or 1: none, everything is done here). Few requests are
    done here in any case. `sizes` are estimates of their times, in any unit (default: their lengths). Raises the error
    of the first request, in order, that has one. At the moment `end` of `time.monotonic` the workers are stopped, and
    the requests without a result have the task's `late`; only tasks that have both `died` and `late` take an `end`.
    """
    count = min(len(available_cores()) if workers is None else workers, len(requests))
    enough = task.worth_using if len(_workers) >= count else task.worth_starting
    if task.died is not None:
        count = min(max(1, count), len(requests))
    elif count < 2 or len(requests) < enough:
        return _here(task, requests, progress)
    if not requests:
        return []
    with _lock:
        return _in_workers(task, requests, count, progress, sizes or [len(r) for r in requests], end)


def _here(task: PoolTask, requests: Sequence[bytes], progress: Progress | None) -> list[bytes]:
    results = []
    for number, request in enumerate(requests):
        results.append(task.here(request))
        if progress is not None:
            progress(number + 1, len(requests), number)
    return results


def _in_workers(
    task: PoolTask, requests: Sequence[bytes], count: int, progress: Progress | None, sizes: Sequence[int], end: float
) -> list[bytes]:
    while len(_workers) < count:
        _workers.append(_Worker())
    # Long ones first: the last one to finish should be short.
    order = sorted(range(len(requests)), key=lambda i: -sizes[i])
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in order:
        waiting.put(i)
    finished: queue.SimpleQueue[tuple[int, bytes | Exception | None]] = queue.SimpleQueue()

    def drive(worker: _Worker) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                i = waiting.get_nowait()
                try:
                    result: bytes | Exception | None = worker.result(task, requests[i])
                except errors.MinitvmError as error:
                    result = error
                if result is None:  # the pipe is closed, and the process ends; only then is it known to have ended
                    worker.process.kill()
                    worker.process.wait()
                finished.put((i, result))
                if result is None:
                    return

    drivers = [threading.Thread(target=drive, args=(w,), daemon=True) for w in _workers[:count]]
    for driver in drivers:
        driver.start()
    try:
        results = _collect(finished, len(requests), drivers, progress, end)
    except BaseException:
        # A worker may owe a reply, which the next request must not take for its own.
        _abandon(drivers)
        raise
    if len(results) < len(requests) and time.monotonic() >= end:
        _abandon(drivers)
        results = {i: results.get(i, task.late) for i in range(len(requests))}
    for driver in drivers:
        driver.join()
    for worker in [w for w in _workers if w.process.poll() is not None]:
        worker.close()
        _workers.remove(worker)
    if task.died is not None:
        waited = [i for i in range(len(requests)) if i not in results]  # every worker died before their turn
        if waited and len(waited) < len(requests):
            some = [requests[i] for i in waited], min(count, len(waited)), progress, [sizes[i] for i in waited], end
            results.update(zip(waited, _in_workers(task, *some), strict=True))
    done: list[bytes] = []
    for i, request in enumerate(requests):
        result = results.get(i)
        if isinstance(result, Exception):
            raise result
        if result is None:
            result = task.here(request) if task.died is None else task.died
        done.append(result)
    return done


def _collect(
    finished: queue.SimpleQueue[tuple[int, bytes | Exception | None]],
    total: int,
    drivers: Sequence[threading.Thread],
    progress: Progress | None,
    end: float,
) -> dict[int, bytes | Exception | None]:
    """The result of each request, by number; missing are those of dead workers, and those that no time is left for."""
    results: dict[int, bytes | Exception | None] = {}
    while len(results) < total:
        left = end - time.monotonic()
        if left <= 0 and finished.empty():
            break
        try:
            i, result = finished.get(timeout=min(0.2, max(left, 0.001)))
        except queue.Empty:
            if any(d.is_alive() for d in drivers) or not finished.empty():
                continue
            break  # every worker died
        results[i] = result
        if progress is not None:
            progress(len(results), total, i)
    return results


def _abandon(drivers: Sequence[threading.Thread]) -> None:
    """End all workers at once, even during their work."""
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
