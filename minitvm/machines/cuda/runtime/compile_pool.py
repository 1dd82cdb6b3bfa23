"""Compile many kernels to cubins in parallel, in other processes, and cache them on disk."""

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
    """Return the cubin of each `(source, entry, architecture)`, in order. Equal jobs are compiled once.

    `workers` is the number of processes (default: one per core; 0 or 1: compile in this process). Raises
    `InternalError` for a source that does not compile, and `TargetError` for a source that its architecture does not
    support, or for a missing package.
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
    """Compile one job and cache its cubin. This runs in a worker process."""
    from .compiler import cubin_of

    return cubin_of(*json.loads(request))
