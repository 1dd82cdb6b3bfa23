"""How well a machine repeats what it measured: the share of candidates that a second measurement finds within 25 %.

    python -m benchmarks.repeated [grouped transposed ...] [--candidates 6] [--rounds 5] [--pause 20]

Of each operator some sketches are compiled once and measured in rounds, as the tuner measures, with pauses between:
in turn with another program, the first of them. The fastest run of each is compared, and beside that what the same runs
say of the sketch alone. A formula cannot be within 25 % of what is measured more often than what a sketch takes in the
middle is.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import combinations
from statistics import median

import numpy as np

from minitvm.records.record import OK
from minitvm.strategy import Decision
from minitvm.target import Target
from minitvm.tune.measure import Runner
from minitvm.tune.prepare import artifacts, checked
from minitvm.tune.space import Space
from minitvm.tune.task import function_task

from .predicted import WITHIN
from .sketches import OPERATORS, SKETCHES, function_of

_CHEAPEST = 60  # candidates of an operator, by prediction, from which some are drawn


def measured(name: str, count: int, rounds: int, pause: float, runner: Runner) -> tuple[np.ndarray, np.ndarray]:
    """Of some sketches of an operator by (round, candidate): times as long as another one takes, and seconds."""
    task = function_task(function_of(name), Target("cpu"), SKETCHES)
    known = Space(task).yielded[:_CHEAPEST]
    drawn = np.random.default_rng(0).choice(len(known), min(count + 1, len(known)), replace=False)
    lowered = checked([(task, Decision.of(known[i])) for i in drawn])
    asked = [(task, one, runner.folder / f"{name}-{p}.mtvm") for p, one in enumerate(lowered) if one.outcome == OK]
    faults = artifacts(asked, runner.key)
    paths = [path for (_, _, path), fault in zip(asked, faults, strict=True) if not fault]
    other, *paths = paths
    table = []
    for number in range(rounds):
        time.sleep(pause if number else 0.0)
        answers = [runner.run(task, [path, other], runner.folder / name) for path in paths]
        table.append([list(map(min, one.seconds)) if one.outcome == OK else [float("nan")] * 2 for one in answers])
    own, beside = np.moveaxis(np.array(table), 2, 0)
    return own / beside, own


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in rounds, and print how far they agree."""
    parser = argparse.ArgumentParser(prog="benchmarks.repeated", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("operators", nargs="*", default=list(OPERATORS))
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pause", type=float, default=20.0)
    options = parser.parse_args(arguments)
    print(f"{'':<24}{'candidates':>12}{'within 25 % of their median':>29}{'two rounds within 25 %':>24}"
          f"{'median':>10}{'greatest':>10}   (of the ratios of two)")  # fmt: skip
    tables: dict[str, list[np.ndarray]] = {"beside another": [], "alone": []}
    with Runner() as runner:
        for name in options.operators:
            both = measured(name, options.candidates, options.rounds, options.pause, runner)
            for (how, found), table in zip(tables.items(), both, strict=True):
                found.append(table)
                _print(f"{name} {how}", table)
    for how, found in tables.items():
        _print(f"all {how}", np.hstack(found))


def _print(name: str, table: np.ndarray) -> None:
    """How far the rounds of a table (round, candidate) agree."""
    finite = [pair for column in table.T for pair in combinations(column, 2) if np.isfinite(pair).all()]
    pairs = [float(max(pair) / min(pair)) for pair in finite]
    ratios = (table / np.nanmedian(table, axis=0)).ravel()
    away = [float(max(ratio, 1 / ratio)) for ratio in ratios if np.isfinite(ratio)]
    if not pairs:
        return
    near, alike = (sum(ratio <= WITHIN for ratio in some) / len(some) for some in (away, pairs))
    print(
        f"{name:<24}{table.shape[1]:>12}{near:>29.0%}{alike:>24.0%}{median(pairs):>10.2f}{max(pairs):>10.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
