"""Compile many kernels in parallel. This uses processes, because Numba's compiler lock serialises threads."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....errors import needed
from ....runtime.program import ONLY_RUN, Progress
from ....workers import worker_pool

Job = tuple[str, ...]  # arguments of `compile_kernel`: source, entry, instruction set

# While a worker starts, this process compiles a few kernels.
TASK = worker_pool.PoolTask(f"{__name__}:compile_request", worth_starting=6)


def compile_kernels(jobs: Sequence[Job], workers: int | None = None, progress: Progress | None = None) -> list[bytes]:
    """Return the object code of each `(source, entry, isa)`, in order.

    `workers` is the number of processes (default: one per core; 0 or 1: compile in this process). A small number of
    kernels is always compiled in this process. Raises `InternalError` for the first job, in order, whose source does
    not compile.
    """
    requests = [json.dumps(job).encode() for job in jobs]
    report = None if progress is None else lambda done, total, number: progress(done, total, jobs[number][1])
    return worker_pool.run(TASK, requests, workers, report)


def compile_request(request: bytes) -> bytes:
    """Compile one job. This runs in a worker process."""
    with needed("to compile kernels", ONLY_RUN):
        from .compiler import compile_kernel

    return compile_kernel(*json.loads(request))
