"""Changes of a valid model of one operator: one extent, one attribute, or one number in a constant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..one_node import Node

HUGE = 30_000_000
OPSET = 21
# Extents that an axis gets in place of its own, n.
EXTENTS = (lambda n: n + 1, lambda n: 2 * n, lambda n: 0, lambda n: 1, lambda n: n - 1, lambda n: 900)
NUMBERS = (-900, -3, -2, -1, 0, 1, 2, 3, 5, 900, HUGE, 2**31, 2**63 - 1, -(2**63))
# Inputs of integers that say where: a valid place in any axis that is not empty is 0.
PLACES = frozenset((
    "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter", "TensorScatter", "MaxUnpool",
    "ArrayFeatureExtractor", "EmbedLayerNormalization", "RotaryEmbedding",
))  # fmt: skip


@dataclass
class Model:
    """A model of one node: arrays of its inputs by name, which of them are constants of the model, attributes."""

    op: str
    domain: str
    opset: int
    inputs: dict[str, np.ndarray | None]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1
    known: frozenset[str] = frozenset()
    open: bool = False
    change: str = ""

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{n}: {a.dtype}{list(a.shape)}" + (f" = {a.tolist()}" if n in self.known and a.size < 10 else "")
            for n, a in self.inputs.items() if a is not None
        )  # fmt: skip
        return f"{self.op}-{self.opset}({shapes}; {dict(self.attrs)}) {'open' if self.open else 'fixed'} {self.change}"

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that a run takes."""
        return {name: a for name, a in self.inputs.items() if a is not None and name not in self.known}

    def proto(self) -> onnx.ModelProto:
        """The model; if it is open, every dimension of every input has a name of its own."""
        present = {name: a for name, a in self.inputs.items() if a is not None}
        results = [f"y{k}" for k in range(self.outputs)]
        names = [name if a is not None else "" for name, a in self.inputs.items()]
        node = helper.make_node(self.op, names, results, name="the_node", domain=self.domain, **self.attrs)

        def dims(name: str, a: np.ndarray) -> list[Any]:
            return [f"{name}_{k}" for k in range(a.ndim)] if self.open else list(a.shape)

        graph = helper.make_graph(
            [node], "sizes",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), dims(name, a))
                for name, a in present.items() if name not in self.known
            ],
            [onnx.ValueInfoProto(name=name) for name in results],
            [numpy_helper.from_array(a, name) for name, a in present.items() if name in self.known],
        )  # fmt: skip
        imports = [helper.make_opsetid(self.domain, self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid("", 17))
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def with_(self, change: str, **changed: Any) -> Model:
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Model(**{**parts, **changed, "change": change})


def of_proto(proto: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Model:
    """The model of one node of a file, with the arrays of its inputs, in order."""
    (node,) = proto.graph.node
    by_name = {i.name: a for i, a in zip(proto.graph.input, arrays, strict=True)}
    constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    by_name.update(constants)
    inputs: dict[str, np.ndarray | None] = {}
    for k, name in enumerate(node.input):
        inputs[name or f"absent{k}"] = by_name[name] if name else None
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    opset = next(o.version for o in proto.opset_import if o.domain == node.domain)
    if not node.domain:  # an opset that ONNX Runtime knows, if it has the same operator
        since = onnx.defs.get_schema(node.op_type, opset).since_version
        opset = max(since, min(opset, OPSET))
    return Model(node.op_type, node.domain, opset, inputs, attrs, len(node.output), frozenset(constants))


def models_of_onnx(each: int = 3) -> list[Model]:
    """Of each operator a few of the node models of ONNX's own tests: the smallest ones with different attributes."""
    from onnx.backend.test.case.node import collect_testcases

    smallest: dict[tuple[str, str], dict[Any, tuple[int, Model]]] = {}
    for case in collect_testcases(None):
        nodes, arrays = case.model.graph.node, case.data_sets[0][0] if case.data_sets else []
        plain = all(isinstance(a, np.ndarray | np.generic) and np.asarray(a).dtype.kind in "fiub" for a in arrays)
        if len(nodes) != 1 or not arrays or not plain or any(a.HasField("g") for a in nodes[0].attribute):
            continue
        model = of_proto(case.model, [np.asarray(a) for a in arrays])
        size = sum(a.nbytes for a in model.arrays.values())
        kinds = smallest.setdefault((model.domain, model.op), {})
        key = (tuple(a is None for a in model.inputs.values()), tuple(sorted(model.attrs)))
        if size < 100_000 and (key not in kinds or size < kinds[key][0]):
            kinds[key] = size, model
    picked = (sorted(kinds.values(), key=lambda m: (-len(m[1].inputs), m[0]))[:each] for kinds in smallest.values())
    return [model for models in picked for _, model in models]


def of_node(node: Node) -> Model:
    """A random node of `random_nodes` as a model that can be changed."""
    inputs = {name or f"absent{k}": a for k, (name, a) in enumerate(node.inputs.items())}
    return Model(node.op, "", node.opset, inputs, node.attrs, node.outputs, frozenset(node.known))


def with_known_numbers(model: Model) -> Model:
    """The model whose small integer inputs, such as axes, counts and shapes, are constants."""
    small = {
        n for n, a in model.inputs.items()
        if a is not None and a.dtype in (np.int32, np.int64) and a.ndim < 2 and a.size < 9
    }  # fmt: skip
    small |= {
        n for n, a in model.inputs.items() if a is not None and not a.ndim and model.op in ("OneHot", "MelWeightMatrix")
    }
    return model if model.op in PLACES else model.with_("", known=model.known | small)


def changes(model: Model) -> Iterator[Model]:
    """Models with one change each, with fixed and with open sizes."""
    for is_open in (False, True):
        base = model.with_("", open=is_open)
        yield base
        yield from _extents(base)
        if not is_open or base.known:
            yield from _attributes(base)
            yield from _constants(base)
    yield from _empty_together(model)


def _extents(model: Model) -> Iterator[Model]:
    for name, array in model.inputs.items():
        if array is None:
            continue
        for axis, extent in enumerate(array.shape):
            for new in dict.fromkeys(max(of(extent), 0) for of in EXTENTS):
                if new != extent:
                    shape = (*array.shape[:axis], new, *array.shape[axis + 1 :])
                    inputs = {**model.inputs, name: resized(array, shape)}
                    yield model.with_(f"{name}.{axis}={new}", inputs=_in_place(model.op, inputs))


def resized(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """An array of that shape whose elements come from another."""
    return np.resize(array, shape) if array.size else np.zeros(shape, array.dtype)


def _in_place(op: str, inputs: Mapping[str, np.ndarray | None]) -> dict[str, np.ndarray | None]:
    """The inputs, places among them 0: one that is out of range is not what is tried here."""
    if op not in PLACES:
        return dict(inputs)
    return {n: a if a is None or a.dtype.kind != "i" else np.zeros_like(a) for n, a in inputs.items()}


def _attributes(model: Model) -> Iterator[Model]:
    for name, value in model.attrs.items():
        if name in ("to", "saturate", "dtype", "output_dtype", "stash_type"):
            continue
        values = list(value) if isinstance(value, list | tuple) else [value]
        if isinstance(value, list | tuple) and len(values) > 1:
            for fewer_or_more in (values[:-1], [*values, values[-1]]):
                changed = f"{name} of {len(fewer_or_more)}"
                yield model.with_(changed, attrs={**model.attrs, name: fewer_or_more})
        if not values or not all(isinstance(v, int) for v in values):
            continue
        for k, old in enumerate(values):
            for new in NUMBERS:
                if new != old:
                    other: Any = [*values[:k], new, *values[k + 1 :]]
                    other = other if isinstance(value, list | tuple) else other[0]
                    yield model.with_(f"{name}={other}", attrs={**model.attrs, name: other})


def _constants(model: Model) -> Iterator[Model]:
    for name in sorted(model.known):
        array = model.inputs[name]
        if array is None or array.dtype.kind != "i":
            continue
        for k in range(array.size):
            for new in (n for n in NUMBERS if np.iinfo(array.dtype).min <= n <= np.iinfo(array.dtype).max):
                changed = array.copy()
                changed.reshape(-1)[k] = new
                yield model.with_(f"{name}[{k}]={new}", inputs={**model.inputs, name: changed})


def _empty_together(model: Model) -> Iterator[Model]:
    """All axes of one extent, of all inputs, with another: such models are often valid, and empty, or broadcast."""
    extents = {d for a in model.arrays.values() for d in a.shape}
    for extent in sorted(extents):
        for new in (0, 1, extent + 1):
            inputs = {
                n: a if a is None or n in model.known else resized(a, [new if d == extent else d for d in a.shape])
                for n, a in model.inputs.items()
            }  # fmt: skip
            for is_open in (False, True):
                yield model.with_(f"{extent}->{new}", inputs=_in_place(model.op, inputs), open=is_open)
