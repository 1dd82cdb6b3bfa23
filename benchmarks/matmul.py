"""float32 matrix products from te, scheduled by `machines/simd/strategy/contraction.py`, beside NumPy (OpenBLAS).

    python -m benchmarks.matmul [M N K ...]

What bounds it is the multiply-add units: two 512-bit ones make 64 flop a cycle, 256 GFLOP/s at 4 GHz.
"""

from __future__ import annotations

import sys

import numpy as np

import minitvm
from minitvm import strategy, te
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc

from . import harness

SQUARE = [(256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (1001, 1003, 999), (2048, 2048, 2048)]
SKINNY = [
    (2048, 64, 512), (64, 2048, 512), (64, 64, 2048), (2048, 2048, 32), (16, 2048, 2048), (2048, 16, 2048),
    (1, 2048, 2048), (2048, 1, 2048),
]  # fmt: skip
SHAPES = [*SQUARE, *SKINNY]
WANTED, MEAN_WANTED = 0.85, 0.95


def matmul(m: int, n: int, k: int) -> PrimFunc:
    """`C = A @ B` as a tensor expression."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    return te.create_prim_func([a, b, c])


def compare(m: int, n: int, k: int, threads: int) -> harness.Row:
    """One product beside NumPy's, after a check that they agree exactly on integers."""
    from threadpoolctl import threadpool_limits

    scheduled = strategy.schedule(matmul(m, n, k), Target("cpu")).func
    function = minitvm.build(scheduled, threads=threads)
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-3, 4, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    ours, theirs = np.empty((m, n), np.float32), np.empty((m, n), np.float32)
    with threadpool_limits(threads):
        medians = harness.interleaved(
            {"ours": lambda: function(a, b, ours), "peer": lambda: np.matmul(a, b, out=theirs)},
            rounds=15,
            threads=threads,
        )
    if not np.array_equal(ours, theirs):
        raise RuntimeError(f"{m} x {n} x {k}: the products differ: nothing to measure")
    name = f"{m} x {n} x {k}, {2e-9 * m * n * k / medians['ours']:.0f} GFLOP/s"
    return harness.Row(name, threads, medians["ours"], medians["peer"], "NumPy (OpenBLAS)", WANTED)


def main(arguments: list[str] | None = None) -> None:
    """Measure the shapes given as M N K triples, or the usual ones, at one thread and at two."""
    sizes = [int(text) for text in arguments or []]
    shapes = [(sizes[i], sizes[i + 1], sizes[i + 2]) for i in range(0, len(sizes) - 2, 3)] or SHAPES
    rows = [compare(*shape, threads) for shape in shapes for threads in (1, 2)]
    harness.table("float32 matrix products against NumPy", rows)
    means = {f"{t} threads": harness.geometric_mean([r.ratio for r in rows if r.threads == t]) for t in (1, 2)}
    for threads, mean in means.items():
        print(f"  geometric mean, {threads}: {mean:.2f} (wanted {MEAN_WANTED})")
    harness.save("matmul", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
