"""`minitvm profile MODEL`: where a compiled model's time goes, operator by operator, and what bounds each."""

from __future__ import annotations

import argparse
from typing import Any

from . import options as opt
from .progress import progress
from .run import output_path


def register(commands: Any) -> None:
    parser = commands.add_parser(
        "profile", help="time, rate and roofline of each operator",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"{__doc__}\n\ncolumns:\n"
        "  ms, time    from the first thread's start to the last one's end; its part of the whole\n"
        "  GFLOP/s     operations a second; `of peak` against what this machine was measured to do\n"
        "  MB, FLOP/B  bytes that its kernels read and write, each once a kernel; operations a byte\n"
        "  bound by    compute, or the level of memory that its bytes come from; `of bound`: 100% is on the roof\n"
        "  waits       part of the threads' time spent waiting for each other",
    )  # fmt: skip
    opt.add_model(parser)
    parser.add_argument("--input", metavar="X.npz", help="inputs by name; without it seeded random ones")
    opt.add_threads(parser)
    parser.add_argument("--runs", type=opt.thread_count, default=20, metavar="K", help="timed runs; default: 20")
    parser.add_argument("--png", metavar="ROOFLINE.png", help="draw the operators under the machine's roofline")
    parser.add_argument("--trace", metavar="TRACE.json", help="write a timeline for ui.perfetto.dev or chrome://tracing")
    parser.add_argument("--in-order", action="store_true", help="operators as they run; default: the slowest first")
    parser.set_defaults(function=profile)


def profile(options: argparse.Namespace) -> int:
    from .. import build

    target = opt.target(options.target)
    picture = output_path(options.png, "--png") if options.png else None
    timeline = output_path(options.trace, "--trace") if options.trace else None
    if picture is not None:
        from ..profile import roofline

        roofline.require()
    given = opt.load_arrays(options.input) if options.input else None
    graph = opt.read_graph(options.model, options.shape, given)
    if given is None:
        opt.fixed_shapes(graph)
    else:
        opt.check_inputs(graph, given)
    inputs = opt.random_inputs(graph.inputs) if given is None else given
    with progress() as report:
        module = build(graph, target=target, threads=options.threads, progress=report)
    found = module.profile(*(inputs[value.name] for value in graph.inputs), runs=options.runs)
    print(found.table(by_time=not options.in_order))
    if picture is not None:
        print(f"roofline: {found.save_roofline(picture)}")
    if timeline is not None:
        print(f"timeline: {found.save_trace(timeline)} (open it at https://ui.perfetto.dev)")
    return 0
