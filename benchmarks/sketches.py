"""Operators without a rule of their own, tuned from generated sketches only, beside ONNX Runtime.

    python -m benchmarks.sketches [nhwc grouped dilated volume transposed ...] [--budget 60] [--records FOLDER]
        [--timed] [--threads N] [--functions]

Each is a model of one operator, whose graph goes through the usual passes (they split a transposed convolution into
plain ones); the functions that come of it are tuned. With `--functions` the operator is one function that no pass sees.
The convolution in NHWC always is, beside ONNX Runtime's in NCHW, without the changes of layout that it would need. Each
starts with an empty database, or with what FOLDER/NAME.db has; `--timed` only times that. Operators of HELD_OUT run if
they are named.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm import te, topi
from minitvm.frontends.onnx.export.to_onnx import to_onnx
from minitvm.records.database import Database
from minitvm.records.record import target_key
from minitvm.strategy import decided
from minitvm.target import Target
from minitvm.tir.nodes import PrimFunc
from minitvm.tune.network import tune_tasks
from minitvm.tune.space import Space
from minitvm.tune.task import Task, extract, function_task

from . import harness, peers

# operator, shapes of data and weights, attributes
OPERATORS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "nhwc": ("conv2d", (1, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}),
    "grouped": ("conv2d", (1, 128, 56, 56), (128, 32, 3, 3), {"padding": 1, "groups": 4}),
    "dilated": ("conv2d", (1, 128, 28, 28), (128, 128, 3, 3), {"padding": 2, "dilation": 2}),
    "volume": ("conv3d", (1, 16, 16, 56, 56), (32, 16, 3, 3, 3), {"padding": 1}),
    "transposed": ("conv2d_transpose", (1, 128, 28, 28), (128, 64, 4, 4), {"padding": 1, "strides": 2}),
}
# Others, with which no formula was made: their records say how well operators are predicted that nobody looked at.
HELD_OUT: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ("conv2d", (1, 64, 28, 28), (96, 64, 3, 3), {"padding": 1}),
    "strided": ("conv2d", (1, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "strides": 2}),
    "pointwise": ("conv2d", (1, 128, 28, 28), (256, 128, 1, 1), {}),
    "dilated3": ("conv2d", (1, 64, 40, 40), (64, 64, 3, 3), {"padding": 3, "dilation": 3}),
    "grouped5x5": ("conv2d", (1, 96, 40, 40), (96, 24, 5, 5), {"padding": 2, "groups": 4}),
    "transposed20": ("conv2d_transpose", (1, 96, 20, 20), (96, 48, 4, 4), {"padding": 1, "strides": 2}),
}
EVERY = {**OPERATORS, **HELD_OUT}
DATA, WEIGHT = (0, 2, 3, 1), (2, 3, 1, 0)  # the axes of NCHW in the order of NHWC, and of OIHW in that of HWIO
SKETCHES = ("sketch",)
WANTED = 1.0


def model_of(name: str) -> tuple[Any, np.ndarray]:
    """The operator as a model of its own with random weights, in NCHW, and an input for it."""
    op, data_shape, weight_shape, attrs = EVERY[name]
    rng = np.random.default_rng(0)
    data, weight = (rng.standard_normal(shape, dtype=np.float32) for shape in (data_shape, weight_shape))
    b = minitvm.graph.GraphBuilder(name)
    return b.build(b.op(f"nn.{op}", b.input("data", data_shape), weight, **attrs)), data


def function_of(name: str) -> PrimFunc:
    """The operator as a loop program, that in NHWC in the order of its axes."""
    op, data_shape, weight_shape, attrs = EVERY[name]
    if name == "nhwc":
        data_shape, weight_shape = (tuple(s[a] for a in o) for s, o in ((data_shape, DATA), (weight_shape, WEIGHT)))
        attrs = {**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    data, weight = te.placeholder(data_shape, name="data"), te.placeholder(weight_shape, name="weight")
    return te.create_prim_func([data, weight, getattr(topi, op)(data, weight, **attrs)], name="main")


def tasks_of(name: str, graph: Any, alone: bool) -> list[Task]:
    """What is tuned, by sketches alone: the functions of the model that reduce, or the operator `alone`."""
    if alone:
        return [function_task(function_of(name), Target("cpu"), SKETCHES)]
    tasks = [replace(task, rules=SKETCHES) for task in extract(graph)]
    return [task for task in tasks if Space(task).yielded]


def measured(
    name: str, budget: float, records: str, only_timed: bool, threads: int | None, alone: bool
) -> harness.Row:  # fmt: skip
    """The best of a budget beside ONNX Runtime, after a check that they agree."""
    graph, data = model_of(name)
    tasks = tasks_of(name, graph, alone)
    with Database.open(records) as database:
        if not only_timed:
            tuned = tune_tasks(tasks, database, time.monotonic(), budget, runs=10**12)
            print(f"{name}: {sum(one.trials for one in tuned.searches)} candidates in {tuned.seconds:.0f} s")
        found = [database.best(task.key, target_key(task.target)) for task in tasks]
    best = [record for record in found if record is not None]
    if not best:
        raise RuntimeError(f"{name}: nothing was measured in {budget:g} s")
    for record in best:
        print(f"  {record.decision}")
    if alone:
        (task,) = tasks
        function = minitvm.build(decided(task.func, task.target, best[0].decision).schedule.func, task.target, threads)
        weight, image = next(iter(graph.constants)).data, data
        shape = graph.nodes[-1].output.shape
        if name == "nhwc":
            weight, image = weight.transpose(WEIGHT).copy(), data.transpose(DATA).copy()
            shape = tuple(shape[axis] for axis in DATA)
        result = np.zeros(shape, "float32")
        threads = function.threads

        def ours() -> np.ndarray:
            function(image, weight, result)
            return result.transpose(0, 3, 1, 2) if name == "nhwc" else result
    else:
        # Here the best sketch is taken, whether or not a build would take another schedule than a sketch.
        with tempfile.TemporaryDirectory() as folder, Database.open(f"{folder}/taken.db") as taken:
            taken.add(replace(record, untuned=False, baseline=10 * record.time) for record in best)
            module = minitvm.build(graph, threads=threads, tuned=taken.url)
        threads = module.threads

        def ours() -> np.ndarray:
            return np.asarray(module(data))

    run = peers.onnx_runtime(to_onnx(graph), {"data": data}, threads)
    medians = harness.beside(name, ours, {"ONNX Runtime": run}, rounds=21, at_least=0.02, threads=threads)
    return harness.Row(name, threads, medians["ours"], medians["ONNX Runtime"], "ONNX Runtime", WANTED)


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune and time."""
    parser = argparse.ArgumentParser(prog="benchmarks.sketches", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("operators", nargs="*", default=list(OPERATORS))
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--functions", action="store_true", help="each operator as one function")
    parser.add_argument("--threads", type=int, help="of what is timed; tuning takes all cores")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.records or Path(temporary)
        rows = [
            measured(name, options.budget, str(folder / f"{name}.db"), options.timed, options.threads,
                     options.functions or name == "nhwc")
            for name in options.operators
        ]  # fmt: skip
    harness.table(f"from sketches only, {options.budget:g} s each", rows)
    mean = harness.geometric_mean([row.ratio for row in rows])
    print(f"  geometric mean: {mean:.2f} (wanted {WANTED})")
    harness.save("sketches", rows, geometric_mean=mean, budget=options.budget)


if __name__ == "__main__":
    main()
