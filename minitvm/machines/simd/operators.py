"""The operators of graphs on layouts for vectors; importing this module registers them."""

from .graph.operators import blocked, brain_products, byte_products

__all__ = ["blocked", "brain_products", "byte_products"]
