"""`minitvm run MODEL.onnx`: compile a model, run it, and describe its outputs; or run an artifact."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...graph import Graph
from . import options as opt
from .difference import TOLERANCE, relative_difference
from .progress import Steps, progress
from .timed import timed


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser("run", help="compile and run a model", description=__doc__)
    opt.add_model(parser)
    parser.add_argument("--input", metavar="X.npz", help="file with named inputs; default: seeded random inputs")
    parser.add_argument("--output", metavar="Y.npz", help="write the outputs there")
    opt.add_threads(parser)
    opt.add_engine(parser)
    parser.add_argument(
        "--check", action="store_true", help="compare with the graph interpreter; exit status 1 if wrong"
    )
    parser.add_argument(
        "--checked", action="store_true", help="report an error if an index in the data is out of range"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run an artifact that is not signed with your key; it contains machine code",
    )
    opt.add_key(parser, "file with the key of the artifact; default: your key")
    parser.set_defaults(function=run)


def run(options: argparse.Namespace) -> int:
    if is_artifact(options.model):  # which needs no compiler: nothing of it is imported
        from . import run_artifact

        return run_artifact.run(options)
    from ... import build

    if options.trust or options.key is not None:
        raise InputError("--trust and --key go with an artifact, a file that `minitvm export` wrote")
    if options.model.endswith(".mtvm") and Path(options.model).is_file():
        raise InputError(f"{options.model} is not an artifact, or a damaged one: `minitvm export` writes them anew")
    target = opt.target(options.target)
    destination = output_path(options.output, "--output") if options.output else None
    arrays_read = opt.load_arrays(options.input) if options.input else None
    graph = opt.read_graph(options.model, options.shape, arrays_read)
    if arrays_read is None:
        opt.fixed_shapes(graph)
        inputs = opt.random_inputs(graph, opt.arguments(graph))
    else:
        opt.check_inputs(graph, arrays_read)
        inputs = arrays_read
    start = time.perf_counter()
    with progress() as report:
        module = build(
            graph, target=target, threads=options.threads, progress=report, checked=options.checked,
            engines=opt.engines(options),
        )  # fmt: skip
    compiled = time.perf_counter() - start
    arrays = [inputs[value.name] for value in opt.arguments(graph)]
    results, times = timed(lambda: module(*arrays), module.reset)
    outputs = results if isinstance(results, tuple) else (results,)
    print(f"compiled in {compiled:.2f} s, {times} on {module.threads} threads")
    named = dict(zip(module.output_names, outputs, strict=True))
    print(opt.describe(named))
    if destination is not None:
        save(destination, named)
    return check(graph, inputs, outputs) if options.check else 0


def is_artifact(path: str) -> bool:
    """Whether the file begins like an artifact."""
    from ...runtime.artifact.format import MAGIC

    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def output_path(text: str, option: str) -> Path:
    """The path of a file that an option writes; paths that cannot be written are refused before the work begins."""
    from ...runtime.artifact.format import refuse_no_file

    path = Path(text)
    refuse_no_file(text, option)
    if not path.parent.is_dir():
        raise InputError(f"{option}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{option}: the folder {path.parent} cannot be written")
    return path


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an .npz file under exactly that name, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def check(graph: Graph, inputs: Mapping[str, np.ndarray], outputs: tuple[np.ndarray, ...]) -> int:
    """Compare with the graph interpreter: the largest difference as a part of the largest expected value."""
    from ...reference import graph as interpreter

    wrong = 0
    with progress() as report:
        steps = Steps(report, "interpreting the graph", len(graph.nodes))
        expected = interpreter.run(graph, dict(inputs), listeners=[steps], states={})
    values = [value for number, value in enumerate(graph.outputs) if number not in graph.left()]
    for value, actual, expected_output in zip(values, outputs, expected, strict=True):
        difference = relative_difference(actual, expected_output)
        ok = difference <= TOLERANCE
        wrong += not ok
        print(f"check {value.name}: {'ok' if ok else 'WRONG'}, difference {difference:.2e} of the largest value")
    return 1 if wrong else 0
