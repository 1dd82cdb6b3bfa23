"""Light ResNet-50 with seeded weights: run time against ONNX Runtime, and what compiling it takes.

Run `python -m benchmarks.resnet50`.
"""

from __future__ import annotations

import statistics
import time

from . import builds, harness, peers

WANTED = 0.95  # as of the networks of `benchmarks.networks`


def run_time(threads: int) -> harness.Row:
    """Beside ONNX Runtime."""
    import minitvm
    from minitvm.tools.models import light

    model = light.seeded("resnet50")
    inputs = light.example_inputs(model)
    module = minitvm.build(model, threads=threads)
    peer = "ONNX Runtime"
    others = {peer: peers.onnx_runtime(model, inputs, threads)}
    medians = harness.beside("resnet50", lambda: module(**inputs), others, rounds=21, threads=threads)
    return harness.Row("resnet50", threads, medians["ours"], medians[peer], peer, WANTED)


def lowering_seconds() -> float:
    """Median seconds of scheduling and lowering one distinct operator of the network, source included."""
    from minitvm.build import optimize_graph, to_graph
    from minitvm.lowering import lower_function, schedule_function, to_units
    from minitvm.target import Target
    from minitvm.tools.models import light

    target = Target("cpu")
    units = to_units(optimize_graph(to_graph(light.seeded("resnet50")), target))
    samples = []
    for func in dict.fromkeys(unit.func for unit in units):
        start = time.perf_counter()
        lower_function(schedule_function(func, target), target)
        samples.append(time.perf_counter() - start)
    return statistics.median(samples)


def main() -> None:
    (cold, warm), lowering = builds.seconds("light.seeded('resnet50')"), lowering_seconds()
    rows = [run_time(threads) for threads in (1, 2)]
    harness.table("ResNet-50 against ONNX Runtime", rows)
    print(f"  compile, cold {cold:.1f} s (at most {builds.WANTED:.0f}), warm {warm:.1f} s (at most 5)")
    print(f"  lowering of one operator, median {lowering * 1e3:.0f} ms (at most 100)")
    harness.save("resnet50", rows, compile_seconds={"cold": cold, "warm": warm}, lowering_seconds=lowering)


if __name__ == "__main__":
    main()
