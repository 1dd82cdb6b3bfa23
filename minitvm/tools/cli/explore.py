"""`minitvm explore --static OUT.html FILE.py`: a schedule step by step, as one page.

FILE is what `minitvm check` reads: a Python file with a `tir.Schedule`, or with programs and a function
`schedule(sch)`. The page shows each step of the schedule with the program after it, the lines that changed, the cost
before and after, and the oracle's verdict. If the file ends in a step that is refused, the page shows that step with
its error. The page is one file: it needs no network, and you can open it from your disk or send it to somebody.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from . import options as opt
from .progress import progress

if TYPE_CHECKING:
    from ...target import Target


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "explore",
        help="a schedule step by step, as a web page",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE.py", help="a Python file with programs and their schedules")
    parser.add_argument("--static", metavar="OUT.html", required=True, help="the page to write")
    parser.add_argument("--no-film", action="store_true", help="leave the films out: a smaller page, made faster")
    parser.add_argument("--target", default="cpu", help="what to predict cycles for; default: cpu")
    parser.set_defaults(function=explore)


def explore(options: argparse.Namespace) -> int:
    from .run import output_path

    path, target = Path(options.file), opt.target(options.target)
    if not path.is_file():
        raise InputError(f"{path} is a folder, wanted a file" if path.is_dir() else f"no such file: {path}")
    out = output_path(options.static, "--static")
    text = static_page(path, target, films=not options.no_film)
    Path(out).write_text(text, encoding="utf-8")
    print(f"{out}: {len(text) // 1024} KB; open it in a browser")
    return 0


def static_page(path: Path, target: Target, name: str = "", films: bool = True) -> str:
    """The page of a file, with a `name` in place of the file's."""
    from ..explore import filmed, page, steps
    from .program_file import blamed_on, read_subjects

    subjects = read_subjects(path)
    shown = {}
    for subject in subjects:
        with progress(f"{subject.name}: each step"), blamed_on(path):
            key, number = subject.name, 2
            while key in shown:
                key, number = f"{subject.name} ({number})", number + 1
            rows = list(steps(subject, target))
            shown[key] = list(filmed(rows)) if films else rows
    return page(name or path.name, shown, getattr(target.description, "name", ""))
