"""`minitvm explain PRIMITIVE`: what a schedule primitive does, before and after, and when it is legal.

With --load, also one of a file of your own; with --errors, the errors that its requirements end in.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def register(commands: Any) -> None:
    parser = commands.add_parser("explain", help="what a schedule primitive does", description=__doc__)
    parser.add_argument("primitive", nargs="?", help="its name; without one, the list of all")
    parser.add_argument("--load", metavar="FILE.py", help="a file that registers primitives; without a name, its own")
    parser.add_argument("--errors", action="store_true", help="show how each registered bad call is refused")
    parser.set_defaults(function=explain)


def explain(options: argparse.Namespace) -> int:
    from ..errors import InputError
    from ..tir.schedule.gallery import gallery
    from ..tir.schedule.registry import lookup, transforms
    from .program_file import read_primitives

    loaded = read_primitives(Path(options.load)) if options.load else []
    if options.primitive is None:
        for primitive in loaded or transforms():
            print(f"{primitive.name:<24} {(primitive.function.__doc__ or '').strip().splitlines()[0]}")
        return 0
    try:
        chosen = lookup(options.primitive)
    except KeyError as error:
        raise InputError(error.args[0]) from None
    if not options.errors:
        print(chosen.document())
        return 0
    if not chosen.bad_calls:
        where = "tests/errors/schedule of a checkout has its errors"
        raise InputError(f"{chosen.name} registers no bad calls\n  try:    {where}")
    for number, (name, text) in enumerate(gallery(chosen).items()):
        print(("\n" if number else "") + f"--- {name}\n{text}")
    return 0
