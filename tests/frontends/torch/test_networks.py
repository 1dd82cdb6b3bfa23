"""Networks of `tools.models`, written as PyTorch modules with the same weights: both ways, and PyTorch, agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra torch is not installed")

import torch

import minitvm
from minitvm.graph import Graph
from minitvm.reference import graph as interpreter
from minitvm.tools import models

from . import networks

pytestmark = pytest.mark.filterwarnings("ignore")

TEXT = {"depth": 2, "width": 64, "vocabulary": 97}
PAIRS: dict[str, tuple[Callable[[], Graph], Callable[[], torch.nn.Module]]] = {
    "resnet18": (lambda: models.ALL["resnet18"](shape=(1, 3, 64, 64)), networks.ResNet18),
    "mobilenet_v2": (lambda: models.get("mobilenet_v2"), networks.MobileNetV2),
    "unet": (lambda: models.ALL["unet"](shape=(2, 3, 32, 32), width=8, depth=2), lambda: networks.UNet(8, 2)),
    "vit_small": (
        lambda: models.ALL["vit_small"](shape=(1, 3, 48, 48), depth=2, width=128), lambda: networks.ViT(128, 2, 10),
    ),
    "bert": (
        lambda: models.ALL["bert"](shape=(2, 12), heads=4, **TEXT), lambda: networks.Bert(64, 2, 4, 97, 12),
    ),
    "gpt2": (
        lambda: models.ALL["gpt2"](shape=(2, 12), heads=4, **TEXT), lambda: networks.Gpt2(64, 2, 4, 97, 12),
    ),
    "llama": (
        lambda: models.ALL["llama"](shape=(2, 12), heads=8, key_heads=2, hidden=80, **TEXT),
        lambda: networks.Llama(64, 2, 8, 2, 80, 97),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_a_network_as_a_module_and_as_a_graph(name: str) -> None:
    build_graph, build_module = PAIRS[name]
    graph = build_graph()
    module = networks.with_weights_of(build_module(), graph)
    examples = models.example_inputs(graph)
    inputs = tuple(torch.from_numpy(x) for x in examples.values())
    with torch.no_grad():
        expected = module(*inputs).numpy()
    imported = minitvm.from_torch(module, inputs)
    for other in (imported, graph):
        _close(minitvm.build(other)(*examples.values()), expected, name)


def test_an_lstm_tagger() -> None:
    module, words = networks.LstmTagger().eval(), torch.arange(14).reshape(2, 7)
    with torch.no_grad():
        expected = module(words).numpy()
    graph = minitvm.from_torch(module, (words,))
    _close(interpreter.run(graph, [words.numpy()])[0], expected, "graph interpreter")
    _close(minitvm.build(graph)(words.numpy()), expected, "compiled")


def _close(ours: Any, expected: np.ndarray, what: str) -> None:
    error = np.abs(ours - expected).max() / np.abs(expected).max()
    assert ours.shape == expected.shape and error < 2e-5, f"{what}: {error:.2g}"
