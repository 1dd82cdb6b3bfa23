"""The numbers in which GPUs of NVIDIA compute products."""

from __future__ import annotations

from ...graph.passes.pipeline import Pass, products_of_bytes_and_halves
from ...target import Target
from .tf32_products import tf32_products


def products(target: Target, accuracy: str) -> list[Pass]:
    """The part "products" of the back end: as on other machines, then float32 on tensor cores."""
    return [
        *products_of_bytes_and_halves(target, accuracy),
        ("tf32_products", lambda graph: tf32_products(graph, target, accuracy)),
    ]
