"""Operators without a rule of their own, tuned from generated sketches only, beside ONNX Runtime.

    python -m benchmarks.sketches [nhwc grouped dilated volume transposed] [--budget 60] [--records FOLDER] [--timed]
        [--threads N]

Each starts with an empty database, or with what FOLDER/NAME.db has; `--timed` only times that. The convolution in NHWC
is beside ONNX Runtime's in NCHW, without the changes of layout that it would need.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm import te, topi
from minitvm.interop.to_onnx import to_onnx
from minitvm.records.database import Database
from minitvm.records.record import target_key
from minitvm.strategy import decided
from minitvm.target import Target
from minitvm.tune.network import tune_tasks
from minitvm.tune.task import Task, function_task

from . import harness, peers

# operator, shapes of data and weights, attributes
OPERATORS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "nhwc": ("conv2d", (1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "grouped": ("conv2d", (1, 128, 56, 56), (128, 32, 3, 3), {"padding": 1, "groups": 4}),
    "dilated": ("conv2d", (1, 128, 28, 28), (128, 128, 3, 3), {"padding": 2, "dilation": 2}),
    "volume": ("conv3d", (1, 16, 16, 56, 56), (32, 16, 3, 3, 3), {"padding": 1}),
    "transposed": ("conv2d_transpose", (1, 128, 28, 28), (128, 64, 4, 4), {"padding": 1, "strides": 2}),
}
LAYOUT = {"nhwc": ("NHWC", "HWIO", (0, 2, 3, 1), (2, 3, 1, 0))}
SKETCHES = ("sketch",)
WANTED = 1.0


def task_of(name: str) -> Task:
    """The operator as a function of level 3, to be tuned from sketches."""
    op, data_shape, weight_shape, attrs = OPERATORS[name]
    layout: dict[str, Any] = {}
    if name in LAYOUT:
        data_layout, kernel_layout, order, weight_order = LAYOUT[name]
        data_shape, weight_shape = _ordered(data_shape, order), _ordered(weight_shape, weight_order)
        layout = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    data, weight = te.placeholder(data_shape, name="data"), te.placeholder(weight_shape, name="weight")
    result = getattr(topi, op)(data, weight, **layout, **attrs)
    return function_task(te.create_prim_func([data, weight, result], name="main"), Target("cpu"), SKETCHES)


def _ordered(shape: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(shape[axis] for axis in order)


def measured(name: str, budget: float, records: str, only_timed: bool, threads: int | None) -> harness.Row:
    """The best of a budget beside ONNX Runtime, after a check that they agree."""
    import time

    task = task_of(name)
    with Database.open(records) as database:
        if not only_timed:
            tuned = tune_tasks([task], database, time.monotonic(), budget, runs=10**12)
            print(f"{name}: {tuned.searches[0].trials if tuned.searches else 0} candidates in {tuned.seconds:.0f} s")
        best = database.best(task.key, target_key(task.target))
    if best is None:
        raise RuntimeError(f"{name}: nothing was measured in {budget:g} s")
    print(f"  {best.decision}")
    function = minitvm.build(decided(task.func, task.target, best.decision).schedule.func, task.target, threads)
    op, data_shape, weight_shape, attrs = OPERATORS[name]
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal(shape, dtype=np.float32) for shape in (data_shape, weight_shape))
    b = minitvm.graph.GraphBuilder(name)
    graph = b.build(b.op(f"nn.{op}", b.input("data", data_shape), weight, **attrs))
    run = peers.onnx_runtime(to_onnx(graph), {"data": data}, function.threads)
    expected = peers.output_of(run())
    orders = LAYOUT[name][2:] if name in LAYOUT else None
    if orders is not None:
        data, weight, expected = (
            np.ascontiguousarray(array.transpose(order))
            for array, order in zip((data, weight, expected), (orders[0], orders[1], orders[0]), strict=True)
        )
    result = np.zeros(expected.shape, np.float32)
    function(data, weight, result)
    harness.require_agreement(name, "ONNX Runtime", result, expected)
    medians = harness.interleaved(
        {"ours": lambda: function(data, weight, result), "peer": run}, at_least=0.02, threads=function.threads
    )
    return harness.Row(name, function.threads, medians["ours"], medians["peer"], "ONNX Runtime", WANTED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune and time."""
    parser = argparse.ArgumentParser(prog="benchmarks.sketches", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("operators", nargs="*", default=list(OPERATORS))
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--threads", type=int, help="of what is timed; tuning takes all cores")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.records or Path(temporary)
        rows = [
            measured(name, options.budget, str(folder / f"{name}.db"), options.timed, options.threads)
            for name in options.operators
        ]
    harness.table(f"from sketches only, {options.budget:g} s each", rows)
    mean = harness.geometric_mean([row.ratio for row in rows])
    print(f"  geometric mean: {mean:.2f} (wanted {WANTED})")
    harness.save("sketches", rows, geometric_mean=mean, budget=options.budget)


if __name__ == "__main__":
    main()
