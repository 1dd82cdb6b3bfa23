"""The benchmark networks at small inputs, and a judgement of all functions of a network by their error bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minitvm.build import compile_fused
from minitvm.expr import replace
from minitvm.graph import Graph, Value
from minitvm.graph.lower import function_key, to_prim_func
from minitvm.graph.nodes import FUSED
from minitvm.reference import bound
from minitvm.runtime import GraphModule
from minitvm.runtime.here import on_this_machine
from minitvm.target import Target
from minitvm.tools import models

# Arguments of the networks that do not take pictures of 32 x 32. Layers and widths are those of the benchmarks, except
# vocabularies, and two of the four stages of swin_t, which takes whole windows of 7 x 7.
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "alexnet": {"shape": (1, 3, 63, 63)},
    "inception_v3": {"shape": (1, 3, 75, 75)},
    "swin_t": {"shape": (1, 3, 56, 56), "depths": (2, 2)},
    "unet": {"shape": (1, 3, 16, 16)},
    "retinaface": {"shape": (1, 3, 64, 96), "score": 0.5},
    "whisper_encoder": {"shape": (1, 80, 40)},
    **{name: {"shape": (1, 8), "vocabulary": 1000} for name in ("bert", "gpt2", "llama", "lstm_tagger")},
}


def small(name: str) -> Graph:
    """A network of the benchmarks for small inputs."""
    return models.ALL[name](**_ARGUMENTS.get(name, {"shape": (1, 3, 32, 32)}))


def require_results_within_bounds(fused: Graph, target: Target, inputs: Mapping[str, Any]) -> list[np.ndarray]:
    """Run a graph of fused operators on this machine, and require that each function's results are within its bounds.

    A function is a group of operators with its own kernels; functions of equal structure are judged once. Its inputs
    are those that it has in the network, and its bounds are derived from its loop program before it is scheduled.
    Returns the outputs of the graph.
    """
    values = [value for node in fused.nodes for value in node.outputs]
    extended = replace(fused, outputs=tuple(dict.fromkeys([*fused.outputs, *values])))
    module = GraphModule(on_this_machine(compile_fused(extended, extended, target)))
    results = module(**inputs)
    arrays: dict[Value, np.ndarray] = dict(zip(extended.outputs, results, strict=True))
    arrays.update({value: inputs[value.name] for value in fused.inputs})
    arrays.update({constant.value: constant.data for constant in fused.constants})
    functions = {function_key(node): node for node in reversed(fused.nodes) if node.op == FUSED}
    for node in functions.values():
        read, written = ([arrays[value] for value in some] for some in (node.inputs, node.outputs))
        empty = [np.zeros_like(array) for array in written]
        verdict = bound.compare(to_prim_func(node), [*read, *empty], [*read, *written])
        assert verdict, f"{[inner.op for inner in node.body.nodes]}: {verdict}"
    return [arrays[value] for value in fused.outputs]
