"""Light ResNet-50 with seeded weights: run time against ONNX Runtime, and what compiling it takes.

Run `python -m benchmarks.resnet50`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

from . import harness, peers

WANTED = 0.95  # as of the networks of `benchmarks.networks`


def run_time(threads: int) -> harness.Row:
    """Beside ONNX Runtime."""
    import minitvm
    from minitvm.models import light

    model = light.seeded("resnet50")
    inputs = light.example_inputs(model)
    module = minitvm.build(model, threads=threads)
    peer = "ONNX Runtime"
    others = {peer: peers.onnx_runtime(model, inputs, threads)}
    medians = harness.beside("resnet50", lambda: module(**inputs), others, rounds=21, threads=threads)
    return harness.Row("resnet50", threads, medians["ours"], medians[peer], peer, WANTED)


def compile_seconds() -> dict[str, float]:
    """Seconds of build(), cold and warm, each in a process of its own with a kernel cache of its own."""
    program = (
        "import time, minitvm; from minitvm.models import light; model = light.seeded('resnet50');"
        "start = time.perf_counter(); minitvm.build(model, threads=2); print(time.perf_counter() - start)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "MINITVM_CACHE_DIR": cache}
        command = [sys.executable, "-c", program]
        times = [
            float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout) for _ in range(2)
        ]
    return {"cold": times[0], "warm": times[1]}


def lowering_seconds() -> float:
    """Median seconds of scheduling and lowering one distinct operator of the network, source included."""
    from minitvm.build import lower_function, optimize_graph, schedule_function, to_graph, to_units
    from minitvm.models import light
    from minitvm.target import Target

    target = Target("cpu")
    units = to_units(optimize_graph(to_graph(light.seeded("resnet50")), target))
    samples = []
    for func in dict.fromkeys(unit.func for unit in units):
        start = time.perf_counter()
        lower_function(schedule_function(func, target), target)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def main() -> None:
    compiling, lowering = compile_seconds(), lowering_seconds()
    rows = [run_time(threads) for threads in (1, 2)]
    harness.table("ResNet-50 against ONNX Runtime", rows)
    print(f"  compile, cold {compiling['cold']:.1f} s (at most 120), warm {compiling['warm']:.1f} s (at most 5)")
    print(f"  lowering of one operator, median {lowering * 1e3:.0f} ms (at most 100)")
    harness.save("resnet50", rows, compile_seconds=compiling, lowering_seconds=lowering)


if __name__ == "__main__":
    main()
