"""Integer reasoning on index expressions: simplification, bounds, proofs, iteration maps, regions, dependences."""

from . import iter_map, regions
from .analyzer import Analyzer, plain_affine, simplify
from .normal import holds_data

__all__ = ["Analyzer", "holds_data", "iter_map", "plain_affine", "regions", "simplify"]
