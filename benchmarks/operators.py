"""Single operators of ONNX on a million elements, beside ONNX Runtime and OpenVINO: every function of one or two
tensors, and reductions over every set of axes.

Networks hide what an operator costs that they use once. Here nothing hides: each function is measured by itself, in
float32, float64 or integers, and so is each pattern of reduced axes. Run
`python -m benchmarks.operators [--threads N] [part of a name ...]`; the list at the end is of those that are short.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

import minitvm
from minitvm import frontends as frontend
from minitvm.errors import MinitvmError

from . import harness, peers

WANTED = 0.8
OPSET = 20
FLAT = (1000, 1000)
IMAGES = (8, 32, 64, 64)
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Case:
    """One node on arrays: `inputs` are parameters of the model, `constants` its weights."""

    op: str
    inputs: Callable[[np.random.Generator], Arrays]
    constants: Arrays = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = ""

    def model(self, arrays: Arrays) -> Any:
        """The ONNX model of the node."""
        from onnx import helper, numpy_helper

        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for name, a in arrays.items()
        ]
        weights = [numpy_helper.from_array(a, name) for name, a in self.constants.items()]
        node = helper.make_node(self.op, [*arrays, *self.constants], ["r"], domain=self.domain, **self.attributes)
        graph = helper.make_graph([node], "operator", infos, [helper.make_empty_tensor_value_info("r")], weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def _uniform(low: float, high: float, dtype: str, shape: tuple[int, ...] = FLAT, names: str = "x") -> Any:
    """Arrays of numbers between two limits, one for each letter of `names`."""

    def make(rng: np.random.Generator) -> Arrays:
        if dtype == "bool":
            return {name: rng.integers(0, 2, shape).astype(bool) for name in names}
        if np.dtype(dtype).kind in "iu":
            return {name: rng.integers(int(low), int(high), shape).astype(dtype) for name in names}
        return {name: rng.uniform(low, high, shape).astype(dtype) for name in names}

    return make


# The functions of one tensor, and between which numbers they are asked for.
UNARY: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("Abs", "Ceil", "Floor", "Neg", "Round", "Sign", "IsNaN", "IsInf", "Identity"), (-9, 9)),
    **dict.fromkeys(("Exp", "Sigmoid", "Tanh", "Erf", "Softplus", "Softsign", "Mish", "Gelu"), (-6, 6)),
    **dict.fromkeys(("Relu", "LeakyRelu", "Elu", "Selu", "Celu", "HardSigmoid", "HardSwish"), (-6, 6)),
    **dict.fromkeys(("ThresholdedRelu", "Shrink"), (-6, 6)),
    **dict.fromkeys(("Sin", "Cos", "Tan", "Atan", "Asinh", "Sinh", "Cosh"), (-6, 6)),
    **dict.fromkeys(("Asin", "Acos", "Atanh"), (-0.99, 0.99)),
    **dict.fromkeys(("Log", "Sqrt", "Reciprocal"), (0.1, 9)),
    "Acosh": (1, 9),
}
# Those of two: the dtypes, and the limits of the first operand and of the second.
BINARY: dict[str, tuple[str, tuple[float, float], tuple[float, float]]] = {
    **dict.fromkeys(("Add", "Sub", "Mul"), ("float32 float64 int32 int64 uint8", (1, 99), (1, 99))),
    "Div": ("float32 float64 int8 int32 int64 uint8", (1, 120), (1, 20)),
    **dict.fromkeys(("Max", "Min"), ("float32 float64 int32 int64", (1, 99), (1, 99))),
    "Pow": ("float32 float64", (0.1, 9), (-3, 3)),
    "Mod": ("int32 int64 uint8", (1, 120), (1, 20)),
    "PRelu": ("float32", (-1, 1), (0, 1)),
    **dict.fromkeys(("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"), ("float32 int64", (0, 9), (0, 9))),
    **dict.fromkeys(("And", "Or", "Xor"), ("bool", (0, 2), (0, 2))),
    **dict.fromkeys(("BitwiseAnd", "BitwiseOr", "BitwiseXor"), ("int32", (0, 99), (0, 99))),
}
REDUCTIONS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceProd", "ReduceL2", "ReduceLogSumExp")


def _two(dtype: str, first: tuple[float, float], second: tuple[float, float]) -> Any:
    return lambda rng: {**_uniform(*first, dtype, names="x")(rng), **_uniform(*second, dtype, names="y")(rng)}


def _elementwise() -> Iterator[tuple[str, Case]]:
    for op, limits in UNARY.items():
        for dtype in ("float32", "float64"):
            yield f"{op} {dtype}", Case(op, _uniform(*limits, dtype))
    for op, (dtypes, first, second) in BINARY.items():
        for dtype in dtypes.split():
            yield f"{op} {dtype}", Case(op, _two(dtype, first, second))
    for dtype in ("float32", "float64"):
        yield f"Mod fmod {dtype}", Case("Mod", _two(dtype, (-99, 99), (1, 9)), attributes={"fmod": 1})
    for power in (0.5, 2.0, 3.0, -1.0, 1.7):
        exponent = {"p": np.array(power, "float32")}
        yield f"Pow by {power:g}", Case("Pow", _uniform(0.1, 9, "float32"), exponent)
    yield "Div int32 by 7", Case("Div", _uniform(0, 999, "int32"), {"d": np.array(7, "int32")})
    yield "Div int64 by 7", Case("Div", _uniform(0, 999, "int64"), {"d": np.array(7, "int64")})


def _reductions() -> Iterator[tuple[str, Case]]:
    rank = len(IMAGES)
    for op in REDUCTIONS:
        limits = (0.999, 1.001) if op == "ReduceProd" else (0.5, 1.5)
        for count in range(1, rank + 1):
            for axes in combinations(range(rank), count):
                name = f"{op} over {','.join(map(str, axes))}"
                yield name, Case(op, _uniform(*limits, "float32", IMAGES), {"axes": np.array(axes)})
    for op in ("ArgMax", "ArgMin"):
        for axis in range(rank):
            yield f"{op} over {axis}", Case(op, _uniform(-1, 1, "float32", IMAGES), attributes={"axis": axis})
    for op in ("Softmax", "LogSoftmax"):
        for axis in range(rank):
            for dtype in ("float32", "float64"):
                case = Case(op, _uniform(-3, 3, dtype, IMAGES), attributes={"axis": axis})
                yield f"{op} {dtype} over {axis}", case


def _products() -> Iterator[tuple[str, Case]]:
    def pair(first: tuple[int, ...], second: tuple[int, ...]) -> Any:
        return lambda rng: {
            "x": rng.standard_normal(first).astype("float32"), "y": rng.standard_normal(second).astype("float32")
        }  # fmt: skip

    yield "MatMul batches of matrix x vector", Case("MatMul", pair((64, 128, 128), (64, 128, 1)))
    yield "MatMul batches of vector x matrix", Case("MatMul", pair((64, 1, 128), (64, 128, 128)))
    yield "MatMul matrix x vector", Case("MatMul", pair((1000, 1000), (1000,)))
    yield "MatMul vector x matrix", Case("MatMul", pair((1000,), (1000, 1000)))
    yield "MatMul dot products", Case("MatMul", pair((1000, 1, 1000), (1000, 1000, 1)))
    grid = lambda rng: {  # noqa: E731
        "x": rng.standard_normal((1, 32, 128, 128)).astype("float32"),
        "grid": rng.uniform(-1, 1, (1, 128, 128, 2)).astype("float32"),
    }
    for mode in ("linear", "nearest", "cubic"):
        yield f"GridSample {mode}", Case("GridSample", grid, attributes={"mode": mode})


CASES: dict[str, Case] = dict([*_elementwise(), *_reductions(), *_products()])


def measured(name: str, threads: int) -> harness.Row:
    """One case beside the faster peer, after a check that they agree; OpenVINO has no float64 of its own."""
    case = CASES[name]
    inputs = case.inputs(np.random.default_rng(0))
    model = case.model(inputs)
    module = minitvm.build(frontend.from_onnx(model), threads=threads)
    others = {who: run for who, run in _peers(model, inputs, threads) if run is not None}
    if not others:
        raise RuntimeError("no peer runs it")
    medians = harness.beside(name, lambda: module(**inputs), others, at_least=0.002, threads=threads)
    who = min(others, key=lambda one: medians[one])
    return harness.Row(name, threads, medians["ours"], medians[who], who, WANTED)


def _peers(model: Any, inputs: Arrays, threads: int) -> Iterator[tuple[str, peers.Run | None]]:
    """The peers that take the model. Each lacks some operators in some dtypes."""
    ways: dict[str, Callable[..., peers.Run | None]] = {"ONNX Runtime": peers.onnx_runtime, "OpenVINO": peers.openvino}
    for who, way in ways.items():
        if who == "OpenVINO" and any(a.dtype == np.float64 for a in inputs.values()):
            continue
        try:
            run = way(model, inputs, threads)
            if run is not None:
                run()
            yield who, run
        except Exception as error:  # each has exceptions of its own
            print(f"  {who} refuses it: {str(error).splitlines()[0][:100]}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Measure the cases whose names have one of the parts given, or all of them."""
    arguments = list(arguments or [])
    threads = 1
    if "--threads" in arguments:
        at = arguments.index("--threads")
        threads = int(arguments[at + 1])
        del arguments[at : at + 2]
    rows: list[harness.Row] = []
    failed: list[str] = []
    for name in CASES:
        if arguments and not any(part in name for part in arguments):
            continue
        try:
            rows.append(measured(name, threads))
        except (RuntimeError, MinitvmError) as error:
            failed.append(f"{name}: {str(error).splitlines()[0]}")
            continue
        print(f"  {name:<40}{rows[-1].ratio:>6.2f}  {rows[-1].peer_name}", file=sys.stderr)
    harness.table("single operators, a million elements", rows)
    harness.table(f"below {WANTED} of the faster peer", [row for row in rows if row.ratio < row.wanted])
    if rows:
        print(f"  geometric mean: {harness.geometric_mean([row.ratio for row in rows]):.2f}")
    harness.save("operators", rows)
    if failed:
        print("not measured:\n  " + "\n  ".join(failed))


if __name__ == "__main__":
    main(sys.argv[1:])
