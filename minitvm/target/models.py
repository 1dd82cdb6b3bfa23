"""The models of CPUs and GPUs that targets may name, and the kinds of targets that they belong to.

Target("cpu -arch=cortex-a76"), Target("cpu -model=znver3"), Target("cuda -arch=sm_90a"), Target("opencl -device=mali")
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..errors import TargetError, nearest
from .isas import NATIVE
from .machines import CPU, GPU, Cache, Kind, register_kind

HOST = "MINITVM_CPU"  # a CPU model that is used instead of the host


def _host() -> CPU:
    """Return the CPU of this machine.

    If the environment variable HOST names a model, that model is returned with this machine's number of cores and
    instruction set. Raises `TargetError` for an unknown model.
    """
    from .host import detect_cpu

    model = os.environ.get(HOST)
    if not model:
        return detect_cpu()
    if model not in _CPUS:
        raise TargetError(f"{HOST}={model!r} names no model of a CPU; {nearest(model, list(_CPUS))}")
    return replace(_CPUS[model], cores=detect_cpu().cores, isa=NATIVE)


_KB, _MB = 1024, 1024 * 1024


def _cpu(isa: str, bits: int, registers: int, l1: Cache, l2: Cache, l3: Cache, **more: Any) -> CPU:
    """Return a model with the name of its instruction set."""
    return CPU(isa, bits, registers, l1=l1, l2=l2, l3=l3, isa=isa, **more)


def _microcontroller(isa: str, latency: int, ghz: float, l1: Cache, memory: int, width: int) -> CPU:
    """Return a scalar CPU whose `memory` bytes of SRAM, read `width` bytes per cycle, take the place of an L2 cache.

    The floating-point unit has 32 registers of single precision and one multiply-add.
    """
    return _cpu(
        isa, 32, 32, l1, Cache(memory, 1, l1.line), _NONE, fma_ports=1, fma_latency=latency, ghz=ghz, l1_rate=width,
        l2_rate=width, l3_rate=width, memory_rate=width,
    )  # fmt: skip


_NONE = Cache(0, 1)
_HASWELL = CPU(
    "haswell", 256, 16, 2, 5, True, 4, 0.0, Cache(32 * _KB, 8), Cache(256 * _KB, 8), Cache(8 * _MB, 16), isa="haswell"
)
_SKYLAKE = CPU(
    "skylake-avx512", 512, 32, 2, 4, True, 8, 0.0, Cache(32 * _KB, 8), Cache(_MB, 16), Cache(11 * _MB, 11),
    isa="skylake-avx512",
)  # fmt: skip
_CPUS = {
    "x86-64": CPU("x86-64", vector_bits=128, fma_ports=1, has_fma=False, isa="x86-64"),
    "haswell": _HASWELL,
    "skylake-avx512": _SKYLAKE,
    "znver3": _cpu("znver3", 256, 16, Cache(32 * _KB, 8), Cache(512 * _KB, 8), Cache(32 * _MB, 16), cores=8),
    "znver4": _cpu("znver4", 512, 32, Cache(32 * _KB, 8), Cache(_MB, 8), Cache(32 * _MB, 16), cores=8),
    # A level of x86-64 is no machine: the figures are those of Intel's first CPUs that have it: Nehalem, Haswell and
    # Skylake-X (Intel's optimization manual, appendix E). Nehalem multiplies in four cycles and adds in three.
    "x86-64-v2": _cpu(
        "x86-64-v2", 128, 16, Cache(32 * _KB, 8), Cache(256 * _KB, 8), Cache(8 * _MB, 16), fma_ports=1, fma_latency=7,
        has_fma=False, cores=4, features=("sse4_2",), l1_rate=16,
    ),
    "x86-64-v3": replace(
        _HASWELL, name="x86-64-v3", isa="x86-64-v3", features=("sse4_2", "avx", "avx2", "fma", "f16c")
    ),
    "x86-64-v4": replace(
        _SKYLAKE, name="x86-64-v4", isa="x86-64-v4",
        features=("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl"),
    ),
    # ARM's technical reference manuals (caches) and software optimization guides (A72, A76: latency and ports of FMLA,
    # loads); LLVM's AArch64SchedA53.td for the A53. The sizes that a maker chooses are those of the Raspberry Pi 3, 4
    # and 5. The A53 loads 64 bits per cycle, the A72 one vector, the A76 two.
    "cortex-a53": _cpu(
        "cortex-a53", 128, 32, Cache(32 * _KB, 4), Cache(512 * _KB, 16, 64, 4), _NONE, fma_ports=1, fma_latency=10,
        cores=4, ghz=1.2, features=("asimd",), l1_rate=8,
    ),
    "cortex-a72": _cpu(
        "cortex-a72", 128, 32, Cache(32 * _KB, 2), Cache(_MB, 16, 64, 4), _NONE, fma_latency=7, cores=4, ghz=1.5,
        features=("asimd",), l1_rate=16,
    ),
    "cortex-a76": _cpu(
        "cortex-a76", 128, 32, Cache(64 * _KB, 4), Cache(512 * _KB, 8), Cache(2 * _MB, 16, 64, 4), cores=4, ghz=2.4,
        features=("asimd", "asimddp", "asimdhp"), l1_rate=32,
    ),
    # ARM's technical reference manual of the M4 (VFMA: three cycles); LLVM's ARMScheduleM7.td. The sizes are those of
    # ST's STM32F407 (no cache) and STM32H743.
    "cortex-m4": _microcontroller("cortex-m4", 3, 0.168, Cache(128 * _KB, 1, 32), 128 * _KB, 4),
    "cortex-m7": _microcontroller("cortex-m7", 6, 0.48, Cache(16 * _KB, 4, 32), 512 * _KB, 8),
    # RISC-V's vector extension 1.0: 32 registers, of 128 bits or more. The other figures are assumed: an in-order core
    # with a vector unit of 128 bits.
    "riscv64-v": _cpu(
        "riscv64-v", 128, 32, Cache(32 * _KB, 8), Cache(512 * _KB, 16, 64, 4), _NONE, fma_ports=1, cores=4, ghz=1.6,
        l1_rate=16, l2_rate=16.0, l3_rate=4.0,
    ),
    # An engine translates wasm to the instructions of the machine at hand: on x86-64, to SSE's or AVX's 16 registers.
    "wasm": _cpu("wasm", 128, 16, Cache(32 * _KB, 8), Cache(512 * _KB, 8), Cache(8 * _MB, 16), l1_rate=32),
}  # fmt: skip


_MATRICES = ("float16", "bfloat16", "tfloat32")  # from sm_80 on, with instructions that we have


def _capability(arch: str, block_kb: int, shared_kb: int, lanes: int, threads: int) -> GPU:
    """Return the GPU description of a CUDA architecture.

    `block_kb` and `shared_kb` are the shared memory of a block and of a multiprocessor in KB, `lanes` is the number of
    float32 lanes, and `threads` the largest number of threads of a multiprocessor.
    """
    return GPU(
        arch, arch, max_shared_memory_per_block=block_kb * _KB, lanes=lanes, threads_per_multiprocessor=threads,
        shared_memory_per_multiprocessor=shared_kb * _KB, channel_block=32,
        matrix_dtypes=() if arch == "sm_75" else _MATRICES,
    )  # fmt: skip


_GPUS = {
    "h100": replace(
        _capability("sm_90a", 227, 228, 128, 2048), name="h100", multiprocessors=132, ghz=1.98, l2_bytes=50 * _MB
    ),
    "a100": replace(
        _capability("sm_80", 163, 164, 64, 2048), name="a100", multiprocessors=108, ghz=1.41, l2_bytes=40 * _MB
    ),
    "gtx-1080-ti": GPU("gtx-1080-ti", "sm_61", multiprocessors=28, ghz=1.58, l2_bytes=2816 * _KB),
}
# By compute capability, from the tables of NVIDIA's programming guide.
_CUDAS = {
    "sm_75": _capability("sm_75", 64, 64, 64, 1024),
    "sm_80": _capability("sm_80", 163, 164, 64, 2048),
    "sm_86": _capability("sm_86", 99, 100, 128, 1536),
    "sm_89": _capability("sm_89", 99, 100, 128, 1536),
    "sm_90": _capability("sm_90", 227, 228, 128, 2048),
    "sm_90a": _capability("sm_90a", 227, 228, 128, 2048),
}
# OpenCL 1.2 has no shuffles.
_WIDTHS = (2, 4, 8)  # of vectors in OpenCL C; on GPUs those of 16 are useful only for bytes
_OPENCL = GPU("generic", "", 1, 256, (256, 256, 256), (), 32 * _KB, 0, 0, 0, 128, True, _WIDTHS, False)


def _pocl() -> GPU:
    """Describe this machine's CPU as a PoCL device. Vectors in a kernel are as wide as the vectors of the CPU.

    The compiler of PoCL 3.0 treats AMD processors with AVX-512 like older ones without it, so their vectors have 256
    bits.
    """
    cpu = _host()
    if cpu.vector_bits > 256 and cpu.name.startswith(("AMD", "znver")):
        cpu = replace(cpu, vector_bits=256, vector_registers=16)
    return replace(
        _OPENCL, name="pocl", max_threads_per_block=4096, max_block_dim=(4096, 4096, 4096),
        max_shared_memory_per_block=512 * _KB, multiprocessors=cpu.cores, vector_bits=cpu.vector_bits,
        local_memory_helps=False, vector_registers=cpu.vector_registers, l1_rate=cpu.l1_rate,
        vector_widths=(2, 4, 8, 16),
    )  # fmt: skip


# 32-bit registers per thread. Mali has 16 of 128 bits; Intel has 128 of 256 bits for 16 threads; AMD has 256.
_OPENCLS = {
    "mali": replace(
        _OPENCL, name="mali", warp_size=4, max_registers_per_thread=64, multiprocessors=4, local_memory_helps=False,
        lanes=16, threads_per_multiprocessor=256,
    ),
    "adreno": replace(
        _OPENCL, name="adreno", warp_size=64, max_threads_per_block=512, max_block_dim=(512, 512, 512),
        multiprocessors=4,
        local_memory_helps=False, lanes=128,
    ),
    "amd": replace(
        _OPENCL, name="amd", warp_size=64, max_shared_memory_per_block=64 * _KB, registers_per_block=65536,
        max_registers_per_thread=256, multiprocessors=64, threads_per_multiprocessor=2560,
    ),
    "intel": replace(
        _OPENCL, name="intel", warp_size=16, max_shared_memory_per_block=64 * _KB, max_registers_per_thread=64,
        threads_per_multiprocessor=896,
    ),
    "pocl": _pocl,
}  # fmt: skip

register_kind(
    Kind(
        ("cpu", "llvm"),
        CPU,
        _host,
        "cpu",
        _CPUS,
        {"width": "vector_bits", "num-cores": "cores", "mcpu": "model", "arch": "model"},
    )
)
register_kind(
    Kind(
        ("cuda",),
        GPU,
        lambda: GPU(matrix_dtypes=_MATRICES),
        "cuda",
        {**_GPUS, **_CUDAS},
        {"max_num_threads": "max_threads_per_block"},
        "arch",
    )
)
register_kind(Kind(("opencl",), GPU, lambda: _OPENCL, "opencl", _OPENCLS, {"device": "model"}))
