"""The TFLite models of three packages compared with LiteRT, whose XNNPACK delegate is on, with one thread each.

    python -m benchmarks.tflite [micro/okay_nabu open/alexa ...]

A call copies arrays in and results out: `set_tensor`, `invoke` and `get_tensor` in LiteRT, and `module(*arrays)` here.
The second comparison leaves the arrays in place: `invoke` alone, and `module(*arrays, out=results)`. Both programs run
in this process and take turns. The clock counts the time of this thread, so that other programs disturb it little.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import minitvm
from minitvm.tools.models import wheels

from . import harness, peers

# Models whose files leave sizes open.
SHAPES = {"open/melspectrogram": {"input": (1, 1760)}, "open/embedding_model": {"input_1": (1, 76, 32, 1)}}
SETS = {"float": 1.1, "int8": 1.0}  # the geometric mean that each set should reach
_ROUNDS, _AT_LEAST = 31, 0.002  # at least 2 ms in one turn
_TRANSFERS = "set, invoke, get"


def _set_of(name: str) -> str:
    return "int8" if name.startswith("micro/") else "float"


def _drawn(details: list[dict[str, Any]]) -> list[np.ndarray]:
    """Arrays for the inputs: normal floats, or integers of the whole range."""
    rng = np.random.default_rng(0)
    arrays = []
    for detail in details:
        dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
        if dtype.kind == "f":
            arrays.append(rng.standard_normal(shape).astype(dtype))
        else:
            limits = np.iinfo(dtype)
            arrays.append(rng.integers(limits.min, limits.max, shape, dtype, endpoint=True))
    return arrays


def _require_agreement(name: str, results: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """RuntimeError unless floats agree as in `harness`, and bytes within one step."""
    for array, other in zip(results, expected, strict=True):
        if array.dtype.kind == "f":
            harness.require_agreement(name, "LiteRT", array, other)
        elif np.abs(array.astype(int) - other.astype(int)).max() > 1:
            raise RuntimeError(f"{name}: minitvm and LiteRT differ by more than one step: nothing to measure")


def measured(name: str) -> list[harness.Row]:
    """One model compared with LiteRT: a call with its copies, and the run alone."""
    shapes = SHAPES.get(name, {})
    peer = peers.litert(wheels.path(name), list(shapes.values()))
    module = minitvm.build(wheels.path(name), shapes=shapes, threads=1)
    arrays = _drawn(peer.get_input_details())
    indices = [detail["index"] for detail in peer.get_input_details()]
    outputs = [detail["index"] for detail in peer.get_output_details()]

    def call() -> list[np.ndarray]:
        for index, array in zip(indices, arrays, strict=True):
            peer.set_tensor(index, array)
        peer.invoke()
        return [peer.get_tensor(index) for index in outputs]

    first = module(*arrays)
    results = list(first) if isinstance(first, tuple) else [first]
    _require_agreement(name, results, call())
    runs = {
        "call": lambda: module(*arrays),
        "peer's call": call,
        "run": lambda: module(*arrays, out=results),
        "peer's run": peer.invoke,
    }
    medians = harness.interleaved(runs, _ROUNDS, at_least=_AT_LEAST, clock=time.thread_time)
    return [
        harness.Row(name, 1, medians["call"], medians["peer's call"], f"LiteRT, {_TRANSFERS}", SETS[_set_of(name)]),
        harness.Row(name, 1, medians["run"], medians["peer's run"], "LiteRT, invoke", 0.0),
    ]


def main(names: list[str] | None = None) -> None:
    """Measure the models given, or all."""
    rows = [row for name in names or wheels.NAMES for row in measured(name)]
    harness.table("TFLite models", rows)
    means = {}
    for kind, least in SETS.items():
        for column in dict.fromkeys(row.peer_name for row in rows):
            ratios = [row.ratio for row in rows if _set_of(row.name) == kind and row.peer_name == column]
            if ratios:
                means[f"{kind}, {column}"] = harness.geometric_mean(ratios)
                print(f"  geometric mean, {kind}, {column}: {harness.geometric_mean(ratios):.2f} (wanted {least})")
    harness.save("tflite", rows, geometric_means=means)


if __name__ == "__main__":
    main(sys.argv[1:])
