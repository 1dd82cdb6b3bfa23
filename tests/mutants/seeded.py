"""Workloads of seeded programs: through the passes of lowering, as machine code, and with one thing wrong through the
interpreters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.codegen.masked_kernels import masks_alike, run_compiled
from tests.codegen.test_backends import GRIDS, PROGRAMS, parallel_tiles, runs_alike
from tests.codegen.test_random_kernels import (
    UNSIGNED,
    kernel_alike,
    unsigned_alike,
)
from tests.codegen.test_random_kernels import (
    test_fractions_beside_the_middle_of_two_numbers_are_rounded_once as fractions_are_rounded_once,
)
from tests.link.test_copies import drawn as drawn_copies
from tests.machines.cuda.cuda_kernels import run_on_cuda
from tests.machines.cuda.strategy.tensor_core_programs import CHECKS as TENSOR_CORE_CHECKS
from tests.machines.cuda.strategy.warpgroup_programs import CHECKS as WARPGROUP_CHECKS
from tests.machines.cuda.test_tf32_products import CHECKS as ROUNDING_CHECKS
from tests.machines.opencl.opencl_kernels import run_on_device
from tests.machines.simd.codegen.brain_kernels import products_alike
from tests.reference.gone_wrong import goes_wrong_alike
from tests.runtime.test_two_memories import refused_are_few_and_long
from tests.tir.analysis.followed import (
    ALONE,
    COUNTS,
    SURELY_READ,
    TWICE,
    WHOLE,
    count_holds,
    effects_hold,
    exposure_holds,
    kernel_effects_hold,
    twice_holds,
    whole_holds,
)
from tests.tir.instruction_programs import CHECKS as INSTRUCTION_CHECKS
from tests.tir.transform.test_kernel_passes import keeps_the_meaning
from tests.tir.transform.through_passes import (
    blocks_keep_the_meaning,
    stages_keep_the_meaning,
    threads_keep_the_meaning,
    virtual_threads_keep_the_meaning,
)

from .devices import CHECKS, checked
from .oracle import Trial, Workload, directed, failing


def seeded(name: str, check: Callable[[int], None], count: int) -> Workload:
    def seeds() -> Sequence[int]:
        return range(count)

    def body(trial: Trial, seed: int) -> None:
        trial.compared += 1
        with failing("kernel, values", str(seed)):
            check(seed)

    return directed(name, seeds, body)


BLOCKS = seeded("programs of blocks through the passes", blocks_keep_the_meaning, 1200)
THREADS = seeded("programs of threads through the passes", threads_keep_the_meaning, 400)
VIRTUAL_THREADS = seeded("programs of virtual threads through the passes", virtual_threads_keep_the_meaning, 400)
STAGES = seeded("programs of stages through the passes", stages_keep_the_meaning, 400)
WHOLE_REGIONS = seeded("what blocks do to whole regions", lambda k: whole_holds(list(WHOLE)[k]), len(WHOLE))
PLACES = seeded("nodes in two places", lambda k: twice_holds(*TWICE[k]), len(TWICE))
GONE_WRONG = seeded("programs gone wrong in both modes", goes_wrong_alike, 500)
MASKS = seeded("machine code of masks", masks_alike, 30)
_FLOATS = ("float16", "bfloat16", "float32", "float64")
FRACTIONS = seeded("fractions", lambda k: fractions_are_rounded_once(_FLOATS[k]), len(_FLOATS))
ON_A_DEVICE = seeded("random kernels on a device", lambda seed: kernel_alike(seed, run_on_device), 30)
UNSIGNED_ON_A_DEVICE = seeded(
    "unsigned numbers on a device", lambda k: unsigned_alike(UNSIGNED[k], run_on_device), len(UNSIGNED)
)
MASKS_ON_A_DEVICE = seeded("masks on a device", lambda seed: masks_alike(seed, run_on_device), 10)
_GRIDS = [(program, schedule) for program in PROGRAMS for schedule in (*GRIDS, parallel_tiles)]
ON_GRIDS = seeded("grids on a device", lambda k: runs_alike(*_GRIDS[k]), len(_GRIDS))
IN_PYTHON = seeded("random kernels for CUDA in Python", lambda seed: kernel_alike(seed, run_on_cuda), 30)
MASKS_IN_PYTHON = seeded("masks for CUDA in Python", lambda seed: masks_alike(seed, run_on_cuda), 10)
PAIRS = seeded("products of pairs in machine code", lambda seed: products_alike(seed, run_compiled), 12)
PAIRS_ON_A_DEVICE = seeded("products of pairs on a device", lambda seed: products_alike(seed, run_on_device), 12)
PAIRS_IN_PYTHON = seeded("products of pairs for CUDA", lambda seed: products_alike(seed, run_on_cuda), 12)
ON_CUDA_GRIDS = seeded("grids for CUDA in Python", lambda k: runs_alike(*_GRIDS[k], "cuda"), len(_GRIDS))
INSTRUCTIONS = seeded(
    "instructions and asynchronous copies", lambda k: INSTRUCTION_CHECKS[k](), len(INSTRUCTION_CHECKS)
)
CONSENT = seeded("rounding to 10 bits of mantissa", lambda k: ROUNDING_CHECKS[k](), len(ROUNDING_CHECKS))
TENSOR_CORES = seeded("products on tensor cores", lambda k: TENSOR_CORE_CHECKS[k](), len(TENSOR_CORE_CHECKS))
WARPGROUPS = seeded("products on warpgroups", lambda k: WARPGROUP_CHECKS[k](), len(WARPGROUP_CHECKS))
COPIES = seeded("copies between memories", drawn_copies, 200)
REFUSED = seeded("what the host had better run", lambda seed: refused_are_few_and_long(), 1)
PRETENDED = seeded("programs on a pretended device", checked, len(CHECKS))
EFFECTS = seeded("effects of programs of blocks", effects_hold, 120)
KERNEL_EFFECTS = seeded("effects of kernels", kernel_effects_hold, 60)
EXPOSED = seeded("whether iterations find what others left", lambda k: exposure_holds(list(ALONE)[k]), len(ALONE))
_COUNTED = [*COUNTS, *SURELY_READ]
COUNTED = seeded("how many elements loops touch", lambda k: count_holds(_COUNTED[k]), len(_COUNTED))
KERNELS = seeded("random kernels through the passes on flat code", keeps_the_meaning, 1200)
