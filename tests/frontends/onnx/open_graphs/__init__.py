"""Random ONNX graphs with open dimensions, and ONNX Runtime as their judge at several sizes.

    growing.py    a graph that grows by moves, and the shapes of its values at all sizes
    moves.py      moves that compute; more in windows.py (convolutions, pools, resizes) and places.py (shapes, indices)
    judging.py    the interpreter of graphs, optimised graphs and compiled modules beside ONNX Runtime

A dimension is its extents at all of `SIZES`. So a move knows, without any arithmetic on symbols, whether it is legal at
every size, and what shape ONNX says.
"""

from . import moves, places, windows
from .growing import MOVES, SIZES, OpenGraph, grown, open_graphs, seeded
from .judging import difference

__all__ = ["MOVES", "SIZES", "OpenGraph", "difference", "grown", "open_graphs", "seeded"]
