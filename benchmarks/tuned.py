"""The networks of `minitvm.tools.models`, tuned and untuned, by turns in one process.

    python -m benchmarks.tuned [resnet18 ...] [--budget 60] [--records FOLDER] [--timed] [--operators]

Each network is tuned for so many seconds, from an empty database or with what FOLDER/NAME.db has; then both builds run
in turn. `--timed` only times what the folder has; `--operators` also shows what the records say of each operator beside
what it takes in the network.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import minitvm
from minitvm.records import lookup
from minitvm.records.database import Database
from minitvm.records.record import target_key
from minitvm.tools import models
from minitvm.tune import extract, tune

from . import harness

NETWORKS = ("resnet18", "mobilenet_v2", "squeezenet1_1")
WANTED, LEAST = 1.08, 0.99
ROUNDS = 41


def measured(name: str, budget: float, records: str, only_timed: bool, operators: bool) -> harness.Row:
    """A network tuned, and then untuned (the peer) and tuned by turns."""
    graph = models.get(name)
    inputs = models.example_inputs(graph)
    if not only_timed:
        tuned = tune(graph, budget=budget, db=records, runs=10**12)
        print(f"{name}: {len(tuned.searches)} operators begun, {tuned.waiting} not; "
              f"{sum(search.trials for search in tuned.searches)} candidates in {tuned.seconds:.0f} s ({tuned.ended}); "
              f"by the records {tuned.untuned_seconds / (tuned.tuned_seconds or 1.0):.3f} times as fast")  # fmt: skip
    with_records, without = minitvm.build(graph, tuned=records), minitvm.build(graph, tuned=None)
    _require_agreement(name, with_records(**inputs), without(**inputs))
    medians = harness.interleaved(
        {"tuned": lambda: with_records(**inputs), "untuned": lambda: without(**inputs)},
        ROUNDS,
        threads=with_records.threads,
    )
    if operators:
        _operators(graph, records, {"untuned": without, "tuned": with_records}, inputs)
    return harness.Row(name, with_records.threads, medians["tuned"], medians["untuned"], "untuned", LEAST)


def _require_agreement(name: str, found: Any, expected: Any) -> None:
    pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        harness.require_agreement(name, "the untuned one", np.asarray(one), np.asarray(other))


def _operators(graph: Any, records: str, modules: dict[str, Any], inputs: dict[str, Any]) -> None:
    """What tuning said of each operator whose schedule it changed, and what comes of it in the network."""
    tasks = {task.name: task for task in extract(graph)}
    with Database.open(records) as database:
        targets = {name: target_key(task.target) for name, task in tasks.items()}
        best = {name: database.best(task.key, targets[name]) for name, task in tasks.items()}
    times: dict[str, dict[str, list[float]]] = {which: defaultdict(list) for which in modules}
    for _ in range(5):
        for which, module in modules.items():
            for row in module.profile(**inputs).rows:
                times[which][row.operator].append(row.seconds)
    print(f"  {'':<52}{'uses':>5}{'by records':>12}{'in the network':>16}")
    for name, record in best.items():
        if record is None or record.untuned or record.gain < lookup.LEAST:
            continue
        seconds = {which: statistics.median(found.get(name, [float("nan")])) for which, found in times.items()}
        inside = seconds["untuned"] / seconds["tuned"]
        before = f"{record.baseline * 1e6:.0f} -> {record.time * 1e6:.0f} us"
        print(f"  {name:<52}{tasks[name].weight:>5}{record.gain:>12.3f}{inside:>16.3f}  {before}, in the network"
              f" {seconds['untuned'] * 1e6:.0f} -> {seconds['tuned'] * 1e6:.0f} us, {record.decision}")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune and time."""
    parser = argparse.ArgumentParser(prog="benchmarks.tuned", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--timed", action="store_true")
    parser.add_argument("--operators", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.records or Path(temporary)
        rows = [
            measured(name, options.budget, str(folder / f"{name}.db"), options.timed, options.operators)
            for name in options.networks
        ]
    harness.table(f"tuned beside untuned, {options.budget:g} s each", rows)
    mean = harness.geometric_mean([row.ratio for row in rows])
    print(f"  geometric mean: {mean:.3f} (wanted {WANTED})")
    harness.save("tuned", rows, geometric_mean=mean, budget=options.budget)


if __name__ == "__main__":
    main()
