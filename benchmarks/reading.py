"""The rate at which memory is read: by a kernel that does nothing else, in turn with what is bound by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import minitvm
from minitvm.script import tir as T

_TASKS, _STREAMS, _LINES = 64, 4, 1 << 14  # of 16 floats: 256 MiB, more than any cache
NBYTES = _TASKS * _STREAMS * _LINES * 64  # that one call reads


@T.prim_func
def _reading(x: T.Buffer((64, 4, 1 << 14, 16)), y: T.Buffer((64, 4, 16))):  # type: ignore[no-untyped-def]
    for t in T.parallel(64):
        for s in T.unroll(4):
            for v in T.vectorized(16):
                y[t, s, v] = T.float32(0)
        for j in range(1 << 14):
            for s in T.unroll(4):
                for v in T.vectorized(16):
                    y[t, s, v] = T.max(y[t, s, v], x[t, s, j, v])


def reader(threads: int) -> Callable[[], Any]:
    """A call that reads `NBYTES` bytes of memory with so many threads."""
    memory, result = np.ones((_TASKS, _STREAMS, _LINES, 16), np.float32), np.zeros((_TASKS, _STREAMS, 16), np.float32)
    module = minitvm.build(_reading, threads=threads)
    return lambda: module(memory, result)
