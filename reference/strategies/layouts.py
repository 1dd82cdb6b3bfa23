"""Hypothesis strategy: give the buffers of a program explicit strides."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minitvm.expr import IntImm, const, map_children, replace, walk
from minitvm.tir.nodes import Block, Buffer, PrimFunc

from .expressions import Draw


@st.composite
def strided(draw: Draw, func: PrimFunc, legal: bool = True) -> PrimFunc:
    """Return the same function, with explicit strides for some of its buffers of constant shape.

    Legal strides give every element its own place: dimensions in any order, with gaps between them. If `legal` is
    False, one buffer gets strides for which two elements share a place, or the wrong number of strides.
    """
    held = [*func.buffers, *(b for n in walk(func.body) if isinstance(n, Block) for b in n.alloc_buffers)]
    fixed = [b for b in held if all(isinstance(d, IntImm) for d in b.shape) and max(_extents(b), default=1) > 1]
    if not legal:
        fixed = [draw(st.sampled_from(fixed))] if fixed else []
    new: dict[Buffer, Buffer] = {}
    for buffer in fixed:
        if legal and not draw(st.booleans()):
            continue
        strides = _spread(draw, _extents(buffer)) if legal else _clashing(draw, _extents(buffer))
        new[buffer] = replace(buffer, strides=tuple(const(s) for s in strides))

    def go(node: Any) -> Any:
        if isinstance(node, Buffer):
            return new.get(node, node)
        changed = map_children(node, go)
        if isinstance(changed, Block):
            return replace(changed, alloc_buffers=tuple(new.get(b, b) for b in changed.alloc_buffers))
        held = getattr(changed, "buffer", None)
        return replace(changed, buffer=new[held]) if held in new else changed

    return PrimFunc(tuple(go(p) if isinstance(p, Buffer) else p for p in func.params), go(func.body), func.attrs)


def _extents(buffer: Buffer) -> list[int]:
    return [d.value for d in buffer.shape]  # type: ignore[attr-defined]


def _spread(draw: Draw, extents: list[int]) -> list[int]:
    strides, step = [0] * len(extents), 1
    for axis in draw(st.permutations(range(len(extents)))):
        strides[axis] = step + draw(st.integers(0, 3))
        step = strides[axis] * max(1, extents[axis])
    return strides


def _clashing(draw: Draw, extents: list[int]) -> list[int]:
    dense = [1] * len(extents)
    for axis in reversed(range(len(extents) - 1)):
        dense[axis] = dense[axis + 1] * extents[axis + 1]
    wide = [axis for axis, n in enumerate(extents) if n > 1]
    axis = draw(st.sampled_from(wide))
    kind = draw(st.sampled_from(["zero", "few", "many"] + (["equal"] if len(wide) > 1 else [])))
    if kind == "zero":
        dense[axis] = 0
    elif kind == "equal":
        dense[wide[0]] = dense[wide[1]]
    return dense[1:] or [1, 1] if kind == "few" else [*dense, 1] if kind == "many" else dense
