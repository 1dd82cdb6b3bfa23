"""`minitvm grade FOLDER`: grade the exercises of one student.

FOLDER has the files exercise_NN.py that `minitvm lesson NN --start` made. Each is checked in a separate process, with
limits on computing time and memory and without a network. This is no sandbox: the program runs with your rights.
With --assignment, the exercises of that assignment of docs/course.md count, with its points; otherwise each exercise in
the folder counts one point.

--json prints the results in the form that Gradescope reads. Exit status: 0 if every exercise passed, 1 if one did not.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import InputError
from .lesson import SECONDS, find, lessons_folder, reasons_of, title
from .options import Commands

MEMORY = 8.0  # GiB of addresses; compilers reserve more than they use
_WAIT = 4.0  # seconds on the clock for one of computing: a program that waits does not compute
_START = 30.0  # seconds on the clock to start Python and import minitvm, on a busy machine
PASSED, FAILED, MISSING = "passed", "failed", "missing"


@dataclass(frozen=True)
class Graded:
    """The verdict on one exercise: each property that was tried, with its counterexample or None."""

    number: str
    verdict: str
    points: float
    of: float
    tests: dict[str, str | None] = field(default_factory=dict)
    message: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [f"{self.number} {title(find(self.number))}: {self.verdict}, {self.points:g} of {self.of:g}"]
        for name, failure in self.tests.items():
            lines.append(f"  {'yes' if failure is None else 'no '}  {name}")
            lines += [f"         {line}".rstrip() for line in (failure or "").splitlines()]
        lines += [f"  {line}".rstrip() for line in self.message.splitlines()]
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """One of Gradescope's tests; what it does not know is in `extra_data`."""
        failures = [f"{name}: {failure}" for name, failure in self.tests.items() if failure is not None]
        return {
            "number": self.number,
            "name": title(find(self.number)),
            "score": self.points,
            "max_score": self.of,
            "status": "passed" if self.verdict == PASSED else "failed",
            "output": "\n".join([*failures, self.message] if self.message else failures),
            "extra_data": {"verdict": self.verdict, "tests": self.tests, "seconds": round(self.seconds, 2)},
        }


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "grade",
        help="grade the exercises of one student",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the folder with exercise_NN.py files")
    parser.add_argument("--assignment", type=int, metavar="N", help="grade assignment N of docs/course.md")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"computing time of one exercise (default: {SECONDS:g})"
    )
    parser.add_argument(
        "--memory",
        type=float,
        default=MEMORY,
        metavar="GIB",
        help=f"memory limit of one exercise (default: {MEMORY:g})",
    )
    parser.set_defaults(function=grade_folder)


def assignments() -> dict[int, dict[str, Any]]:
    """The course's assignments by number: `title`, and `points` by the number of a lesson."""
    table = tomllib.loads((lessons_folder() / "course.toml").read_text(encoding="utf-8"))
    return dict(enumerate(table["assignment"], 1))


def grade_folder(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}")
    if options.seconds <= 0 or options.memory <= 0:
        raise InputError("--seconds and --memory must be greater than 0")
    results = []
    for number, of in _exercises(folder, options.assignment).items():
        answer = folder / f"exercise_{number}.py"
        if answer.is_file():
            results.append(graded(number, answer, of, options.seconds, options.memory))
        else:
            results.append(Graded(number, MISSING, 0, of, message=f"{answer.name} is not in the folder"))
        if not options.json:
            print(results[-1], flush=True)
    points, of = sum(one.points for one in results), sum(one.of for one in results)
    if options.json:
        tests = [one.as_json() for one in results]
        print(json.dumps({"score": points, "max_score": of, "tests": tests}, indent=2))
    else:
        print(f"{points:g} of {of:g} points")
    return 0 if all(one.verdict == PASSED for one in results) else 1


def _exercises(folder: Path, assignment: int | None) -> dict[str, float]:
    """The points of each exercise that counts, by the number of its lesson."""
    if assignment is not None:
        if assignment not in assignments():
            raise InputError(f"no assignment {assignment}; there are 1 to {len(assignments())}")
        return dict(assignments()[assignment]["points"])
    names = sorted(path.stem.removeprefix("exercise_") for path in folder.glob("exercise_*.py"))
    numbers = [find(name).name.split("_")[0] for name in names]
    if not numbers:
        raise InputError(
            f"no exercise_NN.py in {folder}\n  try:    minitvm lesson 00 --start, in that folder, makes the first"
        )
    return dict.fromkeys(numbers, 1.0)


def graded(number: str, answer: Path, of: float, seconds: float = SECONDS, memory: float = MEMORY) -> Graded:
    """Check one answer in a process of its own, and stop the process if it takes too long."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="minitvm-grade-") as scratch:
        verdict_file = Path(scratch) / "verdict.json"
        arguments = [number, str(answer.resolve()), str(verdict_file), str(seconds), str(memory)]
        # This minitvm, and no module of the folder: one may be called random.py. (An empty entry means the folder.)
        entries = [str(Path(__file__).parents[3]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        path = os.pathsep.join(filter(None, entries))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "minitvm.tools.cli.grade", *arguments],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=answer.resolve().parent,
            start_new_session=True,
        )
        message = ""
        try:
            status = process.wait(_START + _WAIT * seconds)
            if status:
                message = f"Python ended with {_status_text(status)} before the check was done"
        except subprocess.TimeoutExpired:
            message = f"no verdict after {_START + _WAIT * seconds:g} seconds: does it wait for something?"
        finally:
            _end(process)
        tests: dict[str, str | None] = {}
        if not message:
            try:
                verdict = json.loads(verdict_file.read_text(encoding="utf-8"))
                tests, message = verdict["tests"], verdict["message"]
            except (OSError, ValueError, KeyError):
                message = "the process ended without a verdict: does it call exit?"
    passed = not message and all(failure is None for failure in tests.values())
    taken = time.monotonic() - started
    return Graded(number, PASSED if passed else FAILED, of if passed else 0, of, tests, message, taken)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _status_text(status: int) -> str:
    return f"exit status {status}" if status > 0 else signal.Signals(-status).name


def _without_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse connections. This stops an accident, not an attack: for that, grade in a container."""
    if event in ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise PermissionError("there is no network while an exercise is graded")


def _limit_memory(gib: float) -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(gib * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _child(number: str, answer: str, verdict_file: str, seconds: str, memory: str) -> None:
    """Check an answer within the limits, and write the verdict."""
    sys.addaudithook(_without_network)
    _limit_memory(float(memory))
    tests, message = reasons_of(find(number), Path(answer), float(seconds))
    Path(verdict_file).write_text(json.dumps({"tests": tests, "message": message}), encoding="utf-8")


if __name__ == "__main__":
    _child(*sys.argv[1:])
