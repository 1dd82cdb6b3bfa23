"""Integer reasoning on index expressions: simplification, bounds, proofs, iteration maps, regions, dependences."""

from . import iter_map, regions
from .analyzer import Analyzer, simplify

__all__ = ["Analyzer", "iter_map", "regions", "simplify"]
