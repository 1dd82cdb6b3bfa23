"""Our tuner beside TVM's MetaSchedule: the same function, the same seconds, the same threads; `make tune-compare`.

    python -m benchmarks.tune_compare [matmul C2 .. C12 D1 .. D9] [--marks 10,30,60,120] [--seeds 5] [--rules]
    python -m benchmarks.tune_compare .. --folder F; python -m benchmarks.tune_compare --timed F

Seconds, never trials: of the clock on the wall, or with `--clock processor` those that all processes of a tuner were
busy, which other work on the machine hardly changes. Each run starts in a process of its own with an empty database and
goes on to the last mark; both export each program that was the best for a while. They run one after the other, on all
cores. Ours searches the generated sketches only (`--rules`: the rules for builds as well). All programs are timed in
processes of their own by the same lines of code, in turn, 50 runs each: median and minimum; their results have to
agree. How long ours took to be as good is read off these times, not off what a tuner says. With `--folder` the programs
are kept, and timed when `--timed` asks for it. MetaSchedule has 16 trials a batch, not 64, so that early marks see
some. TVM is in this interpreter or in that of MINITVM_TVM_PYTHON; with `xgboost` (or `xgboost-cpu`) there it has its
usual cost model, else a random one, which is said.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
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

from minitvm.workers.cores import available_cores

from . import layers
from .metaschedule import answer

TVM_SIDE = Path(__file__).with_name("metaschedule.py")
HERE = [sys.executable, "-m", "benchmarks.tune_compare"]
WALL, PROCESSOR = "wall", "processor"
GRACE = 120  # seconds after a budget in which a batch ends and the best program is exported
ROUNDS, RUNS = 10, 5  # turns of the programs, and runs in each
SMALLEST = (
    0.95  # of the time of the program before: so much faster is one of ours that is timed, if no mark asks for it
)
SKETCHES = ("sketch",)  # the rules that only a tuner asks
MATMUL = "matmul"


def function_of(name: str) -> Any:
    """The workload as a loop program, for both tuners: 512^3, or a layer in NCHW as it is written."""
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


def ours(function: str, budget: float | None, seed: int, cores: int, rules: bool, folder: Path) -> None:
    """Tune for so many seconds, or until Ctrl-C; prints lines of JSON as MetaSchedule's side does, and exports programs
    to the folder: each that was SMALLEST faster than the one before, and the last one."""
    start = time.monotonic()
    import minitvm
    from minitvm.expr.as_json import from_json
    from minitvm.records.database import Database
    from minitvm.records.record import MEASURED
    from minitvm.strategy import decided
    from minitvm.target import Target
    from minitvm.tir import nodes  # noqa: F401  (the classes of what is read)
    from minitvm.tune.network import tune_tasks
    from minitvm.tune.task import function_task

    target = Target(f"cpu -cores={cores}")
    func = from_json(json.loads(Path(function).read_text()))
    with tempfile.TemporaryDirectory() as text, Database.open(Path(text) / "records.db") as database:
        task = function_task(func, target, () if rules else SKETCHES)
        tune_tasks([task], database, start, budget, seed=seed, runs=10**12)
        found = sorted((r for r in database.records() if r.outcome in MEASURED), key=lambda record: record.when)
    best: list[Any] = []
    for record in found:
        if not best or record.time < best[-1].time:
            best.append(record)
        print(json.dumps([record.when, best[-1].time]), flush=True)
    kept: list[Any] = []
    for record in best:
        if not kept or record is best[-1] or record.time < SMALLEST * kept[-1].time:
            kept.append(record)
    for record in kept:
        path = folder / f"{record.when:.2f}.mtvm"
        minitvm.build(decided(func, target, record.decision).schedule.func, target).export(path)
        print(json.dumps({"program": path.name, "when": record.when}), flush=True)


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
class Program:
    """A program that a tuner had found after `when` seconds; the median and the least of the seconds that it runs."""

    path: Path
    when: float
    median: float = float("inf")
    least: float = float("inf")


@dataclass
class Course:
    """A run of a tuner: by its own measure the best seconds after each candidate or batch; and its programs."""

    points: list[tuple[float, float]] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)

    def reached(self, seconds: float) -> float:
        """When a program as fast was found; infinity if never."""
        reached = (one.when for one in self.programs if one.median <= seconds < float("inf"))
        return next(reached, float("inf"))

    def at(self, when: float) -> Program | None:
        """The best program by then, as the tuner itself measured: the last one."""
        return next((one for one in reversed(self.programs) if one.when <= when), None)


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


def _busy(session: int) -> float:
    """Seconds that the processes of a session were busy, those that ended and were waited for included."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                words = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(words[3]) == session:
                    ticks += sum(map(int, words[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _tuned(command: Sequence[str], marks: Sequence[float], clock: str, folder: Path, cores: int, end: int) -> Course:
    """A run of a tuner with cold caches; at the last mark it gets the signal `end`, and exports what it has to."""
    folder.mkdir(parents=True)
    complaints = folder / "complaints"
    process = subprocess.Popen(
        command, stdout=(folder / "said").open("w"), stderr=complaints.open("w"), start_new_session=True,
        env={**os.environ, "MINITVM_CACHE_DIR": str(folder / "cache"), "TVM_NUM_THREADS": str(cores),
             "PYTHONPATH": str(TVM_SIDE.parents[1])},
    )  # fmt: skip
    wall, line = time.time(), [(time.time(), 0.0)]  # moments, and the seconds by the clock that had passed
    while process.poll() is None and line[-1][1] < max(marks):
        time.sleep(0.25)
        line.append((time.time(), time.time() - wall if clock == WALL else max(line[-1][1], _busy(process.pid))))
    if clock == PROCESSOR or end == signal.SIGKILL:  # by the clock on the wall ours ends by itself
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, end)
    try:
        process.wait(timeout=GRACE)
    except subprocess.TimeoutExpired:
        print(f"  did not end within {GRACE} s after its last mark")
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # the processes that it compiled and measured in
    moments, seconds = zip(*line, strict=True)
    course, uncounted = Course(), 0.0
    for text in (folder / "said").read_text().splitlines():
        if text.startswith("["):
            when, best = json.loads(text)
            course.points.append((float(np.interp(when, moments, seconds)) - uncounted, best))
        elif text.startswith('{"program"'):
            told = json.loads(text)
            when = float(np.interp(told["when"], moments, seconds)) - uncounted
            course.programs.append(Program(folder / told["program"], when))
            uncounted += told.get("uncounted", {}).get(clock, 0.0)
        elif text.startswith("{"):
            print(f"  {text}", flush=True)
    if process.returncode and process.returncode > 0:
        text = complaints.read_text().strip()
        print(f"  failed: {text.splitlines()[-1] if text else process.returncode}")
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


def tuned(name: str, seed: int, options: Any, marks: Sequence[float], folder: Path) -> tuple[Course, Course]:
    """One run of each tuner, ours first where the seed is even; their programs are in the folder."""
    from minitvm.compat.tvm.bridge import text_of
    from minitvm.expr.as_json import to_json

    func, cores, seconds = function_of(name), str(options.cores), options.ours or max(marks)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "f.json").write_text(json.dumps(to_json(func)))
    (folder / "f.py").write_text(text_of(func))
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-3, 4, [int(d) for d in p.shape]).astype("float32") for p in func.params]
    np.savez(folder / "arguments.npz", *arrays)
    budget = str(seconds if options.clock == WALL else 0)
    us = [*HERE, "--ours", str(folder / "f.json"), budget, str(seed), cores, str(int(options.rules)),
          str(folder / "ours")]  # fmt: skip
    them = [tvm_python(), str(TVM_SIDE), "tune", str(folder / "f.py"), str(seed), cores, _cpu(),
            str(folder / "theirs")]  # fmt: skip
    courses: dict[str, Course] = {}
    for who in ("ours", "theirs")[:: 1 if seed % 2 == 0 else -1]:
        command, last, end = (us, [seconds], signal.SIGINT) if who == "ours" else (them, marks, signal.SIGKILL)
        courses[who] = _tuned(command, last, options.clock, folder / who, options.cores, end)
    return courses["ours"], courses["theirs"]


def time_programs(folder: Path, cores: int, us: Course, them: Course) -> None:
    """All programs in turn, 50 runs each, after their results were compared."""
    arguments = str(folder / "arguments.npz")
    work = Path(tempfile.mkdtemp(prefix="minitvm-compare-"))
    results = {id(one): work / f"{number}.npy" for number, one in enumerate([*us.programs, *them.programs])}
    commands = [
        (one, [*HERE, "--serve", str(one.path), arguments, str(results[id(one)]), str(cores)]) for one in us.programs
    ]
    commands += [
        (one, [tvm_python(), str(TVM_SIDE), "serve", str(one.path), arguments, str(results[id(one)])])
        for one in them.programs
    ]
    with ExitStack() as stack:
        servers = [(one, stack.enter_context(_Server(command, cores))) for one, command in commands]
        servers = [(one, server) for one, server in servers if server.ready]
        outcomes = [np.load(results[id(one)]) for one, _ in servers]
        shutil.rmtree(work)
        if any(not np.array_equal(outcomes[0], other) for other in outcomes[1:]):
            raise RuntimeError("programs differ in their results")
        samples: dict[int, list[float]] = {id(one): [] for one, _ in servers}
        for _ in range(ROUNDS):
            for one, server in servers:
                time.sleep(0.02)  # threads of the other one go to sleep
                samples[id(one)] += server.run(RUNS)
        for one, _ in servers:
            one.median, one.least = statistics.median(samples[id(one)]), min(samples[id(one)])


def _line(name: str, mark: float, seed: int, us: Course, them: Course) -> str:
    sides = [one.at(mark) or Program(Path(), mark) for one in (us, them)]
    texts = " ".join(f"{side.median * 1e3:12.3f} ({side.least * 1e3:8.3f})" for side in sides)
    ratio = sides[1].median / sides[0].median
    return f"{name:8} {mark:5.0f}s {seed:4} {texts} {ratio:8.2f} {us.reached(sides[1].median):8.1f} s"


def _summary(ratios: dict[float, list[float]], faster: dict[float, list[float]], seeds: int) -> None:
    for mark, medians in ratios.items():
        good = [ratio for ratio in medians if 0 < ratio < float("inf")]
        if good:
            mean = statistics.geometric_mean(good)
            print(f"after {mark:.0f} s: {mean:.2f} times as fast as MetaSchedule's (geometric mean of {len(good)} of "
                  f"{len(medians)} workloads, each the median of {seeds} seeds)")  # fmt: skip
        reached = [one for one in faster[mark] if one > 0]
        if reached:
            mean = statistics.geometric_mean(reached)
            print(f"  as good as MetaSchedule's after {mark:.0f} s in 1/{mean:.1f} of the time "
                  f"({len(reached)} of {len(faster[mark])} runs; the others were never as good)")  # fmt: skip


def _lines(name: str, seed: int, marks: Sequence[float], us: Course, them: Course) -> None:
    for mark in marks:
        print(_line(name, mark, seed, us, them), flush=True)
    for who, course in (("ours", us), ("MetaSchedule", them)):
        said = ", ".join(f"{one.when:.1f} s {one.median * 1e3:.3f} ms" for one in course.programs)
        print(f"  {who}: {len(course.points)} measured; programs: {said or 'none'}", flush=True)


def _table(found: Sequence[tuple[str, int, Course, Course]], marks: Sequence[float]) -> None:
    """The geometric means over the workloads."""
    ratios: dict[float, list[float]] = {mark: [] for mark in marks}
    faster: dict[float, list[float]] = {mark: [] for mark in marks}
    for name in dict.fromkeys(name for name, *_ in found):
        for mark in marks:
            of_seeds = []
            for here, there, us in ((u.at(mark), t.at(mark), u) for n, _, u, t in found if n == name):
                of_seeds.append(there.median / here.median if here and there else float("nan"))
                if there:
                    faster[mark].append(mark / max(us.reached(there.median), 0.1))
            ratios[mark].append(statistics.median(of_seeds))
    _summary(ratios, faster, len({seed for _, seed, *_ in found}))


def _kept(folder: Path, us: Course, them: Course) -> None:
    text = {who: [[str(one.path), one.when] for one in course.programs] for who, course in (("us", us), ("them", them))}
    text |= {f"{who} points": course.points for who, course in (("us", us), ("them", them))}
    (folder / "courses.json").write_text(json.dumps(text))


def _again(folder: Path) -> tuple[Course, Course]:
    """The courses of a run that was kept."""
    text = json.loads((folder / "courses.json").read_text())
    us, them = (
        Course([tuple(p) for p in text[f"{who} points"]], [Program(Path(path), when) for path, when in text[who]])
        for who in ("us", "them")
    )
    return us, them


def main(words: Sequence[str] | None = None) -> int:
    """Compare, print a line a run, and the geometric means."""
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] == ["--ours"]:
        ours(given[1], float(given[2]) or None, int(given[3]), int(given[4]), given[5] == "1", Path(given[6]))
        return 0
    if given[:1] == ["--serve"]:
        serve_ours(given[1], given[2], given[3], int(given[4]))
        return 0
    every = [MATMUL, *(name for name in (*layers.CONVOLUTIONS, *layers.DEPTHWISE) if name != "C1")]
    parser = argparse.ArgumentParser(prog="tune_compare", description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="NAME", help=f"of {', '.join(every)}; default: all")
    parser.add_argument("--marks", default="10,30,60,120", help="seconds at which the best programs are compared")
    parser.add_argument("--ours", type=float, help="seconds that ours searches (default: up to the last mark)")
    parser.add_argument("--clock", choices=(WALL, PROCESSOR), default=WALL)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=len(available_cores()), help="threads of the programs")
    parser.add_argument("--rules", action="store_true", help="ours searches the rules for builds as well")
    parser.add_argument("--folder", type=Path, help="keep the programs here, and do not time them")
    parser.add_argument("--timed", type=Path, help="time the programs that were kept in a folder")
    options = parser.parse_args(given)
    tvm_python()
    unknown = [name for name in options.workloads if name not in every]
    if unknown:
        parser.error(f"no workload {unknown[0]}; there are: {', '.join(every)}")
    marks = sorted(float(text) for text in options.marks.split(","))
    print(f"{'':8} after seed    ours, ms (least)    MetaSchedule, ms       ratio   ours as good after")
    found: list[tuple[str, int, Course, Course]] = []
    if options.timed:
        runs = [path.parent for path in sorted(options.timed.glob("*/courses.json"))]
        for run in runs:
            name, _, seed = run.name.rpartition("-")
            if not options.workloads or name in options.workloads:
                us, them = _again(run)
                time_programs(run, options.cores, us, them)
                _lines(name, int(seed), marks, us, them)
                found.append((name, int(seed), us, them))
        _table(found, marks)
        return 0
    with tempfile.TemporaryDirectory(prefix="minitvm-compare-") as text:
        for name in options.workloads or every:
            for seed in range(options.seeds):
                folder = (options.folder or Path(text)) / f"{name}-{seed}"
                us, them = tuned(name, seed, options, marks, folder)
                if options.folder:
                    _kept(folder, us, them)
                else:
                    time_programs(folder, options.cores, us, them)
                    found.append((name, seed, us, them))
                _lines(name, seed, marks, us, them)
    if found:
        _table(found, marks)
    return 0


if __name__ == "__main__":
    sys.exit(main())
