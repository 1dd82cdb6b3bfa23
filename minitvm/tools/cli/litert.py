"""LiteRT, the runtime of TFLite models: run a model there, and compare minitvm's results with it.

If LiteRT is installed, `minitvm check model.tflite` prints how many values of each output differ from those of LiteRT's
reference kernels. In a quantised output, it counts steps: two values are one step apart if they are stored as
consecutive integers.
"""

from __future__ import annotations

import importlib.util
import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...graph import Graph
from ...target import Target
from .difference import TOLERANCE, line, relative_difference

LEVEL = "LiteRT"
_FEWEST, _MOST = 3, 100  # runs; states are left from one to the next
_ELEMENTS = 20_000_000  # of all values in all runs, unless that were less than the fewest runs


def compare(path: str, graph: Graph, target: Target, seed: int, engines: str | tuple[str, ...] = ()) -> int:
    """Compare a compiled TFLite model with LiteRT, and print the result. `graph` is the model's graph, with constant
    shapes and with its states.

    Returns 1 if quantised values differ by more than one step, floats by more than `TOLERANCE` of the largest value, or
    if other values differ at all. Then the exit status of the command is 1, too. A model of which only the weights are
    quantised never fails, because LiteRT rounds its data as well.
    """
    from ... import build
    from ...frontends import read_tflite

    if importlib.util.find_spec("ai_edge_litert") is None:
        print(f"{LEVEL:<10} is not installed, so the model was not compared with it: pip install ai-edge-litert")
        return 0
    start = time.perf_counter()
    model = read_tflite(path)
    signature = model.signature()
    shapes = {signature.inputs[v.name]: v.shape for v in graph.inputs if v.name in signature.inputs}
    elements = sum(math.prod(d for d in value.shape if isinstance(d, int)) for value in graph.values())
    runs = max(_FEWEST, min(_MOST, _ELEMENTS // max(1, elements)))
    try:
        peer = Peer(Path(path), [shapes[index] for index in model.subgraphs[0].inputs])  # type: ignore[misc]
        inputs = [peer.drawn(seed + run) for run in range(runs)]
        expected = [peer(*arrays) for arrays in inputs]
    except (ValueError, RuntimeError) as error:
        print(f"{LEVEL:<10} does not run this model: {str(error).strip().splitlines()[0]}")
        return 0
    module = build(graph, target, engines=engines)
    names = {index: name for name, index in signature.inputs.items()}
    steps = {detail["index"]: detail["quantization"][0] for detail in peer.outputs}
    tallies = {name: _Tally() for name in signature.outputs}
    for arrays, others in zip(inputs, expected, strict=True):
        results = module(**{names[detail["index"]]: array for detail, array in zip(peer.inputs, arrays, strict=True)})
        own = results if isinstance(results, list | tuple) else [results]
        theirs = dict(zip(steps, others, strict=True))
        for (name, index), result in zip(signature.outputs.items(), own, strict=True):
            tallies[name].add(np.asarray(result), theirs[index], bool(steps[index]))
    wrong, hybrid = any(tally.is_wrong for tally in tallies.values()), model.hybrid()
    equal = all(tally.is_equal for tally in tallies.values())
    verdict = "equal" if equal else "ok" if not wrong else "apart" if hybrid else "WRONG"
    print(line(LEVEL, verdict, f"its reference kernels, {runs} runs on random inputs", time.perf_counter() - start))
    for name, tally in tallies.items():
        print(f"  {name}: {tally}")
    if wrong and hybrid:
        print(f"  the weights of {', '.join(hybrid)} are quantised, but not the data: LiteRT rounds the data, too")
    return int(wrong and not hybrid)


@dataclass(slots=True)
class _Tally:
    """The differences between an output and LiteRT's, in all runs."""

    values: int = 0
    by_one: int = 0  # values that differ by one step
    by_more: int = 0  # values that differ by more, or that are not quantised
    most: int = 0  # steps
    worst: float = 0.0  # of floats, relative to the largest value
    fits: bool = True

    def add(self, result: np.ndarray, expected: np.ndarray, quantised: bool) -> None:
        """Add the result of a run."""
        self.values += expected.size
        if result.shape != expected.shape or result.dtype != expected.dtype:
            self.fits = False
        elif expected.dtype.kind == "f":
            self.worst = max(self.worst, relative_difference(result, expected))
        else:
            apart = np.abs(result.astype(object) - expected.astype(object)) if expected.size else np.zeros(0, int)
            self.by_one += int((apart == 1).sum()) if quantised else 0
            self.by_more += int((apart > int(quantised)).sum())
            self.most = max(self.most, *apart.reshape(-1).tolist(), 0)

    @property
    def is_equal(self) -> bool:
        return self.fits and not (self.by_one or self.by_more or self.worst)

    @property
    def is_wrong(self) -> bool:
        return not self.fits or bool(self.by_more) or self.worst > TOLERANCE

    def __str__(self) -> str:
        if not self.fits:
            return "another shape or dtype"
        if self.worst:
            return f"largest difference {self.worst:.1e} of the largest value"
        parts = [f"{self.by_one:,} of {self.values:,} values differ by one step"] if self.by_one else []
        parts += [f"{self.by_more:,} of {self.values:,} values differ by up to {self.most:,}"] if self.by_more else []
        return ", ".join(parts) or f"all {self.values:,} values are equal"


def _interpreter(model: Path | bytes, keep_all: bool, optimised: bool) -> Any:
    """Return LiteRT's interpreter with its reference kernels, or, if these lack an operator, its optimised ones.

    Both round as the documents of TFLite say; XNNPACK, which is not used here, rounds differently.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    source = {"model_content": model} if isinstance(model, bytes) else {"model_path": str(model)}
    kinds = (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    for kind in kinds[optimised:]:
        try:
            return Interpreter(
                **source, num_threads=1, experimental_op_resolver_type=kind, experimental_preserve_all_tensors=keep_all
            )
        except ValueError as error:
            if kind is kinds[-1] or "Registration failed" not in str(error):
                raise
    raise AssertionError


class Peer:
    """A model in LiteRT. Its variables keep their values from run to run.

    Raises `ValueError` or `RuntimeError` if LiteRT does not run the model.
    """

    def __init__(
        self,
        model: Path | bytes,
        shapes: Sequence[Sequence[int]] | None = None,
        keep_all: bool = False,
        optimised: bool = False,
    ) -> None:
        self._interpreter = _interpreter(model, keep_all, optimised)
        self.inputs = self._interpreter.get_input_details()
        for detail, shape in zip(self.inputs, shapes or (), strict=False):
            self._interpreter.resize_tensor_input(detail["index"], list(shape))
        self._interpreter.allocate_tensors()
        self.outputs = self._interpreter.get_output_details()

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        for detail, array in zip(self.inputs, arrays, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(detail["index"]) for detail in self.outputs]

    def tensor(self, index: int) -> np.ndarray:
        """Return the contents of a tensor after a run, for a peer with `keep_all`."""
        array: np.ndarray = self._interpreter.get_tensor(index)
        return array

    def drawn(self, seed: int) -> list[np.ndarray]:
        """Return arrays for the inputs: normal floats, quantised integers of the whole range, and 0 or 1 otherwise."""
        generator = np.random.default_rng(seed)
        arrays = []
        for detail in self._interpreter.get_input_details():
            dtype, shape = np.dtype(detail["dtype"]), tuple(detail["shape"])
            if dtype.kind == "f":
                arrays.append(generator.standard_normal(shape).astype(dtype))
            elif detail["quantization"][0]:
                limits = np.iinfo(dtype)
                arrays.append(generator.integers(limits.min, limits.max, shape, dtype, endpoint=True))
            else:
                arrays.append(generator.integers(0, 2, shape).astype(dtype))
        return arrays
