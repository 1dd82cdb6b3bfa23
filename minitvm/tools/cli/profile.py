"""`minitvm profile MODEL`: measure each operator of a model or artifact, and compare it with the machine's limits."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import InputError
from . import options as opt
from .progress import progress
from .run import is_artifact, output_path
from .run_artifact import random_inputs


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "profile", help="measure each operator, and compare it with the machine's limits",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{__doc__}\n\ncolumns:\n"
        "  ms, time    time from the start of the first thread to the end of the last (us if short), and its share\n"
        "  GFLOP/s     operations per second; `of peak`: compared with the measured peak of this machine\n"
        "  MB, FLOP/B  bytes that the kernels read and write, counted once per kernel; operations per byte\n"
        "  bound by    the limit: compute, or the level of memory that the bytes come from; `of bound`: 100% is best\n"
        "  waits       share of the threads' time that they spend waiting for each other\n"
        "  computes    the nodes of the model that the operator computes, or its result if a pass added it\n\n"
        "A dimension that the model leaves open stays open. The program runs at the sizes of --input. With --shape\n"
        "you fix a dimension. If an operator does not support an open dimension, it is fixed to the size in --input.",
    )  # fmt: skip
    opt.add_model(parser)
    parser.add_argument("--input", metavar="X.npz", help="file with named inputs; default: seeded random inputs")
    opt.add_threads(parser)
    opt.add_engine(parser)
    parser.add_argument("--runs", type=opt.thread_count, default=20, metavar="K", help="timed runs; default: 20")
    parser.add_argument("--png", metavar="ROOFLINE.png", help="draw the operators under the machine's roofline")
    parser.add_argument(
        "--trace", metavar="TRACE.json", help="write a timeline for ui.perfetto.dev or chrome://tracing"
    )
    parser.add_argument(
        "--in-order", action="store_true", help="list operators in the order in which they run; default: slowest first"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run an artifact that is not signed with your key; it contains machine code",
    )
    opt.add_key(parser, "file with the key of the artifact; default: your key")
    parser.set_defaults(function=profile)


def profile(options: argparse.Namespace) -> int:
    picture = output_path(options.png, "--png") if options.png else None
    timeline = output_path(options.trace, "--trace") if options.trace else None
    if picture is not None:
        from ...plots import figure_type

        figure_type()  # what is missing is said before the work
    arrays = opt.load_arrays(options.input) if options.input else None
    module, inputs = artifact(options, arrays) if is_artifact(options.model) else model(options, arrays)
    result = module.profile(runs=options.runs, **inputs)
    print(result.table(by_time=not options.in_order))
    if picture is not None:
        print(f"roofline: {result.save_roofline(picture)}")
    if timeline is not None:
        print(f"timeline: {result.save_trace(timeline)} (open it at https://ui.perfetto.dev)")
    return 0


Compiled = tuple[Any, Mapping[str, Any]]  # a module, and its inputs by name


def model(options: argparse.Namespace, arrays: Mapping[str, np.ndarray] | None) -> Compiled:
    """A model of the command line, compiled. What it leaves open stays open, as in `build`, where operators take it."""
    from ... import build
    from ...errors import UnsupportedOperator

    if options.trust or options.key is not None:
        raise InputError("--trust and --key go with an artifact, a file that `minitvm export` wrote")
    target = opt.target(options.target)
    try:
        graph = opt.read_graph(options.model, options.shape)
    except UnsupportedOperator:
        if arrays is None:
            raise
        graph = opt.read_graph(options.model, options.shape, arrays)
    if arrays is None:
        opt.fixed_shapes(graph)
    else:
        opt.check_inputs(graph, arrays)
    inputs = opt.random_inputs(graph, opt.arguments(graph)) if arrays is None else arrays
    with progress() as report:
        engines = opt.engines(options)
        return build(graph, target=target, threads=options.threads, progress=report, engines=engines), inputs


def artifact(options: argparse.Namespace, arrays: Mapping[str, np.ndarray] | None) -> Compiled:
    """An artifact of the command line, loaded."""
    from ...runtime import load

    if options.target != "cpu":
        raise InputError(f"--target {options.target}: an artifact is compiled already")
    if options.engine:
        raise InputError("--engine goes with a model: an artifact is compiled already")
    module = load(options.model, options.threads, trust=options.trust, key=options.key)
    if not hasattr(module, "profile"):
        raise InputError(f"{options.model} is a tir function; profiles are of models")
    shapes = opt.sizes(opt.parse_shapes(options.shape))
    return module, random_inputs(module.executable, shapes) if arrays is None else arrays
