"""Networks as C, one thread, compared with our own kernels in the same process: speed, bits, code, compile time, arena.

    python -m benchmarks.c_export [squeezenet1_1 mobilenet_v2 ...]

Each network is exported (`minitvm.export.c`) and compiled by gcc with the flags of its Makefile, as a shared library.
A small function between it and Python fills in the arguments. Both have their memory on huge pages, and run on the same
inputs in turns. The times are those of the thread's CPU, which other programs change little.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm.executable.alignment import ALIGNMENT, address
from minitvm.export.c.interface import CTensor, Interface
from minitvm.export.c.project import project
from minitvm.export.folders import fill
from minitvm.machines.cpu.runtime.huge_pages import huge_empty
from minitvm.runtime import GraphModule
from minitvm.target import Target
from minitvm.target.isas import find_isa
from minitvm.tools import models

from . import harness

WANTED = 0.95  # of the speed of our own kernels
ROUNDS = 15
_FLAGS = ("-std=c11", "-Wno-psabi", "-ffp-contract=off", "-fPIC")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A network as a shared library: seconds of the C compiler, bytes of machine code and of the arena."""

    run: Any
    seconds: float
    code: int
    arena: int


def _shim(api: Interface) -> str:
    """The function that is called from Python: it fills in the arguments and runs the network."""
    lines = [
        '#include "net.h"',
        "int shim(void *const *inputs, void *const *outputs, void *arena, const void *weights)",
        "{",
    ]
    lines.append("    net_arguments a = {0};")
    for number, t in enumerate(api.inputs):
        place = f"inputs[{number}]" if isinstance(t, CTensor) else f"*(const {t.spec.dtype}_t *)inputs[{number}]"
        lines.append(f"    a.input.{t.name} = {place};")
    lines += [f"    a.output.{t.name} = outputs[{number}];" for number, t in enumerate(api.outputs)]
    lines += ["    (void)inputs, (void)arena, (void)weights;"]
    if api.arena_bytes != 0:
        lines += ["    a.arena = arena;", "    a.arena_bytes = NET_ARENA_BYTES;"]
    lines += [
        "#if NET_WEIGHTS_BYTES > 0",
        "    a.weights = weights;",
        "    a.weights_bytes = NET_WEIGHTS_BYTES;",
        "#endif",
    ]
    if api.states:
        lines += ["    static net_state state;", "    a.state = &state;"]
    return "\n".join([*lines, "    return net_run(&a);", "}", ""])


def _compiled(
    module: GraphModule, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray], folder: Path
) -> Compiled:
    """Export a module, compile it, and bind it to arrays."""
    names = [spec.name for spec in module.executable.inputs]
    fill(folder, project(module, weights="bin", inputs=dict(zip(names, arrays, strict=True))))
    api = Interface(module.executable, "net")
    (folder / "shim.c").write_text(_shim(api))
    flags = ("-O3", *find_isa(Target("cpu").isa).flags)
    start = time.perf_counter()
    subprocess.run(["gcc", *_FLAGS, *flags, "-c", "net.c"], cwd=folder, check=True)
    seconds = time.perf_counter() - start
    subprocess.run(["gcc", *_FLAGS, "-shared", "-o", "net.so", "shim.c", "net.o", "-lm"], cwd=folder, check=True)
    sizes = subprocess.run(["size", "net.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    library = ctypes.CDLL(str(folder / "net.so"))
    data = (folder / "net_weights.bin").read_bytes() if (folder / "net_weights.bin").exists() else b""
    weights = huge_empty(len(data), ALIGNMENT)
    weights[:] = np.frombuffer(data, np.uint8)
    arena_bytes = int(api.arena_bytes)  # type: ignore[arg-type]
    arena = huge_empty(arena_bytes, ALIGNMENT)
    tables = [(ctypes.c_void_p * max(1, len(a)))(*map(address, a)) for a in (arrays, results)]
    places = [ctypes.c_void_p(address(a)) for a in (arena, weights)]

    def run() -> None:
        status = library.shim(*tables, *places)
        if status != 0:
            raise RuntimeError(f"{module.executable.name} as C: status {status}")

    run.keeps = arena, weights  # type: ignore[attr-defined]
    return Compiled(run, seconds, int(sizes.splitlines()[1].split()[0]), arena_bytes)


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all of them."""
    rows, records = [], []
    print("\nnetworks as C, one thread, compared with our own kernels")
    print(f"  {'':<18}{'C':>11}{'kernels':>11}{'ratio':>7}{'bits':>7}{'code':>9}{'gcc':>8}{'arena':>10}")
    for name in names or models.ALL:
        graph = models.get(name)
        module = minitvm.build(graph, threads=1)
        arrays = [np.ascontiguousarray(a) for a in models.example_inputs(graph).values()]
        outputs = module(*arrays)
        expected = outputs if isinstance(outputs, tuple) else (outputs,)
        module.reset()
        results = [np.empty_like(array) for array in expected]
        with tempfile.TemporaryDirectory() as folder:
            program = _compiled(module, arrays, results, Path(folder) / "net")
        program.run()
        equal = all(a.tobytes() == b.tobytes() for a, b in zip(results, expected, strict=True))
        if not equal:
            for output, reference in zip(results, expected, strict=True):
                harness.require_agreement(name, "C", output, reference)
        medians = harness.interleaved(
            {"C": program.run, "kernels": lambda m=module, a=arrays: m(*a)},
            ROUNDS,
            at_least=0.02,
            clock=time.thread_time,
        )
        row = harness.Row(name, 1, medians["C"], medians["kernels"], "our kernels", WANTED)
        rows.append(row)
        records.append({"network": name, "equal": equal, "code": program.code, "seconds": program.seconds,
                        "arena": program.arena})  # fmt: skip
        verdict = "" if row.ratio >= WANTED and equal else "  short"
        print(
            f"  {name:<18}{row.ours * 1e3:>8.2f} ms{row.peer * 1e3:>8.2f} ms{row.ratio:>7.2f}"
            f"{'equal' if equal else 'differ':>7}{program.code / 1024:>6.0f} KB{program.seconds:>6.1f} s"
            f"{program.arena / 2**20:>6.1f} MiB{verdict}",
            flush=True,
        )
    harness.save("c_export", rows, records=records)


if __name__ == "__main__":
    main(sys.argv[1:])
