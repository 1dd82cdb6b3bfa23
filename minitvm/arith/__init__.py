"""Integer reasoning on index expressions: simplification, bounds, proofs, iteration maps, regions, dependences."""

from .analyzer import Analyzer, simplify

__all__ = ["Analyzer", "simplify"]
