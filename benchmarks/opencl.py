"""OpenCL on this machine's device (PoCL, without a GPU) beside our own CPU kernels: C1 to C12, D1 to D9.

    python -m benchmarks.opencl [C2 D1 ...]

A floor against nonsense: on one and the same processor, OpenCL's kernels should not fall far behind. Both use two
threads. Inputs and results lie on the device: OpenCL takes no others in place but those that begin at a multiple of 64
bytes.
"""

from __future__ import annotations

import sys

import numpy as np

import minitvm
from minitvm.machines.opencl.runtime import devices

from . import harness
from .layers import WANTED, layer

AT_LEAST = 0.5


def measured(name: str) -> harness.Row:
    """One layer, after a check that both agree."""
    graph, inputs = layer(name)
    on_device = minitvm.build(graph, target="opencl -device=pocl")
    ours = minitvm.build(graph, threads=2)
    found, wanted = (np.asarray(module(**inputs)) for module in (on_device, ours))
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * float(np.abs(wanted).max()))
    there = {key: on_device.to_device(array) for key, array in inputs.items()}
    medians = harness.interleaved(
        {"device": lambda: on_device(out="device", **there), "cpu": lambda: ours(**inputs)}, at_least=0.005, threads=2
    )
    return harness.Row(name, 2, medians["device"], medians["cpu"], "minitvm, cpu", AT_LEAST)


def main(names: list[str] | None = None) -> None:
    """Measure the layers given, or all of them."""
    rows = [measured(name) for name in names or WANTED]
    harness.table(f"OpenCL on {devices.current().name}", rows)
    means = {}
    for kind in "CD":
        ratios = [row.ratio for row in rows if row.name.startswith(kind)]
        if ratios:
            means[kind] = harness.geometric_mean(ratios)
            print(f"  geometric mean of {kind}: {means[kind]:.2f} (wanted {AT_LEAST})")
    harness.save("opencl", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
