"""What the runtime itself costs: a call, a barrier, a launch, loading and compiling a kernel; and what SIMD reaches.

Targets: a call of a tiny program from Python at most 20 us end to end; a barrier below 1 us on an idle machine; a
14 x 32 micro-kernel compiled within 1 s and at a good part of the machine's peak.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from minitvm.executable import (
    Barrier,
    CallKernel,
    Executable,
    Input,
    Kernel,
    KernelParam,
    Output,
    TensorSpec,
)
from minitvm.expr import DType
from minitvm.machines.cpu.runtime.compiler import compile_kernel
from minitvm.machines.cpu.runtime.executor import native_call
from minitvm.machines.cpu.runtime.loader import load_kernel
from minitvm.runtime import Function, GraphModule
from minitvm.workers.cores import available_cores

F32 = DType("float32")


def step_kernel() -> Kernel:
    """A kernel that does next to nothing."""
    source = (
        "from minitvm.machines.simd.vectors.simd import load, pointer_f32, store\n"
        "def step(args, thread, threads):\n"
        "    if thread == 0:\n"
        "        store(pointer_f32(args[1]), 0, load(pointer_f32(args[0]), 0, 8) + 1.0)\n"
    )
    return Kernel("step", "numba", source, "step", (KernelParam("A", F32), KernelParam("B", F32, access="w")))


def chain(steps: int, parallel: bool = True) -> Executable:
    """`steps` tiny kernel calls with a barrier after each."""
    call = CallKernel(0, (Input(0), Output(0)), parallel)
    spec = [TensorSpec(name, F32, (8,)) for name in "xy"]
    body = (call, Barrier()) * steps
    return Executable("chain", "cpu", (spec[0],), (spec[1],), (), (), (step_kernel(),), body)


def micro_kernel(rows: int, vectors: int, lanes: int) -> str:
    """C[rows, vectors * lanes] = packed A times packed B over K, all accumulators in registers, repeated R times."""
    t = f"f32x{lanes}"
    width = vectors * lanes
    lines = [
        f"from minitvm.machines.simd.vectors.simd import broadcast, {t}, fma, load, pointer_f32, store",
        "def micro(args, thread, threads):",
        "    A, B, C = pointer_f32(args[0]), pointer_f32(args[1]), pointer_f32(args[2])",
        "    for _ in range(args[4]):",
        *(f"        c{i}_{j} = {t}(0.0)" for i in range(rows) for j in range(vectors)),
        "        for k in range(args[3]):",
        *(f"            b{j} = load(B, k * {width} + {j * lanes}, {lanes})" for j in range(vectors)),
    ]
    for i in range(rows):
        lines.append(f"            a = broadcast(A[k * {rows} + {i}], {lanes})")
        lines += [f"            c{i}_{j} = fma(a, b{j}, c{i}_{j})" for j in range(vectors)]
    lines += [
        f"        store(C, {i * width + j * lanes}, c{i}_{j})" for i in range(rows) for j in range(vectors)
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def seconds(run: Callable[[], Any], rounds: int = 15, repeat: int = 1) -> float:
    """Median seconds of one `run()`."""
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeat):
            run()
        samples.append((time.perf_counter() - start) / repeat)
    return median(samples)


def show(what: str, value: float, unit: str, target: str = "") -> None:
    print(f"  {what:<58}{value:>10.2f} {unit:<8}{target}")


def calls() -> None:
    for threads in sorted({1, min(2, len(available_cores())), len(available_cores())}):
        calls_with(threads)
    x = np.zeros(8, np.float32)
    alone = GraphModule(chain(1001, parallel=False), 1)
    show("a sequential step", 1e3 * seconds(lambda: alone(x)), "us")


def calls_with(threads: int) -> None:
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    module, function = GraphModule(chain(1), threads), Function(chain(1), threads)
    show(f"module(x), one kernel, {threads} threads", 1e6 * seconds(lambda: module(x), repeat=500), "us", "<= 20")
    show(f"function(x, y), {threads} threads", 1e6 * seconds(lambda: function(x, y), repeat=500), "us", "<= 20")
    if threads == 1:
        return
    long = GraphModule(chain(1001), threads)
    gap = seconds(lambda: long(x), 31) - seconds(lambda: module(x), 31)
    show(f"a parallel step and its barrier, {threads} threads", gap * 1e3, "us", "< 1")
    time.sleep(0.1)
    start = time.perf_counter()
    module(x)
    show(f"a call that finds the workers parked, {threads} threads", 1e6 * (time.perf_counter() - start), "us")


def compiling() -> None:
    lanes = 16 if _has("avx512f") else 8
    rows, vectors = (14, 2) if lanes == 16 else (6, 2)
    source = micro_kernel(rows, vectors, lanes)
    compile_kernel("def warm(args, thread, threads):\n    pass\n", "warm")
    name = f"{rows} x {vectors * lanes} micro-kernel"
    show(f"compile a {name}", 1e3 * seconds(lambda: compile_kernel(source, "micro"), 3), "ms", "< 1000")
    small = step_kernel()
    show("compile a tiny kernel", 1e3 * seconds(lambda: compile_kernel(small.source, small.entry), 5), "ms")
    code = compile_kernel(source, "micro")
    show("load object code", 1e3 * seconds(lambda: load_kernel(code, "micro"), 9), "ms")
    statement = "import minitvm.machines.cpu.runtime.compiler, minitvm.machines.simd.vectors.simd"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    run = [sys.executable, "-c", statement]
    start = seconds(lambda: subprocess.run(run, env=environment, check=True), 3)
    show("a compiling process starts (imports Numba)", 1e3 * start, "ms")

    depth, repeats = 256, 4000
    rng = np.random.default_rng(0)
    a = rng.standard_normal((depth, rows), dtype=np.float32)
    b = rng.standard_normal((depth, vectors * lanes), dtype=np.float32)
    c = np.empty((rows, vectors * lanes), np.float32)
    words = np.array([a.ctypes.data, b.ctypes.data, c.ctypes.data, depth, repeats], np.int64)
    kernel = load_kernel(code, "micro")
    native = native_call(kernel.address)
    taken = seconds(lambda: native(words.ctypes.data, 0, 1), 9)
    np.testing.assert_allclose(c, a.T @ b, rtol=1e-4, atol=1e-4)
    show(f"{name}, one core", 2 * a.size * vectors * lanes * repeats / taken / 1e9, "GFLOP/s")
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return
    with threadpool_limits(1):
        for n in (512, 1024):
            m = rng.standard_normal((n, n), dtype=np.float32)
            show(f"NumPy {n}^3 matmul, one core", 2 * n**3 / seconds(lambda m=m: m @ m, 5) / 1e9, "GFLOP/s")


def _has(feature: str) -> bool:
    import llvmlite.binding as llvm

    return bool(llvm.get_host_cpu_features().get(feature))


def main() -> None:
    """Print the table."""
    print("\nruntime overhead")
    calls()
    compiling()


if __name__ == "__main__":
    main()
