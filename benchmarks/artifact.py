"""Running from a saved artifact in a fresh process: time to load, and resident memory beside ONNX Runtime's.

    python -m benchmarks.artifact [resnet18 ...]

Each figure is the median over fresh processes, which take turns. "load" begins before the first import and ends when
the module can be called; "ready" begins when the process is started, so that Python's own start is in it; "CPU" is what
the process took of all cores until then, which other programs on the machine change little. "peak" (VmHWM of
/proc/self/status after ten calls) is all that was ever resident: the interpreter, libraries, and the pages of mapped
files. "network" is what the network itself keeps: the resident size (VmRSS) after ten calls less that before the model
is loaded, when the libraries have been imported. Weights, the memory of a run and compiled kernels are in it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.tools import models

from . import harness

ROUNDS = 7
LOAD_WANTED = 0.5  # seconds, imports included
MEMORY_WANTED = 1.0  # of ONNX Runtime's, at its peak and for the network alone

_OURS = (
    # the package itself imports them when asked
    "import minitvm.runtime.artifact.load, minitvm.machines.cpu.runtime.program",
    """
module = minitvm.runtime.load(path, threads)
def call(inputs):
    y = module(**inputs)
    return y[0] if isinstance(y, tuple) else y
""",
)
_THEIRS = (
    "import onnxruntime",
    """
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
def call(inputs):
    return session.run(None, inputs)[0]
""",
)
_PROCESS = """
import time
begin = time.perf_counter()
import sys
path, threads, data, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
def resident(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))
import numpy
IMPORT
before = resident("VmRSS")
LOAD
loaded, ready, cpu = time.perf_counter() - begin, time.time(), time.process_time()
inputs = dict(numpy.load(data))
begin = time.perf_counter()
y = call(inputs)
first = time.perf_counter() - begin
for _ in range(9):
    y = call(inputs)
peak, network = resident("VmHWM"), resident("VmRSS") - before
numpy.save(out, y)
print(loaded, ready, cpu, first, peak, network)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of fresh processes: seconds to load, from start to ready, of CPU until then, of the first call; MiB."""

    load: float
    ready: float
    cpu: float
    first: float
    peak: float
    network: float


def _measured(library: tuple[str, str], arguments: list[str]) -> Figures:
    imports, load = library
    program = _PROCESS.replace("IMPORT", imports).replace("LOAD", load)
    paths = os.pathsep.join(p for p in (str(Path(__file__).parent.parent), *sys.path) if p)
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    load, ready, cpu, first, peak, network = map(float, done.stdout.split())
    return Figures(load, ready - start, cpu, first, peak, network)


def beside(name: str, threads: int, folder: Path) -> dict[str, Figures]:
    """One network from its artifact, and from its ONNX file in ONNX Runtime, after a check that they agree."""
    graph = models.get(name)
    ours, theirs, data = folder / f"{name}.mtvm", folder / f"{name}.onnx", folder / f"{name}.npz"
    if not ours.exists():
        minitvm.build(graph).export(ours)
        theirs.write_bytes(to_onnx(graph).SerializeToString())
        np.savez(data, **models.example_inputs(graph))  # type: ignore[arg-type]
    kinds = {"minitvm": (_OURS, ours), "ONNX Runtime": (_THEIRS, theirs)}
    samples: dict[str, list[Figures]] = {who: [] for who in kinds}
    for _ in range(ROUNDS):
        for who, (library, path) in kinds.items():
            out = folder / f"{who[0]}.npy"
            samples[who].append(_measured(library, [str(path), str(threads), str(data), str(out)]))
    harness.require_agreement(name, "ONNX Runtime", np.load(folder / "m.npy"), np.load(folder / "O.npy"))
    return {
        who: Figures(*map(statistics.median, zip(*(asdict(f).values() for f in of)))) for who, of in samples.items()
    }


def main(names: list[str] | None = None) -> None:
    """Measure the networks given, or all of them, with two threads."""
    print("\nsaved artifacts, fresh processes; memory beside ONNX Runtime's")
    heads = "".join(f"{head:>9}" for head in ("load", "ready", "CPU", "first"))
    print(f"  {'':<16}{heads}  ONNX Runtime: load{'peak':>25}{'network':>25}")
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or models.ALL:
            figures = beside(name, 2, Path(folder))
            ours, theirs = figures["minitvm"], figures["ONNX Runtime"]
            memory = [(ours.peak, theirs.peak), (ours.network, theirs.network)]
            least = all(own <= MEMORY_WANTED * peer for own, peer in memory)
            short = "" if ours.load <= LOAD_WANTED and least else "  short"
            seconds = "".join(f"{value:>7.2f} s" for value in (ours.load, ours.ready, ours.cpu, ours.first))
            sizes = "".join(f"{own:>8.0f} {peer:>6.0f} MiB {own / peer:>5.2f}" for own, peer in memory)
            print(f"  {name:<16}{seconds}{theirs.load:>18.2f} s{sizes}{short}", flush=True)
            records += [{"network": name, "who": who, **asdict(f)} for who, f in figures.items()]
    harness.save("artifact", [], records=records, load_wanted=LOAD_WANTED, memory_wanted=MEMORY_WANTED)


if __name__ == "__main__":
    main(sys.argv[1:])
