"""A float32 matrix product beside NumPy's BLAS: one and two threads, in one process, measured in turn.

`python benchmarks/matmul.py [M N K]` prints GFLOP/s (medians) and the ratio. What bounds the kernel are the
multiply-add units: a Zen 5 core with 512-bit units starts two of 16 lanes a cycle, 64 float operations, that is
256 GFLOP/s a core at 4 GHz.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import minitvm
from minitvm import strategy, te
from minitvm.target import Target
from minitvm.te import create_prim_func
from minitvm.tir.nodes import PrimFunc

SHAPES = ((512, 512, 512), (1024, 1024, 1024), (1001, 1003, 999), (2048, 2048, 2048))
ROUNDS = 15


def matmul(m: int, n: int, k: int) -> PrimFunc:
    """C[m, n] = A[m, k] B[k, n]."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C", attrs={"op": "nn.matmul"})
    return create_prim_func([a, b, c])


def interleaved(functions: list[Callable[[], object]], rounds: int = ROUNDS) -> list[float]:
    """The median seconds of each function, run in turn so that a busy moment hits all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, found in zip(functions, times):
            start = time.perf_counter()
            function()
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def compare(m: int, n: int, k: int, threads: int) -> tuple[float, float]:
    """(GFLOP/s of the generated kernel, GFLOP/s of NumPy) with that many threads each; checks that they agree."""
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    # Small integers: every order of additions gives the same float32.
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    ours, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    target = Target("cpu")
    function = minitvm.build(strategy.schedule(matmul(m, n, k), target).mod, target, threads=threads)
    with threadpool_limits(threads):
        for _ in range(2):
            function(a, b, ours)
            np.matmul(a, b, out=theirs)
        if not np.array_equal(ours, theirs):
            raise SystemExit(f"{m}x{n}x{k}: the generated kernel is wrong")
        seconds = interleaved([lambda: function(a, b, ours), lambda: np.matmul(a, b, out=theirs)])
    work = 2 * m * n * k / 1e9
    return work / seconds[0], work / seconds[1]


def main(arguments: list[str] | None = None) -> None:
    """Print a row for each shape and number of threads."""
    arguments = arguments or []
    shapes = [tuple(map(int, arguments[:3]))] if len(arguments) >= 3 else SHAPES
    print(f"{'M x N x K':>20} {'threads':>7} {'minitvm':>9} {'NumPy':>9} {'ratio':>6}   (GFLOP/s, medians of {ROUNDS})")
    for m, n, k in shapes:
        for threads in (1, 2):
            ours, theirs = compare(m, n, k, threads)
            print(f"{f'{m} x {n} x {k}':>20} {threads:>7} {ours:>9.1f} {theirs:>9.1f} {ours / theirs:>6.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
