"""An implementation of ONNX's backend interface, with which ONNX's own test suite runs.

    prepared = OnnxBackend.prepare(onnx.load("model.onnx"))
    (y,) = prepared.run([x])

In ONNX, shapes may depend on the contents of an input, such as the second input of Reshape. minitvm compiles for
shapes, so it treats such an input as a constant, and compiles the model again if its contents change.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep

from ...errors import InputError, MinitvmError
from ...graph.nodes import Graph
from . import ValueDependent, from_onnx
from .dtypes import narrow_type

Runner = Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]]
Engine = Callable[[Graph], Runner]


def compiled(graph: Graph) -> Runner:
    """Return a function that runs the graph, compiled for the CPU, on one thread."""
    from ...build import build

    module = build(graph, threads=1)

    def run(inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        module.run(**inputs)
        return [np.array(module.get_output(k)) for k in range(len(graph.outputs))]

    return run


class PreparedModel(BackendRep):
    """A model that is compiled for the shapes of its inputs and, if necessary, for their contents.

    `decisive` lists the inputs whose contents were needed so far. `computes` says whether any operator was left to
    compute.
    """

    def __init__(self, model: onnx.ModelProto, engine: Engine) -> None:
        self.model, self.engine = model, engine
        initializers = {t.name for t in model.graph.initializer}
        self.names = [i.name for i in model.graph.input if i.name not in initializers]
        types = [narrow_type(o.type.tensor_type.elem_type) for o in model.graph.output]
        self.narrow = [None if t is None else np.dtype(getattr(ml_dtypes, t.name)) for t in types]
        self.decisive: set[str] = set()
        self.computes = False
        self.runners: dict[Any, tuple[Runner, list[str]]] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Return the outputs for inputs in the model's order. Raises `UnsupportedOperator` for unsupported features."""
        if len(inputs) != len(self.names):
            raise InputError(f"the model takes {len(self.names)} inputs ({', '.join(self.names)}), found {len(inputs)}")
        arrays = {name: _held(x) for name, x in zip(self.names, inputs, strict=False)}
        while True:
            try:
                runner, names = self._runner(arrays)
            except ValueDependent as error:
                if error.inputs <= self.decisive:
                    raise
                self.decisive |= error.inputs
                continue
            results = runner({name: np.asarray(arrays[name]) for name in names})
            return tuple(r if t is None else r.astype(t) for r, t in zip(results, self.narrow, strict=True))

    def _runner(self, arrays: dict[str, Any]) -> tuple[Runner, list[str]]:
        values = {name: np.asarray(arrays[name]) for name in sorted(self.decisive)}
        shapes = {name: np.shape(array) for name, array in arrays.items() if name not in self.decisive}
        key = (tuple(shapes.items()), tuple((name, v.shape, v.tobytes()) for name, v in values.items()))
        if key not in self.runners:
            graph = from_onnx(self.model, shapes=shapes, values=values)
            self.computes |= bool(graph.nodes)
            self.runners[key] = (self.engine(graph), [v.name for v in graph.inputs])
        return self.runners[key]


class OnnxBackend(Backend):
    """ONNX's `Backend`, implemented by compilation. `engine` turns a graph into a runnable function and can be
    replaced.
    """

    engine: Engine = staticmethod(compiled)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return whether the model can be imported."""
        try:
            cls._try_import(model)
        except MinitvmError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> PreparedModel:
        """Return the model, ready to run. Raises `UnsupportedOperator` if that is known to be impossible."""
        if not cls.supports_device(device):
            raise InputError(f"device {device} is not supported; known: CPU")
        cls._try_import(model)
        return PreparedModel(model, cls.engine)

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        """Prepare and run in one step."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Run one node on arrays."""
        arrays = dict(zip((n for n in node.input if n), inputs, strict=False))
        infos = [onnx.helper.make_tensor_value_info(n, _elem_type(a), np.shape(a)) for n, a in arrays.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", infos, outputs)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(node.domain, version)])
        return PreparedModel(model, cls.engine).run(list(arrays.values()))

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether the device is the CPU."""
        return device.upper().split(":")[0] == "CPU"

    @staticmethod
    def _try_import(model: onnx.ModelProto) -> None:
        with contextlib.suppress(ValueDependent):  # decided when the contents are known
            from_onnx(model)


def _held(x: Any) -> Any:
    """Return an input in the wider dtype that stores its numbers, if its type has fewer bits than any dtype."""
    narrow = narrow_type(_elem_type(x)) if isinstance(x, np.ndarray) else None
    return x if narrow is None else x.astype(narrow.dtype)


def _elem_type(array: Any) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.asarray(array).dtype))


prepare = OnnxBackend.prepare
run_model = OnnxBackend.run_model
run_node = OnnxBackend.run_node
supports_device = OnnxBackend.supports_device
is_compatible = OnnxBackend.is_compatible
