"""The networks that everybody measures, through the graph builder, with seeded weights.

    graph = models.get("resnet50")
    module = minitvm.build(graph)

Architectures follow torchvision's (MobileNet v1: the paper's), batch 1, float32, inference: 1000 logits for a picture.
Weights are random, but keep activations at a sensible size, so that outputs depend on every layer.

Two files are about models that are not of this project's making: `light`, nine image classifiers out of the onnx
package, with seeded weights, and `rapidocr`, PP-OCRv4's text recogniser and direction classifier with their trained
ones. The packages that carry these are located, never imported.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import ModelError, nearest
from ..graph import Graph
from .alexnet import alexnet
from .densenet import densenet121
from .efficientnet import efficientnet_b0
from .inception import inception_v3
from .layers import extent
from .mobilenet import mobilenet, mobilenet_v2
from .mobilenet_v3 import mobilenet_v3
from .pictures import picture
from .regnet import regnet_y_400mf
from .resnet import resnet18, resnet50
from .shufflenet import shufflenet_v2
from .squeezenet import squeezenet1_0, squeezenet1_1
from .vgg import vgg16, vgg19

NETWORKS: dict[str, Callable[[int], Graph]] = {
    network.__name__: network
    for network in (
        alexnet, densenet121, inception_v3, mobilenet, mobilenet_v2, resnet18, resnet50, squeezenet1_0, squeezenet1_1,
        vgg16, vgg19,
    )
}  # fmt: skip

# Today's networks, which are built of other operators than those: `family: {name: network}`.
FAMILIES: dict[str, dict[str, Callable[[int], Graph]]] = {
    "mobile": {network.__name__: network for network in (efficientnet_b0, mobilenet_v3, regnet_y_400mf, shufflenet_v2)},
}
MORE = {name: network for family in FAMILIES.values() for name, network in family.items()}
ALL = {**NETWORKS, **MORE}


def get(name: str, seed: int = 0) -> Graph:
    """A network by its name, one of ALL; the same seed gives the same bits. Raises ModelError for another name."""
    if name not in ALL:
        raise ModelError(f"no network is called {name!r}: {nearest(name, list(ALL))}")
    return ALL[name](seed)


def example_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """A float32 picture for each input, by name: see `models.pictures`."""
    generator = np.random.default_rng([seed, 1])
    return {value.name: picture([extent(d) for d in value.shape], generator) for value in graph.inputs}
