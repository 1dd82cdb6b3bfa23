"""Moves that take a node of `random_nodes` and put a value of the graph in the place of its data."""

from __future__ import annotations

import numpy as np

from tests.frontends.onnx.random_nodes import OPERATORS

from .growing import MixedGraph, Unfit
from .moves import move

# Nodes whose data must be what the family drew.
_OWN = ("inverse_dft", "det", "max_unpool", "roi_align")


@move
def spliced(g: MixedGraph) -> None:
    family = g.d.one(*(f for f in OPERATORS if f not in _OWN))
    drawn = OPERATORS[family](g.d)
    if drawn.definition is not None or "tf_crop_and_resize" in drawn.attrs.values():
        raise Unfit  # ONNX Runtime differs from what ONNX says
    names, taken = [], False
    for name, array in drawn.inputs.items():
        if array is None:
            names.append("")
        elif name in drawn.known:
            names.append(g.constant(array))
        elif not taken and array.dtype == np.float32 and array.ndim and name in ("x", "a"):
            names.append(_fitted(g, array.shape))
            taken = True
        else:
            names.append(g.constant(array) if g.d.flag() else g.input(array))
    while names and not names[-1]:
        names.pop()
    g.node(drawn.op, names, drawn.outputs, **drawn.attrs)


def _fitted(g: MixedGraph, shape: tuple[int, ...]) -> str:
    """A value in another shape: its elements again and again."""
    x = g.singles(lambda a: a.size > 0)
    a = g.arrays[x]
    if a.shape == shape:
        return x
    size = int(np.prod(shape))
    flat = g.hidden("Reshape", [x, g.ints(-1)])
    if a.size != size:
        flat = g.hidden("Gather", [flat, g.constant(np.arange(size) % a.size)])
    if not size:
        raise Unfit
    return g.hidden("Reshape", [flat, g.ints(*shape)])
