"""`minitvm explain PRIMITIVE`: the meaning of a schedule primitive, an example, and when it is legal.

With --load, also a primitive of your own file; with --errors, the errors of its requirements.

`minitvm explain MODEL --engine NAME`: which parts of a model an engine computes, how fast, and why not the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from . import options as opt
from .wrapping import columns, filled

if TYPE_CHECKING:
    from ...tir.schedule import Primitive


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("explain", help="explain a schedule primitive", description=__doc__)
    parser.add_argument("primitive", nargs="?", help="its name, or a model; without one, the list of all primitives")
    parser.add_argument("--load", metavar="FILE.py", help="a file that registers primitives; without a name, its own")
    parser.add_argument("--errors", action="store_true", help="show how each registered bad call is refused")
    opt.add_engine(parser)
    opt.add_shape(parser)
    opt.add_threads(parser)
    parser.set_defaults(function=explain)


def explain(options: argparse.Namespace) -> int:
    from ...errors import InputError

    if options.engine:
        from .explain_engines import explain_engines

        return explain_engines(options)
    if options.shape or options.threads:
        raise InputError("--shape and --threads go with --engine")
    from ...tir.schedule.registry import PRIMITIVES, lookup
    from .program_file import blamed_on, read_primitives

    loaded = read_primitives(Path(options.load)) if options.load else []
    if options.primitive is None:
        print(filled(lines_of(loaded) if loaded else overview(PRIMITIVES.values()), columns()))
        return 0
    try:
        primitive = lookup(options.primitive)
    except KeyError as error:
        raise InputError(error.args[0]) from None
    if not options.errors:
        print(filled(primitive.document(), columns()))
        return 0
    from ...tir.schedule.examples import gallery

    with blamed_on(Path(options.load)) if options.load else nullcontext():
        errors = gallery(primitive)
    if not errors:
        raise InputError(f"{primitive.name} has no requirements: nothing is refused by name")
    for number, (name, text) in enumerate(errors.items()):
        print(("\n" if number else "") + f"--- {name}\n{text}")
    return 0


# The files of the spine of `tir.schedule.primitives`, one family each, under the headings of the list.
SPINE = {
    "Loops": ("loops", "kinds", "partition"),
    "Places": ("compute_at", "inline"),
    "Copies": ("cache", "reindex"),
    "Reductions": ("decompose_reduction", "rfactor", "reduce_in_passes", "rolling_buffer", "zero_terms"),
    "Layouts": ("transform_layout", "transform_block_layout", "block_iters", "padding", "pad_einsum"),
    "Instructions": ("blockize", "tensorize"),
    "Storage and notes": ("storage", "annotate"),
    "Questions: they find blocks and loops and change nothing": ("queries",),
}
SHELF = "The shelf: so that what is written for TVM runs as it is"


def lines_of(primitives: Iterable[Primitive]) -> str:
    """A line for each primitive: its name and the first sentence of its documentation."""
    return "\n".join(f"{one.name:<24} {(one.function.__doc__ or '').strip().splitlines()[0]}" for one in primitives)


def overview(primitives: Iterable[Primitive]) -> str:
    """The lines of primitives in groups: the spine, then the shelf, then primitives from outside the package."""
    from ...compat.tvm.schedule import primitives as for_tvm
    from ...tir.schedule import primitives as spine

    headings = {f"{spine.__name__}.{file}": group for group, files in SPINE.items() for file in files}
    members: dict[str, list[Primitive]] = {group: [] for group in (*SPINE, SHELF, "Others")}
    for one in primitives:
        module = one.function.__module__
        on_shelf = module.startswith(f"{for_tvm.__name__}.")
        members[SHELF if on_shelf else headings.get(module, "Others")].append(one)
    return "\n\n".join(f"{group}\n{indent(lines_of(some), '  ')}" for group, some in members.items() if some)
