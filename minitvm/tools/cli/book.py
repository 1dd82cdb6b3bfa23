"""`minitvm book [MODEL.onnx]`: walk through one build, function by function, with the program before and after each.

Without MODEL, it shows the build of a matrix product with a ReLU, for a fixed CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError, nearest
from ...target import Target
from . import options as opt
from .stations import Visit, pages, require_all, stations, visits_of

if TYPE_CHECKING:
    from ...graph import Graph

# All that the choice of a schedule reads, so that the text does not depend on the machine.
TARGET = (
    "cpu -name=example -vector_bits=256 -vector_registers=16 -fma_ports=2 -fma_latency=4 -has_fma=true -cores=2"
    " -ghz=2.5 -l1=32768:8:64:1 -l2=524288:8:64:1 -l3=33554432:16:64:2 -features=sse4_2,avx,avx2,fma,f16c"
    " -l1_rate=128 -l2_rate=64.0 -l3_rate=16.0 -memory_rate=5.0 -isa=native"
)
HEAD = """# The book: one build from model to machine code

`minitvm book` prints this page, and `minitvm book MODEL.onnx` prints it for your own model. Each section
shows a function that `minitvm.build` called in a real build, in the order of the calls. You see its file, the first
paragraph of its docstring, and the programs that it received and returned. If both programs are at the same level, you
see the lines that changed. Long programs are shortened; `minitvm show MODEL.onnx --level LEVEL` prints them in full.

The target:

```text
{target}
```
"""


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("book", help="walk through one build, function by function", description=__doc__)
    opt.add_model(parser, programs=True, optional=True)
    parser.add_argument("--op", metavar="NAME", help="the operator of the model, or the function of the file")
    parser.set_defaults(function=book)


def book(options: argparse.Namespace) -> int:
    if options.model is None:
        for name in ("op", "shape"):
            if getattr(options, name):
                raise InputError(f"--{name} goes with a model\n  try:    minitvm book MODEL.onnx --{name} ...")
        if options.target != "cpu":
            raise InputError("--target goes with a model: the build of the book has a target of its own")
        print(default_book(), end="")
        return 0
    target = opt.target(options.target)
    model = _program(options) if options.model.endswith(".py") else _graph(options, target)
    visits = visits_of(model, target)
    print(f"{HEAD.format(target=target)}\n{pages(visits)}{_not_reached(visits)}", end="")
    return 0


def default_book() -> str:
    """The page of the default build. Raises `InternalError` if the build does not reach each station in order."""
    visits = visits_of(example(), TARGET)
    require_all(visits)
    return f"{HEAD.format(target=TARGET)}\n{pages(visits)}"


def example() -> Graph:
    """A product of matrices with a ReLU. The rows are no multiple of a tile, so you see what happens at the edge."""
    from ...graph import GraphBuilder

    b = GraphBuilder("matmul_relu")
    x, w = b.input("x", (16, 64), "float32"), b.input("w", (64, 32), "float32")
    return b.build(b.op("nn.relu", b.op("nn.matmul", x, w)))


def _graph(options: argparse.Namespace, target: Target) -> Graph:
    """The model if it is one operator after fusion, else the operator that --op names."""
    from ...build import optimize_graph, stage
    from ...lowering import to_units

    graph = opt.read_graph(options.model, options.shape)
    units = {unit.name: unit for unit in to_units(optimize_graph(graph, target))}
    if options.op is None and len(units) == 1:
        return graph
    return stage(_named(options, units, "operator"), target, "fused")


def _program(options: argparse.Namespace) -> Any:
    """The function of a Python file with TVMScript, or the one that --op names."""
    from .program_file import read_programs

    if options.shape:
        raise InputError("--shape goes with a model; a program has its shapes")
    functions = read_programs(Path(options.model)).functions
    if options.op is None and len(functions) == 1:
        return next(iter(functions.values()))
    return _named(options, functions, "function")


def _named(options: argparse.Namespace, parts: Mapping[str, Any], kind: str) -> Any:
    """The part that --op names, if there is one of that name."""
    if options.op in parts:
        return parts[options.op]
    if options.op is not None:
        raise InputError(f"--op: no {kind} {options.op}; {nearest(options.op, list(parts))}")
    some = ", ".join([*list(parts)[:8], *(["..."] if len(parts) > 8 else [])])
    raise InputError(f"{options.model}: wanted one {kind}, found {len(parts)}: {some}\n  try:    --op NAME")


def _not_reached(visits: list[Visit]) -> str:
    reached = {visit.station for visit in visits}
    others = [f"`{row.path}`" for row in stations() if row not in reached]
    return f"\nThis build did not need: {', '.join(others)}.\n" if others else ""


__all__ = ["TARGET", "book", "default_book", "example", "register"]
