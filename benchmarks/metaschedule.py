"""MetaSchedule's side of `tune_compare`. It runs in an interpreter that has TVM, and needs nothing of minitvm.

python metaschedule.py tune FUNCTION BUDGET SEED CORES CPU LIBRARY     # lines of JSON: [seconds, seconds of the best]
python metaschedule.py serve LIBRARY ARGUMENTS RESULT                  # a number on each line: so many runs
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np


def tune(function: str, budget: float, seed: int, cores: int, cpu: str, library: str) -> None:
    """Tune a function of TVMScript for so many seconds, and export the best program."""
    start = time.monotonic()
    import tvm
    from tvm.ir.utils import derived_object
    from tvm.s_tir import meta_schedule as ms
    from tvm.script import from_source

    try:
        import xgboost  # noqa: F401  (MetaSchedule's default; it asks for it late, and then with a traceback)

        model = "xgb"
    except ImportError:
        model = "random"
    print(json.dumps({"tvm": tvm.__version__, "cost model": model}), flush=True)
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": cores})
    best = float("inf")

    @derived_object
    class Watch(ms.measure_callback.PyMeasureCallback):
        """Prints how good the best is, and ends in time."""

        def apply(self, scheduler: Any, task: int, candidates: Any, builds: Any, runs: Any) -> None:
            nonlocal best
            for result in runs:
                if result.run_secs:
                    best = min(best, sum(map(float, result.run_secs)) / len(result.run_secs))
            print(json.dumps([time.monotonic() - start, best]), flush=True)
            if time.monotonic() - start > budget:
                finish()

    module = from_source(Path(function).read_text())
    database = ms.database.MemoryDatabase()

    def finish() -> None:
        """Export the best program, and end: MetaSchedule counts trials, not seconds."""
        schedule = ms.tir_integration.compile_tir(database, module, target)
        if schedule is not None:
            tvm.compile(schedule.mod, target).export_library(library)
        os._exit(0)

    with tempfile.TemporaryDirectory() as folder:
        ms.tune_tir(
            module, target, folder, max_trials_global=1_000_000, num_trials_per_iter=16, seed=seed, database=database,
            cost_model=model, num_tuning_cores=cores,
            measure_callbacks=[ms.measure_callback.AddToDatabase(), Watch()],
        )  # fmt: skip
    finish()


def serve(library: str, arguments: str, result: str) -> None:
    """Run a library on demand; its last argument is the result."""
    import tvm

    with np.load(arguments) as file:
        arrays = [file[name] for name in file.files]
    function = tvm.runtime.load_module(library)["main"]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    function(*tensors)
    np.save(result, tensors[-1].numpy())
    answer(lambda: function(*tensors))


def answer(run: Any) -> None:
    """A line of seconds for each line with a number of runs."""
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "tune":
        tune(words[0], float(words[1]), int(words[2]), int(words[3]), words[4], words[5])
    else:
        serve(*words)
