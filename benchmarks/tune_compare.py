"""Our tuner beside TVM's MetaSchedule: the same function, the same seconds, the same threads; `make tune-compare`.

    python -m benchmarks.tune_compare [matmul C2 .. C12 D1 .. D9] [--budgets 10,30,60,120] [--seeds 5] [--rules]

Wall-clock budgets, never trials. Each run starts in a process of its own with an empty database, the two tuners in
turn. Ours searches the generated sketches only (`--rules`: the rules for builds as well). The final programs are timed
in processes of their own by the same lines of code, in turn, 50 runs each: median and minimum; their results have to
agree. MetaSchedule has 16 trials a batch, not 64, so that short budgets see some. TVM is in this interpreter or in that
of MINITVM_TVM_PYTHON; with `xgboost` (or `xgboost-cpu`) there it has its usual cost model, else a random one, which is
said.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from . import layers
from .metaschedule import answer

TVM_SIDE = Path(__file__).with_name("metaschedule.py")
GRACE = 120  # seconds after a budget in which a batch ends and the best program is exported
ROUNDS, RUNS = 10, 5  # turns of the final programs, and runs in each
MATMUL = "matmul"


def function_of(name: str) -> Any:
    """The workload as a function of level 3, for both tuners: 512^3, or a layer in NCHW as it is written."""
    from minitvm import te
    from minitvm.graph.lower import to_prim_func

    if name == MATMUL:
        a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
        k = te.reduce_axis((0, 512), name="k")
        product = te.compute((512, 512), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
        return te.create_prim_func([a, b, product], name="main")
    graph, _ = layers.layer(name)
    (node,) = graph.nodes  # its weights are an argument of the function
    return to_prim_func(node)


# -- ours, in a process of its own ----------------------------------------------------------------------------------


def ours(function: str, budget: float, seed: int, cores: int, rules: bool, artifact: str) -> None:
    """Tune for so many seconds; prints lines of JSON as MetaSchedule's side does, and exports the best program."""
    start = time.monotonic()
    import minitvm
    from minitvm.expr.as_json import from_json
    from minitvm.records.database import Database
    from minitvm.records.record import MEASURED
    from minitvm.strategy import decided
    from minitvm.target import Target
    from minitvm.tir import nodes  # noqa: F401  (the classes of what is read)
    from minitvm.tune.network import tune_tasks
    from minitvm.tune.space import Space
    from minitvm.tune.task import function_task

    target = Target(f"cpu -cores={cores}")
    func = from_json(json.loads(Path(function).read_text()))
    if not rules:
        every = Space.yielded.func
        Space.yielded.func = lambda self: [one for one in every(self) if one.rule.startswith("sketch")]
    began, wall = start, time.time()
    with tempfile.TemporaryDirectory() as folder, Database.open(Path(folder) / "records.db") as database:
        tune_tasks([function_task(func, target)], database, began, budget, seed=seed, runs=10**12)
        found = [r for r in database.records() if r.outcome in MEASURED and (rules or r.rule.startswith("sketch"))]
    best = float("inf")
    for record in found:
        best = min(best, record.time)
        print(json.dumps([record.when - wall, best]), flush=True)
    if found:
        winner = min(found, key=lambda record: record.time)
        minitvm.build(decided(func, target, winner.decision).schedule.func, target).export(artifact)


def serve_ours(artifact: str, arguments: str, result: str, cores: int) -> None:
    """Run an artifact on demand."""
    from minitvm.runtime import load

    with np.load(arguments) as file:
        arrays = [file[name] for name in file.files]
    module = load(artifact, threads=cores)
    module(*arrays)
    np.save(result, arrays[-1])
    answer(lambda: module(*arrays))


# -- both -------------------------------------------------------------------------------------------------------------


@dataclass
class Course:
    """A run of a tuner: the best seconds after each batch, and the final program's median and least seconds."""

    points: list[tuple[float, float]] = field(default_factory=list)
    final: float = float("nan")
    least: float = float("nan")

    def reached(self, seconds: float) -> float:
        """When a program as fast was found; infinity if never."""
        return next((when for when, best in self.points if best <= seconds), float("inf"))

    def at(self, when: float) -> float:
        """How fast the best was by then."""
        return min((best for moment, best in self.points if moment <= when), default=float("inf"))


def tvm_python() -> str:
    """The interpreter with TVM; exits with one sentence where there is none."""
    python = os.environ.get("MINITVM_TVM_PYTHON")
    if python is None and importlib.util.find_spec("tvm") is None:
        sys.exit("tune-compare: Apache TVM is not installed here, so there is nothing to compare with: "
                 "pip install 'minitvm[tvm]' xgboost-cpu, or MINITVM_TVM_PYTHON=/path/to/python of one")  # fmt: skip
    return python or sys.executable


def _cpu() -> str:
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name())


def _tuned(command: Sequence[str], budget: float, cache: str) -> Course:
    """Run a tuner with cold caches."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "MINITVM_CACHE_DIR": cache, "PYTHONPATH": str(TVM_SIDE.parents[1])},
    )  # fmt: skip
    try:
        said, complaints = process.communicate(timeout=budget + GRACE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, complaints = process.communicate()
        print(f"  did not end within {GRACE} s after its budget")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the processes that it compiled and measured in
    course = Course()
    for line in said.splitlines():
        if line.startswith("["):
            when, best = json.loads(line)
            course.points.append((when, best))
        elif line.startswith("{"):
            print(f"  {line}", flush=True)
    if process.returncode > 0:
        print(f"  failed: {complaints.strip().splitlines()[-1] if complaints.strip() else process.returncode}")
    return course


class _Server:
    """A process that runs a final program."""

    def __init__(self, command: Sequence[str], cores: int) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "TVM_NUM_THREADS": str(cores), "PYTHONPATH": str(TVM_SIDE.parents[1])},
        )  # fmt: skip
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().strip() == "ready"

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, times: int) -> list[float]:
        """Seconds of each run."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        seconds: list[float] = json.loads(self.process.stdout.readline())
        return seconds


def compared(name: str, budget: float, seed: int, cores: int, rules: bool, python: str) -> tuple[Course, Course]:
    """One run of each tuner, ours first where the seed is even; the final programs timed in turn."""
    from minitvm.expr.as_json import to_json
    from minitvm.interop.tvm import text_of

    func = function_of(name)
    with tempfile.TemporaryDirectory(prefix="minitvm-compare-") as text:
        folder = Path(text)
        (folder / "f.json").write_text(json.dumps(to_json(func)))
        (folder / "f.py").write_text(text_of(func))
        rng = np.random.default_rng(seed)
        arrays = [rng.integers(-3, 4, [int(d) for d in p.shape]).astype("float32") for p in func.params]
        np.savez(folder / "arguments.npz", *arrays)
        here = [sys.executable, "-m", "benchmarks.tune_compare"]
        us = [*here, "--ours", str(folder / "f.json"), str(budget), str(seed), str(cores), str(int(rules)),
              str(folder / "ours.mtvm")]  # fmt: skip
        them = [python, str(TVM_SIDE), "tune", str(folder / "f.py"), str(budget), str(seed), str(cores), _cpu(),
                str(folder / "theirs.so")]  # fmt: skip
        courses: dict[str, Course] = {}
        for who, command in (("ours", us), ("theirs", them))[:: 1 if seed % 2 == 0 else -1]:
            courses[who] = _tuned(command, budget, str(folder / "cache"))
        _time_final(folder, here, python, cores, courses["ours"], courses["theirs"])
    return courses["ours"], courses["theirs"]


def _time_final(folder: Path, here: list[str], python: str, cores: int, us: Course, them: Course) -> None:
    """In turn, 50 runs each, after their results were compared."""
    arguments = str(folder / "arguments.npz")
    commands = [
        (us, folder / "ours.mtvm",
         [*here, "--serve", str(folder / "ours.mtvm"), arguments, str(folder / "ours.npy"), str(cores)]),
        (them, folder / "theirs.so",
         [python, str(TVM_SIDE), "serve", str(folder / "theirs.so"), arguments, str(folder / "theirs.npy")]),
    ]  # fmt: skip
    with ExitStack() as stack:
        servers = [
            (c, stack.enter_context(_Server(command, cores))) for c, place, command in commands if place.exists()
        ]
        servers = [(course, server) for course, server in servers if server.ready]
        if len(servers) == 2 and not np.array_equal(np.load(folder / "ours.npy"), np.load(folder / "theirs.npy")):
            raise RuntimeError("the two final programs differ in their results")
        samples: dict[int, list[float]] = {id(course): [] for course, _ in servers}
        for _ in range(ROUNDS):
            for course, server in servers:
                time.sleep(0.05)  # threads of the other one go to sleep
                samples[id(course)] += server.run(RUNS)
        for course, _ in servers:
            course.final, course.least = statistics.median(samples[id(course)]), min(samples[id(course)])


def _line(name: str, budget: float, seed: int, us: Course, them: Course) -> str:
    sides = " ".join(f"{side.final * 1e3:12.3f} ({side.least * 1e3:8.3f})" for side in (us, them))
    return f"{name:8} {budget:5.0f}s {seed:4} {sides} {them.final / us.final:8.2f} {us.reached(them.at(budget)):8.1f} s"


def _summary(ratios: dict[float, list[float]], faster: Sequence[float], seeds: int) -> None:
    for budget, medians in ratios.items():
        good = [ratio for ratio in medians if ratio == ratio]
        if good:
            mean = statistics.geometric_mean(good)
            print(f"after {budget:.0f} s: {mean:.2f} times as fast as MetaSchedule's (geometric mean of {len(good)} of "
                  f"{len(medians)} workloads, each the median of {seeds} seeds)")  # fmt: skip
    reached = [one for one in faster if one > 0]
    if reached:
        mean = statistics.geometric_mean(reached)
        print(f"as good as MetaSchedule at the end of {max(ratios):.0f} s in 1/{mean:.1f} of the time "
              f"({len(reached)} of {len(faster)} runs; the others were never as good)")  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Compare, print a line a run, and the geometric means."""
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] == ["--ours"]:
        ours(given[1], float(given[2]), int(given[3]), int(given[4]), given[5] == "1", given[6])
        return 0
    if given[:1] == ["--serve"]:
        serve_ours(given[1], given[2], given[3], int(given[4]))
        return 0
    every = [MATMUL, *(name for name in (*layers.CONVOLUTIONS, *layers.DEPTHWISE) if name != "C1")]
    parser = argparse.ArgumentParser(prog="tune_compare", description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="NAME", help=f"of {', '.join(every)}; default: all")
    parser.add_argument("--budgets", default="10,30,60,120", help="seconds of each run")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rules", action="store_true", help="ours searches the rules for builds as well")
    options = parser.parse_args(given)
    python = tvm_python()
    unknown = [name for name in options.workloads if name not in every]
    if unknown:
        parser.error(f"no workload {unknown[0]}; there are: {', '.join(every)}")
    budgets = [float(text) for text in options.budgets.split(",")]
    print(f"{'':8} budget seed   ours, ms (least)    MetaSchedule, ms       ratio   ours as good after")
    ratios: dict[float, list[float]] = {budget: [] for budget in budgets}
    faster = []
    for name in options.workloads or every:
        for budget in budgets:
            of_seeds = []
            for seed in range(options.seeds):
                us, them = compared(name, budget, seed, options.cores, options.rules, python)
                when = us.reached(them.at(budget))
                of_seeds.append(them.final / us.final)
                if budget == max(budgets):
                    faster.append(budget / when if when < float("inf") else 0.0)
                print(_line(name, budget, seed, us, them), flush=True)
            ratios[budget].append(statistics.median(of_seeds))
    _summary(ratios, faster, options.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
