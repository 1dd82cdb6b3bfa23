"""Running from a saved artifact in a fresh process: time to load, and peak resident size beside ONNX Runtime's.

    python -m benchmarks.artifact [resnet18 ...]

Each figure is the median over fresh processes, which take turns. "load" begins before the first import and ends when
the module can be called; "ready" begins when the process is started, so that Python's own start is in it; "CPU" is what
the process took of all cores until then, which other programs on the machine change little. The peak (VmHWM of
/proc/self/status) is read after ten calls, and has everything in it that was ever resident: the interpreter,
libraries, and the pages of mapped files.
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
from minitvm import models
from minitvm.interop.to_onnx import to_onnx

from . import harness

ROUNDS = 7
LOAD_WANTED = 0.5  # seconds, imports included
PEAK_WANTED = 1.0  # of ONNX Runtime's

_OURS = """
import minitvm.runtime
module = minitvm.runtime.load(path, threads)
def call(x):
    return module(x)
"""
_THEIRS = """
import onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
def call(x):
    return session.run(None, {session.get_inputs()[0].name: x})[0]
"""
_PROCESS = """
import time
begin = time.perf_counter()
import sys
path, threads, data, out = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
LIBRARY
loaded, ready, cpu = time.perf_counter() - begin, time.time(), time.process_time()
import numpy
x = numpy.load(data)
begin = time.perf_counter()
y = call(x)
first = time.perf_counter() - begin
for _ in range(9):
    y = call(x)
numpy.save(out, y)
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(loaded, ready, cpu, first, peak / 1024)
"""


@dataclass(frozen=True, slots=True)
class Figures:
    """Medians of fresh processes: seconds to load, from start to ready, of CPU until then, of the first call; MiB."""

    load: float
    ready: float
    cpu: float
    first: float
    peak: float


def _measured(library: str, arguments: list[str]) -> Figures:
    program = _PROCESS.replace("LIBRARY", library)
    paths = os.pathsep.join(p for p in (str(Path(__file__).parent.parent), *sys.path) if p)
    start = time.time()
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    load, ready, cpu, first, peak = map(float, done.stdout.split())
    return Figures(load, ready - start, cpu, first, peak)


def beside(name: str, threads: int, folder: Path) -> dict[str, Figures]:
    """One network from its artifact, and from its ONNX file in ONNX Runtime, after a check that they agree."""
    graph = models.get(name)
    ours, theirs, data = folder / f"{name}.mtvm", folder / f"{name}.onnx", folder / f"{name}.npy"
    if not ours.exists():
        minitvm.build(graph).export(ours)
        theirs.write_bytes(to_onnx(graph).SerializeToString())
        (x,) = models.example_inputs(graph).values()
        np.save(data, x)
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
    print("\nsaved artifacts, fresh processes")
    heads = ["load", "ready", "CPU", "first"]
    print(f"  {'':<16}{''.join(f'{head:>9}' for head in heads)}{'peak':>11}  ONNX Runtime: load{'peak':>11}   ratio")
    records: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names or models.NETWORKS:
            figures = beside(name, 2, Path(folder))
            ours, theirs = figures["minitvm"], figures["ONNX Runtime"]
            short = "" if ours.load <= LOAD_WANTED and ours.peak <= PEAK_WANTED * theirs.peak else "  short"
            seconds = "".join(f"{value:>7.2f} s" for value in (ours.load, ours.ready, ours.cpu, ours.first))
            peer = f"{theirs.load:>16.2f} s{theirs.peak:>7.0f} MiB"
            print(f"  {name:<16}{seconds}{ours.peak:>7.0f} MiB{peer}{ours.peak / theirs.peak:>8.2f}{short}", flush=True)
            records += [{"network": name, "who": who, **asdict(f)} for who, f in figures.items()]
    harness.save("artifact", [], records=records, load_wanted=LOAD_WANTED, peak_wanted=PEAK_WANTED)


if __name__ == "__main__":
    main(sys.argv[1:])
