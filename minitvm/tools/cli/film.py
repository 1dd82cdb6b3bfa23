"""`minitvm film FILE.py [NAME] -o OUT.svg`: draw an animated picture of what a program reads and writes.

FILE is what `minitvm check` reads: a Python file with programs, or with a schedule, of which the result is shown. The
picture shows the loops as they run, the elements that are read and written, and an access that is undefined, such as a
race. With --cache it also shows what a cache of N lines holds. It is an SVG without a script: any browser plays
it, and a README or a web page can contain it. Small shapes make good films.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...errors import InputError, nearest
from . import options as opt


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "film",
        help="draw an animated picture of what a program reads and writes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", metavar="FILE.py", help="a Python file with a program or a schedule")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the program, if the file has several; default: the last"
    )
    parser.add_argument("-o", dest="out", required=True, metavar="OUT.svg", help="the picture to write")
    parser.add_argument("--cache", type=opt.natural, default=0, metavar="N", help="show a cache of N lines")
    parser.add_argument("--line", type=opt.natural, default=16, metavar="N", help="bytes of a line; default: 16")
    parser.add_argument("--buffers", metavar="A,B", help="draw only these buffers")
    parser.add_argument(
        "--inout", metavar="A,B", default="", help="outputs that the program also reads, so they start with values"
    )
    parser.set_defaults(function=film)


def film(options: argparse.Namespace) -> int:
    from ..film import Film
    from .run import output_path

    path = Path(options.file)
    if not path.is_file():
        raise InputError(f"{path} is a folder, wanted a file" if path.is_dir() else f"no such file: {path}")
    out = output_path(options.out, "-o")
    name, program = _chosen(path, options.name)
    shot = Film.of(
        program,
        title=name,
        cache_lines=options.cache,
        line_bytes=options.line,
        buffers=_names(options.buffers) or None,
        inout=_names(options.inout),
    )
    shot.save(out)
    count = len(shot.groups)
    size, steps = out.stat().st_size // 1000 + 1, f"{count:,} step{'s' if count != 1 else ''}"
    print(f"{out}: {size} KB, {steps} of {name}; open it in a browser")
    if shot.error is not None:
        print(str(shot.error))
    return 0


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _chosen(path: Path, name: str | None) -> tuple[str, Any]:
    """The program of a file with a name; without one the last, which is the result of a schedule if there is one."""
    from .program_file import read_programs

    programs = read_programs(path)
    every = {**programs.functions, **{pair.name: pair.after for pair in programs.pairs}}
    if not every:
        raise InputError(f"{path}: has no program to show\n  wanted: @T.prim_func, @I.ir_module or a tir.Schedule")
    if name is None:
        return list(every.items())[-1]
    if name not in every:
        raise InputError(f"{path}: has no program {name}: {nearest(name, list(every))}")
    return name, every[name]
