"""`minitvm explore FILE.py`: change a schedule in your browser, and see at once what each step does.

FILE is what `minitvm check` reads: a Python file with a `tir.Schedule`, or with programs and a function
`schedule(sch)`. You see each step of the schedule with the program after it, the lines that changed, the cost before
and after, and the oracle's verdict; and the program at each level and after each pass of lowering. If the file ends in
a step that is refused, you see that step with its error. The page offers legal next steps, keeps all versions, and
saves one as a file that `minitvm check` runs.

    minitvm explore FILE.py                      a local server for your browser; Ctrl-C ends it
    minitvm explore --static OUT.html FILE.py    one page of all steps, without a server

The server runs on this machine only, and its address has a random token. The page of --static is one file: it needs no
network, and you can open it from your disk or send it to others.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from . import options as opt
from .progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...target import Target
    from ..explore import Subject


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "explore",
        help="change a schedule step by step in your browser",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE.py", help="a Python file with programs and their schedules")
    parser.add_argument("--static", metavar="OUT.html", help="write one page instead of starting a server")
    parser.add_argument(
        "--no-film", action="store_true", help="with --static: leave the films out, for a smaller page, made faster"
    )
    parser.add_argument(
        "--port", type=opt.natural, default=0, metavar="N", help="port of the server; default: any free one"
    )
    parser.add_argument(
        "--seconds", type=opt.natural, default=60, metavar="N", help="longest time for one answer; default: 60"
    )
    parser.add_argument("--target", default="cpu", help="machine whose cycles are predicted; default: cpu")
    parser.set_defaults(function=explore)


def explore(options: argparse.Namespace) -> int:
    path, target = Path(options.file), opt.target(options.target)
    if not path.is_file():
        raise InputError(f"{path} is a folder, wanted a file" if path.is_dir() else f"no such file: {path}")
    if options.static is None:
        return serve(path, options)
    from .run import output_path

    out = output_path(options.static, "--static")
    text = static_page(path, target, films=not options.no_film)
    Path(out).write_text(text, encoding="utf-8")
    print(f"{out}: {len(text) // 1024} KB; open it in a browser")
    return 0


def serve(path: Path, options: argparse.Namespace) -> int:
    """Serve the schedules of a file until Ctrl-C."""
    from ..explore import Explorer, server, started
    from .program_file import read_subjects

    if options.no_film:
        raise InputError("--no-film goes with --static")
    if options.port > 65535:
        raise InputError(f"--port {options.port}: wanted 0 to 65535")
    subjects = [subject for subject in read_subjects(path) if subject.after is None]
    if not subjects:
        raise InputError(f"{path}: two programs have no steps to edit\n  try:    --static OUT.html")
    states = {name: started(subject) for name, subject in named(subjects).items()}
    http, address = server(Explorer(states, options.target, options.seconds), path.name, options.port)
    print(f"open {address}\nCtrl-C ends the server", flush=True)
    with http:
        http.serve_forever()
    return 0


def named(subjects: Sequence[Subject]) -> dict[str, Subject]:
    """The subjects by name, with a number after a name that an earlier one has."""
    names: dict[str, Subject] = {}
    for subject in subjects:
        key, number = subject.name, 2
        while key in names:
            key, number = f"{subject.name} ({number})", number + 1
        names[key] = subject
    return names


def static_page(path: Path, target: Target, name: str = "", films: bool = True) -> str:
    """The page of a file, with a `name` in place of the file's."""
    from ..explore import filmed, page, steps
    from .program_file import blamed_on, read_subjects

    shown = {}
    for key, subject in named(read_subjects(path)).items():
        with progress(f"{key}: each step"), blamed_on(path):
            rows = list(steps(subject, target))
            shown[key] = list(filmed(rows)) if films else rows
    return page(name or path.name, shown, getattr(target.description, "name", ""))
