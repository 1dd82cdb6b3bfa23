"""Real TFLite models: what minitvm computes, and what LiteRT's reference kernels compute.

`make test` compiles the smallest float and the smallest int8 model, and interprets the smallest convolutional network.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitvm
from minitvm.frontends import from_tflite
from minitvm.frontends.tflite.loading import load
from minitvm.frontends.tflite.variables import handle_of
from minitvm.graph import Graph
from minitvm.reference import graph as interpreter
from minitvm.tools.cli.litert import Peer
from minitvm.tools.models import wheels

TOLERANCE = 1e-4  # of the largest element
SHAPES = {"open/melspectrogram": {"input": (1, 1760)}, "open/embedding_model": {"input_1": (1, 76, 32, 1)}}
FLOATS = [name for name in wheels.NAMES if not name.startswith("micro/")]
STREAMS = [name for name in wheels.NAMES if name.startswith("micro/")]
# The transposes that are left: of the input, and of the heads, whose results are reshaped in TFLite's order.
BORDERS = {
    "face_detection_back": 5, "face_detection_front": 5, "face_detection_full_range": 2,
    "face_detection_full_range_sparse": 2, "face_detection_short_range": 5, "face_landmark": 1, "iris_landmark": 1,
}  # fmt: skip


def _peer(name: str) -> Peer:
    return Peer(wheels.path(name), list(SHAPES.get(name, {}).values()))


def _marked(names: list[str], *quick: str) -> list[Any]:
    return [pytest.param(name, marks=[] if name in quick else [pytest.mark.full]) for name in names]


def _close(arrays: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(arrays) == len(expected)
    for array, other in zip(arrays, expected):
        assert array.shape == other.shape and array.dtype == other.dtype
        largest = np.abs(other).max()
        assert largest > 0
        assert np.abs(array - other).max() <= TOLERANCE * largest


@pytest.mark.parametrize("name", _marked(FLOATS, "faces/face_detection_front"))
def test_interpreted(name: str) -> None:
    peer = _peer(name)
    arrays = peer.drawn(seed=1)
    _close(interpreter.run(from_tflite(wheels.path(name), SHAPES.get(name)), arrays), peer(*arrays))


@pytest.mark.parametrize("name", _marked(FLOATS, "open/okay_nabu"))
def test_compiled(name: str) -> None:
    peer = _peer(name)
    module = minitvm.build(wheels.path(name), shapes=SHAPES.get(name, {}))
    for seed in (1, 2):
        arrays = peer.drawn(seed)
        results = module(*arrays)
        _close(list(results) if isinstance(results, list | tuple) else [results], peer(*arrays))


@pytest.mark.parametrize("name", list(BORDERS))
def test_transposes_remain_only_at_the_borders(name: str) -> None:
    """A transpose reads an input of the graph, which may be padded, or leads to an output by reshapes and joins."""
    graph = from_tflite(wheels.path(f"faces/{name}"))
    transposes = [node for node in graph.nodes if node.op == "transpose"]
    assert len(transposes) == BORDERS[name]
    pads = {node.output: node.inputs[0] for node in graph.nodes if node.op == "nn.pad"}
    inner = [node for node in transposes if pads.get(node.inputs[0], node.inputs[0]) not in graph.inputs]
    assert all(_leads_to_the_end(graph, node.output) for node in inner)


def _leads_to_the_end(graph: Graph, value: Any) -> bool:
    readers = graph.consumers().get(value, [])
    return all(
        reader.op in ("reshape", "concatenate") and _leads_to_the_end(graph, reader.output) for reader in readers
    )


@pytest.mark.parametrize("name", _marked(STREAMS, "micro/hey_jarvis"))
def test_streams(name: str) -> None:
    """100 steps of a stream: all variables are equal to the bit, and begin again after a reset.

    The probability may differ by one step: LiteRT's reference kernel computes the logistic function in fixed point.
    """
    peer, new = Peer(wheels.path(name), keep_all=True), Peer(wheels.path(name))
    variables = _variables(name)
    module = minitvm.build(wheels.path(name))
    assert set(module.state) == set(variables) and len(variables) == 6
    for step in range(100):
        arrays = peer.drawn(step)
        (expected,) = peer(*arrays)
        assert np.abs(np.asarray(module(*arrays), np.int64) - expected).max() <= 1
        for variable, index in variables.items():
            np.testing.assert_array_equal(module.state[variable], peer.tensor(index))
    module.reset()
    assert all((state == -128).all() for state in module.state.values())
    arrays = new.drawn(7)
    assert np.abs(np.asarray(module(*arrays), np.int64) - new(*arrays)[0]).max() <= 1


def _variables(name: str) -> dict[str, int]:
    """The tensor that each variable is assigned."""
    graph = load(wheels.path(name)).subgraphs[0]
    handles = {node.outputs[0]: handle_of(node).name for node in graph.operators if node.name == "VAR_HANDLE"}
    return {handles[node.inputs[0]]: node.inputs[1] for node in graph.operators if node.name == "ASSIGN_VARIABLE"}
