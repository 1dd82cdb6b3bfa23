"""`minitvm explain PRIMITIVE`: what a schedule primitive does, before and after, and when it is legal."""

from __future__ import annotations

import argparse
from typing import Any


def register(commands: Any) -> None:
    parser = commands.add_parser("explain", help="what a schedule primitive does", description=__doc__)
    parser.add_argument("primitive", nargs="?", help="its name; without one, the list of all")
    parser.set_defaults(function=explain)


def explain(options: argparse.Namespace) -> int:
    from ..errors import InputError
    from ..tir.schedule import document
    from ..tir.schedule.registry import transforms

    if options.primitive is None:
        for primitive in transforms():
            print(f"{primitive.name:<24} {(primitive.function.__doc__ or '').strip().splitlines()[0]}")
        return 0
    try:
        print(document(options.primitive))
    except KeyError as error:
        raise InputError(error.args[0]) from None
    return 0
