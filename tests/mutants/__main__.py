"""`make mutants`: plant each fault in a process of its own, and see whether the oracle notices.

    python -m tests.mutants [-j PROCESSES] [-v] [WORDS ...]     # only mutants whose names hold all words

Prints a line a mutant: what noticed it, at which draw of which programs. Then the workloads run without a fault, as far
as any mutant needed them: they must notice nothing. Last line: `N of N mutants killed`. Exit status 1 unless all are.
The draws are the same in every run, so the score is too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

os.environ["MINITVM_VERIFY"] = "1"
os.environ.setdefault("MINITVM_NUM_THREADS", "2")
os.environ["HYPOTHESIS_PROFILE"] = "faults"  # of tests that are workloads, whichever test starts this
os.environ.setdefault("MINITVM_OPENCL_DEVICE", "pocl")
os.environ.setdefault("MINITVM_CUDA_DEVICE", "simulator")
if __name__ == "__main__" and os.environ.get("PYTHONHASHSEED") != "0":  # the same draws in every run
    again = [sys.executable, "-m", "tests.mutants", *sys.argv[1:]]
    os.execve(sys.executable, again, {**os.environ, "PYTHONHASHSEED": "0"})

from . import faults  # noqa: F401  (registers them)
from .oracle import Trial, Workload
from .patch import MUTANTS, Moved, Mutant

# Of the processor, for one mutant: only a fault that never ends gets there. What is noticed takes a few seconds.
_SECONDS = 150.0
_LATE = (
    "islpy",
    "minitvm.machines.cpu.runtime.executor",
    "minitvm.machines.simd.vectors.simd",
    "tests.tir.schedule.property_programs",
)
_AT_ONCE = 50  # faults that are planted in one process, when nothing runs there
_ENOUGH = 40  # draws of each workload that must not notice an equivalent mutant
_MEMORY_FAULTS = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGABRT)
_PATIENCE = 20  # seconds of the clock for one of the processor: others may use it too


@dataclass(frozen=True)
class Outcome:
    """What came of one process."""

    name: str
    mode: str = ""  # what noticed the fault; "" for nothing
    draws: int = 0  # of the workload that noticed it
    compared: int = 0
    seconds: float = 0.0
    workload: str = ""
    text: str = ""
    crashes: int = 0
    error: str = ""  # the fault could not be planted, or the process came to nothing

    @property
    def killed(self) -> bool:
        return bool(self.mode)


@dataclass(frozen=True)
class Job:
    """What a process does: plant a fault and run workloads, `most` draws of each if not all."""

    name: str
    plant: Callable[[], None]
    workloads: tuple[Workload, ...]
    most: int | None = None


class _TooLate(KeyboardInterrupt):
    """The time is over: nothing catches this one."""


def trial_of(job: Job) -> Outcome:
    """Plant a fault in this process, for good, and run the workloads."""
    trial, started = Trial(job.most), time.process_time()
    try:
        job.plant()
    except (Moved, SyntaxError) as moved:
        return Outcome(job.name, error=f"{type(moved).__name__}: {moved}")
    error = ""
    try:
        trial.run(job.workloads)
    except _TooLate:
        error = f"nothing noticed in {_SECONDS:.0f} seconds"
    except Exception as crash:  # outside of a program: an import, a strategy
        error = f"{type(crash).__name__}: {crash}"
    if not trial.mode and trial.crashes:
        error = trial.crashes[0]
    return Outcome(
        job.name, trial.mode, trial.draws, trial.compared, time.process_time() - started, trial.workload, trial.text,
        len(trial.crashes), error,
    )  # fmt: skip


def _child(job: Job, answer: Connection) -> None:
    def too_late(*_: Any) -> None:
        raise _TooLate

    os.setsid()  # what a faulty compiler does to its process group reaches nobody else
    signal.signal(signal.SIGPROF, too_late)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, 2.0)
    with tempfile.TemporaryDirectory() as cache:  # compiled kernels of a faulty compiler are nobody else's
        os.environ["MINITVM_CACHE_DIR"] = cache
        try:
            outcome = trial_of(job)
        except BaseException as crash:
            outcome = Outcome(job.name, error=f"{type(crash).__name__}: {crash}")
        signal.setitimer(signal.ITIMER_PROF, 0)
    answer.send(json.dumps(outcome.__dict__))
    answer.close()
    os._exit(0)  # thread teams and the like are not worth waiting for


def run_all(jobs: Sequence[Job], processes: int) -> Iterator[Outcome]:
    """The outcome of each job, as they come. Processes are forked: everything is imported once."""
    for name in _LATE:
        importlib.import_module(name)
    context = multiprocessing.get_context("fork")
    waiting = list(jobs)[::-1]
    running: dict[Connection, tuple[Job, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            job = waiting.pop()
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(job, there), daemon=True)
            process.start()
            there.close()
            running[here] = (job, process, time.monotonic() + _PATIENCE * _SECONDS)
        ready = wait(list(running), timeout=1.0)
        for pipe, (job, process, end) in list(running.items()):
            if pipe in ready:
                try:
                    outcome = Outcome(**json.loads(pipe.recv()))
                except EOFError:
                    process.join()
                    # A kernel that overwrites memory may end the process before its result is compared.
                    died = signal.strsignal(-code) if (code := process.exitcode or 0) in _MEMORY_FAULTS else ""
                    error = "" if died else f"the process died with status {code}"
                    outcome = Outcome(job.name, mode=died or "", error=error)
            elif time.monotonic() > end:
                process.kill()
                outcome = Outcome(job.name, error="no answer")
            else:
                continue
            process.join()
            pipe.close()
            del running[pipe]
            yield outcome


def _control(mutants: Sequence[Mutant], outcomes: Sequence[Outcome]) -> list[Job]:
    """Each workload that noticed something, without a fault, for as many draws as that took at most, and some more."""
    known = {w.name: w for m in mutants for w in m.by}
    most: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.workload and outcome.killed:
            most[outcome.workload] = max(outcome.draws + 10, most.get(outcome.workload, 0))
    return [Job(name, lambda: None, (known[name],), count) for name, count in most.items()]


def _not_planted(mutants: Sequence[Mutant], processes: int) -> list[Outcome]:
    """The faults whose place has moved on. Many are planted in one process; where that fails, each in its own."""

    def every(some: Sequence[Mutant]) -> Callable[[], None]:
        def plant() -> None:
            for m in some:
                m.plant()

        return plant

    parts = {f"{k}": mutants[k : k + _AT_ONCE] for k in range(0, len(mutants), _AT_ONCE)}
    failed = [outcome for outcome in run_all([Job(k, every(part), ()) for k, part in parts.items()], processes)
              if outcome.error]  # fmt: skip
    alone = [Job(m.name, m.plant, ()) for outcome in failed for m in parts[outcome.name]]
    return [outcome for outcome in run_all(alone, processes) if outcome.error]


def _selected(words: Sequence[str]) -> list[Mutant]:
    return [m for m in MUTANTS.values() if all(word in m.name for word in words)]


def _line(outcome: Outcome) -> str:
    if outcome.killed:
        verdict = f"{outcome.mode}, draw {outcome.draws}"
    else:
        verdict = f"NOT NOTICED in {outcome.compared} programs"
        if outcome.error or outcome.crashes:
            verdict = f"CRASHED ({outcome.crashes})" if outcome.crashes else "FAILED"
    return f"{outcome.name:<88} {verdict:<38} {outcome.seconds:5.1f} s"


def _excerpt(text: str, lines: int = 12) -> str:
    return "\n".join("      " + line for line in text.strip().splitlines()[-lines:])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", help="only mutants whose names hold all of these")
    parser.add_argument("-j", "--processes", type=int, default=2)
    parser.add_argument("-v", "--verbose", action="store_true", help="say where and what was noticed")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only the mutants of exactly these names")
    parser.add_argument("--plant", action="store_true", help="only plant the faults: are their places where they were?")
    parser.add_argument("--no-control", action="store_true", help="do not run the workloads without a fault")
    given = parser.parse_args(arguments)
    mutants = [MUTANTS[name] for name in given.only] if given.only else _selected(given.words)
    if not mutants:
        print("no mutant has such a name", file=sys.stderr)
        return 2
    if given.plant:
        moved = [f"{outcome.name}: {outcome.error}" for outcome in _not_planted(mutants, given.processes)]
        print("\n".join([*moved, f"{len(mutants) - len(moved)} of {len(mutants)} faults planted"]))
        return 1 if moved else 0
    started = time.monotonic()
    print(f"{len(mutants)} mutants", flush=True)
    killed, strange, outcomes = 0, 0, []
    jobs = [Job(m.name, m.plant, m.by, _ENOUGH if m.equivalent else None) for m in mutants]
    for outcome in run_all(jobs, given.processes):
        outcomes.append(outcome)
        equivalent = MUTANTS[outcome.name].equivalent
        if equivalent:
            strange += outcome.killed or bool(outcome.error)
            told = f"NOTICED ({outcome.mode}), though" if outcome.killed else outcome.error or "equivalent:"
            print(f"{outcome.name:<88} {told} {equivalent}", flush=True)
            continue
        killed += outcome.killed
        print(_line(outcome), flush=True)
        if given.verbose or not outcome.killed:
            shown = outcome.text if outcome.killed else outcome.error
            print("\n".join(filter(None, [f"      {outcome.workload}", _excerpt(shown)])), flush=True)
    wrong, spent = 0, sum(outcome.seconds for outcome in outcomes)
    if not given.no_control:
        jobs = _control(mutants, outcomes)
        print(f"without a fault: {len(jobs)} workloads", flush=True)
        for outcome in run_all(jobs, given.processes):
            spent += outcome.seconds
            if outcome.killed or outcome.error or outcome.crashes:
                wrong += 1
                print(f"  {outcome.name}: {outcome.mode or 'crash'}\n{_excerpt(outcome.error or outcome.text, 30)}")
            elif given.verbose:
                print(f"  {outcome.name}: {outcome.draws} draws, {outcome.seconds:.1f} s", flush=True)
    total = sum(not m.equivalent for m in mutants)
    if len(mutants) > total:
        print(f"{len(mutants) - total} more are equivalent to no fault, as their proofs say")
    if wrong:
        print(f"{wrong} workloads found something without a fault")
    if strange:
        print(f"{strange} mutants are not as equivalent as their proofs say")
    minutes = (time.monotonic() - started) / 60
    print(f"{minutes:.1f} minutes on {given.processes} processes, {spent / 60:.1f} of a processor's time")
    print(f"{killed} of {total} mutants killed")
    return 0 if killed == total and not wrong and not strange else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
