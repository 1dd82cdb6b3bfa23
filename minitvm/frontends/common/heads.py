"""Heads of attention: split rows into heads, join them, and rotate their features by positions."""

from __future__ import annotations

from ...topi.shapes import simple
from .conversion import Conversion
from .operand import Operand


def heads_of(n: Conversion, x: Operand, heads: int) -> Operand:
    """Return [batch, length, heads * width] as [batch, heads, length, width]."""
    if x.ndim != 3 or heads < 1:
        n.refuse(f"{heads} heads of {x} are not supported: wanted three dimensions and at least one head")
    batch, length, whole = x.shape
    width = simple(whole // heads)
    if isinstance(length, int) and length == 1:
        return n.reshape(x, (batch, heads, length, width))
    parts = n.reshape(x, (batch, length, heads, width))
    split: Operand = n.op("transpose", parts, axes=(0, 2, 1, 3))
    return split


def joined_heads(n: Conversion, x: Operand) -> Operand:
    """Return [batch, heads, length, width] as [batch, length, heads * width]."""
    batch, heads, length, width = x.shape
    if not isinstance(length, int) or length != 1:
        x = n.op("transpose", x, axes=(0, 2, 1, 3))
    return n.reshape(x, (batch, length, simple(heads * width)))


def turned(n: Conversion, x: Operand, size: int, cosine: Operand, sine: Operand, *, interleaved: bool) -> Operand:
    """Rotate the first `size` features. The pairs are neighbours if `interleaved`, or else elements of the two
    halves.
    """
    bounds = [(0, size, 2), (1, size, 2)] if interleaved else [(0, size // 2, 1), (size // 2, size, 1)]
    first, second = (n.part(x, 3, *bound) for bound in bounds)
    real = n.op("subtract", n.op("multiply", first, cosine), n.op("multiply", second, sine))
    imaginary = n.op("add", n.op("multiply", first, sine), n.op("multiply", second, cosine))
    if interleaved:
        pairs = n.op("stack", real, imaginary, axis=4)
        parts = [n.reshape(pairs, (*x.shape[:3], size))]
    else:
        parts = [real, imaginary]
    width = x.shape[3]
    rest = [] if isinstance(width, int) and width == size else [n.part(x, 3, size, width)]
    whole = [*parts, *rest]
    result: Operand = whole[0] if len(whole) == 1 else n.op("concatenate", *whole, axis=3)
    return result
