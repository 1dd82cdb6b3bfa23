"""Operators of an optimized graph that are no functions: another shape of the same memory, and sizes."""

from __future__ import annotations

from typing import Any

from ..graph import registry
from ..graph.nodes import BIND_SIZE, FUSED


def binding_of(node: Any) -> Any:
    """The `bind_size` that a node is, or None: it is a step of the executable, and no function."""
    inner = node.graph.nodes[0] if node.op == FUSED and len(node.graph.nodes) == 1 else node
    return inner if inner.op == BIND_SIZE else None


def is_view(node: Any) -> bool:
    """Whether a node only gives its one input another shape: no data moves."""
    parts = node.graph.nodes if node.op == FUSED else (node,)
    return len(node.inputs) == 1 and len(node.outputs) == 1 and all(registry.get(part.op).view for part in parts)


def writes_its_output(node: Any) -> bool:
    """Whether the node's own kernels write its outputs."""
    return not is_view(node) and binding_of(node) is None
