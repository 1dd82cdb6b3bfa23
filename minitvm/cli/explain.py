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
    from ..gallery import refusals  # parses all of its programs
    from ..tir.schedule.gallery import gallery

    # A primitive from outside registers its bad calls, those of the package stand together.
    errors = gallery(chosen) if chosen.bad_calls else refusals(chosen.name)
    if not errors:
        wanted = f'{chosen.name}.refuses(a_requirement, "sch.{chosen.name}(...)")'
        raise InputError(f"{chosen.name} has no bad calls\n  wanted: {wanted}" if chosen.requires
                         else f"{chosen.name} has no requirements: nothing is refused by name")  # fmt: skip
    for number, (name, text) in enumerate(errors.items()):
        print(("\n" if number else "") + f"--- {name}\n{text}")
    return 0
