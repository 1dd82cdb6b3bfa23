"""The passes on flat kernels: any of them, one after the other, keep what a random kernel computes."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from minitvm.reference import kernel as reference
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tir.transform import passes
from tests.tir.transform.kernel_programs import UPDATED, kernel_arguments, kernel_program

CPU = Target("cpu -vector_bits=128 -cores=2")
# Those whose input may be any flat kernel.
FLAT = [p for p in passes() if p.name in {
    "simplify", "hoist_conditions", "place_allocations", "partition_loops", "unswitch_tiles", "vectorize_reductions",
    "transpose_tiles", "unmask_registers", "share_values",
    "vectorize", "unroll", "simplify_again", "promote_accumulators", "strided_stores", "share_loads", "strided_loads",
    "inject_prefetch", "share_indices",
}]  # fmt: skip


def results(func: PrimFunc, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What the kernel leaves in its parameters; every access is checked."""
    copies = [a.copy() for a in arrays]
    reference.run(func, *copies, inout=UPDATED)
    return copies


def keeps_the_meaning(seed: int) -> None:
    """About half of the passes, in their order; after a difference every step is looked at."""
    func, arrays = kernel_program(seed), kernel_arguments(seed)
    wanted = results(func, arrays)
    random = Random(seed)
    chosen = [p for p in FLAT if random.random() < 0.6]
    version = func
    for p in chosen:
        version = p.run(version, CPU)
    try:
        alike = same(results(version, arrays), wanted)
    except Exception:
        alike = False
    if alike:
        return
    version = func
    for p in chosen:
        version, before = p.run(version, CPU), version
        note = f"seed {seed}: {p.name} changed what this computes:\n{before}\ninto:\n{version}"
        assert same(results(version, arrays), wanted), note
    raise AssertionError("the passes gave another kernel when they ran again")


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.alike(most=2)
@pytest.mark.parametrize("part", range(4))
def test_passes_keep_what_a_kernel_computes(part: int) -> None:
    for seed in range(50 * part, 50 * part + 50):
        keeps_the_meaning(seed)


@pytest.mark.full
def test_passes_keep_what_many_kernels_compute() -> None:
    for seed in range(1000, 4000):
        keeps_the_meaning(seed)
