"""Post-training quantisation: a network of floats as one of bytes or bfloat16, compared with the first on samples.

    quantized = minitvm.quantize(model, samples)
    module = minitvm.build(quantized.graph)
    print(quantized)                                # how far each layer is from that of floats
    shifts = minitvm.quantize(model, samples, dtype="int8")
    brain = minitvm.quantize(model, samples, dtype="bfloat16")

In unsigned bytes, what a product or an addition reads is quantised and dequantised in front of it, with the scale that
just covers what the samples showed there; weights get one scale for each output channel. The pass `integer_products`
then computes in bytes. The scheme is that of Jacob et al., "Quantization and training of neural networks for efficient
integer-arithmetic-only inference" (CVPR 2018), and the form that of ONNX's QDQ models.

In signed bytes every tensor, weights too, has one scale, and that is a power of two: the one of three with the least
squared error on the samples. The pass `shifted_scales` then leaves integers and shifts alone between the first
quantisation and the last product, which is what an accelerator without floats computes (VTA, Moreau et al., 2018).

In bfloat16, the operands of products are rounded to 8 significant bits, weights as they are stored and data in front of
a product; sums, and all between products, stay in float32. That needs no ranges: bfloat16 has float32's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, UnsupportedOperator, nearest, report
from ..graph import Graph, GraphBuilder, OpNode, Value
from ..graph.passes.constant_folding import constant_folding
from ..graph.passes.dead_code import dead_code
from ..graph.passes.fold_batch_norm import fold_batch_norm
from ..graph.passes.shifted_scales import shifted_scales
from ..graph.passes.simplify import simplify
from ..graph.passes.split_conv_transpose import split_conv_transpose
from ..graph.rewrite import with_output_names

# Products with constant weights, by the axis of the output channels in their weights.
_PRODUCTS = {"nn.conv1d": 0, "nn.conv2d": 0, "nn.conv3d": 0, "nn.dense": 0, "nn.matmul": -1}
# What stays in bytes between products: its operands are quantised, too.
_BETWEEN = frozenset(("add", "concatenate", "nn.avg_pool2d", "nn.global_avg_pool", "nn.max_pool2d"))
_LEVELS = 255
_EXPONENTS = (-60, 60)  # of powers of two as scales: a product of two is a normal float32
# Products whose operands may be bfloat16: the two are multiplied as they are, weights or not.
_BRAIN_PRODUCTS = frozenset((*_PRODUCTS, "nn.batch_matmul"))
_RUNS_WORTH_COMPILING = 32
DTYPES = ("uint8", "int8", "bfloat16")

Sample = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Layer:
    """A quantised tensor: its name, the least and the greatest float that it holds, and the noise that rounding adds.

    `noise` is the signal-to-noise ratio in decibels, of the quantised network against that of floats on the samples:
    20 is a tenth of the values' size, 40 a hundredth. `scale` and `zero_point` are those of a tensor of bytes, `dtype`.
    """

    name: str
    low: float
    high: float
    noise: float
    dtype: str = "uint8"

    @property
    def scale(self) -> float:
        """The step between two bytes."""
        return (self.high - self.low) / _LEVELS or 1.0

    @property
    def zero_point(self) -> int:
        """The byte that stands for 0."""
        return (-128 if self.dtype == "int8" else 0) - round(self.low / self.scale)


@dataclass(frozen=True, slots=True)
class Quantized:
    """A network of bytes or bfloat16, `graph`, and what each layer loses, in program order; the outputs come last.

    `agreement` is the share of rows of the first output, of all samples, whose greatest element is where it was with
    floats; None if no output of floats has a last dimension above 1.
    """

    graph: Graph
    layers: tuple[Layer, ...]
    outputs: tuple[Layer, ...]
    dtype: str = "uint8"
    agreement: float | None = None

    def __str__(self) -> str:
        rows = [*self.layers, *self.outputs]
        width = max((len(row.name) for row in rows), default=0)
        in_bytes = self.dtype != "bfloat16"
        lines = [f"{'tensor':{width}}  {'low':>10} {'high':>10}  {'scale' if in_bytes else '':>10}  signal to noise"]
        notes = [f"{row.scale:.4g}" if in_bytes else "" for row in self.layers] + ["(output)"] * len(self.outputs)
        for row, note in zip(rows, notes, strict=True):
            lines.append(f"{row.name:{width}}  {row.low:10.4g} {row.high:10.4g}  {note:>10}  {row.noise:5.1f} dB")
        if self.agreement is not None:
            lines.append(f"the greatest element of a row is the same in {100 * self.agreement:.1f} % of rows")
        return "\n".join(lines)


def quantize(
    model: Graph | str | Path | Any,
    samples: Iterable[Sample | Sequence[Any] | np.ndarray],
    *,
    dtype: str = "uint8",
    skip: Iterable[str] = (),
    percentile: float = 100.0,
) -> Quantized:
    """Return a network whose products are computed in bytes, calibrated on `samples`, or in bfloat16.

    `model` is a graph, or a model that `frontends.from_onnx` reads. Each sample is a mapping from the names of inputs
    to arrays, a sequence of arrays in the order of the inputs, or one array. `dtype` is one of these:

    - "uint8": products with constant weights multiply unsigned bytes (the data) by signed bytes (the weights).
    - "int8": both operands are signed bytes, scales are powers of two, and tensors between the products are integers.
    - "bfloat16": all float32 products except grouped convolutions have bfloat16 operands and float32 sums.

    `skip` names the outputs of products that stay in floats. If `percentile` is below 100, values outside of it, on
    both sides, are clipped to the ends of the range.

    Raises `InputError` for another dtype, if there are no samples, for samples that do not fit the inputs or make a
    tensor infinite or NaN, for a percentile with bfloat16, and for names in `skip` that no product has. Raises
    `UnsupportedOperator` if the network has no product to quantise.
    """
    if dtype not in DTYPES:
        raise InputError(
            f"quantize: dtype is {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, found {dtype!r}; {nearest(dtype, DTYPES)}"
        )
    in_bytes = dtype != "bfloat16"
    if not 50.0 < percentile <= 100.0:
        raise InputError(f"quantize: percentile is above 50 and at most 100, found {percentile}")
    if percentile < 100 and not in_bytes:
        raise InputError("quantize: a percentile cuts off a range of bytes; bfloat16 has the range of float32")
    graph = _prepared(model)
    arrays = graph.arrays()
    chosen = _chosen(graph, arrays, set(skip), in_bytes)
    watched = _watched(graph, chosen, arrays, in_bytes)
    given = [_named(graph, number, sample) for number, sample in enumerate(samples)]
    if not given:
        raise InputError("quantize: there are no samples\n  try:    a few inputs like those that the network will see")
    seen = _values(graph, [*watched, *graph.outputs], given)
    if in_bytes:
        limits = _range if dtype == "uint8" else _power_of_two_range
        ranges = {value: limits(value, found, percentile) for value, found in zip(watched, seen, strict=False)}
        quantized, copies = _in_bytes(graph, chosen, ranges, arrays, dtype)
    else:
        ranges = {value: _ends(value, found) for value, found in zip(watched, seen, strict=False)}
        quantized, copies = _in_brain(graph, chosen, watched, arrays)
    visible = replace(quantized, outputs=(*(copies[v] for v in watched), *quantized.outputs))
    if dtype == "int8":
        quantized, visible = shifted_scales(quantized), shifted_scales(visible)
    pairs = list(zip(seen, _values(visible, visible.outputs, given), strict=True))
    layers = tuple(
        Layer(value.name, *ranges[value], _noise(a, b), dtype) for value, (a, b) in zip(watched, pairs, strict=False)
    )
    results = [(value, a, b) for value, (a, b) in zip(graph.outputs, pairs[len(watched) :], strict=True)]
    results = [(value, a, b) for value, a, b in results if value.dtype.is_float]
    outputs = tuple(
        Layer(value.name, float(min(map(np.min, a))), float(max(map(np.max, a))), _noise(a, b), dtype)
        for value, a, b in results
    )
    agreement = next((_agreement(a, b) for _, a, b in results if a[0].ndim and a[0].shape[-1] > 1), None)
    return Quantized(quantized, layers, outputs, dtype, agreement)


def _chosen(graph: Graph, arrays: Mapping[Value, np.ndarray], skip: set[str], in_bytes: bool) -> list[OpNode]:
    """The products that are quantised."""
    eligible = _is_product if in_bytes else _is_brain_product
    products = [n for n in graph.nodes if eligible(n, arrays)]
    names = [n.output.name for n in products]
    for name in skip:
        if name not in names:
            raise InputError(
                report(f"quantize: no product is called {name!r}", wanted=", ".join(names[:12]) or "(none)")
            )
    chosen = [n for n in products if n.output.name not in skip]
    if not chosen:
        raise UnsupportedOperator("quantize: the network has no convolution or product with constant weights")
    return chosen


def _prepared(model: Any) -> Graph:
    """The graph with what the compiler folds into weights folded already, and plain convolutions only."""
    from ..frontends import from_onnx

    graph = model if isinstance(model, Graph) else from_onnx(model)
    passes = (
        dead_code, constant_folding, simplify, fold_batch_norm, split_conv_transpose, constant_folding, dead_code,
    )  # fmt: skip
    for function in passes:
        graph = with_output_names(function(graph), graph)
    return graph


def _is_product(item: OpNode, arrays: Mapping[Value, np.ndarray]) -> bool:
    if item.op not in _PRODUCTS or len(item.inputs) != 2 or item.inputs[1] not in arrays or item.inputs[0] in arrays:
        return False
    if item.attrs.get("kernel_layout", "OIHW") != "OIHW" or item.attrs.get("transpose_a"):
        return False
    matrix = item.op != "nn.matmul" or item.inputs[1].ndim == 2
    return matrix and item.inputs[0].dtype == item.inputs[1].dtype == "float32"


def _is_brain_product(item: OpNode, arrays: Mapping[Value, np.ndarray]) -> bool:
    """A product of float32 with an operand that is not constant; a grouped convolution has few terms to add up."""
    if item.op not in _BRAIN_PRODUCTS or len(item.inputs) != 2 or all(v in arrays for v in item.inputs):
        return False
    if item.attrs.get("groups", 1) != 1:
        return False
    return all(v.dtype == "float32" for v in (*item.inputs, item.output))


def _watched(
    graph: Graph, products: Sequence[OpNode], arrays: Mapping[Value, np.ndarray], in_bytes: bool
) -> list[Value]:
    """The tensors that are quantised, in program order: what products read and, of bytes, what is between two."""
    wanted = {v for item in products for v in (item.inputs[:1] if in_bytes else item.inputs) if v not in arrays}
    producers = graph.producers()
    made = {item.output for item in products}
    for item in graph.nodes if in_bytes else ():  # bytes reach as far as operators that keep them
        if item.op in _BETWEEN and all(v in wanted or _from(v, producers, made | wanted) for v in item.inputs):
            wanted.update(v for v in item.inputs if v not in arrays and v.dtype == "float32")
    order = [*graph.inputs, *(v for item in graph.nodes for v in item.outputs)]
    return [value for value in order if value in wanted]


def _from(value: Value, producers: Mapping[Value, OpNode], sources: set[Value]) -> bool:
    """Whether a tensor is one of `sources`, a bias or an activation apart."""
    while value not in sources:
        item = producers.get(value)
        if item is None or item.op not in ("nn.bias_add", "nn.relu", "clip", *_BETWEEN):
            return False
        value = item.inputs[0]
    return True


def _named(graph: Graph, number: int, sample: Any) -> dict[str, np.ndarray]:
    if isinstance(sample, np.ndarray):
        sample = [sample]
    inputs = [value.name for value in graph.inputs]
    named = dict(sample) if isinstance(sample, Mapping) else dict(zip(inputs, sample, strict=False))
    if set(named) != set(inputs) or (not isinstance(sample, Mapping) and len(sample) != len(inputs)):
        raise InputError(
            report(
                f"quantize: sample {number} does not fit the network",
                wanted=", ".join(inputs),
                found=", ".join(map(str, named)),
            )
        )
    return named


def _values(graph: Graph, values: Sequence[Value], samples: Sequence[Mapping[str, Any]]) -> list[list[np.ndarray]]:
    """What tensors hold for each of the samples."""
    distinct = list(dict.fromkeys(values))
    run = _runner(Graph(graph.inputs, graph.constants, graph.nodes, tuple(distinct), graph.name), len(samples))
    runs = []
    for sample in samples:
        runs.append(dict(zip(distinct, map(np.array, run(sample)), strict=True)))
    return [[results[value] for results in runs] for value in values]


def _runner(graph: Graph, runs: int) -> Callable[[Sample], Sequence[Any]]:
    """What computes a graph's outputs: compiled if it will run often enough for that to take less time."""
    from ..build import build
    from ..reference import graph as interpreter

    if runs < _RUNS_WORTH_COMPILING:
        return lambda sample: interpreter.run(graph, [np.asarray(sample[value.name]) for value in graph.inputs])
    module = build(graph)

    def compiled(sample: Sample) -> Sequence[Any]:
        results = module(**sample)
        return results if isinstance(results, tuple) else (results,)

    return compiled


def _finite(value: Value, found: Sequence[np.ndarray]) -> np.ndarray:
    """All elements that a tensor had; `InputError` unless they are numbers."""
    flat = np.concatenate([array.ravel() for array in found])
    if not np.isfinite(flat).all():
        raise InputError(f"quantize: {value.name} is infinite or NaN for a sample")
    return flat


def _ends(value: Value, found: Sequence[np.ndarray]) -> tuple[float, float]:
    """The least and the greatest value."""
    flat = _finite(value, found)
    return (float(flat.min()), float(flat.max())) if flat.size else (0.0, 0.0)


def _range(value: Value, found: Sequence[np.ndarray], percentile: float) -> tuple[float, float]:
    """The least and the greatest value, 0 among them: a padded image holds zeros."""
    flat = _finite(value, found)
    if not flat.size:
        return 0.0, 0.0
    low, high = np.percentile(flat, [100 - percentile, percentile]) if percentile < 100 else (flat.min(), flat.max())
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = np.float32((high - low) / _LEVELS) or np.float32(1)
    zero = round(-low / float(scale))  # the range is moved so that 0 is a byte
    return -zero * float(scale), (_LEVELS - zero) * float(scale)


def _power_of_two_range(value: Value, found: Sequence[np.ndarray], percentile: float) -> tuple[float, float]:
    """What int8 with a power of two as scale can hold."""
    flat = np.abs(_finite(value, found))
    if percentile < 100 and flat.size:
        exponent = _covering(float(np.percentile(flat, percentile)))
    else:
        exponent = _exponent(flat)
    step = float(np.ldexp(1.0, -exponent))
    return -128 * step, 127 * step


def _covering(largest: float) -> int:
    """The largest e for which `largest` * 2^e rounds to an int8."""
    return int(np.clip(np.floor(np.log2(127.5 / largest)), *_EXPONENTS)) if largest > 0 else 0


def _exponent(flat: np.ndarray) -> int:
    """The e for which int8 in units of 2^-e are next to `flat` in the squares of their distances.

    Next to the unit that covers all elements, the two smaller ones are tried, which cut the largest elements off.
    """
    covering = _covering(float(np.abs(flat).max(initial=0)))
    wide = flat.astype(np.float64)

    def error(exponent: int) -> float:
        rounded = np.ldexp(np.clip(np.rint(np.ldexp(wide, exponent)), -128, 127), -exponent)
        return float(np.square(rounded - wide).sum())

    return min(range(covering, covering + 3), key=error)


def _in_bytes(
    graph: Graph, products: Sequence[OpNode], ranges: Mapping[Value, tuple[float, float]], arrays: Mapping[Value, Any],
    dtype: str,
) -> tuple[Graph, dict[Value, Value]]:  # fmt: skip
    """The graph with bytes in front of products, and the new value of each quantised tensor."""
    chosen = set(products)

    def rounded(b: GraphBuilder, value: Value, made: Value) -> Value:
        layer = Layer(value.name, *ranges[value], 0.0, dtype)
        scale = b.constant(np.array(layer.scale, "float32"), "scale")
        zero = b.constant(np.array(layer.zero_point, dtype), "zero_point")
        q = b.op("qnn.quantize", made, scale, zero, axis=0, out_dtype=dtype)
        after: Value = b.op("qnn.dequantize", q, scale, zero, axis=0, name=f"{value.name}_bytes")
        return after

    def operands(b: GraphBuilder, item: OpNode, new: Mapping[Value, Value], copies: Mapping[Value, Value]) -> _Operands:
        if item not in chosen and item.op not in _BETWEEN:
            return None
        inputs = [copies.get(v, new[v]) for v in item.inputs]
        if item in chosen:
            inputs[1] = _bytes_of_weights(b, item, arrays[item.inputs[1]], dtype)
        return inputs, {}

    return _rewritten(graph, ranges, rounded, operands)


def _in_brain(
    graph: Graph, products: Sequence[OpNode], watched: Sequence[Value], arrays: Mapping[Value, Any]
) -> tuple[Graph, dict[Value, Value]]:
    """The graph with bfloat16 as the operands of products, and the new value of each quantised tensor."""
    chosen, stored = set(products), dict[Value, Value]()

    def rounded(b: GraphBuilder, value: Value, made: Value) -> Value:
        after: Value = b.op("cast", made, dtype="bfloat16", name=f"{value.name}_bfloat16")
        return after

    def operands(b: GraphBuilder, item: OpNode, _: Mapping[Value, Value], copies: Mapping[Value, Value]) -> _Operands:
        if item not in chosen:
            return None
        half = next(copies[v].dtype for v in item.inputs if v not in arrays)
        for v in item.inputs:
            if v in arrays and v not in stored:
                stored[v] = b.constant(arrays[v].astype(half.numpy), f"{v.name}_{half}")
        inputs = [stored[v] if v in arrays else copies[v] for v in item.inputs]
        return inputs, {"out_dtype": "float32"}

    return _rewritten(graph, watched, rounded, operands)


_Operands = tuple[list[Value], dict[str, Any]] | None  # of an operator, and attributes; None: those that it had


def _rewritten(
    graph: Graph, quantized: Iterable[Value], rounded: Callable[[GraphBuilder, Value, Value], Value],
    operands: Callable[[GraphBuilder, OpNode, Mapping[Value, Value], Mapping[Value, Value]], _Operands],
) -> tuple[Graph, dict[Value, Value]]:  # fmt: skip
    """The graph with a rounded copy of each quantised tensor, and operators that read what `operands` returns."""
    b = GraphBuilder(graph.name)
    new: dict[Value, Value] = {}
    copies: dict[Value, Value] = {}
    to_round = set(quantized)

    def add(value: Value, made: Value) -> None:
        new[value] = made
        if value in to_round:
            copies[value] = rounded(b, value, made)

    for value in graph.inputs:
        add(value, b.input(value.name, value.shape, value.dtype))
    for constant in graph.constants:
        new[constant.value] = b.constant(constant.data, constant.value.name)
    for item in graph.nodes:
        inputs, attrs = operands(b, item, new, copies) or ([new[v] for v in item.inputs], {})
        results: Any = b.op(item.op, *inputs, name=item.outputs[0].name, **{**item.attrs, **attrs})
        for value, made in zip(item.outputs, results if isinstance(results, tuple) else (results,), strict=True):
            add(value, made)
    built = dead_code(replace(b.build([new[v] for v in graph.outputs]), states=graph.states))
    return built, copies


def _bytes_of_weights(b: GraphBuilder, item: OpNode, weight: np.ndarray, dtype: str) -> Value:
    """Weights as int8, dequantised: with a scale for each output channel, or beside data of int8 with one for all."""
    axis = _PRODUCTS[item.op] % weight.ndim
    if item.op == "nn.matmul" and item.attrs.get("transpose_b"):
        axis = 0
    others = tuple(a for a in range(weight.ndim) if a != axis)
    scale = (np.abs(weight).max(axis=others) / np.float32(127)).astype(np.float32)
    scale[scale == 0] = 1
    if dtype == "int8":
        scale = np.full_like(scale, np.ldexp(np.float32(1), -_exponent(weight.ravel())))
    along = [-1 if a == axis else 1 for a in range(weight.ndim)]
    stored = np.clip(np.rint(weight / scale.reshape(along)), -127, 127).astype(np.int8)
    name = item.inputs[1].name
    zero = b.constant(np.zeros(scale.shape, np.int8), "zero_point")
    made: Value = b.op(
        "qnn.dequantize", b.constant(stored, f"{name}_bytes"), b.constant(scale, f"{name}_scale"), zero, axis=axis
    )
    return made


def _noise(exact: Sequence[np.ndarray], rounded: Sequence[np.ndarray]) -> float:
    """The signal-to-noise ratio in decibels."""
    signal = sum(float(np.sum(np.square(a, dtype=np.float64))) for a in exact)
    noise = sum(float(np.sum(np.square(np.asarray(a, np.float64) - b))) for a, b in zip(exact, rounded, strict=True))
    return float("inf") if noise == 0 else float(10 * np.log10(max(signal, 1e-300) / noise))


def _agreement(exact: Sequence[np.ndarray], rounded: Sequence[np.ndarray]) -> float:
    """The share of rows whose greatest element is at the same place."""
    same = [np.argmax(a, axis=-1) == np.argmax(b, axis=-1) for a, b in zip(exact, rounded, strict=True)]
    return float(np.mean(np.concatenate([one.ravel() for one in same])))
