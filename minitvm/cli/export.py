"""`minitvm export MODEL.onnx -o net.mtvm`: compile a model into one file that runs without the compiler."""

from __future__ import annotations

import argparse
import time
from typing import Any

from . import options as opt
from .progress import progress
from .run import output_path


def register(commands: Any) -> None:
    parser = commands.add_parser("export", help="compile a model into one file", description=__doc__)
    opt.add_model(parser)
    parser.add_argument("-o", "--output", metavar="NET.mtvm", required=True, help="the file to write")
    opt.add_key(parser, "sign with the key in this file (at least 16 bytes); default: your own key, made on first use")
    parser.set_defaults(function=run)


def run(options: argparse.Namespace) -> int:
    from .. import build
    from ..runtime.artifact import sign

    target = opt.target(options.target)
    destination = output_path(options.output, "--output")
    key = None if options.key is None else sign.key_bytes(options.key)
    graph = opt.read_graph(options.model, options.shape)
    start = time.perf_counter()
    with progress() as report:
        module = build(graph, target=target, progress=report)
    module.export(destination, key=key)
    megabytes = destination.stat().st_size / 1e6
    print(f"compiled in {time.perf_counter() - start:.2f} s: {destination}, {megabytes:.1f} MB")
    return 0
