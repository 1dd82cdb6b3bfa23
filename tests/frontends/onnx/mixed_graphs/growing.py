"""A graph that grows with its numbers: each node is evaluated as soon as it is drawn, by ONNX Runtime or ONNX."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.one_node import Seeded

OPSET = 21
DOMAINS = {"": OPSET, "com.microsoft": 1}
LARGEST = 20_000  # elements of a value
GREATEST = 1e4  # a number
NUDGE = 1e-5

Arrays = dict[str, np.ndarray]
Fits = Callable[[np.ndarray], bool]
FLOATS = ("float16", "float32", "float64")


class Unfit(Exception):
    """A move finds no value that it could take, or makes a node that others refuse."""


@dataclass
class Step:
    """A node and what evaluates it alone."""

    proto: onnx.NodeProto
    evaluate: Callable[[Arrays], list[np.ndarray]]


@dataclass
class MixedGraph:
    """The graph that is grown so far: nodes, constants, inputs, and the array of each value."""

    d: Seeded
    steps: list[Step] = field(default_factory=list)
    constants: Arrays = field(default_factory=dict)
    inputs: Arrays = field(default_factory=dict)
    values: Arrays = field(default_factory=dict)  # what later moves may take
    arrays: Arrays = field(default_factory=dict)  # of every name
    moves: list[str] = field(default_factory=list)
    count: int = 0

    # ---- values ----

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, fits: Fits = lambda a: True) -> str:
        """A value that fits, the latest more often; raises `Unfit` where there is none."""
        names = [name for name, array in self.values.items() if fits(array)]
        if not names:
            raise Unfit
        return str(self.d.one(*(names[-3:] if self.d.int(0, 9) < 6 else names)))

    def floats(self, fits: Fits = lambda a: True) -> str:
        return self.pick(lambda a: str(a.dtype) in FLOATS and fits(a))

    def singles(self, fits: Fits = lambda a: True) -> str:
        return self.pick(lambda a: a.dtype == np.float32 and fits(a))

    def input(self, array: np.ndarray) -> str:
        name = self.fresh("x")
        self.inputs[name] = self.values[name] = self.arrays[name] = array
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = self.fresh("c")
        self.constants[name] = self.arrays[name] = np.asarray(value, dtype)
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def operand(self, shape: Sequence[int], dtype: Any) -> str:
        """A constant or an input of these numbers; in a graph both occur."""
        array = numbers(self.d, shape, str(np.dtype(dtype)))
        return self.constant(array) if self.d.int(0, 2) else self.input(array)

    # ---- nodes ----

    def node(self, op: str, inputs: Sequence[str], outputs: int = 1, *, domain: str = "", hidden: bool = False,
             **attrs: Any) -> list[str]:  # fmt: skip
        """A node; raises `Unfit` where others refuse it, or its numbers are too many or too large."""
        names = [self.fresh("t") for _ in range(outputs)]
        proto = helper.make_node(op, list(inputs), names, domain=domain, **attrs)
        step = Step(proto, evaluator(proto, {n: self.arrays[n] for n in reads(proto) if n in self.arrays},
                                     {n: self.constants[n] for n in inputs if n in self.constants}))  # fmt: skip
        results = step.evaluate(self.arrays)
        for array in results:
            limited(array)
        self.steps.append(step)
        for name, array in zip(names, results, strict=True):
            self.arrays[name] = array
            if not hidden:
                self.values[name] = array
        return names

    def hidden(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        return self.node(op, inputs, hidden=True, **attrs)[0]

    # ---- models ----

    def outputs(self) -> list[str]:
        """The values that no node reads, and the last one."""
        read = {n for step in self.steps for n in reads(step.proto)}
        names = [n for n in self.values if n not in read and n not in self.inputs]
        also = [n for n in self.values if n in read and n not in self.inputs]
        if also and not self.count % 3:
            names.append(also[self.count % len(also)])
        return names or list(self.values)[-1:]

    def model(self, open_axes: bool = False) -> onnx.ModelProto:
        """The model; with open axes some extents of the inputs have names, equal ones perhaps the same."""
        rng = np.random.default_rng(self.count)
        names: dict[int, str] = {}

        def dims(name: str, array: np.ndarray) -> list[Any]:
            listed: list[Any] = []
            for k, extent in enumerate(array.shape):
                if not open_axes or rng.random() < 0.4:
                    listed.append(extent)
                else:
                    listed.append(names.setdefault(extent, f"s{extent}") if rng.random() < 0.7 else f"{name}_{k}")
            return listed

        read = {n for step in self.steps for n in reads(step.proto)} | set(self.outputs())
        graph = helper.make_graph(
            [step.proto for step in self.steps], "mixed",
            [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), dims(n, a))
             for n, a in self.inputs.items() if n in read],
            [onnx.ValueInfoProto(name=n) for n in self.outputs()],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in read],
        )  # fmt: skip
        versions = [helper.make_opsetid(*v) for v in DOMAINS.items()]
        return helper.make_model(graph, opset_imports=versions, ir_version=10)

    def feeds(self) -> Arrays:
        read = {n for step in self.steps for n in reads(step.proto)} | set(self.outputs())
        return {n: a for n, a in self.inputs.items() if n in read}

    def expected(self) -> list[np.ndarray]:
        return [self.arrays[n] for n in self.outputs()]

    def moved(self, factor: float) -> list[np.ndarray] | None:
        """The outputs if every float between the nodes, and every input, is changed a bit; None if a node fails."""
        arrays = {n: _nudged(a, factor) if n in self.inputs else a for n, a in self.arrays.items()}
        try:
            for step in self.steps:
                results = step.evaluate(arrays)
                arrays.update(zip(step.proto.output, [_nudged(a, factor) for a in results], strict=True))
        except Unfit:
            return None
        return [arrays[n] for n in self.outputs()]

    def __repr__(self) -> str:
        shapes = {n: f"{a.dtype}{list(a.shape)}" for n, a in self.inputs.items()}
        return f"MixedGraph({shapes}, {[s.proto.op_type for s in self.steps]})"


def reads(proto: onnx.NodeProto) -> list[str]:
    """The names that a node reads, those in its subgraphs included."""
    names = list(proto.input)
    for attribute in proto.attribute:
        for graph in (attribute.g, *attribute.graphs):
            names += [n for node in graph.node for n in reads(node)] + [o.name for o in graph.output]
    return names


def limited(array: np.ndarray) -> None:
    if array.size > LARGEST or array.ndim > 6:
        raise Unfit
    if array.dtype != bool and array.size:
        with np.errstate(all="ignore"):
            numbers = array.astype(np.float64)
            if not np.isfinite(numbers).all() or np.abs(numbers).max() > GREATEST:
                raise Unfit


def _nudged(array: np.ndarray, factor: float) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    far = factor * (100 if array.dtype == np.float16 else 1)
    return (array * (1 + far) + far).astype(array.dtype)


def numbers(d: Seeded, shape: Sequence[int], dtype: str) -> np.ndarray:
    """Numbers of that dtype, small ones mostly."""
    if dtype == "bool":
        return d.rng.random(tuple(shape)) < 0.5
    if dtype.startswith(("int", "uint")):
        low = 0 if dtype.startswith("u") else -6
        return d.rng.integers(low, 7, tuple(shape)).astype(dtype)
    return np.asarray(d.rng.standard_normal(tuple(shape)) * d.one(1, 1, 2)).astype(dtype)


def evaluator(proto: onnx.NodeProto, inputs: Mapping[str, np.ndarray],
              constants: Mapping[str, np.ndarray]) -> Callable[[Arrays], list[np.ndarray]]:  # fmt: skip
    """The evaluator of one node: ONNX Runtime, or ONNX's own evaluator where that has no kernel."""
    import onnxruntime

    feeds = {n: a for n, a in inputs.items() if n not in constants}
    code = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        [proto], "one",
        [helper.make_tensor_value_info(n, code(a.dtype), list(a.shape)) for n, a in feeds.items()],
        [onnx.ValueInfoProto(name=n) for n in proto.output],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*v) for v in DOMAINS.items()], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    run: Callable[[Arrays], Any]
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        run = lambda arrays: session.run(None, {n: arrays[n] for n in feeds})  # noqa: E731
    except Exception as error:
        if "NOT_IMPLEMENTED" not in str(error) or proto.domain:
            raise Unfit from error
        try:
            theirs = ReferenceEvaluator(model)
        except Exception as other:
            raise Unfit from other
        run = lambda arrays: theirs.run(None, {n: arrays[n] for n in feeds})  # noqa: E731

    def evaluate(arrays: Arrays) -> list[np.ndarray]:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = run(arrays)
        except Exception as error:
            raise Unfit from error
        if not all(isinstance(r, np.ndarray | np.generic) for r in results):
            raise Unfit
        return [np.asarray(r) for r in results]

    return evaluate
