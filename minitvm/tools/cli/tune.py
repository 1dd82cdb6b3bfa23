"""`minitvm tune MODEL`: measure other schedules of its operators. Later builds use those that were faster.

A formula ranks the candidates, and only a few are measured. Each measurement is stored immediately: you can stop with
Ctrl-C, and continue later with the same command.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError
from . import farm
from . import options as opt

if TYPE_CHECKING:
    from ...records.database import Database
    from ...tune.network import Status, Tuned
    from ...tune.task import Task

_WORTH_A_CLOCK = 60.0  # seconds of a budget of which 2 may be spent on a clock that is not known yet
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "tune", help="find faster schedules for the operators of a model, by measuring",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{__doc__}\n  minitvm tune explain MODEL [--op NAME]   cost formulas; predicted, measured time\n"
        "  minitvm tune report MODEL --png FILE     a picture of the progress\n"
        "  minitvm tune export FILE, import FILE    write all records as lines of JSON, or read them\n"
        "  minitvm tune merge OTHER                 add the records of another database",
    )  # fmt: skip
    opt.add_model(parser)
    parser.add_argument("file", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("--budget", type=_seconds, metavar="5m", help="total time: 90, 60s, 5m, 1h; default: no limit")
    parser.add_argument("--trials", type=opt.thread_count, metavar="N", help="total number of candidates to measure")
    parser.add_argument("--runs", type=opt.thread_count, metavar="N", help="how often you expect to run the model; "
                        "tuning ends when it no longer pays off; default: a million")  # fmt: skip
    parser.add_argument("--db", metavar="URL", help="a path, sqlite:///PATH or postgresql+psycopg://USER@HOST/NAME; "
                        "default: MINITVM_RECORDS, or else one in your home")  # fmt: skip
    parser.add_argument("--seed", type=opt.natural, default=0, metavar="N", help="seed for random choices")
    parser.add_argument("--op", metavar="NAME", help="tune one operator, named as in minitvm show --level fused")
    parser.add_argument("--png", metavar="FILE", help="output file of `report`; default: tune.png")
    parser.add_argument("--workers", metavar="ADDRESS", help="measure on the workers of this Dask scheduler, such "
                        "as tcp://host:8786 (see minitvm worker)")  # fmt: skip
    farm.add_security(parser)
    parser.set_defaults(function=tune)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"wanted a time above 0 such as 60s, 5m or 1h, found {text!r}")
    return seconds


def tune(options: argparse.Namespace) -> int:
    """Tune a model, or one of the words before FILE."""
    words = {"explain": _explain, "report": _report, "export": _export, "import": _import, "merge": _merge}
    of_farms = farm.given(options)
    if of_farms and options.workers is None:
        raise InputError(f"{of_farms[0]} is for a farm: give its scheduler with --workers ADDRESS")
    if options.model in words and options.file is not None:
        if options.workers is not None:
            raise InputError(f"tune {options.model} measures nothing, so it has no --workers")
        return words[options.model](options)
    if options.file is not None:
        raise InputError(f"{options.model} {options.file}: wanted one model, or one of {', '.join(words)} before it")
    if options.model in words and not Path(options.model).exists():
        raise InputError(f"tune {options.model}: wanted a model or file after it")
    return _tune(options)


def _tune(options: argparse.Namespace) -> int:
    import time

    from ...build import code_target
    from ...records.database import Database
    from ...tune.builds import Network
    from ...tune.network import RUNS, on_farm, tune_network
    from ...tune.task import measure_clock

    start = time.monotonic()
    with Database.open(options.db) as database:
        measuring, target = None, code_target(opt.target(options.target))
        network = Network(opt.read_graph(options.model, options.shape), target)
        if options.workers is not None:
            measuring = on_farm(options.workers, target, options.key, security=farm.security(options))
        elif options.budget is None or options.budget >= _WORTH_A_CLOCK:
            measure_clock(target)
        with _Progress() as progress:
            tuned = tune_network(
                network, database, start, options.budget, options.trials, options.seed, progress.report,
                options.runs or RUNS, measuring, options.op,
            )  # fmt: skip
        for line in summary(tuned):
            print(line)
        print(f"records     {database.count()} in {database.url}")
    return 130 if tuned.ended == "interrupted" else 0


_ENDED = {
    "gain": "another batch would cost more than it saves in {runs:,.0f} runs of the model; try --runs with more",
    "budget": "the budget is used up",
    "trials": "the trials are used up",
    "interrupted": "interrupted; what was measured is kept, the same command goes on",
}


def summary(tuned: Tuned) -> list[str]:
    """What came of tuning, in lines."""
    lines = [f"algorithm   {won}" for won in tuned.algorithms]
    lines += [f"skipped     {name}: {why}" for name, why in tuned.skipped]
    if tuned.waiting:
        of_all = f"{tuned.waiting} of {tuned.waiting + len(tuned.searches)} operators"
        again = f"not begun   {of_all}: run the same command again, or with a larger --budget"
        lines.append(f"left alone  {of_all}: they take too little for measurements to pay"
                     if tuned.ended == "gain" else again)  # fmt: skip
    before, after = tuned.untuned_seconds, tuned.tuned_seconds
    if before:
        lines.append(
            f"operators   {before * 1e3:.3f} ms untuned, {after * 1e3:.3f} ms tuned: {before / after:.2f} times as fast"
        )
    if tuned.unconfirmed:
        lines.append(f"network     what won was not run in it: {tuned.unconfirmed}")
    trials = sum(search.trials for search in tuned.searches)
    lines.append(
        f"ended       {_ENDED[tuned.ended].format(runs=tuned.runs)} ({trials} candidates, {tuned.seconds:.1f} s)"
    )
    return lines


class _Progress:
    """A line a task: on a terminal in place, elsewhere when a task has ended."""

    def __init__(self) -> None:
        self._live: Any = None
        self._rows: dict[int, Status] = {}

    def __enter__(self) -> _Progress:
        if sys.stdout.isatty():
            from rich.live import Live

            self._live = Live(refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            self._live.__exit__(*error)

    def report(self, status: Status) -> None:
        """Show where a task is."""
        self._rows[status.number] = status
        if self._live is not None:
            from rich.text import Text

            rows = [str(self._rows[number]) for number in sorted(self._rows)]
            self._live.update(Text("\n".join(rows[-(self._live.console.height - 2) :])))
        elif status.finished:
            print(status, flush=True)


def _tasks(options: argparse.Namespace, model: str, database: Database) -> list[Task]:
    from ...build import code_target
    from ...tune.builds import Network
    from ...tune.network import named

    network = Network(opt.read_graph(model, options.shape), code_target(opt.target(options.target)))
    tasks = network.recorded(database).tasks()
    return tasks if options.op is None else named(tasks, options.op)


def _explain(options: argparse.Namespace) -> int:
    from ...records.database import Database
    from ...tune.predicted_and_measured import lines

    with Database.open(options.db) as database:
        for number, task in enumerate(_tasks(options, options.file, database)):
            print("" if number == 0 else "\n", end="")
            print("\n".join(lines(task, database)))
    return 0


def _report(options: argparse.Namespace) -> int:
    from ...plots import figure_type
    from ...records.database import Database
    from ...tune import picture
    from .run import output_path

    place = output_path(options.png or "tune.png", "--png")
    figure_type()  # what is missing is said before the work
    with Database.open(options.db) as database:
        print(f"picture: {picture.draw(_tasks(options, options.file, database), database, place)}")
    return 0


def _export(options: argparse.Namespace) -> int:
    from ...records.database import Database

    with Database.open(options.db) as database:
        print(f"{database.export(options.file)} records written to {options.file}")
    return 0


def _import(options: argparse.Namespace) -> int:
    from ...records.database import Database

    with Database.open(options.db) as database:
        print(f"{database.import_from(options.file)} new records from {options.file}")
    return 0


def _merge(options: argparse.Namespace) -> int:
    from ...records.database import Database, file_of

    place = file_of(options.file)
    if place is not None and not place.is_file():
        raise InputError(f"no such database: {options.file}")
    with Database.open(options.db) as database, Database.open(options.file) as other:
        print(f"{database.merge(other)} new records from {other.url}")
    return 0
