"""`minitvm explain PRIMITIVE`: what a schedule primitive does, before and after, and when it is legal."""

from __future__ import annotations

import argparse
from typing import Any


def register(commands: Any) -> None:
    parser = commands.add_parser("explain", help="what a schedule primitive does", description=__doc__)
    parser.add_argument("primitive", nargs="?", help="its name; without one, the list of all")
    parser.set_defaults(function=explain)


def explain(options: argparse.Namespace) -> int:
    from ..tir.schedule import registry

    if options.primitive is None:
        for name in registry.names():
            print(f"{name:<24} {registry.summary(name)}")
        return 0
    print(registry.document(options.primitive))
    return 0
