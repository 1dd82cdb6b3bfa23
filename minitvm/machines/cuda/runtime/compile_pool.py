"""Compiling many kernels to cubins at once, in other processes; the disk keeps what they compiled."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....runtime.program import Progress
from ....workers import worker_pool
from .architectures import compute_capability
from .compiler import kept_cubin

Job = tuple[str, str, str]  # source, entry, architecture

TASK = worker_pool.PoolTask(f"{__name__}:compile_request", worth_starting=4)


def cubins(jobs: Sequence[Job], workers: int | None = None, progress: Progress | None = None) -> list[bytes]:
    """The cubin of each `(source, entry, architecture)`, in order; equal jobs are compiled once.

    `workers`: the number of processes (default: one per core; 0 or 1: none, compile here). Raises `InternalError` for
    a source that does not compile, `TargetError` for one that its architecture does not run, or a missing package.
    """
    for arch in dict.fromkeys(arch for _, _, arch in jobs):
        compute_capability(arch)  # refused before anything is compiled
    codes = {job: kept_cubin(*job) for job in jobs}
    absent = [job for job, code in codes.items() if code is None]
    requests = [json.dumps(job).encode() for job in absent]
    report = None if progress is None else lambda done, total, number: progress(done, total, absent[number][1])
    codes.update(zip(absent, worker_pool.run(TASK, requests, workers, report), strict=True))
    return [codes[job] or b"" for job in jobs]


def compile_request(request: bytes) -> bytes:
    """Runs in a worker: compile one job, and keep its cubin."""
    from .compiler import cubin_of

    return cubin_of(*json.loads(request))
