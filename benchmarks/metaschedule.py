"""MetaSchedule's side of `tune_compare`. It runs in an interpreter that has TVM, and needs nothing of minitvm.

python metaschedule.py tune FUNCTION SEED CORES CPU FOLDER              # lines of JSON: [time, seconds of the best]
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

PATIENCE = 300.0  # seconds: its processes take 30 s to start on a machine that does other work, which is its own limit


def tune(function: str, seed: int, cores: int, cpu: str, folder: Path) -> None:
    """Tune a function of TVMScript until somebody ends it, and export each program that was the best for a while.

    A line `{"program": FILE, "when": TIME, "uncounted": SECONDS}` for each of them: when its batch had been measured,
    and what exporting it took by each clock. MetaSchedule counts trials, not seconds.
    """
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
        """Says how good the best is, and exports it, which does not count."""

        def apply(self, scheduler: Any, task: int, candidates: Any, builds: Any, runs: Any) -> None:
            nonlocal best
            now, winner = time.time(), None
            for candidate, result in zip(candidates, runs, strict=True):
                if result.run_secs:
                    seconds = sum(map(float, result.run_secs)) / len(result.run_secs)
                    if seconds < best:
                        best, winner = seconds, candidate.sch.mod
            print(json.dumps([now, best]), flush=True)
            if winner is not None:
                began, busy = time.time(), time.process_time()
                path = folder / f"{now:.2f}.so"
                tvm.compile(winner, target).export_library(str(path))
                spent = {"wall": time.time() - began, "processor": time.process_time() - busy}
                print(json.dumps({"program": path.name, "when": now, "uncounted": spent}), flush=True)

    module = from_source(Path(function).read_text())
    database = ms.database.MemoryDatabase()
    with tempfile.TemporaryDirectory() as work:
        ms.tune_tir(
            module, target, work, max_trials_global=1_000_000, num_trials_per_iter=16, seed=seed, database=database,
            builder=ms.builder.LocalBuilder(timeout_sec=PATIENCE), runner=ms.runner.LocalRunner(timeout_sec=PATIENCE),
            cost_model=model, num_tuning_cores=len(os.sched_getaffinity(0)),
            measure_callbacks=[ms.measure_callback.AddToDatabase(), Watch()],
        )  # fmt: skip


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
        tune(words[0], int(words[1]), int(words[2]), words[3], Path(words[4]))
    else:
        serve(*words)
