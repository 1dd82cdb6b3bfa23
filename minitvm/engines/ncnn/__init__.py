"""ncnn: a region becomes a network of ncnn, whose values live in our memory.

    layers.py     the layers of ncnn that compute operators
    writer.py     a region as a network of ncnn
    network.py    a network: text and weights
    memory.py     ncnn's allocations: recorded once, planned by our planner, and replayed in every run
    session.py    a network that is ready to run

ncnn is a library of Tencent for phones; here it runs on CPUs, in float32, with a batch of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...graph.nodes import Graph, OpNode
from ...graph.pattern import constant, op, value
from ..engine import Engine, Prepared, Region, Translation, needs


def supports(item: OpNode) -> str:
    """Return the reason why ncnn does not compute an operator, or ""."""
    from .layers import refusal

    return refusal(item)


def translate(graph: Graph) -> Translation:
    """Return a region as ncnn's text, with the place of each of its allocations in a workspace.

    The places are those of one thread: ncnn allocates the same blocks in the same order in every run.
    """
    from .memory import COUNT_BYTES
    from .session import recorded
    from .writer import network_of

    network = network_of(graph)
    plan = recorded(network, {c.value.name: c.data for c in graph.constants}, 1)
    return Translation(json.dumps({"network": network.to_json(), "plan": plan.to_json()}), plan.size, COUNT_BYTES)


def prepare(region: Region, constants: Mapping[str, np.ndarray[Any, Any]], threads: int) -> Prepared:
    """Load the network of a region."""
    from .memory import BlockPlan
    from .network import NcnnNetwork
    from .session import Session

    body = json.loads(region.code)
    plan = BlockPlan.of_json(body["plan"])
    return Session(NcnnNetwork.of_json(body["network"]), constants, threads, plan, region.rooms)


__all__ = ["ENGINE"]

# Their second operand must be a constant, because it is in the weights of ncnn's network. `supports` decides about the
# other operators by the layers that ncnn has.
_WEIGHTED = ("nn.conv2d", "nn.dense", "nn.bias_add")
_PATTERNS = (
    op(_WEIGHTED, value(), constant()),
    op((), others=value(), when=lambda item: item.op not in _WEIGHTED),
)

ENGINE = Engine("ncnn", prepare, _PATTERNS, supports, translate, needs("ncnn"))
