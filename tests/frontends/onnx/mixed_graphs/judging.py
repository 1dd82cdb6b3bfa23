"""The compiler's results for a graph, compared with the numbers that it was drawn with."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import minitvm
from minitvm.errors import InternalError, MinitvmError, VerificationError
from minitvm.frontends import from_onnx
from minitvm.reference import graph as interpreter
from tests.frontends.onnx.one_node import Seeded
from tests.frontends.onnx.sizes.verdicts import CRASH, DISPUTED, REFUSED, RIGHT, WRONG, Judgement

from . import bytes, spliced  # noqa: F401  (they register moves)
from .growing import MixedGraph, Unfit, numbers
from .moves import MOVES

SLOW, UNDRAWN = "slow", "undrawn"
LONG = 15  # seconds of CPU time for a build and its first run
BAD = (WRONG, CRASH, UNDRAWN)  # of a test; how slow a build is depends on the machine


def grown(d: Seeded, moves: Sequence[str] = (), most: int = 12) -> MixedGraph:
    """A graph of 3 to `most` moves, and some nodes more."""
    g = MixedGraph(d)
    extents = d.one((1, 2, 3, 4, 5), (1, 2, 3, 4, 5, 7, 8, 9), (0, 1, 2, 3, 8))
    for _ in range(d.int(1, 3)):
        dtype = d.one(
            "float32", "float32", "float32", "float32", "float16", "float64", "int64", "int32", "uint8", "int8", "bool"
        )
        rank = d.one(0, 1, 2, 2, 3, 3, 4, 4, 5)
        g.input(numbers(d, [d.one(*extents) for _ in range(rank)], dtype))
    wanted = d.int(3, most)
    for _ in range(8 * most):
        if len(g.moves) >= wanted:
            break
        name = d.one(*(moves or MOVES), *(moves or ("unary", "binary", "spliced", "spliced")))
        before = (list(g.steps), dict(g.values), dict(g.arrays), dict(g.inputs), dict(g.constants))
        try:
            MOVES[name](g)
        except Unfit:
            g.steps, g.values, g.arrays, g.inputs, g.constants = before
            continue
        g.moves.append(name)
    if not g.steps:
        g.node("Shape", list(g.values)[:1])
    return g


def seeded(seed: int) -> MixedGraph:
    """The graph that comes with the seed."""
    return grown(Seeded(seed))


def judge_seed(seed: int, *, compiled: bool = True) -> Judgement:
    """Draw the graph of a seed and judge it; every second one has open axes."""
    try:
        graph = seeded(seed)
    except Exception as error:
        return Judgement(UNDRAWN, f"{type(error).__name__}: {error}")
    judgement = judge(graph, open_axes=seed % 2 == 1, compiled=compiled)
    if judgement.verdict != RIGHT:
        judgement.text += f"\n    {graph}"
    return judgement


def judge(g: MixedGraph, *, open_axes: bool, compiled: bool = True) -> Judgement:
    """Import, interpret, build and run a graph."""
    model, feeds, expected = g.model(open_axes), g.feeds(), g.expected()
    try:
        found = {"interpreter": interpreter.run(from_onnx(model), feeds)}
        start = time.process_time()
        if compiled:
            module = minitvm.build(model, threads=1)
            results = module(**feeds)
            found["compiled"] = results if isinstance(results, tuple | list) else [results]
        seconds = time.process_time() - start
    except InternalError as error:
        return Judgement(CRASH, f"InternalError: {error}")
    except VerificationError as error:  # in words of another level
        return Judgement(CRASH, f"VerificationError: {error}")
    except MinitvmError as error:
        return Judgement(REFUSED, f"{type(error).__name__}: {error}")
    except Exception as error:
        return Judgement(CRASH, f"{type(error).__name__}: {error}\n{traceback.format_exc()[-1500:]}")
    for level, results in found.items():
        text = _wrong(g, results, expected)
        if text:
            return Judgement(DISPUTED if _agreed(model, feeds, results) else WRONG, f"{level}: {text}")
    return Judgement(SLOW, f"{seconds:.0f} s") if seconds > LONG else Judgement(RIGHT)


def _agreed(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], results: Sequence[np.ndarray]) -> bool:
    """Whether ONNX's own evaluator computes the same, where ONNX Runtime does not."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theirs = ReferenceEvaluator(model).run(None, dict(feeds))
    except Exception:  # it fails in many ways on what it does not know
        return False
    return not any(unlike(np.asarray(a), np.asarray(b), [np.asarray(b)]) for a, b in zip(results, theirs, strict=True))


def _wrong(g: MixedGraph, results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> str:
    """Where results differ by more than inputs, and the numbers between nodes, that are changed a bit do it."""
    if not any(unlike(np.asarray(a), b, [b]) for a, b in zip(results, expected, strict=True)):
        return ""
    moved = [g.moved(factor) for factor in (1e-5, -1e-5, 3e-6)]
    if None in moved:
        return ""
    for number, (a, b) in enumerate(zip(results, expected, strict=True)):
        text = unlike(np.asarray(a), b, [m[number] for m in moved if m is not None])
        if text:
            return f"output {g.outputs()[number]}: {text}"
    return ""


def unlike(a: np.ndarray, b: np.ndarray, moved: Sequence[np.ndarray]) -> str:
    if any(m.shape != b.shape for m in moved):
        return ""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{list(a.shape)} instead of {b.dtype}{list(b.shape)}"
    if not b.size:
        return ""
    with np.errstate(all="ignore"):
        x, y = (v.astype(np.float64) for v in (a, b))
        half = b.dtype == np.float16
        steady = np.ones(b.shape, bool)
        reach = np.zeros(b.shape)
        for m in moved:
            step = np.abs(m.astype(np.float64) - y)
            reach = np.maximum(reach, step)
        near = (2e-2 if half else 1e-4) * (1 + np.abs(y)) + 20 * reach if b.dtype.kind == "f" else reach * 2
        if b.dtype.kind != "f":
            steady = reach == 0
            near = np.zeros(b.shape)
        same = np.isclose(x, y, rtol=0, atol=near, equal_nan=True) | (x == y)
    wrong = steady & ~same
    if not wrong.any():
        return ""
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size} differ: {x[at]} instead of {y[at]} at {list(at)}"
