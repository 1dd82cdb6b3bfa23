"""What a candidate costs before it is compiled, in seconds of one core.

    python -m benchmarks.candidates [resnet18 ...] [--operators N]

All candidates that are known of an operator are ranked, a batch of them is scheduled and lowered. The mean is of what
both took over the number that is known.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from minitvm import models
from minitvm.records.database import Database
from minitvm.tune import Task, extract
from minitvm.tune.measure import Runner
from minitvm.tune.prepare import check_request
from minitvm.tune.search import BATCH, CHECKED, Search

WANTED = 0.010


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """Of the processor, and what came of it."""
    start = time.process_time()
    result = run()
    return time.process_time() - start, result


def measured(task: Task) -> None:
    """One operator, as its first batch has it."""
    with tempfile.TemporaryDirectory() as folder, Database.open(f"{folder}/records.db") as database, Runner() as runner:
        search = Search(task, database, runner)
        known, candidates = seconds(lambda: search.space.yielded)
        if not candidates:
            return
        drafted, batch = seconds(lambda: search.draft(int(CHECKED * BATCH)))
    requests = [
        {"func": task.text, "target": task.target.to_json(), "decision": one.to_json(), "built": ""} for one in batch
    ]
    checked, _ = seconds(lambda: [check_request(json.dumps(one).encode()) for one in requests])
    count = len(candidates)
    times = known / count, drafted / count, checked / len(batch), (known + drafted + checked) / count
    print(f"  {task.name:<44}{count:>6}", *(f"{one * 1e3:>8.2f}" for one in times), flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the networks given."""
    parser = argparse.ArgumentParser(prog="benchmarks.candidates", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("networks", nargs="*", default=["resnet18"])
    parser.add_argument("--operators", type=int, help="of each network, the first ones")
    options = parser.parse_args(arguments)
    for name in options.networks:
        print(f"{name}, milliseconds\n  {'':<44}{'known':>6}{'listed':>9}{'drafted':>9}{'checked':>9}{'mean':>9}"
              f"  (wanted {WANTED * 1e3:.0f})")  # fmt: skip
        for task in extract(models.get(name))[: options.operators]:
            measured(task)


if __name__ == "__main__":
    main()
