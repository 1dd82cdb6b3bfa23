"""`minitvm export MODEL.onnx -o net.mtvm`: compile a model into one file that runs without the compiler."""

from __future__ import annotations

import argparse
import time

from . import options as opt
from .progress import progress
from .run import output_path


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("export", help="compile a model into one file", description=__doc__)
    opt.add_model(parser)
    parser.add_argument(
        "--arch", metavar="sm_80", action="append", default=[],
        help="for --target cuda: include machine code for this architecture; may be repeated",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="NET.mtvm", required=True, help="the file to write")
    opt.add_key(
        parser, "sign with the key in this file (at least 16 bytes); default: your key, which is created on first use"
    )
    parser.set_defaults(function=run)


def run(options: argparse.Namespace) -> int:
    from ... import lower
    from ...runtime.artifact import sign
    from ...runtime.artifact.export import export

    target = opt.target(options.target)
    destination = output_path(options.output, "--output")
    key = None if options.key is None else sign.key_bytes(options.key)
    graph = opt.read_graph(options.model, options.shape)
    start = time.perf_counter()
    with progress() as report:
        executable = lower(graph, target=target, stop_at="executable", progress=report, tuned="auto")
        compiling = lambda done, total, name: report("compiling", done, total)  # noqa: E731
        export(executable, destination, key, options.arch, compiling)  # no device is needed
    megabytes = destination.stat().st_size / 1e6
    print(f"compiled in {time.perf_counter() - start:.2f} s: {destination}, {megabytes:.1f} MB")
    return 0
