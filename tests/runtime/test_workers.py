"""Compiling in worker processes: order, errors, a worker that dies."""

from __future__ import annotations

import sys
import time

import pytest

from minitvm.errors import InternalError, ScheduleError
from minitvm.machines.cpu.runtime import compile_pool
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.loader import load_kernel
from minitvm.workers import worker_pool
from tests.patience import PATIENCE


def jobs(count: int) -> list[tuple[str, str]]:
    text = "def k{0}(args, thread, threads):\n    args[0] = {0} * args[1]\n"
    return [(text.format(i) + "# pad\n" * i, f"k{i}") for i in range(count)]


def value(code: bytes, entry: str, factor: int) -> int:
    import ctypes

    loaded = load_kernel(code, entry)
    words = (ctypes.c_int64 * 2)(0, factor)
    native_call(loaded.address)(ctypes.addressof(words), 0, 1)
    return words[0]


def test_workers() -> None:
    """One test, since the workers cost a second to start: results in order, progress, errors, death, shutdown."""
    work = jobs(8)
    seen: list[tuple[int, int, str]] = []
    codes = compile_pool.compile_kernels(work, workers=2, progress=lambda *a: seen.append(a))
    assert [value(c, f"k{i}", 3) for i, c in enumerate(codes)] == [3 * i for i in range(8)]
    assert [s[:2] for s in seen] == [(i + 1, 8) for i in range(8)] and {s[2] for s in seen} == {e for _, e in work}

    bad = "def bad(args, thread, threads):\n    return args.nothing\n"
    with pytest.raises(InternalError, match=r"(?s)kernel bad does not compile.*2      return args.nothing"):
        compile_pool.compile_kernels([*work[:3], (bad, "bad"), *work[3:]], workers=2)

    worker_pool._workers[0].process.kill()
    worker_pool._workers[0].process.wait()
    codes = compile_pool.compile_kernels(work, workers=2)
    assert [value(c, f"k{i}", 5) for i, c in enumerate(codes)] == [5 * i for i in range(8)]
    processes = [w.process for w in worker_pool._workers]
    worker_pool.shutdown()
    assert all(p.poll() is not None for p in processes) and not worker_pool._workers


def refuse(request: bytes) -> bytes:
    """What a worker is asked for in the next test."""
    raise ScheduleError(f"{request.decode()}: no")


def test_an_error_keeps_its_class() -> None:
    task = worker_pool.PoolTask("tests.runtime.test_workers:refuse", worth_starting=2)
    for workers in (0, 2):
        with pytest.raises(ScheduleError, match="^b: no$") as refusal:
            worker_pool.run(task, [b"b", b"a"], workers)
        assert type(refusal.value) is ScheduleError
    worker_pool.shutdown()


def test_few_kernels_are_compiled_here() -> None:
    worker_pool.shutdown()  # those that other tests left
    codes = compile_pool.compile_kernels(jobs(2), workers=2)
    assert value(codes[1], "k1", 9) == 9
    assert not worker_pool._workers
    assert compile_pool.compile_kernels([], workers=2) == []
    assert sys.modules["minitvm.machines.cpu.runtime.compiler"]


def test_an_interrupted_request_leaves_no_reply_for_the_next() -> None:
    def stop(done: int, total: int, entry: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_pool.compile_kernels(jobs(8), workers=2, progress=stop)
    assert not worker_pool._workers
    other = [(source.replace("* args[1]", "- args[1]"), entry) for source, entry in jobs(8)]
    codes = compile_pool.compile_kernels(other, workers=2)
    assert [value(c, f"k{i}", 3) for i, c in enumerate(codes)] == [i - 3 for i in range(8)]
    worker_pool.shutdown()


def wait_so_long(request: bytes) -> bytes:
    """What a worker is asked for in the next test."""
    time.sleep(float(request))
    return request


def test_a_moment_ends_what_is_not_ready_and_leaves_no_reply_for_the_next() -> None:
    task = worker_pool.PoolTask("tests.runtime.test_workers:wait_so_long", 1, 1, died=b"died", late=b"late")
    assert worker_pool.run(task, [b"0"], 1) == [b"0"]  # the worker has started
    start = time.monotonic()
    results = worker_pool.run(task, [b"0.01", b"3600", b"3601"], 1, sizes=[3, 2, 1], end=start + 2.0)
    assert results == [b"0.01", b"late", b"late"] and time.monotonic() - start < PATIENCE
    assert worker_pool.run(task, [b"0", b"1"], 1, end=time.monotonic() - 1.0) == [b"late"] * 2
    assert worker_pool.run(task, [b"0"], 1) == [b"0"]
    worker_pool.shutdown()
