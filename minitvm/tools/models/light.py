"""The nine light networks of the onnx package, with seeded random weights in place of their constant ones.

The files hold real architectures, but nearly every weight is `ConstantOfShape(0.02)`: the network then answers 0.001
whatever it is shown and whatever a compiler did to it. `seeded` makes networks whose answers depend on every weight.
"""

from __future__ import annotations

import importlib.util
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitvm.errors import ModelError, missing_extra, nearest, report

from .pictures import picture

# Each network's name here, and its file in onnx/backend/test/data/light.
NETWORKS = {
    "alexnet": "light_bvlc_alexnet.onnx",
    "densenet121": "light_densenet121.onnx",
    "inception_v1": "light_inception_v1.onnx",
    "inception_v2": "light_inception_v2.onnx",
    "resnet50": "light_resnet50.onnx",
    "shufflenet": "light_shufflenet.onnx",
    "squeezenet": "light_squeezenet.onnx",
    "vgg19": "light_vgg19.onnx",
    "zfnet512": "light_zfnet512.onnx",
}


def path(name: str) -> Path:
    """The file of a network as the onnx package ships it; `name` is one of NETWORKS or a file name among its values.

    Raises ModelError for an unknown name and MissingExtra where onnx is not installed.
    """
    file_name = name if name in NETWORKS.values() else NETWORKS.get(name)
    if file_name is None:
        names = NETWORKS.values() if name.endswith(".onnx") else NETWORKS
        raise ModelError(f"no light network is called {name!r}: {nearest(name, list(names))}")
    package = importlib.util.find_spec("onnx")
    if package is None or package.origin is None:
        raise missing_extra("onnx", "onnx")
    file = Path(package.origin).parent / "backend" / "test" / "data" / "light" / file_name
    if not file.is_file():
        raise ModelError(
            report(
                f"the network {name} is not on this machine",
                wanted=f"{file_name} inside the onnx package",
                found=f"no file {file}",
                tries=("pip install --force-reinstall onnx",),
            )
        )
    return file


def seeded(name: str, seed: int = 0) -> Any:
    """The network as an `onnx.ModelProto` with random weights, in which the same `seed` gives the same bits.

    Convolutions and matrix products get centred normal weights with a variance by fan-in that keeps the size of
    activations through a ReLU (after He et al. 2015); batch-norm variances are positive; a batch-norm that ends a
    residual branch is halved, or sixteen blocks would add up. The few trained parameters in the files are replaced
    too: they belong to weights that the files do not hold, and a trained variance of 1e-12 behind a random convolution
    gives infinities. A final softmax, which would saturate, is cut off. What is left as a graph input is the picture,
    float32 (1, 3, 224, 224), and the output is 1000 logits.

    Raises ModelError for an unknown name and MissingExtra where onnx is not installed.
    """
    file = path(name)
    onnx = _onnx()
    model = onnx.load(file)
    graph = model.graph

    parameters = list(_parameters(onnx, graph))
    replaced = {parameter.name for parameter in parameters}
    kept = [node for node in graph.node if not (node.op_type == "ConstantOfShape" and node.output[0] in replaced)]
    _keep(graph.node, _without_final_softmax(graph, kept))
    used = {value for node in graph.node for value in node.input}
    _keep(graph.initializer, [t for t in graph.initializer if t.name in used and t.name not in replaced])
    for parameter in parameters:
        graph.initializer.append(onnx.numpy_helper.from_array(parameter.draw(seed), parameter.name))
    # Since IR version 4 an initializer need not be an input as well, and what remains as an input is one.
    constants = {tensor.name for tensor in graph.initializer}
    _keep(graph.input, [value for value in graph.input if value.name in used - constants])
    model.ir_version = max(model.ir_version, 8)
    return model


def example_inputs(model: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """A float32 picture (1, 3, height, width) for each input of a light network, by name."""
    generator = np.random.default_rng([seed, 1])
    shapes = {value.name: [axis.dim_value for axis in value.type.tensor_type.shape.dim] for value in model.graph.input}
    return {name: picture(shape, generator) for name, shape in shapes.items()}


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise missing_extra("onnx", "onnx") from None
    return onnx


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A weight of the network: where it is used decides how it is drawn."""

    name: str
    shape: tuple[int, ...]
    distribution: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

    def draw(self, seed: int) -> np.ndarray:
        """Float32 values that depend on the seed and on this parameter's name alone, not on its place in the file."""
        generator = np.random.default_rng([seed, zlib.crc32(self.name.encode())])
        return self.distribution(generator, self.shape).astype(np.float32, copy=False)


def _normal(deviation: float) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda generator, shape: generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)


def _filters(fan_in: int, axes: tuple[int, ...]) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    """Normal weights, each filter of which sums to zero over `axes`.

    What comes out of a ReLU is positive. Without centring, its mean, which hardly depends on the picture, grows with
    every layer until it is nearly all that the logits show. Depthwise filters stay as drawn: centred, they would pass
    edges only. Removing the mean also removes a third of the power behind a ReLU, hence 3 / fan_in for He's 2 / fan_in.
    """
    if fan_in < 16:
        return _normal(math.sqrt(2 / fan_in))

    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        weights = generator.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(3 / fan_in))
        return weights - weights.mean(axis=axes, keepdims=True)

    return draw


def _uniform(low: float, high: float) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]:
    return lambda generator, shape: generator.uniform(low, high, shape)


def _parameters(onnx: Any, graph: Any) -> Iterator[_Parameter]:
    """Every float parameter of a layer in `graph`, whether it is stored or made by ConstantOfShape."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    shapes = {name: tuple(tensor.dims) for name, tensor in stored.items() if tensor.data_type == onnx.TensorProto.FLOAT}
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in stored:
            shape = onnx.numpy_helper.to_array(stored[node.input[0]])
            shapes[node.output[0]] = tuple(int(extent) for extent in shape)

    # Caffe2's exporter reshapes and unsqueezes parameters on their way to the layer.
    source = {name: name for name in shapes}
    for node in graph.node:
        if node.op_type in ("Reshape", "Unsqueeze") and node.input[0] in source:
            source[node.output[0]] = source[node.input[0]]

    summed = {value for node in graph.node if node.op_type == "Sum" for value in node.input}
    seen: set[str] = set()
    for node in graph.node:
        for position, value in enumerate(node.input):
            name = source.get(value)
            if name is None or name in seen:
                continue
            distribution = _distribution(node, position, shapes[name], node.output[0] in summed)
            if distribution is not None:
                seen.add(name)
                yield _Parameter(name, shapes[name], distribution)


def _distribution(
    node: Any, position: int, shape: tuple[int, ...], ends_branch: bool
) -> Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None:
    """How to draw what stands at `position` of `node`'s inputs; None if that is no parameter of a layer."""
    match node.op_type, position:
        case "Conv", 1:
            return _filters(math.prod(shape[1:]), axes=(1, 2, 3))
        case "Gemm", 1:
            transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            fan_in = -1 if transposed else -2
            return _filters(shape[fan_in], axes=(fan_in,))
        case "BatchNormalization", 1:
            return _uniform(0.3, 0.7) if ends_branch else _uniform(0.6, 1.4)
        case "BatchNormalization", 4:
            return _uniform(0.6, 1.4)
        case "Mul", 1:
            return _uniform(0.6, 1.4)
        case ("Conv" | "Gemm", 2) | ("BatchNormalization", 2 | 3) | ("Add", 1):
            return _normal(0.1)
    return None


def _without_final_softmax(graph: Any, nodes: list[Any]) -> list[Any]:
    """`nodes` less the Softmax that makes the graph's output, if one does; the output is then named after its input."""
    output = graph.output[0]
    last = next(node for node in nodes if output.name in node.output)
    if last.op_type != "Softmax":
        return nodes
    output.name = last.input[0]
    return [node for node in nodes if node is not last]


def _keep(field: Any, elements: list[Any]) -> None:
    """Leave only `elements`, in this order, in a repeated protobuf field that holds them now."""
    copies = [type(element).FromString(element.SerializeToString()) for element in elements]
    del field[:]
    field.extend(copies)
