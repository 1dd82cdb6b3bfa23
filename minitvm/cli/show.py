"""`minitvm show MODEL.onnx --level LEVEL`: print a model at one level of the compiler."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import InputError
from . import options as opt
from .progress import progress

LEVELS = ("graph", "fused", "te", "tir", "schedule", "kernel", "source", "executable")


def register(commands: Any) -> None:
    parser = commands.add_parser("show", help="print a model at one level", description=__doc__)
    opt.add_model(parser)
    parser.add_argument("--level", required=True, choices=LEVELS, help="which language")
    parser.add_argument("--op", metavar="NAME", help="only this fused operator, by the name that --level fused shows")
    parser.set_defaults(function=show)


def show(options: argparse.Namespace) -> int:
    from .. import lower

    if options.op is not None and options.level in ("graph", "fused", "executable"):
        raise InputError(f"--op goes with --level te, tir, schedule, kernel or source, not with {options.level}")
    path, shapes = opt.model_path(options.model), opt.parse_shapes(options.shape)
    with progress() as report:
        result = lower(
            path, target=options.target, shapes=shapes, stop_at=options.level, only=options.op, progress=report
        )
    print(text(result))
    return 0


def text(result: Any) -> str:
    """A level's result as text: a dictionary by operator as one part after the other."""
    if isinstance(result, dict):
        return "\n\n".join(f"# {name}\n{text(part)}" for name, part in result.items())
    if isinstance(result, str):
        return result.rstrip("\n")
    if isinstance(result, list | tuple):
        return "\n".join(text(part) for part in result)
    return str(result).rstrip("\n")
