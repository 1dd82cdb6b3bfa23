"""`minitvm run MODEL.onnx`: compile a model, run it, say what came out."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from ..errors import InputError
from . import options as opt
from .progress import progress


def register(commands: Any) -> None:
    parser = commands.add_parser("run", help="compile and run a model", description=__doc__)
    opt.add_model(parser)
    parser.add_argument("--input", metavar="X.npz", help="inputs by name; without it seeded random ones")
    parser.add_argument("--output", metavar="Y.npz", help="write the outputs there")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the team; default: the machine's cores")
    parser.add_argument("--check", action="store_true", help="compare with the graph interpreter")
    parser.set_defaults(function=run)


def run(options: argparse.Namespace) -> int:
    from .. import build, lower

    if options.threads is not None and options.threads < 1:
        raise InputError(f"--threads {options.threads}: wanted a number from 1")
    path = opt.model_path(options.model)
    shapes: dict[str, tuple[int, ...]] = opt.parse_shapes(options.shape)
    given = opt.load_arrays(options.input) if options.input else None
    graph = lower(path, target=options.target, shapes=shapes, stop_at="graph")
    start = time.perf_counter()
    with progress() as report:
        module = build(graph, target=options.target, threads=options.threads, progress=report)
    compiled = time.perf_counter() - start
    inputs = given if given is not None else opt.random_inputs(graph.inputs)
    start = time.perf_counter()
    outputs = module(**inputs)
    first = time.perf_counter() - start
    named = dict(zip((value.name for value in graph.outputs), outputs, strict=True))
    print(f"compiled in {compiled:.2f} s, ran in {first * 1e3:.2f} ms")
    print(opt.describe(named))
    if options.output:
        np.savez(options.output, **named)
    return check(graph, inputs, outputs) if options.check else 0


def check(graph: Any, inputs: dict[str, np.ndarray], outputs: list[np.ndarray]) -> int:
    """Compare with the graph interpreter: the largest difference as a part of the largest expected value."""
    from ..reference import graph as interpreter

    wrong = 0
    expected = interpreter.run(graph, inputs)
    for value, found, wanted in zip(graph.outputs, outputs, expected, strict=True):
        difference, allowed = relative_difference(found, wanted), 1e-3
        ok = difference <= allowed
        wrong += not ok
        print(f"check {value.name}: {'ok' if ok else 'WRONG'}, difference {difference:.2e} of the largest value")
    return 1 if wrong else 0


def relative_difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """max |found - wanted| / max |wanted|; infinite where NaNs or infinities do not agree."""
    if found.shape != wanted.shape:
        return float("inf")
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind != "f":
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    special = ~np.isfinite(wanted)
    if not np.array_equal(found[special], wanted[special], equal_nan=True):
        return float("inf")
    a, b = found[~special].astype(np.float64), wanted[~special].astype(np.float64)
    if not b.size:
        return 0.0
    scale = float(np.abs(b).max()) or 1.0
    worst = float(np.abs(a - b).max()) / scale
    return worst if np.isfinite(worst) else float("inf")
