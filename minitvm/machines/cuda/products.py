"""Choose the dtypes in which NVIDIA's GPUs compute products."""

from __future__ import annotations

from ...graph.passes.pipeline import Pass, products_of_bytes_and_halves
from ...target import Target
from .tf32_products import tf32_products


def products(target: Target, accuracy: str) -> list[Pass]:
    """Return the passes of other machines, then float32 on tensor cores. This is the part "products" of the back
    end.
    """
    return [
        *products_of_bytes_and_halves(target, accuracy),
        ("tf32_products", lambda graph: tf32_products(graph, target, accuracy)),
    ]
